import { assertEquals } from "@std/assert";
import type { FakeTime } from "@std/testing/time";
import { byLength } from "../../../_length.ts";
import { repairGroups } from "../_tidying.ts";
import { assertMoves, forAll, runAll } from "../_histories.ts";
import type { Operation, StoreModel } from "../_model.ts";
import { assertEmpty, type OtherStore, testStoreOnce } from "./_contract.ts";

const SCHEDULED: readonly Operation[] = [
  { op: "emit", id: 0, key: 0, delayMs: 0 },
  { op: "emit", id: 1, key: 1, delayMs: 0 },
  { op: "emit", id: 2, key: 0, delayMs: 0 },
  { op: "claim", limit: 3 },
  // It was woken, and has two times: before and after the one that two leases share.
  { op: "park", lease: 1, name: 0, timeoutMs: 1_001 },
  { op: "wake", name: 0 },
  { op: "advance", ms: 1_002 },
  { op: "emit", id: 3, key: 0, delayMs: 0 },
  { op: "claim", limit: 4 },
];

testStoreOnce("a time that is out of date takes no room in a claim", async ({ store }) => {
  await runAll(store, SCHEDULED);
  const running = await Array.fromAsync(store.list({ state: "running" }), ({ id }) => id);
  assertEquals(running.toSorted(), ["jobs:e0", "jobs:e1", "jobs:e2", "jobs:e3"]);
});

const LEASED_TOGETHER: readonly Operation[] = [
  { op: "accept", id: 0, key: 0 },
  { op: "accept", id: 5, key: 0 },
  { op: "claim", limit: 2 },
  { op: "advance", ms: 1 },
  // The other one is left of what was leased together.
  { op: "complete", lease: 9 },
  { op: "purge" },
  { op: "accept", id: 5, key: 0 },
];

testStoreOnce("an event is found whose id was leased together with another", async ({ store }) => {
  await runAll(store, LEASED_TOGETHER);
  assertEquals((await store.cancelAll({})).changed, 2);
});

const BESIDE_A_JOIN: readonly Operation[] = [
  { op: "accept", id: 2, key: 3 },
  { op: "emit", id: 0, key: 1, delayMs: 0 },
  { op: "accept", id: 0, key: 0 },
  { op: "claim", limit: 1 },
  { op: "claim", limit: 1 },
  { op: "emitting", lease: 0, key: 1, delayMs: 0 },
  { op: "advance", ms: 600 },
  { op: "accept", id: 1, key: 3 },
  // One joins its group, and waits in it.
  { op: "claim", limit: 1 },
];

testStoreOnce("a batch waits on beside an event that joins its group", async ({ store }) => {
  await runAll(store, BESIDE_A_JOIN);
  const [first, second] = await Promise.all([store.get("d2"), store.get("d1")]);
  assertEquals(first!.dueAt! - second!.receivedAt, 600);
});

const BESIDE_A_LEASE: readonly Operation[] = [
  { op: "emit", id: 0, key: 1, delayMs: 0 },
  { op: "emit", id: 1, key: 1, delayMs: 0 },
  { op: "claim", limit: 2 },
  // It keeps its place, and is leased again while another one joins.
  { op: "release", lease: 1 },
  { op: "emit", id: 2, key: 1, delayMs: 0 },
  { op: "claim", limit: 2 },
];

testStoreOnce("an event takes no place that another one keeps", async ({ store }) => {
  await runAll(store, BESIDE_A_LEASE, 2);
  assertEquals((await store.get("jobs:e2"))!.dueAt, null);
});

const KEEPING = { keepPayloads: { forMs: 604_800_000, maxBytes: 1_000_000 } };

testStoreOnce("the store does what its model does, whatever the operations", async (sut) => {
  const open = () => sut.elsewhere();
  await forAll(byLength(400, 40), open, (_sut, model) => model.compare());
});

testStoreOnce("the store does what its model does where a key has several places", async (sut) => {
  const open = () => sut.elsewhere();
  await forAll(byLength(400, 25), open, async (sut, model, time) => {
    await model.compare();
    assertEquals(await repairGroups(sut.store), 0);
    await assertKeepsNothing(sut, model, time);
  }, { places: 2 });
});

testStoreOnce("a store that keeps payloads does what its model does", async (sut) => {
  const open = () => sut.elsewhere(KEEPING);
  await forAll(byLength(400, 40), open, async ({ store, place }, model) => {
    await model.compare();
    const { kept, payloads } = await place.contents();
    let expected = kept.payloads;
    for await (const event of store.list()) {
      if (event.state !== "unreadable" && event.payload) expected++;
    }
    assertEquals(payloads, expected);
  }, { keepsPayloads: true });
});

testStoreOnce("the store keeps nothing of events that are settled and purged", async (sut) => {
  await forAll(byLength(200, 20), () => sut.elsewhere(), assertKeepsNothing);
});

testStoreOnce("a store that keeps payloads keeps none of events that are purged", async (sut) => {
  const open = () => sut.elsewhere(KEEPING);
  await forAll(byLength(200, 20), open, assertKeepsNothing, { keepsPayloads: true });
});

/** Ends and purges all events, and checks that nothing is left of them. */
async function assertKeepsNothing(
  sut: OtherStore,
  _model: StoreModel,
  time: FakeTime,
): Promise<void> {
  const { store } = sut;
  await store.cancelAll({});
  // An event that was cancelled while it ran is settled by the claim that would take it over.
  time.tick(10_000);
  await store.claim({ limit: 100, owner: "tidy", leaseMs: 1 });
  await store.purge({});
  // Values that nobody waits for are kept for a while.
  for await (const answer of store.answers()) {
    assertEquals(answer.eventId, undefined);
    await answer.delete();
  }
  for await (const state of store.states()) await state.delete();
  await assertEmpty(sut);
}

testStoreOnce("an import makes what an export has read, whatever the operations", async (sut) => {
  await forAll(byLength(150, 15), () => sut.elsewhere(), async ({ store }) => {
    await using other = await sut.elsewhere();
    await assertMoves(store, other.store);
  });
});
