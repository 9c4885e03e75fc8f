import { assert, assertEquals } from "@std/assert";
import { buryAll, claimOne, delivery, listed } from "../_events.ts";
import { countReads, keysOf, recordKey } from "./_keys.ts";
import { memoryStore, testStore } from "./_stores.ts";
import { damage } from "./_values.ts";

/** The ids in the index of dead events, in its order. */
const indexed = async (kv: Deno.Kv) => (await keysOf(kv, "dead")).map((key) => key.at(-1));

testStore(
  "an event is in the index of dead ones from its death until it is replayed",
  async (sut) => {
    const { kv, store } = sut;
    await buryAll(store, ["d1", "d2"]);
    await store.accept(delivery("d3"));
    assert(await store.cancel("d3"));
    assertEquals(await indexed(kv), ["d1", "d2", "d3"]);
    assert(await store.replay("d1"));
    assertEquals(await indexed(kv), ["d2", "d3"]);
  },
);

testStore("an event that is redelivered or purged leaves the index of dead ones", async (sut) => {
  const { kv, store } = sut;
  await buryAll(store, ["d1", "d2", "d3"]);
  await store.accept(delivery("d1"));
  await store.purge({ ids: ["d2"] });
  assertEquals(await indexed(kv), ["d3"]);
  await store.complete(await claimOne(store));
  assertEquals(await indexed(kv), ["d3"]);
});

testStore(
  "an event that its own worker took and that died is in the index",
  async ({ kv, store }) => {
    await store.accept(delivery("d1", "{}", "key"));
    const lease = await claimOne(store);
    assert(await store.cancel("d1"));
    assertEquals(await indexed(kv), []);
    assert(await store.complete((await store.recover(lease))!));
    assertEquals(await indexed(kv), ["d1"]);
  },
);

Deno.test("list() of dead events reads their records, and no others", async () => {
  await using sut = await memoryStore();
  const { kv, store } = sut;
  for (let i = 0; i < 50; i++) await store.accept(delivery(`q${i}`));
  for (const id of ["q3", "q7"]) assert(await store.cancel(id));
  assertEquals(await listed(store, { state: "dead" }), ["q3", "q7"]);
  const reads = countReads(kv);
  assertEquals(await listed(store, { state: "dead" }), ["q3", "q7"]);
  assertEquals(reads.records, 2);
  assertEquals((await store.replayAll({ outcome: "cancelled" })).changed, 2);
  // Each is read when it is found, and by its replay.
  assertEquals([reads.records, reads.get], [6, 0]);
});

Deno.test("an entry of the index without its dead event is passed over", async () => {
  await using sut = await memoryStore();
  const { kv, store } = sut;
  await buryAll(store, ["d1", "d2", "d3"]);
  await kv.delete(await recordKey(kv, "d1"));
  await damage(kv, await recordKey(kv, "d2"));
  assertEquals(await listed(store, { state: "dead" }), ["d3"]);
  assertEquals((await store.purge({ state: "unreadable" })).changed, 1);
  assertEquals(await indexed(kv), ["d1", "d3"]);
});
