import { assert, assertEquals } from "@std/assert";
import { Client } from "pg";
import type { EventStore } from "../../events/mod.ts";
import { bury, runHere } from "../cli/_cli.ts";
import { claimOne, delivery } from "../events/store/_events.ts";
import { contentOf, storeAll } from "../events/store/_moving.ts";
import { addressOf, KV } from "../events/store/engines/kv.ts";
import { POSTGRES } from "../events/store/engines/postgres.ts";
import { SQLITE } from "../events/store/engines/sqlite.ts";
import { postgresPath, sharedPostgres } from "../events/store/postgres/_server.ts";
import { run } from "../../dev/harness/run.ts";
import { environmentOf } from "../../dev/harness/environment.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { openSqlite } from "../_sqlite.ts";
import { blocks, read, ROOT, rows } from "./_documents.ts";

const DOCUMENT = "docs/storage.md";

/** Opens the file that the page's examples name, in a folder. */
const openFile = (folder: string) =>
  SQLITE.openAt(`${folder}/data/triage.db`, { namespace: "triage" });

const openKv = (path: string) => KV.openAt(addressOf(path), { namespace: "triage" });

/** Registers a test that gets a folder with one for databases in it. */
function testFolder(name: string, fn: (folder: string) => Promise<void>): void {
  testWith(["read", "write"], `${DOCUMENT} ${name}`, () =>
    withFolder(async (folder) => {
      await Deno.mkdir(`${folder}/data`);
      await fn(folder);
    }));
}

/** The names that a cell of a table sets in the type of code. */
const codes = (cell = "") => [...cell.matchAll(/`(\w+)`/g)].map(([, code]) => code!);

testFolder("lists the columns of the views, and some of the events'", async (folder) => {
  await (await openFile(folder)).close();
  using file = openSqlite(`${folder}/data/triage.db`, { readOnly: true });
  const columnsOf = file.database.prepare("select name from pragma_table_xinfo(?)");
  const listed = await listedColumns();
  for (const [name, columns] of listed) {
    const known = columnsOf.all(name).map(({ name }) => String(name));
    if (name === "event") assertEquals(columns.filter((each) => !known.includes(each)), []);
    else assertEquals([name, columns], [name, known]);
  }
  assertEquals(listed.map(([name]) => name), ["waiting", "running", "dead", "event"]);
});

/** Columns of views and tables, as the page lists them. */
async function listedColumns(): Promise<[name: string, columns: string[]][]> {
  return rows(await read(DOCUMENT)).map((row) => row.map(codes))
    .filter(([, , columns]) => columns?.[0] === "id")
    .map(([name, , columns]) => [name![0]!, columns!]);
}

/** Stores an event for each of the queries to find. */
async function storeFound(store: EventStore): Promise<void> {
  await bury(store, "dies");
  await store.accept(delivery("ends"));
  await store.complete(await claimOne(store));
  await store.accept(delivery("runs"));
  await claimOne(store);
  await store.accept(delivery("waits"));
}

testFolder("shows queries that find what they are for", async (folder) => {
  const { store, close } = await openFile(folder);
  await storeFound(store);
  const [shown] = blocks(await read(DOCUMENT), "sh tables");
  const queries = [...shown!.matchAll(/ "(select [^"]+)"$/gm)].map(([, sql]) => sql!);
  using file = openSqlite(`${folder}/data/triage.db`, { readOnly: true });
  const found = queries.map((sql) => [sql, file.database.prepare(sql).all().length]);
  assertEquals(found, queries.map((sql) => [sql, 1]));
  assert(queries.length > 3);
  await close();
});

const { needs, missing } = POSTGRES.kinds[0];

/** Registers a test that gets a store in Postgres, and what runs statements there. */
function testPostgres(
  name: string,
  fn: (
    store: EventStore,
    query: <T>(sql: string) => Promise<T[]>,
    schema: string,
  ) => Promise<void>,
): void {
  testWith(needs, `${DOCUMENT} ${name}`, async () => {
    await using place = await POSTGRES.kinds[0].open();
    const { url, schema } = JSON.parse(place.address);
    const client = new Client({ connectionString: url });
    await client.connect();
    await fn(await place.open(), async (sql) => (await client.query(sql)).rows, schema);
    await client.end();
  }, missing);
}

testPostgres("lists the columns that the views have in Postgres", async (_store, query, schema) => {
  for (const [name, columns] of await listedColumns()) {
    const found = await query<{ name: string }>(
      `select column_name as name from information_schema.columns
      where table_schema = '${schema}' and table_name = '${name}' order by ordinal_position`,
    );
    const known = found.map(({ name }) => name);
    if (name === "event") assertEquals(columns.filter((each) => !known.includes(each)), []);
    else assertEquals([name, columns], [name, known]);
  }
});

testPostgres("shows queries that find their events in Postgres", async (store, query, schema) => {
  await storeFound(store);
  const document = await read(DOCUMENT);
  const own = [...blocks(document, "sh psql")[0]!.matchAll(/ -c "(select [^"]+)"$/gm)];
  const ofFile = [...blocks(document, "sh tables")[0]!.matchAll(/ "(select [^"]+)"$/gm)];
  assert(own.length > 3 && ofFile.length > 3);
  await query(`set search_path to ${schema}`);
  for (const [, sql] of [...own, ...ofFile]) {
    assertEquals([sql, (await query(sql!.replace("edge_base.", ""))).length], [sql, 1]);
  }
});

testPostgres("names the worker that runs an event", async (store, query, schema) => {
  await store.accept(delivery("runs"));
  const [lease] = await store.claim({ limit: 1, owner: "bob's, 1", leaseMs: 30_000 });
  const { dueAt } = lease!.record;
  const found = await query<{ worker: string; lease_until: Date }>(
    `select * from ${schema}.running`,
  );
  assertEquals(
    found.map((each) => [each.worker, each.lease_until.getTime()]),
    [["bob's, 1", dueAt]],
  );
});

testWith([...needs, "net"], `${DOCUMENT} shows programs on Postgres that run`, async () => {
  const programs = blocks(await read(DOCUMENT), "ts ignore");
  assert(programs.length > 0);
  await withFolder(async (folder) => {
    const { direct } = await sharedPostgres();
    for (const [i, program] of programs.entries()) {
      const database = `docs_${crypto.randomUUID().slice(0, 8)}`;
      await runIn(direct, `create database ${database}`);
      const path = `${folder}/${i}.ts`;
      await Deno.writeTextFile(path, program);
      const url = Object.assign(new URL(direct), { pathname: `/${database}` });
      const { code, stderr } = await new Deno.Command(Deno.execPath(), {
        args: ["run", "--check", "--cached-only", "--quiet", "-A", "--config", CONFIG, path],
        env: environmentOf({ DATABASE_URL: url.href }, Deno.env.toObject()),
        clearEnv: true,
      }).output();
      assertEquals([code, new TextDecoder().decode(stderr)], [0, ""]);
      await runIn(direct, `drop database ${database}`);
    }
  });
}, missing);

/** Runs a block of the page in a shell, on a database and as its owner, in which `deno task` is the tool. */
async function inShell(kind: string, url: string, folder: string): Promise<void> {
  const [block] = blocks(await read(DOCUMENT), `sh ${kind}`);
  const { port } = new URL(url);
  const commands = block!.replaceAll("@db.example.com/my_db", `@127.0.0.1:${port}/postgres`);
  const tool = `deno() { shift; "$DENO" run -A --unstable-kv --cached-only -q "$TOOL" "$@"; }`;
  const env = {
    ...{ DATABASE_URL: url, OWNER_URL: url, DENO: Deno.execPath(), TOOL },
    PATH: `${postgresPath()}:${Deno.env.get("PATH")}`,
  };
  const shell = ["-euc", `${tool}\n${commands}`];
  const { code, stderr } = await run("sh", shell, { cwd: folder, env });
  assertEquals([kind, code, stderr], [kind, 0, ""]);
}

const TOOL = new URL("cli/main.ts", ROOT).pathname;

testWith(needs, `${DOCUMENT} shows commands for Postgres that run`, async () => {
  const { direct } = await sharedPostgres();
  const database = `docs_${crypto.randomUUID().slice(0, 8)}`;
  await runIn(direct, `create database ${database}`);
  const url = Object.assign(new URL(direct), { pathname: `/${database}` }).href;
  await withFolder(async (folder) => {
    await runIn(direct, "create role my_bot login");
    await inShell("migrate", direct, folder);
    assertEquals((await runHere(["events", "stats", "--store", direct])).code, 0);
    await inShell("psql", direct, folder);
    await runIn(direct, "drop schema edge_base cascade; drop role my_bot");
    await runIn(url, "create table mine (n int); insert into mine values (1)");
    await inShell("dump", url, folder);
  });
  await runIn(direct, `drop database ${database}`);
}, missing);

const CONFIG = new URL("deno.json", ROOT).pathname;

async function runIn(url: string, statement: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query(statement);
  await client.end();
}

/** Runs the commands of the tool that a block of the page shows, in a folder. */
async function follow(block: string, folder: string): Promise<void> {
  const commands = [...block.matchAll(/^deno task (events .*)$/gm)].map(([, command]) => command!);
  assertEquals(commands.length, 2);
  for (const command of commands) {
    const args = command.replaceAll(/(?<=[ :])(?=data\/|\w+\.ndjson)/g, `${folder}/`).split(" ");
    const { code, err } = await runHere(args);
    assertEquals([command, code, err], [command, 0, []]);
  }
}

testFolder("moves an app from a KV to a file in five lines, and back", async (folder) => {
  const [block] = blocks(await read(DOCUMENT), "sh moving");
  assertEquals(block!.trimEnd().split("\n").length, 5);
  const before = await openKv(`${folder}/data/kv.db`);
  await storeAll(before.store);
  const content = await contentOf(before.store);
  await before.close();
  await follow(block!, folder);
  const file = await openFile(folder);
  assertEquals(await contentOf(file.store), content);
  await file.close();
  const [from, to] = ["kv:data/kv.db", "sqlite:data/triage.db"];
  const back = block!.replace(from, "SOURCE").replace(to, "kv:data/back.db").replace("SOURCE", to);
  await follow(back.replaceAll("events.ndjson", "back.ndjson"), folder);
  const after = await openKv(`${folder}/data/back.db`);
  assertEquals(await contentOf(after.store), content);
  await after.close();
});
