import { assert, assertEquals, assertRejects } from "@std/assert";
import type { Delivery, EventStore } from "../../../../events/mod.ts";
import { acceptAll, batchOf, claimBatch, idsOf, named } from "../_batching.ts";
import { claimOne, delivery } from "../_events.ts";
import { assertNoResults, noteHandler, noteStep, stepsOf } from "../_stepping.ts";
import { assertNothingWaits, testStore, testStoreOnce } from "./_contract.ts";

const INTERRUPT = { newer: "interrupt", interrupt: { steps: "drop" } } as const;
const STEER = { newer: "steer" } as const;

/** A delivery of the one key. */
const of = (id: string, rule: Partial<Delivery>): Delivery => ({
  ...delivery(id, "{}", "key"),
  ...rule,
});

const stateOf = async (store: EventStore, id: string) => (await store.get(id))?.state;

testStore("an event is interrupted by newer ones, and leased with them", async (sut) => {
  const { store } = sut;
  await store.accept(of("a", INTERRUPT));
  const lease = await claimBatch(store, "a");
  assertEquals(await store.interruptedBy(lease), null);
  await acceptAll(store, ["b", "c"], INTERRUPT);
  assertEquals(await store.interruptedBy(lease), "c");
  assert(await store.interrupt(lease, "c"));
  assertEquals(await store.interrupt(lease, "c"), false);
  const again = await claimBatch(store, "a", "b", "c");
  const { attempt, attempts, interrupted } = again.record;
  assertEquals([attempt, attempts, interrupted?.times, interrupted?.by], [1, [], 1, "c"]);
  assert(await store.complete(again));
  for (const id of ["b", "c"]) assertEquals((await store.get(id))!.handledWith, "a");
  await assertNothingWaits(sut);
});

testStore(
  "what waits, comes back or belongs to another handling interrupts nothing",
  async ({ store }) => {
    await store.accept(of("dead", INTERRUPT));
    assert(await store.cancel("dead"));
    await store.accept(of("a", INTERRUPT));
    const lease = await claimOne(store);
    await store.accept(of("quiet", { quietMs: 0, together: "all" }));
    assert(await store.replay("dead"));
    assertEquals(await store.interruptedBy(lease), null);
    await store.accept({ ...of("other", INTERRUPT), type: "issues" });
    assertEquals(await store.interruptedBy(lease), null);
    // It is behind one that is not handled together with the first.
    await store.accept(of("b", INTERRUPT));
    assertEquals(await store.interruptedBy(lease), null);
  },
);

testStore("an event is not interrupted once a part of it is done", async ({ store }) => {
  await store.accept(of("a", INTERRUPT));
  const lease = await claimOne(store);
  await store.accept(of("b", INTERRUPT));
  const noted = await noteHandler(store, lease, "one");
  assertEquals(await store.interruptedBy(noted!), null);
});

testStore("an event is left to finish after maxInterrupts", async ({ store }) => {
  await store.accept(of("a", { ...INTERRUPT, maxInterrupts: 1 }));
  const first = await claimOne(store);
  await store.accept(of("b", INTERRUPT));
  assert(await store.interrupt(first, (await store.interruptedBy(first))!));
  const second = await claimBatch(store, "a", "b");
  await store.accept(of("c", INTERRUPT));
  assertEquals(await store.interruptedBy(second), null);
  assert(await store.complete(second));
  const third = await claimBatch(store, "c");
  assertEquals(third.record.interrupted, undefined);
});

testStore(
  "a part that is done meanwhile keeps the batch of an interrupted event",
  async ({ store }) => {
    await store.accept(of("a", INTERRUPT));
    const lease = await claimOne(store);
    await store.accept(of("b", INTERRUPT));
    const noted = await noteHandler(store, lease, "one");
    assert(await store.interrupt(noted!, "b"));
    const again = await claimBatch(store, "a");
    assertEquals([again.record.attempt, again.record.interrupted], [1, undefined]);
    assertEquals(again.record.progress, ["one"]);
  },
);

testStore(
  "an interrupted event that is cancelled leaves the others, without its steps",
  async (sut) => {
    const { store } = sut;
    const rule = { newer: "interrupt", interrupt: { steps: "keep" } } as const;
    await store.accept(of("a", rule));
    const lease = await noteStep(store, await claimOne(store), "once");
    await acceptAll(store, ["b", "c"], rule);
    assert(await store.interrupt(lease!, "c"));
    assert(await store.cancel("a"));
    assertEquals([await stateOf(store, "a"), await stateOf(store, "b")], ["dead", "queued"]);
    const again = await claimBatch(store, "b", "c");
    assertEquals(stepsOf(again), []);
    assert(await store.complete(again));
  },
);

testStore("of the newer events one that is cancelled before is not handled", async ({ store }) => {
  await store.accept(of("a", INTERRUPT));
  const lease = await claimOne(store);
  await acceptAll(store, ["b", "c"], INTERRUPT);
  assert(await store.interrupt(lease, "c"));
  assert(await store.cancel("b"));
  const again = await claimBatch(store, "a", "c");
  // From then on, the whole batch is.
  assert(await store.cancel("a"));
  assert(await store.complete((await store.recover(again))!));
  assertEquals((await store.get("c"))!.outcome, "cancelled");
});

testStore("an event that is cancelled while its handler is aborted is dead", async ({ store }) => {
  await store.accept(of("a", INTERRUPT));
  const lease = await claimOne(store);
  await store.accept(of("b", INTERRUPT));
  assert(await store.cancel("a"));
  assert(await store.interrupt((await store.recover(lease))!, "b"));
  assertEquals((await store.get("a"))!.outcome, "cancelled");
  await claimBatch(store, "b");
});

testStore("steps of an interrupted event go with their results, or stay", async (sut) => {
  const { store } = sut;
  await store.accept(of("a", INTERRUPT));
  let lease = await claimOne(store);
  const names = Array.from({ length: 60 }, (_, i) => `part ${i}`);
  for (const name of names) lease = (await noteStep(store, lease, name, '"long"'))!;
  lease = (await store.note(lease, { is: "step", name: "kept", json: "1", keep: true }))!;
  lease = (await store.note(lease, { is: "begun", name: "sent" }))!;
  await store.accept(of("b", INTERRUPT));
  assert(await store.interrupt(lease, "b"));
  const again = await claimBatch(store, "a", "b");
  assertEquals(stepsOf(again), ["kept", "sent"]);
  assertEquals((await sut.place.contents()).results, 1);
  // The same names again, with other results.
  const noted = await noteStep(store, again, "part 0", "2");
  assertEquals(await store.readStep(noted!, "part 0"), "2");
  assert(await store.complete(noted!));
  await assertNoResults(sut);
});

testStore("takeNewer() makes a batch grow, which is settled as a whole", async (sut) => {
  const { store } = sut;
  await store.accept(of("a", STEER));
  let lease = await claimOne(store);
  assertEquals(await store.takeNewer(lease), { lease, newer: [] });
  await acceptAll(store, ["b", "c"], STEER);
  const taken = (await store.takeNewer(lease))!;
  assertEquals(idsOf(taken.newer), ["b", "c"]);
  assertEquals(await store.takeNewer(lease), null);
  ({ lease } = taken);
  await store.accept(of("d", STEER));
  // One that was taken is cancelled alone, and what is sent again is known.
  assert(await store.cancel("b"));
  assertEquals((await store.accept(of("c", STEER))).duplicate, true);
  assert(await store.retry(lease, 0, new Error("not yet")));
  lease = await claimBatch(store, "a", "c");
  assert(await store.complete(lease));
  assertEquals([await stateOf(store, "c"), await stateOf(store, "d")], ["done", "queued"]);
  assert(await store.complete(await claimBatch(store, "d")));
  await assertNothingWaits(sut);
});

testStoreOnce("of the newer events none is taken that was cancelled before", async ({ store }) => {
  for (let i = 0; i < 6; i++) {
    await acceptAll(store, [`a${i}`], STEER);
    const lease = await claimOne(store);
    await acceptAll(store, [`b${i}`, `c${i}`], STEER);
    const cancelling = store.cancel(`b${i}`).then(async () => (await store.get(`a${i}`))!.batch);
    for (let turn = 0; turn < i; turn++) await undefined;
    const { lease: taken, newer } = (await store.takeNewer(lease))!;
    const atCancel = await cancelling;
    // It was cancelled while the batch was still without it.
    if (atCancel?.events === 1) assert(!idsOf(newer).includes(`b${i}`), `Try ${i}`);
    await store.complete(taken);
    await store.cancel(`c${i}`);
  }
});

testStore(
  "what was taken dies with its event, and interrupts nothing when it is replayed",
  async ({ store }) => {
    const rule = INTERRUPT;
    await store.accept(of("a", rule));
    const lease = await claimOne(store);
    await store.accept(of("b", rule));
    assert(await store.interrupt(lease, "b"));
    assert(await store.bury(await claimBatch(store, "a", "b"), new Error("no")));
    assertEquals((await store.purge({ state: "queued" })).changed, 0);
    assert(await store.replay("a"));
    const again = await claimBatch(store, "a");
    assertEquals(again.record.interrupted, undefined);
    assert(await store.replay("b"));
    assertEquals(await store.interruptedBy(again), null);
    assert(await store.complete(again));
    assert(await store.complete(await claimBatch(store, "b")));
  },
);

testStore("an event that was cancelled takes no newer ones", async ({ store }) => {
  await store.accept(of("a", STEER));
  const lease = await claimOne(store);
  await store.accept(of("b", STEER));
  assert(await store.cancel("a"));
  const cancelled = (await store.recover(lease))!;
  await assertRejects(() => store.takeNewer(cancelled), Error, "the event was cancelled");
});

testStore("a batch grows to a hundred events, and the rest comes next", async (sut) => {
  const { store } = sut;
  await store.accept(of("first", STEER));
  const lease = await claimOne(store);
  await Promise.all(named(120).map((id) => store.accept(of(id, STEER))));
  const { lease: grown, newer } = (await store.takeNewer(lease))!;
  assertEquals(newer.length, 99);
  assertEquals((await store.takeNewer(grown))!.newer, []);
  assert(await store.complete(grown));
  const rest = await claimOne(store);
  assertEquals((await batchOf(store, rest)).length, 21);
  assert(await store.complete(rest));
  await assertNothingWaits(sut);
});
