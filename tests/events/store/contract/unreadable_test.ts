import { assertEquals, assertRejects } from "@std/assert";
import { buryAll, claimAll, claimOne, delivery, idsOf, listed } from "../_events.ts";
import { assertNothingWaits, testStore, testStoreOnce } from "./_contract.ts";

testStore(
  "list() and stats() show records that cannot be read",
  async ({ damages, store }) => {
    await buryAll(store, ["d1", "d2", "d3"]);
    const times = await Array.fromAsync(store.list(), ({ receivedAt }) => receivedAt);
    await damages.spoil("event", "d2");
    await damages.spoil("event", "d3");
    const found = await Array.fromAsync(store.list({ state: "unreadable" }));
    assertEquals(found, [
      { id: "d2", receivedAt: times[1]!, state: "unreadable" },
      { id: "d3", receivedAt: times[2]!, state: "unreadable" },
    ]);
    assertEquals(await listed(store), ["d1", "d2", "d3"]);
    const { dead, unreadable } = await store.stats();
    assertEquals([dead, unreadable], [1, 2]);
  },
  {},
  "damages",
);

testStoreOnce(
  "a record that cannot be read has its time, and no type",
  async (sut) => {
    await buryAll(sut.store, ["d1"]);
    const { receivedAt } = (await sut.store.get("d1"))!;
    await sut.damages.spoil("event", "d1");
    assertEquals(await listed(sut.store, { receivedAfter: receivedAt }), ["d1"]);
    assertEquals(await listed(sut.store, { receivedBefore: receivedAt }), []);
    assertEquals(await listed(sut.store, { type: "push" }), []);
  },
  {},
  "damages",
);

testStoreOnce(
  "get() rejects for a record that cannot be read",
  async (sut) => {
    await buryAll(sut.store, ["d1"]);
    await sut.damages.spoil("event", "d1");
    await assertRejects(() => sut.store.get("d1"), Error, "Cannot read the record of event d1");
  },
  {},
  "damages",
);

testStore(
  "purge() leaves what it cannot read, unless just that is meant",
  async ({ damages, place, store }) => {
    await buryAll(store, ["d1", "d2"]);
    await damages.spoil("event", "d2");
    assertEquals(await store.purge({ ids: ["d2"] }), { changed: 0, left: ["d2"] });
    assertEquals(await store.purge({}), { changed: 1, left: [] });
    assertEquals(await listed(store), ["d2"]);
    assertEquals(await store.purge({ state: "unreadable" }), { changed: 1, left: [] });
    assertEquals((await place.contents()).events, 0);
  },
  {},
  "damages",
);

testStoreOnce(
  "replayAll() and cancelAll() leave what they cannot read",
  async (sut) => {
    await buryAll(sut.store, ["d1"]);
    const restore = await sut.damages.spoil("event", "d1");
    assertEquals(await sut.store.replayAll({ ids: ["d1"] }), { changed: 0, left: ["d1"] });
    assertEquals(await sut.store.cancelAll({ ids: ["d1"] }), { changed: 0, left: ["d1"] });
    await restore();
    assertEquals((await sut.store.get("d1"))?.outcome, "failed");
  },
  {},
  "damages",
);

testStore(
  "a purge of what cannot be read lets those behind it go on",
  async ({ damages, place, store }) => {
    for (const id of ["d1", "d2"]) await store.accept(delivery(id, "{}", "key"));
    await damages.spoil("event", "d1");
    await store.purge({ state: "unreadable" });
    await store.accept(delivery("d1", "{}", "key"));
    for (const id of ["d2", "d1"]) {
      const lease = await claimOne(store);
      assertEquals(lease.record.id, id);
      await store.complete(lease);
    }
    assertEquals((await place.contents()).positions, 0);
  },
  {},
  "damages",
);

testStore(
  "a purge of what a worker has put off lets its group go on",
  async ({ damages, place }) => {
    const store = await place.open({ log: () => {} });
    for (const id of ["d1", "d2"]) await store.accept(delivery(id, "{}", "key"));
    await damages.spoil("event", "d1");
    assertEquals(await claimAll(store), []);
    await store.accept(delivery("d3", "{}", "key"));
    await store.purge({ state: "unreadable" });
    const lease = await claimOne(store);
    assertEquals(lease.record.id, "d2");
    await store.complete(lease);
    assertEquals(idsOf(await claimAll(store)), ["d3"]);
  },
  {},
  "damages",
);

testStore(
  "what cannot be read when its turn comes is handled later, in order",
  async (sut) => {
    const { damages, place } = sut;
    const store = await place.open({ log: () => {} });
    for (const id of ["d1", "d2", "d3"]) await store.accept(delivery(id, "{}", "key"));
    const restore = await damages.spoil("event", "d2");
    await store.complete(await claimOne(store));
    assertEquals(await claimAll(store), []);
    await restore();
    await damages.makeDue("d2");
    for (const id of ["d2", "d3"]) {
      const lease = await claimOne(store);
      assertEquals(lease.record.id, id);
      await store.complete(lease);
    }
    await assertNothingWaits({ place });
  },
  {},
  "damages",
);
