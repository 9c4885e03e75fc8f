/** Ordering groups with several places. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import type { EventStore, Lease } from "../../../../events/mod.ts";
import { claimAll, claimOne, delivery, drain, idsOf, later } from "../_events.ts";
import { importLines, linesOf } from "../_moving.ts";
import { repairGroups } from "../_tidying.ts";
import { assertNothingWaits, testStore, testStoreOnce } from "./_contract.ts";

const KEY = "repo";

/** Accepts events of one key, one after the other, each of which says how many are handled at a time. */
async function accept(store: EventStore, places: number | undefined, ...ids: string[]) {
  for (const id of ids) await store.accept({ ...delivery(id, "{}", KEY), places });
}

/** Ids in the order of their numbers: d0, d1, d2. */
const many = (count: number) => Array.from({ length: count }, (_, i) => `d${i}`);

/** Leases what is due, and says what that is. */
async function begin(store: EventStore, leaseMs?: number): Promise<Map<string, Lease>> {
  const leases = await claimAll(store, leaseMs);
  return new Map(leases.map((lease) => [lease.record.id, lease]));
}

const namesOf = (leases: ReadonlyMap<string, Lease>) => [...leases.keys()].toSorted();

testStore("as many events of a key are leased as it has places", async (sut) => {
  await accept(sut.store, 3, ...many(6));
  await sut.store.accept({ ...delivery("other", "{}", "other"), places: 3 });
  assertEquals(namesOf(await begin(sut.store)), ["d0", "d1", "d2", "other"]);
  assertEquals(await claimAll(sut.store), []);
});

testStore(
  "each end of an event lets the next one of its key begin, and no place is idle",
  async (sut) => {
    const { store } = sut;
    const ids = many(9);
    await accept(store, 3, ...ids);
    const running = await begin(store);
    const begun = namesOf(running);
    for (let i = 3; i < ids.length; i++) {
      // Neither the first one nor the last one ends always.
      const [id, lease] = [...running][i % 3]!;
      running.delete(id);
      assert(await store.complete(lease));
      const next = await claimOne(store);
      begun.push(next.record.id);
      running.set(next.record.id, next);
    }
    assertEquals(begun, ids);
    for (const lease of running.values()) assert(await store.complete(lease));
    await assertNothingWaits(sut);
  },
);

testStore(
  "events of a key that come and end at once never are more than its places",
  async (sut) => {
    const { store } = sut;
    const ids = many(30);
    const left = new Set(ids);
    await Promise.all(ids.map((id) => accept(store, 4, id)));
    while (left.size > 0) {
      const leases = await claimAll(store);
      assertEquals(leases.length, Math.min(4, left.size));
      const ended = await Promise.all(leases.map((lease) => store.complete(lease)));
      assert(ended.every(Boolean));
      for (const id of idsOf(leases)) assert(left.delete(id));
    }
    await assertNothingWaits(sut);
  },
);

testStore("an event joins a key with a place that is free, and waits otherwise", async (sut) => {
  const { store } = sut;
  await accept(store, 2, "d0");
  const first = await claimOne(store);
  await accept(store, 2, "d1");
  const second = await claimOne(store);
  await accept(store, 2, "d2");
  assertEquals(await claimAll(store), []);
  await store.complete(second);
  await store.complete(await claimOne(store));
  await accept(store, 2, "d3");
  assertEquals(namesOf(await begin(store)), ["d3"]);
  await store.complete(first);
});

testStore("an event that is tried again or put off keeps its place", async (sut) => {
  const { store } = sut;
  await accept(store, 2, ...many(4));
  const [failed, put] = (await claimAll(store)) as [Lease, Lease];
  assert(await store.retry(failed, 5, new Error("once")));
  assert(await store.release(put, { delayMs: 60_000 }));
  await later(10);
  const again = await claimOne(store);
  assertEquals(again.record.id, failed.record.id);
  assert(await store.complete(again));
  assertEquals(namesOf(await begin(store)), ["d2"]);
});

testStore("a parked event leaves its place, and joins its key again at the end", async (sut) => {
  const { store } = sut;
  await accept(store, 2, ...many(4));
  const running = await begin(store);
  assert(await store.park(running.get("d0")!, { name: "answer", timeoutMs: 60_000 }));
  assertEquals(namesOf(await begin(store)), ["d2"]);
  await store.wake("answer", 1);
  assertEquals(await claimAll(store), []);
  assert(await store.complete(running.get("d1")!));
  assertEquals(await drain(store), ["d3", "d0"]);
});

testStore("an expired lease keeps its event's place", async (sut) => {
  const { store } = sut;
  await accept(store, 2, ...many(4));
  await claimAll(store, 1);
  await later(5);
  assertEquals(namesOf(await begin(store)), ["d0", "d1"]);
  assertEquals(await claimAll(store), []);
});

testStore("cancel() frees a place, and leaves those that wait in line", async (sut) => {
  const { store } = sut;
  await accept(store, 2, ...many(6));
  const running = await begin(store);
  assert(await store.cancel("d3"));
  assertEquals(await claimAll(store), []);
  assert(await store.cancel("d0"));
  assert(await store.release((await store.recover(running.get("d0")!))!));
  assertEquals(namesOf(await begin(store)), ["d2"]);
  assert(await store.complete(running.get("d1")!));
  assertEquals(namesOf(await begin(store)), ["d4"]);
});

testStore("bury(), replay() and purge() free places and take them again", async (sut) => {
  const { store } = sut;
  await accept(store, 2, ...many(4));
  for (const lease of (await begin(store)).values()) {
    assert(await store.bury(lease, new Error("no")));
  }
  assert(await store.replay("d0"));
  assertEquals(namesOf(await begin(store)), ["d2", "d3"]);
  assertEquals((await store.purge({ state: "dead" })).changed, 1);
  assertEquals(await claimAll(store), []);
  assertEquals((await store.get("d0"))?.places, 2);
});

testStore("a delivery that comes again after its event has died takes a place", async (sut) => {
  const { store } = sut;
  await accept(store, 2, "d0");
  await store.bury(await claimOne(store), new Error("no"));
  await accept(store, 2, "d1", "d0", "d2");
  assertEquals(namesOf(await begin(store)), ["d0", "d1"]);
});

testStore("emitted events have places in their group, once they are due", async (sut) => {
  const { store } = sut;
  for (let i = 0; i < 4; i++) {
    await store.emit("jobs", "item", { i }, { id: `${i}`, group: "g", places: 2 });
  }
  const [first] = await claimAll(store);
  assertEquals(await claimAll(store), []);
  assert(await store.complete(first!));
  assertEquals((await claimAll(store)).length, 1);
});

testStore("more places count from the next end of an event on", async (sut) => {
  const { store } = sut;
  await accept(store, undefined, ...many(2));
  const first = await claimOne(store);
  await accept(store, 3, "e0", "e1", "e2");
  assertEquals(await claimAll(store), []);
  assert(await store.complete(first));
  const running = await begin(store);
  assertEquals(namesOf(running), ["d1", "e0", "e1"]);
  assert(await store.complete(running.get("e0")!));
  assertEquals(namesOf(await begin(store)), ["e2"]);
});

testStoreOnce("events of a key that come at once may say different numbers", async (sut) => {
  const { store } = sut;
  await Promise.all([
    ...["d0", "d1"].map((id) => accept(store, undefined, id)),
    ...["e0", "e1", "e2"].map((id) => accept(store, 2, id)),
  ]);
  const first = await claimOne(store);
  assertEquals(first.record.id, "d0");
  assert(await store.complete(first));
  const running = await begin(store);
  assertEquals(namesOf(running), ["d1", "e0"]);
  for (const lease of running.values()) assert(await store.complete(lease));
  assertEquals(await drain(store), ["e1", "e2"]);
  await assertNothingWaits(sut);
});

testStoreOnce("a hundred places that come at once are filled, and nothing is left", async (sut) => {
  const { store } = sut;
  await accept(store, undefined, "d0", "d1");
  const first = await claimOne(store);
  await Promise.all(many(150).map((id) => accept(store, 100, `e${id}`)));
  assert(await store.complete(first));
  let [ended, most] = [0, 0];
  const running: Lease[] = [];
  while (running.push(...await claimAll(store)) > 0) {
    most = Math.max(most, running.length);
    const some = running.splice(0, 10);
    const are = await Promise.all(some.map((lease) => store.complete(lease)));
    ended += are.filter(Boolean).length;
  }
  assertEquals([ended, most], [151, 100]);
  await assertNothingWaits(sut);
});

testStore("fewer places count as soon as an event says so, and nothing is left", async (sut) => {
  const { store } = sut;
  await accept(store, 3, ...many(5));
  const running = await begin(store);
  await accept(store, undefined, "e0", "e1");
  for (const id of ["d1", "d0"]) {
    assert(await store.complete(running.get(id)!));
    assertEquals(await claimAll(store), []);
  }
  assert(await store.complete(running.get("d2")!));
  const order: string[] = [];
  for (let i = 0; i < 4; i++) {
    const lease = await claimOne(store);
    order.push(lease.record.id);
    assert(await store.complete(lease));
  }
  assertEquals(order, ["d3", "d4", "e0", "e1"]);
  await assertNothingWaits(sut);
});

testStore("events that are handled together wait until they are the first ones", async (sut) => {
  const { store } = sut;
  await accept(store, 2, "d0", "d1");
  const running = await begin(store);
  const quiet = { quietMs: 0 };
  await store.accept({ ...delivery("q0", "{}", KEY), ...quiet });
  await store.accept({ ...delivery("q1", "{}", KEY), ...quiet });
  await accept(store, 2, "d2");
  assert(await store.complete(running.get("d0")!));
  assertEquals(await claimAll(store), []);
  assert(await store.complete(running.get("d1")!));
  const leases = await begin(store);
  assertEquals(leases.get("q0")?.record.batch?.events, 2);
  assert(await store.complete(leases.get("q0")!));
  for (const [id, lease] of leases) if (id !== "q0") assert(await store.complete(lease));
  await drain(store);
  await assertNothingWaits(sut);
  for (const id of ["q0", "q1", "d2"]) assertEquals((await store.get(id))?.state, "done");
});

testStore("events of a store keep their places in another one", async (sut) => {
  await accept(sut.store, 2, ...many(4));
  await claimAll(sut.store);
  await using other = await sut.elsewhere();
  await importLines(other.store, await linesOf(sut.store));
  assertEquals(namesOf(await begin(other.store)), ["d0", "d1"]);
});

testStoreOnce("tidy() leaves a group with several places alone", async (sut) => {
  await accept(sut.store, 2, ...many(4));
  await claimAll(sut.store);
  assertEquals(await repairGroups(sut.store), 0);
  await accept(sut.store, 3, "d4");
  assertEquals(await repairGroups(sut.store), 0);
});

testStore(
  "a record that cannot be read holds one place, and its loss none for ever",
  async ({ damages, place }) => {
    const store = await place.open({ log: () => {} });
    await accept(store, 2, ...many(6));
    const restore = await damages.spoil("event", "d1");
    await damages.lose("event", "d3");
    assertEquals(await drain(store), ["d0", "d2", "d4", "d5"]);
    assertEquals(await claimAll(store), []);
    await restore();
    await damages.makeDue("d1");
    assertEquals(await drain(store), ["d1"]);
    assertEquals((await place.contents()).positions, 0);
  },
  {},
  "damages",
);

testStoreOnce(
  "accept() refuses places that are out of range, or events that are handled together",
  async (sut) => {
    const { store } = sut;
    for (const places of [0, 101, 1.5]) {
      await assertRejects(() => accept(store, places, "d0"), Error, "'places'");
    }
    const together = { ...delivery("d0", "{}", KEY), places: 2, quietMs: 5 };
    await assertRejects(
      () => store.accept(together),
      TypeError,
      "'places' must be 1 with 'quietMs'",
    );
  },
);
