/** Events of an app that are handled together: `emit` with a group and `quietMs`. */
import { assert, assertEquals } from "@std/assert";
import {
  type EmitOptions,
  type EventRecord,
  type EventStore,
  exportEvents,
  importEvents,
  type Lease,
} from "../../../../events/mod.ts";
import { batchOf, claimBatch, claimed } from "../_batching.ts";
import { job, leased, recordOf } from "../_emitting.ts";
import { claimAll, claimOne, delivery, drain, later } from "../_events.ts";
import { repairGroups, repairTimes } from "../_tidying.ts";
import { assertNothingWaits, testStore, testStoreInOneProcess } from "./_contract.ts";

/** Options of events that are handled together. */
const TOGETHER: EmitOptions = { group: "repo", quietMs: 300 };

const AT_ONCE: EmitOptions = { group: "repo", quietMs: 0 };

/** Emits events outside of a handler. */
async function emitAll(store: EventStore, ids: readonly string[], options = TOGETHER) {
  for (const id of ids) await store.emit("jobs", "build", {}, { id, ...options });
}

testStore("emitted events of a group are leased together once it is quiet", async (sut) => {
  const { place, store } = sut;
  await emitAll(store, ["a", "b", "c"]);
  assertEquals(await claimAll(store), []);
  const first = await recordOf(store, "jobs:a");
  assertEquals([first.group?.key, first.joinsLater], ["jobs:repo", undefined]);
  const lease = await claimBatch(store, "jobs:a", "jobs:b", "jobs:c");
  assertEquals([lease.record.batch?.events, lease.record.quiet?.maxWaitMs], [3, 3_000]);
  assert(await store.complete(lease));
  for (const id of ["jobs:b", "jobs:c"]) {
    const { state, handledWith } = await recordOf(store, id);
    assertEquals([state, handledWith], ["done", "jobs:a"]);
  }
  await assertNothingWaits({ place });
});

testStore("events that handlers emit are leased together, whoever emits them", async (sut) => {
  const { store } = sut;
  // On a busy machine, a remote KV takes a while for the three commits.
  const together = { ...TOGETHER, quietMs: 1_000 };
  for (const id of ["d1", "d2"]) {
    assert(await store.complete(await leased(store, id), { emits: [job(together)] }));
  }
  // Those of one millisecond are in the order of their ids.
  await later(5);
  await emitAll(store, ["a"], together);
  assertEquals(await claimAll(store), []);
  const lease = await claimBatch(store, "jobs:d1/0001", "jobs:d2/0001");
  // Another type begins another batch.
  assert(await store.complete(lease));
  assert(await store.complete(await claimBatch(store, "jobs:a")));
});

testStoreInOneProcess("events of a transaction are leased together", async ({ store }) => {
  await store.transact((_tx, { emit }) => {
    for (const id of ["a", "b"]) emit("jobs", "build", {}, { id, ...TOGETHER });
  });
  assertEquals(await claimAll(store), []);
  assert(await store.complete(await claimBatch(store, "jobs:a", "jobs:b")));
});

testStore("emitted events with 0 ms are leased together if they wait for another one", async (
  { place, store },
) => {
  await emitAll(store, ["a"], AT_ONCE);
  const first = await claimBatch(store, "jobs:a");
  await emitAll(store, ["b", "c"], AT_ONCE);
  assertEquals(await claimAll(store), []);
  assert(await store.complete(first));
  assert(await store.complete(await claimBatch(store, "jobs:b", "jobs:c")));
  await assertNothingWaits({ place });
});

testStore("an emitted event waits again while others join, but not for ever", async (sut) => {
  const { store } = sut;
  const options = { ...TOGETHER, quietMs: 150, maxWaitMs: 500 };
  const ids = ["e0"];
  const start = performance.now();
  await emitAll(store, ids, options);
  let lease: Lease | undefined;
  let [longest, joinedAt] = [0, start];
  while (!lease && performance.now() - start < 30_000) {
    const before = joinedAt;
    joinedAt = performance.now();
    ids.push(`e${ids.length}`);
    await emitAll(store, ids.slice(-1), options);
    [lease] = await claimAll(store);
    await later(60);
    longest = Math.max(longest, performance.now() - before);
  }
  // Not before, unless a pause was long enough, on a busy machine.
  const took = performance.now() - start;
  assert(took >= 490 || longest >= 150, `${took} ms, ${longest} ms`);
  const batch = await batchOf(store, lease!);
  assertEquals(batch, ids.slice(0, batch.length).map((id) => `jobs:${id}`));
  assert(batch.length > 1);
});

testStore("events that are emitted for later wait for others once they are due", async (sut) => {
  const { store } = sut;
  await emitAll(store, ["late"], { ...TOGETHER, delayMs: 200 });
  const { quiet, dueAt, receivedAt, group } = await recordOf(store, "jobs:late");
  assertEquals([dueAt! - receivedAt, group, quiet?.quietMs], [200, null, 300]);
  await emitAll(store, ["soon"], { ...TOGETHER, delayMs: 300 });
  // They have no place in their group until then.
  await store.emit("jobs", "build", {}, { id: "now", group: "repo" });
  assertEquals(await drain(store), ["jobs:now"]);
  assert(await store.complete(await claimBatch(store, "jobs:late", "jobs:soon")));
});

testStore(
  "emitted events that nobody has claimed for long do not wait again",
  async ({ store }) => {
    await emitAll(store, ["a", "b"]);
    await later(400);
    assertEquals(await claimAll(store), []);
    const [lease] = await claimAll(store);
    assertEquals(await batchOf(store, lease!), ["jobs:a", "jobs:b"]);
    assert(await store.complete(lease!));
  },
);

testStore("what is emitted while a batch is handled is the next one", async ({ store }) => {
  await emitAll(store, ["a", "b"]);
  const first = await claimBatch(store, "jobs:a", "jobs:b");
  await emitAll(store, ["c"]);
  assertEquals(await claimAll(store), []);
  assert(await store.retry(first, 0, new Error("no")));
  const again = await claimBatch(store, "jobs:a", "jobs:b");
  await emitAll(store, ["d"]);
  assertEquals(await claimAll(store), []);
  assert(await store.complete(again));
  assert(await store.complete(await claimBatch(store, "jobs:c", "jobs:d")));
});

testStore("emitted events without a rule are handled by themselves", async ({ store }) => {
  await emitAll(store, ["a"]);
  await store.emit("jobs", "build", {}, { id: "b", group: "repo" });
  await emitAll(store, ["c"]);
  assertEquals(await claimAll(store), []);
  for (const id of ["a", "b", "c"]) {
    assert(await store.complete(await claimBatch(store, `jobs:${id}`)));
  }
});

testStore("a group of deliveries is another one than that of emitted events", async (sut) => {
  const { store } = sut;
  await emitAll(store, ["a"], AT_ONCE);
  await store.accept({ ...delivery("d1", "{}", "repo"), quietMs: 0 });
  const leases = await claimAll(store);
  leases.push(...await claimAll(store));
  assertEquals(leases.map(({ record }) => record.id).toSorted(), ["d1", "jobs:a"]);
});

testStore("an emitted batch that dies is replayed together, and is exported", async (sut) => {
  const { elsewhere, store } = sut;
  await emitAll(store, ["a", "b"]);
  assert(await store.bury(await claimBatch(store, "jobs:a", "jobs:b"), new Error("no")));
  assertEquals((await store.replayAll({})).changed, 2);
  assertEquals(await claimAll(store), []);
  const lines = await Array.fromAsync(store.list());
  assertEquals(lines.map((each) => (each as EventRecord).quiet?.quietMs), [300, 300]);

  await using opened = await elsewhere();
  assertEquals((await importEvents(opened.store, exportEvents(store))).imported, 2);
  for (const each of [store, opened.store]) {
    assert(await each.complete(await claimBatch(each, "jobs:a", "jobs:b")));
  }
});

testStore("emitted events that wait for others are neither repaired nor forgotten", async (sut) => {
  const { store } = sut;
  await emitAll(store, ["a"], { ...TOGETHER, quietMs: 60_000, delayMs: 60_000 });
  await emitAll(store, ["b"], { ...TOGETHER, quietMs: 60_000 });
  assertEquals(await claimAll(store), []);
  assertEquals(await repairTimes(store), 0);
  assertEquals(await repairGroups(store), 0);
  for await (const { findings } of store.check()) assertEquals(findings, []);
  assert(await store.cancel("jobs:b"));
  assert(await store.cancel("jobs:a"));
  assertEquals((await store.stats()).dead, 2);
});

testStore("an emitted event whose lease expires is handled with its batch again", async (sut) => {
  const { store } = sut;
  await emitAll(store, ["a", "b"]);
  let lease: Lease | undefined;
  while (!lease) {
    [lease] = await claimAll(store, 1);
    await later(10);
  }
  await emitAll(store, ["c"]);
  const taken = await claimed(store);
  assertEquals([taken.takenOver, taken.record.id], [true, "jobs:a"]);
  assertEquals(await batchOf(store, taken), ["jobs:a", "jobs:b"]);
  assert(await store.complete(taken));
});

testStore("an emitted event that joins in a full claim is not leased before it is quiet", async (
  { store },
) => {
  await emitAll(store, ["a"]);
  await store.accept(delivery("d1"));
  const { record } = await claimOne(store);
  assertEquals(record.id, "d1");
  assertEquals((await recordOf(store, "jobs:a")).attempt, 0);
});
