import { assertEquals, assertRejects } from "@std/assert";
import { claimOne, delivery } from "./_events.ts";
import { testStore } from "./_stores.ts";

testStore(
  "EventStore.checkpoint() notes parts, and commits their effects",
  async ({ kv, store }) => {
    await store.accept(delivery("d1"));
    const first = await store.checkpoint(await claimOne(store), "a", (c) => c.set(["a"], 1));
    const second = await store.checkpoint(first!, "b");
    assertEquals(second?.record.progress, ["a", "b"]);
    assertEquals((await kv.get(["a"])).value, 1);
    assertEquals(await store.complete(second!), true);
  },
);

testStore(
  "EventStore.checkpoint() commits nothing for a lease that is lost",
  async ({ kv, store }) => {
    await store.accept(delivery("d1"));
    const lease = await claimOne(store);
    await store.renew(lease, 60_000);
    assertEquals(await store.checkpoint(lease, "a", (commit) => commit.set(["a"], 1)), null);
    assertEquals((await kv.get(["a"])).value, null);
    assertEquals((await store.get("d1"))?.progress ?? [], []);
  },
);

testStore(
  "EventStore.checkpoint() notes nothing when a check does not hold",
  async ({ kv, store }) => {
    await kv.set(["a"], 1);
    await store.accept(delivery("d1"));
    const lease = await claimOne(store);
    const note = () =>
      store.checkpoint(lease, "a", (c) => c.check({ key: ["a"], versionstamp: null }));
    await assertRejects(note, Error, "A check among the effects does not hold");
    assertEquals((await store.get("d1"))?.progress ?? [], []);
  },
);

testStore("EventStore.checkpoint() is remembered by a retry and a replay", async ({ store }) => {
  await store.accept(delivery("d1"));
  const noted = await store.checkpoint(await claimOne(store), "a");
  await store.retry(noted!, 0, new Error("no"));
  const again = await claimOne(store);
  assertEquals(again.record.progress, ["a"]);
  await store.bury(again, new Error("no"));
  await store.replay("d1");
  assertEquals((await claimOne(store)).record.progress, ["a"]);
});

testStore(
  "EventStore.checkpoint() is forgotten by a new delivery of a dead event",
  async ({ store }) => {
    await store.accept(delivery("d1"));
    const noted = await store.checkpoint(await claimOne(store), "a");
    await store.bury({ ...noted!, record: { ...noted!.record, lease: null } }, new Error("no"));
    await store.accept(delivery("d1"));
    assertEquals((await store.get("d1"))?.progress ?? [], []);
  },
);
