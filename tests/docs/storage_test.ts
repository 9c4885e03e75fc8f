import { assert, assertEquals } from "@std/assert";
import { bury, runHere } from "../cli/_cli.ts";
import { claimOne, delivery } from "../events/store/_events.ts";
import { contentOf, storeAll } from "../events/store/_moving.ts";
import { addressOf, KV } from "../events/store/engines/kv.ts";
import { SQLITE } from "../events/store/engines/sqlite.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { openSqlite } from "../_sqlite.ts";
import { blocks, read, rows } from "./_documents.ts";

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
  const listed = rows(await read(DOCUMENT)).map((row) => row.map(codes))
    .filter(([, , columns]) => columns?.[0] === "id")
    .map(([name, , columns]) => [name![0]!, columns!] as const);
  for (const [name, columns] of listed) {
    const known = columnsOf.all(name).map(({ name }) => String(name));
    if (name === "event") assertEquals(columns.filter((each) => !known.includes(each)), []);
    else assertEquals([name, columns], [name, known]);
  }
  assertEquals(listed.map(([name]) => name), ["waiting", "running", "dead", "event"]);
});

testFolder("shows queries that find what they are for", async (folder) => {
  const { store, close } = await openFile(folder);
  await bury(store, "dies");
  await store.accept(delivery("ends"));
  await store.complete(await claimOne(store));
  await store.accept(delivery("waits"));
  const [shown] = blocks(await read(DOCUMENT), "sh tables");
  const queries = [...shown!.matchAll(/ "(select [^"]+)"$/gm)].map(([, sql]) => sql!);
  using file = openSqlite(`${folder}/data/triage.db`, { readOnly: true });
  const found = queries.map((sql) => [sql, file.database.prepare(sql).all().length]);
  assertEquals(found, queries.map((sql) => [sql, 1]));
  assert(queries.length > 3);
  await close();
});

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
