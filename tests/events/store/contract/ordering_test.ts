import { assert, assertEquals } from "@std/assert";
import type { EventStore } from "../../../../events/mod.ts";
import { claimAll, claimOne, delivery, drain, idsOf, later } from "../_events.ts";
import { testStore } from "./_contract.ts";

async function acceptInOrder(store: EventStore, orderingKey: string, ...ids: string[]) {
  for (const id of ids) await store.accept(delivery(id, "{}", orderingKey));
}

testStore("claim() leases one event of an ordering key at a time", async ({ store }) => {
  await acceptInOrder(store, "repo", "d1", "d2", "d3");
  const first = await claimOne(store);
  assertEquals(await claimAll(store), []);
  await store.complete(first);
  assertEquals(idsOf(await claimAll(store)), ["d2"]);
});

testStore("claim() leases events of other keys, and without one, meanwhile", async ({ store }) => {
  await acceptInOrder(store, "a", "a1", "a2");
  await acceptInOrder(store, "b", "b1", "b2");
  await store.accept(delivery("free"));
  assertEquals(idsOf(await claimAll(store)).toSorted(), ["a1", "b1", "free"]);
});

testStore(
  "events of an ordering key are leased in the order received",
  async ({ place, store }) => {
    const ids = Array.from({ length: 20 }, (_, i) => `d${i}`);
    await acceptInOrder(store, "repo", ...ids);
    assertEquals(await drain(store), ids);
    assertEquals((await place.contents()).positions, 0);
  },
);

testStore(
  "events of an ordering key that come at once are all leased",
  async ({ place, store }) => {
    const ids = Array.from({ length: 40 }, (_, i) => `d${i}`);
    await Promise.all(ids.map((id) => store.accept(delivery(id, "{}", "repo"))));
    assertEquals((await drain(store)).toSorted(), ids.toSorted());
    assertEquals((await place.contents()).positions, 0);
  },
);

testStore("retry() keeps later events of the key waiting", async ({ store }) => {
  await acceptInOrder(store, "repo", "d1", "d2");
  await store.retry(await claimOne(store), 60_000, new Error("once"));
  assertEquals(await claimAll(store), []);
});

testStore("retry() keeps an event's place", async ({ store }) => {
  await acceptInOrder(store, "repo", "d1", "d2");
  await store.retry(await claimOne(store), 5, new Error("once"));
  await later(10);
  assertEquals(await drain(store), ["d1", "d2"]);
});

testStore("bury() lets the next event of the key go", async ({ store }) => {
  await acceptInOrder(store, "repo", "d1", "d2");
  await store.bury(await claimOne(store), new Error("no"));
  assertEquals(await drain(store), ["d2"]);
});

testStore("an expired lease keeps its event's place", async ({ store }) => {
  await acceptInOrder(store, "repo", "d1", "d2");
  await claimOne(store, 1);
  await later(5);
  assertEquals(await drain(store), ["d1", "d2"]);
});

testStore("accept() makes one of a duplicate that has an ordering key", async ({ store }) => {
  const results = await Promise.all(
    Array.from({ length: 20 }, () => store.accept(delivery("d1", "{}", "repo"))),
  );
  assertEquals(results.filter(({ duplicate }) => !duplicate).length, 1);
  assertEquals(await drain(store), ["d1"]);
});

testStore("accept() keeps the order of payloads of more than one commit", async ({ store }) => {
  const large = { ...delivery("d1", "{}", "repo"), body: new Uint8Array(900_000) };
  await store.accept(large);
  await store.accept(delivery("d2", "{}", "repo"));
  const first = await claimOne(store);
  assertEquals((await store.load(first)).byteLength, 900_000);
  await store.complete(first);
  assertEquals(await drain(store), ["d2"]);
});

testStore("cancel() of a waiting event leaves the others in line", async ({ place, store }) => {
  await acceptInOrder(store, "repo", "d1", "d2", "d3");
  assert(await store.cancel("d2"));
  assertEquals(await drain(store), ["d1", "d3"]);
  assertEquals((await place.contents()).positions, 0);
});

testStore("cancel() starts the next event when the running one is settled", async ({ store }) => {
  await acceptInOrder(store, "repo", "d1", "d2");
  const lease = await claimOne(store, 60_000);
  assert(await store.cancel("d1"));
  assertEquals([await store.replay("d1"), await claimAll(store)], [false, []]);
  assert(await store.release((await store.recover(lease))!));
  assert(await store.replay("d1"));
  assertEquals(await drain(store), ["d2", "d1"]);
});

testStore(
  "cancel() starts the next event when the lease of the running one expires",
  async (sut) => {
    const { store } = sut;
    await acceptInOrder(store, "repo", "d1", "d2");
    await claimOne(store, 1);
    assert(await store.cancel("d1"));
    await later(5);
    await claimAll(store, 1);
    await later(5);
    assertEquals((await store.get("d1"))?.outcome, "cancelled");
    assertEquals(await drain(store), ["d2"]);
  },
);

testStore("replay() puts an event behind those that wait", async ({ store }) => {
  await acceptInOrder(store, "repo", "d1", "d2", "d3");
  await store.bury(await claimOne(store), new Error("no"));
  assert(await store.replay("d1"));
  assertEquals(await drain(store), ["d2", "d3", "d1"]);
});

testStore(
  "a record that cannot be read holds its key, and no other",
  async ({ damages, place, store }) => {
    await acceptInOrder(store, "repo", "d1", "d2", "d3", "d4");
    await acceptInOrder(store, "other", "d5", "d6");
    const restore = await damages.spoil("event", "d1");
    await damages.lose("event", "d3");
    assertEquals(await drain(store), ["d5", "d6"]);
    await restore();
    await damages.makeDue("d1");
    assertEquals(await drain(store), ["d1", "d2", "d4"]);
    assertEquals((await place.contents()).positions, 0);
  },
  {},
  "damages",
);

testStore("events of a key that is no well-formed text are all leased", async ({ store }) => {
  const keys = ["caf\ud83d", "\udc00", `${"x".repeat(255)}\u{1F600}`];
  for (const [i, key] of keys.entries()) {
    await acceptInOrder(store, key, ...[1, 2, 3].map((n) => `d${i}-${n}`));
  }
  assertEquals((await drain(store)).toSorted().length, 9);
});
