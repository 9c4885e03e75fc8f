/** Events that their handler puts off: `release` and `retry` with a reason. */
import { assert, assertEquals, assertLessOrEqual } from "@std/assert";
import type { EventStore } from "../../../../events/mod.ts";
import { WallClock } from "../../../_wall_clock.ts";
import { claimAll, claimOne, delivery, idsOf, listed } from "../_events.ts";
import { repairTimes } from "../_tidying.ts";
import { testStore, testStoreOnce } from "./_contract.ts";

const HOUR_MS = 3_600_000;

/** Puts the one event that is due off, for an hour by default. */
async function putOffDue(store: EventStore, delayMs = HOUR_MS): Promise<boolean> {
  return await store.release(await claimOne(store), { delayMs, reason: "night", isBegun: true });
}

testStore(
  "an event that is put off is due after its delay, as the same attempt",
  async ({ store }) => {
    await store.accept(delivery("d1"));
    const { record: { attempt } } = await claimOne(store, 60_000).then(async (lease) => {
      assert(await store.release(lease, { delayMs: 30, reason: "night" }));
      return lease;
    });
    let again = await claimAll(store);
    while (again.length === 0) again = await claimAll(store);
    assertEquals([attempt, again[0]!.record.attempt], [1, 1]);
    assertEquals([again[0]!.record.putOff?.reason, again[0]!.record.delayMs], ["night", 30]);
    assert(await store.complete(again[0]!));
  },
);

testStore("an event that is put off keeps its place in its ordering group", async ({ store }) => {
  for (const id of ["d1", "d2"]) await store.accept(delivery(id, "{}", "key"));
  await store.accept(delivery("other", "{}", "key2"));
  const leases = await claimAll(store);
  assertEquals(idsOf(leases).toSorted(), ["d1", "other"]);
  const first = leases.find(({ record }) => record.id === "d1")!;
  assert(await store.release(first, { delayMs: HOUR_MS, reason: "night" }));
  await store.accept(delivery("d3", "{}", "key"));
  assertEquals(await claimAll(store), []);
  assert(await store.cancel("d1"));
  assertEquals(idsOf(await claimAll(store)), ["d2"]);
});

testStore(
  "an event that is put off is one as before: duplicate, listed, kept",
  async ({ store }) => {
    await store.accept(delivery("d1"));
    assert(await putOffDue(store));
    assertEquals(await store.accept(delivery("d1")), { id: "d1", duplicate: true });
    assertEquals(await listed(store, { state: "queued" }), ["d1"]);
    assertEquals((await store.purge({})).changed, 0);
    assertEquals([await store.replay("d1"), await store.oldestDueAt()], [false, null]);
    assertEquals((await store.stats()).queued, 1);
    const { isBegun, putOff } = (await store.get("d1"))!;
    assertEquals([isBegun, putOff?.times], [true, 1]);
  },
);

testStore("an event that was cancelled meanwhile is not put off", async ({ store }) => {
  await store.accept(delivery("d1"));
  const lease = await claimOne(store);
  assert(await store.cancel("d1"));
  const flagged = (await store.recover(lease))!;
  assert(await store.release(flagged, { delayMs: HOUR_MS, reason: "night" }));
  const { state, outcome, attempts, putOff } = (await store.get("d1"))!;
  assertEquals([state, outcome, putOff], ["dead", "cancelled", undefined]);
  assertEquals(attempts[0]?.error, "night");
  assert(await store.replay("d1"));
  assertEquals((await claimOne(store)).record.attempt, 1);
});

testStore(
  "an expired lease counts, however often its event was put off before",
  async ({ store }) => {
    await store.accept(delivery("d1"));
    const attempts: number[] = [];
    for (let i = 0; i < 3; i++) {
      assert(await putOffDue(store, 0));
      // Nobody settles this one: its process has died.
      await claimOne(store, 1);
      const taken = await claimOver(store);
      attempts.push(taken.record.attempt);
      assert(await store.release(taken, { reason: "night" }));
    }
    assertEquals(attempts, [2, 3, 4]);
  },
);

async function claimOver(store: EventStore) {
  for (;;) {
    const [lease] = await claimAll(store);
    if (lease) return lease;
  }
}

testStoreOnce("tidy() has an event wait for the delay that it was put off by", async (sut) => {
  {
    using clock = new WallClock();
    clock.advance(90 * HOUR_MS);
    await sut.store.accept(delivery("d1"));
    await putOffDue(sut.store);
  }
  assertEquals(await repairTimes(sut.store), 1);
  assertLessOrEqual((await sut.store.get("d1"))!.dueAt!, Date.now() + HOUR_MS);
  assertEquals(await repairTimes(sut.store), 0);
});

testStoreOnce(
  "the largest notes of an event fit its record, when it is put off too",
  async (sut) => {
    const { store } = sut;
    await store.accept(delivery("d1", `{"a":"${"x".repeat(60_000)}"}`));
    const text = "\u{1f642}".repeat(1_000);
    let lease =
      (await store.note(await claimOne(store), { is: "handler", name: "x".repeat(32_000) }))!;
    for (let i = 0; i < 12; i++) {
      assert(await store.retry(lease, 0, text, { reason: text }));
      assert(await store.release(await claimOne(store), { reason: text }));
      lease = await claimOne(store);
    }
    assertEquals((await store.get("d1"))?.putOff?.times, 24);
    assert(await store.bury(lease, text));
  },
);
