import { assert, assertEquals } from "@std/assert";
import type { EventRecord, EventStore } from "../../../../events/mod.ts";
import { claimAll, claimOne, delivery, drain, idsOf, later } from "../_events.ts";
import { WallClock } from "../../../_wall_clock.ts";
import { repairGroups, repairTimes } from "../_tidying.ts";
import { assertNothingWaits, testStore } from "./_contract.ts";

/** The group of events that are emitted with the key `repo`. Deliveries are of the same one. */
const GROUP = "jobs:repo";

/** The id of the event that most tests emit. */
const REMINDER = "jobs:reminder";

/** Emits an event, which joins its group only when it is claimed. */
async function emitLater(store: EventStore, id: string, delayMs = 0): Promise<void> {
  await store.emit("jobs", "due", {}, { id, group: "repo", delayMs });
}

async function recordOf(store: EventStore, id: string): Promise<EventRecord> {
  return (await store.get(id))!;
}

testStore("an event that joins later leaves its group free until it is due", async (sut) => {
  await emitLater(sut.store, "reminder", 60_000);
  await sut.store.accept(delivery("push", "{}", GROUP));
  assertEquals(await drain(sut.store), ["push"]);
  assertEquals((await recordOf(sut.store, REMINDER)).state, "queued");
});

testStore("an event that joins later is leased with the first position", async (sut) => {
  const { place, store } = sut;
  await emitLater(store, "reminder");
  const lease = await claimOne(store);
  assertEquals(lease.record.group?.key, GROUP);
  assertEquals(lease.record.joinsLater, undefined);
  await store.accept(delivery("push", "{}", GROUP));
  assertEquals(await claimAll(store), []);
  assert(await store.complete(lease));
  assertEquals(await drain(store), ["push"]);
  await assertNothingWaits({ place });
});

testStore("an event that joins later waits at the end of a group in use", async (sut) => {
  const { place, store } = sut;
  await store.accept(delivery("d1", "{}", GROUP));
  const first = await claimOne(store);
  await store.accept(delivery("d2", "{}", GROUP));
  await emitLater(store, "reminder");
  assertEquals(await claimAll(store), []);
  const { group, joinsLater, dueAt, state } = await recordOf(store, REMINDER);
  assertEquals({ key: group?.key, joinsLater, dueAt, state }, {
    ...{ key: GROUP, joinsLater: undefined, dueAt: null, state: "queued" },
  });
  await store.accept(delivery("d3", "{}", GROUP));
  assert(await store.complete(first));
  assertEquals(await drain(store), ["d2", REMINDER, "d3"]);
  await assertNothingWaits({ place });
});

testStore("events that join a group in the same claim keep their order", async (sut) => {
  const ids = Array.from({ length: 12 }, (_, i) => `r${String(i).padStart(2, "0")}`);
  for (const [i, id] of ids.entries()) await emitLater(sut.store, id, i);
  await later(20);
  assertEquals(await drain(sut.store), ids.map((id) => `jobs:${id}`));
  await assertNothingWaits(sut);
});

testStore(
  "a claim leases what is due the longest, also an event that joins only then",
  async (sut) => {
    const { store } = sut;
    const order: string[] = [];
    for (let i = 0; i < 4; i++) {
      for (const group of ["a", "b"]) {
        const { id } = await store.emit("jobs", "due", {}, { group: `${group}${i}` });
        order.push(id);
        await later(2);
      }
      await store.accept(delivery(`d${i}`));
      order.push(`d${i}`);
      await later(2);
    }
    const handled: string[] = [];
    for (let limit = 1; handled.length < order.length; limit = limit % 3 + 1) {
      const leases = await store.claim({ limit, owner: "w", leaseMs: 30_000 });
      assertEquals(leases.length, Math.min(limit, order.length - handled.length));
      handled.push(...idsOf(leases));
    }
    assertEquals(handled, order);
  },
);

testStore("events that join groups in use take no room in a claim", async ({ store }) => {
  await emitLater(store, "first");
  await claimOne(store);
  for (let i = 0; i < 9; i++) await emitLater(store, `r${i}`);
  await later(2);
  for (const id of ["d1", "d2", "d3"]) {
    await store.accept(delivery(id));
    await later(2);
  }
  assertEquals(await claimSome(store, 2), ["d1", "d2"]);
  assertEquals(await claimSome(store, 2), ["d3"]);
});

/** Claims until there are leases: a claim whose events take long to join their groups leaves the rest to the next. */
async function claimSome(store: EventStore, limit: number): Promise<string[]> {
  for (;;) {
    const leases = await store.claim({ limit, owner: "w", leaseMs: 30_000 });
    if (leases.length > 0) return idsOf(leases);
  }
}

testStore("events that join a group beside deliveries are all handled", async (sut) => {
  const { place, store } = sut;
  const ids = Array.from({ length: 10 }, (_, i) => `r${i}`);
  for (const id of ids) await emitLater(store, id);
  const accepting = ids.map((id) => store.accept(delivery(`d${id}`, "{}", GROUP)));
  const order = await drain(store);
  await Promise.all(accepting);
  order.push(...await drain(store));
  assertEquals(order.toSorted(), [...ids.map((id) => `d${id}`), ...ids.map((id) => `jobs:${id}`)]);
  await assertNothingWaits({ place });
});

testStore("an event that joins later can be cancelled, replayed and purged", async (sut) => {
  const { place, store } = sut;
  await emitLater(store, "reminder", 60_000);
  assert(await store.cancel(REMINDER));
  await store.accept(delivery("push", "{}", GROUP));
  assert(await store.replay(REMINDER));
  assertEquals((await recordOf(store, REMINDER)).group?.key, GROUP);
  assertEquals(await drain(store), ["push", REMINDER]);
  assertEquals((await store.purge({})).changed, 2);
  await assertNothingWaits({ place });
});

testStore("an event that joins later waits for its planned delay", async (sut) => {
  const { store } = sut;
  await emitLater(store, "reminder", 60_000);
  assertEquals(await repairTimes(store), 0);
  assertEquals(await repairGroups(store), 0);
  assertEquals((await recordOf(store, REMINDER)).joinsLater, true);
});

testStore("an event that joins later by a clock that was ahead is brought forward", async (sut) => {
  const { store } = sut;
  {
    // The first call of a store is made by this process, whose clock it is.
    using clock = new WallClock();
    clock.advance(60_000);
    await emitLater(store, "reminder");
  }
  assertEquals(await repairTimes(store), 1);
  assertEquals((await claimOne(store)).record.group?.key, GROUP);
});

testStore("an event that joins later and is put off keeps its position", async (sut) => {
  const { store } = sut;
  await emitLater(store, "reminder");
  await store.release(await claimOne(store), { delayMs: 60_000 });
  await store.accept(delivery("push", "{}", GROUP));
  assertEquals(await claimAll(store), []);
});
