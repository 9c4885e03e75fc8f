import { assert, assertEquals, assertRejects } from "@std/assert";
import { pause, until } from "../../../../dev/harness/until.ts";
import { createEventStore } from "../../../../events/store/open_store.ts";
import { sqlStateOf } from "../../../../events/store/postgres/_connections.ts";
import { bringToLayout, migrationOf } from "../../../../events/store/postgres/_schema.ts";
import { openPostgresEngine } from "../../../../events/store/postgres/postgres_engine.ts";
import { byLength } from "../../../_length.ts";
import { testWith } from "../../../_permissions.ts";
import { OldSchema } from "./_old_schema.ts";
import { openProxy } from "./_proxy.ts";
import { POSTGRES_MISSING, postgresPath, sharedPostgres } from "./_server.ts";

/** Events of the schema that is migrated. */
const EVENTS = byLength(200_000, 1_000);

/** Longest wait for a build or a process, in milliseconds. */
const WITHIN_MS = 60_000;

function testMigration(name: string, fn: (old: OldSchema) => Promise<void>): void {
  const missing = postgresPath() === undefined ? POSTGRES_MISSING : undefined;
  testWith(["read", "write", "net", "run", "env"], name, async () => {
    await using old = await OldSchema.with(EVENTS);
    await fn(old);
  }, missing);
}

/** Begins a transaction of an older program that has written: until it ends, no index is built to its end. */
async function writing(old: OldSchema) {
  const [isWritten, ending] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const ended = old.older.transaction(async (tx) => {
    await old.add("held", 1, tx);
    isWritten.resolve();
    await ending.promise;
  });
  await isWritten.promise;
  const end = async () => {
    ending.resolve();
    await ended;
  };
  return { end, [Symbol.asyncDispose]: end };
}

/** Starts a process that migrates, waits until it builds an index, and kills it. */
async function killBuilding(old: OldSchema): Promise<void> {
  const script = new URL("./_migrating.ts", import.meta.url).pathname;
  const process = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", "--cached-only", script, old.url, old.schema],
    stdout: "null",
  }).spawn();
  try {
    await until(async () => "event_problem" in await old.indexes(), WITHIN_MS);
  } finally {
    process.kill("SIGKILL");
    await process.status;
  }
  assertEquals(await old.indexes(), { event_problem: false });
}

/** Names the indexes that this process has built. */
const builtIn = ({ lines }: OldSchema) => lines.map(({ message, index }) => `${message}: ${index}`);

const isBuilt = async (old: OldSchema) => Object.values(await old.indexes()).join() === "true,true";

/** Counts the dead events of a schema that was migrated, as this version does. */
async function deadIn(old: OldSchema): Promise<number> {
  const store = createEventStore(openPostgresEngine(await old.open()));
  return (await store.inspect.count(1_000_000)).dead.count;
}

testMigration("indexes are built beside older programs, which write meanwhile", async (old) => {
  await bringToLayout(old.older);
  await using held = await writing(old);
  await old.open();
  await until(async () => "event_problem" in await old.indexes(), WITHIN_MS);
  await old.older.transaction(async (tx) => {
    await tx.run("set local lock_timeout = 10000");
    await old.add("meanwhile", 10, tx);
  });
  assertEquals(await old.indexes(), { event_problem: false });
  await held.end();
  await until(() => isBuilt(old), WITHIN_MS);
  await until(() => old.lines.length === 2, WITHIN_MS);
  assertEquals(builtIn(old), ["index built: event_problem", "index built: event_done"]);
  assertEquals(await deadIn(old), EVENTS + 11);
});

testMigration("indexes are built behind a pooler", async (old) => {
  // Without one the test is the same as another.
  const { pooled } = await sharedPostgres();
  await old.open(pooled);
  await until(() => isBuilt(old), WITHIN_MS);
  await until(() => old.lines.length === 2, WITHIN_MS);
  assertEquals(builtIn(old), ["index built: event_problem", "index built: event_done"]);
});

testMigration("an app that is closed while it builds does not wait for the build", async (old) => {
  await bringToLayout(old.older);
  await using held = await writing(old);
  const database = await old.open();
  await until(async () => "event_problem" in await old.indexes(), WITHIN_MS);
  await database.close();
  assertEquals([await old.indexes(), old.lines], [{ event_problem: false }, []]);
  await held.end();
  // The server has gone on with it.
  await until(async () => (await old.indexes()).event_problem === true, WITHIN_MS);
});

testMigration(
  "a build whose process is killed goes on, and the next one builds the rest",
  async (old) => {
    await bringToLayout(old.older);
    await using held = await writing(old);
    await killBuilding(old);
    await old.open();
    await old.add("meanwhile", 10);
    await held.end();
    await until(() => isBuilt(old), WITHIN_MS);
    await until(() => old.lines.length > 0, WITHIN_MS);
    assertEquals(builtIn(old), ["index built: event_done"]);
    assertEquals(await deadIn(old), EVENTS + 11);
  },
);

testMigration("an index whose build was broken off is built anew", async (old) => {
  await bringToLayout(old.older);
  await using held = await writing(old);
  await killBuilding(old);
  const sql =
    "select pg_terminate_backend(pid) from pg_stat_progress_create_index where relid = to_regclass('@event')";
  await old.older.all(sql);
  await held.end();
  await old.open();
  await until(() => isBuilt(old), WITHIN_MS);
  await until(() => old.lines.length === 2, WITHIN_MS);
  assertEquals(builtIn(old), ["index built: event_problem", "index built: event_done"]);
});

testMigration("timeouts of the user's sessions break off no build", async (old) => {
  await bringToLayout(old.older);
  await using held = await writing(old);
  await old.open(old.url, "-c statement_timeout=2000 -c lock_timeout=2000");
  const sql = "select from pg_stat_progress_create_index join pg_stat_activity using (pid) " +
    "where relid = to_regclass('@event') and clock_timestamp() - query_start > '2.5 s'";
  await until(async () => (await old.older.all(sql)).length > 0, WITHIN_MS);
  await held.end();
  await until(() => old.lines.length === 2, WITHIN_MS);
  assertEquals(builtIn(old), ["index built: event_problem", "index built: event_done"]);
});

testMigration("an app opens few connections while another one builds", async (old) => {
  await using proxy = openProxy(old.url);
  await bringToLayout(old.older);
  await using held = await writing(old);
  await old.open();
  await until(async () => "event_problem" in await old.indexes(), WITHIN_MS);
  const database = await old.open(proxy.url);
  // Long enough for some looks, if they came one after the other.
  await pause(4_000);
  await database.close();
  await held.end();
  await until(() => old.lines.length === 2, WITHIN_MS);
  // One to open the store, and one to learn that another app builds.
  assert(proxy.opened <= 3, `${proxy.opened} connections`);
});

testMigration("a migration does not wait long for a table that is in use", async (old) => {
  await using _held = await writing(old);
  const error = await assertRejects(() => bringToLayout(old.older), Error);
  assertEquals(sqlStateOf(error), "55P03");
  await old.add("meanwhile", 1);
});

Deno.test("statements for a schema with events build its indexes behind the transaction", () => {
  const [before, behind] = migrationOf("app", "me", 1).split("commit;\n");
  assert(before!.includes('alter table "app".event add column problem'));
  assert(!before!.includes("create index"));
  for (const index of ["event_problem", "event_done"]) {
    // One that is there may be that of a build that was broken off.
    const sql = `drop index concurrently if exists "app".${index};\n` +
      `create index concurrently ${index} on "app".event `;
    assert(behind!.includes(sql), behind);
  }
  assertEquals(behind!.match(/create index/g)?.length, 2);
});

testMigration("two apps that start beside an older program build each index once", async (old) => {
  let [isEnded, batches] = [false, 0];
  const older = (async () => {
    for (; !isEnded; batches++) await old.add(`w${batches}-`, 10);
  })();
  try {
    await Promise.all([old.open(), old.open()]);
    await until(() => isBuilt(old), WITHIN_MS);
    const before = batches;
    await until(() => batches > before, WITHIN_MS);
  } finally {
    isEnded = true;
    await older;
  }
  await until(() => old.lines.length === 2, WITHIN_MS);
  assertEquals(builtIn(old), ["index built: event_problem", "index built: event_done"]);
  assert(await deadIn(old) === EVENTS + 10 * batches);
});
