import { assert, assertEquals, assertRejects } from "@std/assert";
import { Client } from "pg";
import { until } from "../../../../dev/harness/until.ts";
import { emissionOf } from "../../../../events/store/emission.ts";
import { openEventStore } from "../../../../mod.ts";
import { claimAll, claimOne, delivery, idsOf } from "../_events.ts";
import { type PostgresStoreUnderTest, testPostgres } from "./_stores.ts";

/** Counts the statements that wait for a transaction. */
const WAITING = "select count(*)::int as n from pg_locks where not granted";

/** Runs a function with a client of the user's own. */
async function withClient(
  { place }: PostgresStoreUnderTest,
  fn: (client: Client, table: string) => Promise<void>,
): Promise<void> {
  const { url, schema } = JSON.parse(place.address);
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await fn(client, `"${schema}".effect`);
  } finally {
    await client.end();
  }
}

testPostgres("emit() stores an event in a transaction of the user's", async (sut) => {
  const { store, place } = sut;
  await withClient(sut, async (client, table) => {
    await client.query("begin");
    await client.query(`insert into ${table} values ('a', '1')`);
    const emitted = await store.emit("jobs", "made", { n: 1 }, { tx: client });
    assertEquals([emitted.duplicate, await store.get(emitted.id)], [false, null]);
    await client.query("commit");
    const lease = await claimOne(store);
    assertEquals([lease.record.id, await place.effects.get("a")], [emitted.id, 1]);
    assertEquals(new TextDecoder().decode(await store.load(lease)), '{"n":1}');
  });
});

testPostgres("an event is taken back with the transaction of the user's", async (sut) => {
  const { store } = sut;
  await withClient(sut, async (client) => {
    await client.query("begin");
    const { id } = await store.emit("jobs", "made", {}, { id: "1", tx: client });
    await client.query("rollback");
    assertEquals([await store.get(id), await claimAll(store)], [null, []]);
    assertEquals((await store.emit("jobs", "made", {}, { id: "1" })).duplicate, false);
  });
});

testPostgres("an event whose id is known is no new one in a transaction, either", async (sut) => {
  const { store } = sut;
  await store.emit("jobs", "made", {}, { id: "1" });
  await withClient(sut, async (client) => {
    await client.query("begin");
    const again = await store.emit("jobs", "made", {}, { id: "1", tx: client });
    const other = await store.emit("jobs", "made", {}, { id: "2", tx: client });
    // The event that has the id can be handled meanwhile.
    await store.complete(await claimOne(store));
    await client.query("commit");
    assertEquals([again.duplicate, other.duplicate], [true, false]);
    assertEquals(idsOf(await claimAll(store)), ["jobs:2"]);
  });
});

testPostgres(
  "whoever emits an id of an open transaction waits, and nobody else does",
  async (sut) => {
    const { store, place } = sut;
    await withClient(sut, async (client) => {
      await client.query("begin");
      await store.emit("jobs", "made", {}, { id: "1", tx: client });
      await store.accept(delivery("d1", "{}", "key"));
      const lease = await claimOne(store);
      const emits = [emissionOf("jobs", "made", {}, { id: "1" })];
      let isSettled = false;
      const settling = store.complete(lease, { emits, effects: place.effects.set("a", 1) })
        .finally(() => isSettled = true);
      const waiting = store.transact((_, { emit }) => emit("jobs", "made", {}, { id: "1" }));
      await until(async () => (await client.query(WAITING)).rows[0].n > 1, 20_000);
      // Neither the event nor its group is locked.
      assert(await store.renew(lease, 60_000));
      await store.accept(delivery("d2", "{}", "key"));
      await store.accept(delivery("d3", "{}", "other"));
      assert(await store.complete(await claimOne(store)));
      assertEquals(isSettled, false);
      await client.query("commit");
      assert(await settling);
      assertEquals(await waiting, "jobs:1");
      assertEquals(idsOf(await claimAll(store)).toSorted(), ["d2", "jobs:1"]);
    });
  },
);

testPostgres("an event of a transaction joins its group when it is claimed", async (sut) => {
  const { store } = sut;
  await withClient(sut, async (client) => {
    await client.query("begin");
    for (const id of ["1", "2"]) {
      await store.emit("jobs", "made", {}, { id, group: "g", tx: client });
    }
    await client.query("commit");
  });
  const first = await claimOne(store);
  assertEquals(first.record.group?.key, "jobs:g");
  await store.complete(first);
  assertEquals((await claimOne(store)).record.group?.key, "jobs:g");
});

testPostgres("transact() and emit() have the types that an app needs", async ({ store }) => {
  await store.accept(delivery("d1"));
  const { id, n } = await store.transact(async (tx, { emit, wake }) => {
    const { rows: [row] } = await tx.query<{ n: number }>("select 1 + $1::int as n", [1]);
    wake("somebody", { n: row!.n });
    return { id: emit("jobs", "made", { n: row!.n }), n: row!.n };
  });
  const typed: [string, number] = [id, n];
  assertEquals([typed[1], (await store.get(typed[0]))?.type], [2, "made"]);
  // @ts-expect-error: a string is no transaction.
  const wrong = () => store.emit("jobs", "made", {}, { tx: "begin" });
  await assertRejects(wrong, TypeError, "'tx' must be a client of npm:pg that is in a transaction");
});

Deno.test("emit() refuses a transaction where the store takes none", async () => {
  using database = await Deno.openKv(":memory:");
  const store = await openEventStore(database);
  const emitting = () => store.emit("jobs", "made", {}, { tx: database.atomic() });
  await assertRejects(emitting, TypeError, "a store of the kind 'kv' takes no 'tx'");
});
