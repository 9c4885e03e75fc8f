import { assertEquals, assertRejects } from "@std/assert";
import type { Lease } from "../../../../events/mod.ts";
import { claimOne, delivery } from "../_events.ts";
import { testStore, testStoreOnce } from "./_contract.ts";

testStore(
  "EventStore.checkpoint() notes parts, and commits their effects",
  async ({ place, store }) => {
    await store.accept(delivery("d1"));
    const first = await store.checkpoint(await claimOne(store), "a", place.effects.set("a", 1));
    const second = await store.checkpoint(first!, "b");
    assertEquals(second?.record.progress, ["a", "b"]);
    assertEquals(await place.effects.get("a"), 1);
    assertEquals(await store.complete(second!), true);
  },
);

testStore(
  "EventStore.checkpoint() commits nothing for a lease that is lost",
  async ({ place, store }) => {
    await store.accept(delivery("d1"));
    const lease = await claimOne(store);
    await store.renew(lease, 60_000);
    assertEquals(await store.checkpoint(lease, "a", place.effects.set("a", 1)), null);
    assertEquals(await place.effects.get("a"), null);
    assertEquals((await store.get("d1"))?.progress ?? [], []);
  },
);

testStore(
  "EventStore.checkpoint() notes nothing when its effects are refused",
  async ({ place, store }) => {
    await store.accept(delivery("d1"));
    const lease = await claimOne(store);
    const note = () => store.checkpoint(lease, "a", place.effects.refused());
    await assertRejects(note, Error, place.effects.refusal);
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
  "EventStore.checkpoint() is remembered when a dead event is delivered again",
  async ({ store }) => {
    await store.accept(delivery("d1"));
    const noted = await store.checkpoint(await claimOne(store), "a");
    await store.bury({ ...noted!, record: { ...noted!.record, lease: null } }, new Error("no"));
    await store.accept(delivery("d1"));
    assertEquals((await store.get("d1"))?.progress, ["a"]);
  },
);

testStoreOnce(
  "an event that is full of progress is taken by its worker when it is redelivered",
  async (sut) => {
    const { store } = sut;
    const text = JSON.stringify({ text: "x".repeat(32_750) });
    await store.accept(delivery("d1", text));
    const lease = await store.checkpoint(await claimOne(store), "p".repeat(32_760));
    await store.bury(lease!, new Error("no"));
    const taken: Lease[] = [];
    const take = (lease: Lease) => void taken.push(lease);
    const reserve = () => ({ owner: "worker", leaseMs: 30_000, take, cancel: () => {} });
    store.listen({ wake: () => {}, reserve }).catch(() => {});
    assertEquals(await store.accept(delivery("d1", text)), { id: "d1", duplicate: false });
    assertEquals(new TextDecoder().decode(await store.load(taken[0]!)), text);
    assertEquals(taken[0]!.record.progress?.[0]?.length, 32_760);
  },
);

testStore("EventStore.checkpoint() refuses a name that is no text", async ({ store }) => {
  await store.accept(delivery("d1"));
  const lease = await claimOne(store);
  for (const part of [undefined, null, 7, { part: "a" }]) {
    await assertRejects(() => store.checkpoint(lease, part as never), Error, "must be a text");
  }
});
