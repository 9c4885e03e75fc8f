import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Client } from "pg";
import { POSTGRES } from "../events/store/engines/postgres.ts";
import { claimOne, delivery } from "../events/store/_events.ts";
import { sharedPostgres } from "../events/store/postgres/_server.ts";
import { testPostgres } from "../events/store/postgres/_stores.ts";
import type { PostgresPlace } from "../events/store/engines/postgres.ts";
import { park } from "../events/store/_parking.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { bury, type Cli, runHere } from "./_cli.ts";

const { needs, missing } = POSTGRES.kinds[0];

/** Makes the URL of a place, as the tool takes it. */
function urlOf({ address }: PostgresPlace): string {
  const { url, schema } = JSON.parse(address);
  return `${url}?store_schema=${schema}`;
}

/** Runs the tool on a place. */
const cliOn = (place: PostgresPlace): Cli => (...args) =>
  runHere(["events", ...args, "--namespace", "bot", "--store", urlOf(place)]);

testPostgres("events looks at a Postgres database", async ({ store, place }) => {
  const cli = cliOn(place);
  await bury(store, "dies");
  await store.accept(delivery("ends"));
  await store.complete(await claimOne(store));
  await store.accept(delivery("waits"));
  assertEquals((await cli("list")).out.length, 3);
  assertEquals(JSON.parse((await cli("show", "dies")).out[0]!).attempts.length, 1);
  const { queued, dead, done } = JSON.parse((await cli("stats", "--json")).out[0]!);
  assertEquals([queued, dead, done], [1, 1, 1]);
  assertEquals((await cli("doctor")).code, 0);
});

testPostgres("events changes a Postgres database", async ({ store, place }) => {
  const cli = cliOn(place);
  const done: string[] = [];
  const run = async (...args: string[]) => {
    const { code, out, err } = await cli(...args);
    assertEquals([args[0], code, err], [args[0], 0, []]);
    done.push(...out);
  };
  await cli("stats"); // the first command notes whose events are there
  await bury(store, "dies");
  await run("replay", "dies");
  await run("cancel", "dies");
  await run("purge", "dies", "--yes");
  await store.accept(delivery("asks"));
  await park(store, "asks");
  await run("wake", "approval:1", "true");
  await run("emit", "jobs", "made", "{}", "--id", "1");
  await (await store.state("chat:1")).set("a");
  assertStringIncludes((await cli("states")).out[0]!, "chat:1");
  await run("delete-states", "chat:1", "--yes");
  assertEquals(done.map((line) => line.split(" ").at(-1)), [
    ...["replayed", "cancelled", "purged", "asks", "jobs:1", "deleted"],
  ]);
});

testPostgres("events exports and imports a Postgres database", async ({ store, place }) => {
  await store.accept(delivery("d1"));
  await withFolder(async (folder) => {
    const file = `${folder}/events.ndjson`;
    assertEquals((await cliOn(place)("export", "--file", file)).out, ["1 exported"]);
    const other = urlOf(place).replace(/(?<=store_schema=.*)$/, "_other");
    const args = ["events", "import", "--namespace", "bot", "--store", other, "--file", file];
    const refused = await runHere(args);
    assertEquals(refused.code, 2);
    assertStringIncludes(refused.err[0]!, "has no event store");
    assertEquals((await runHere([...args, "--create"])).out, ["1 imported"]);
    await run(other, `drop schema ${new URL(other).searchParams.get("store_schema")} cascade`);
  });
});

testPostgres("events takes DATABASE_URL, and both schemes", async ({ store, place }) => {
  await store.accept(delivery("d1"));
  const url = urlOf(place);
  const env = (name: string) => name === "DATABASE_URL" ? url : undefined;
  assertEquals((await runHere(["events", "list"], { env })).out.length, 1);
  const other = url.replace("postgres:", "postgresql:");
  assertEquals((await runHere(["events", "list", "--store", other])).out.length, 1);
  const both = (name: string) => name === "SQLITE_FILE" ? "a.db" : env(name);
  const { code, err } = await runHere(["events", "list"], { env: both });
  const message = "Cannot open the database: SQLITE_FILE and DATABASE_URL each name one";
  assertEquals([code, err], [2, [`${message}. Give --store`]]);
});

testWith(needs, "events says what is missing in a URL without a host", async () => {
  const { code, err } = await runHere(["events", "list", "--store", "postgres://"]);
  assertEquals(code, 2);
  assertStringIncludes(
    err.join(),
    "The place of the database must begin with postgres:// and go on",
  );
});

testPostgres("events backup names what copies a Postgres database", async ({ place }) => {
  const { code, err } = await cliOn(place)("backup", "copy.db");
  assertEquals(code, 2);
  assertStringIncludes(err.join(), "pg_dump copies a Postgres database");
});

testWith(needs, "events migrate --print makes what a user needs who may make nothing", async () => {
  const url = (await sharedPostgres()).direct;
  const name = `app_${crypto.randomUUID().replaceAll("-", "")}`;
  const own = `${Object.assign(new URL(url), { username: name }).href}?store_schema=${name}`;
  await run(url, `create role ${name} login`);
  const { code, out } = await runHere(["events", "migrate", "--print", "--store", own]);
  assertEquals(code, 0);
  await run(url, out.join("\n"));
  assertEquals((await runHere(["events", "list", "--store", own])).code, 0);
  const emitted = await runHere([
    ...["events", "emit", "jobs", "made", "{}", "--id", "1", "--store", own, "--namespace", "bot"],
  ]);
  assertEquals([emitted.code, emitted.out], [0, ["emitted jobs:1"]]);
  await run(url, `drop schema ${name} cascade; drop role ${name}`);
}, missing);

testWith(["env"], "events migrate says what it is not given", async () => {
  const mistakes: readonly (readonly [readonly string[], string])[] = [
    [[], "Give --print: an app makes its tables when it starts"],
    [["--print"], "Only a Postgres database has such statements: give --store postgres://..."],
    [["--print", "--store", "postgres://db/d"], "The place of the database must begin with"],
  ];
  for (const [args, message] of mistakes) {
    const { code, out, err } = await runHere(["events", "migrate", ...args]);
    assertEquals([code, out], [2, []]);
    assert(err[0]!.startsWith(message), err[0]);
  }
});

/** Runs statements, as `psql` does. */
async function run(url: string, statements: string): Promise<void> {
  const client = new Client({ connectionString: url.replace(/\?.*/, "") });
  await client.connect();
  await client.query(statements);
  await client.end();
}
