import { assertEquals } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import fc from "fast-check";
import { repeating } from "../../../dev/harness/faulty_kv.ts";
import {
  type EventRecord,
  type EventStore,
  type EventStoreOptions,
  exportEvents,
  importEvents,
  openEventStore,
} from "../../../events/mod.ts";
import { imported } from "../../../events/store/arrival.ts";
import { unparked } from "../../../events/store/settlement.ts";
import { byLength } from "../../_length.ts";
import { keysOf } from "./_events.ts";
import { type Operation, StoreModel } from "./_model.ts";
import { facts } from "./_moving.ts";
import { memoryStore, type StoreUnderTest } from "./_stores.ts";
import { repairGroups, repairTimes } from "./_tidying.ts";
import { valueAt } from "./_values.ts";

const few = fc.nat({ max: 5 });

const operation: fc.Arbitrary<Operation> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ op: fc.constant("accept"), id: few, key: fc.nat({ max: 3 }) }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ op: fc.constant("claim"), limit: fc.integer({ min: 1, max: 9 }) }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      op: fc.constantFrom("complete", "bury", "release", "renew", "recover"),
      lease: fc.nat({ max: 20 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      op: fc.constantFrom("retry", "putOff"),
      lease: fc.nat({ max: 20 }),
      delayMs: fc.nat({ max: 3_000 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      op: fc.constant("emitting"),
      lease: fc.nat({ max: 20 }),
      key: fc.nat({ max: 2 }),
      delayMs: fc.constantFrom(0, 0, 500, 3_000),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      op: fc.constant("park"),
      lease: fc.nat({ max: 20 }),
      name: fc.nat({ max: 2 }),
      timeoutMs: fc.integer({ min: 1, max: 3_000 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      op: fc.constant("emit"),
      id: few,
      key: fc.nat({ max: 2 }),
      delayMs: fc.constantFrom(0, 500, 3_000),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      op: fc.constantFrom("wake", "wake", "deleteAnswer"),
      name: fc.nat({ max: 2 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ op: fc.constant("readState"), key: fc.nat({ max: 1 }) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      op: fc.constantFrom("setState", "setState", "deleteState"),
      state: fc.nat({ max: 9 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ op: fc.constantFrom("replay", "cancel"), id: few }) },
  {
    weight: 1,
    arbitrary: fc.record({ op: fc.constantFrom("purge", "replayAll", "replayDone", "cancelAll") }),
  },
  { weight: 3, arbitrary: fc.record({ op: fc.constant("advance"), ms: fc.nat({ max: 2_000 }) }) },
) as fc.Arbitrary<Operation>;

/** Has the monotonic clock show the simulated time: on a busy machine, claims would end early by the real one. */
function monotonicClock(): Disposable {
  performance.now = () => Date.now();
  return { [Symbol.dispose]: () => void Reflect.deleteProperty(performance, "now") };
}

/** The commits that are repeated, over and over again: none by default. */
type Repeats = fc.Arbitrary<readonly boolean[]>;

const NONE: Repeats = fc.constant([false]);

const SOME: Repeats = fc.array(fc.boolean(), { minLength: 1, maxLength: 30 });

/** Opens a store in memory some of whose commits are repeated, as by a client that gets no answer. */
async function repeatingStore(
  repeats: readonly boolean[],
  options?: EventStoreOptions,
): Promise<StoreUnderTest> {
  const { kv, ...sut } = await memoryStore();
  let commits = 0;
  const isMeant = () => repeats[commits++ % repeats.length]!;
  if (!repeats.includes(true)) return { ...sut, kv, store: await openEventStore(kv, options) };
  // As for a remote KV, which has no queue.
  const remote = { ...options, notifier: "watch" } as const;
  return { ...sut, kv, store: await openEventStore(repeating(kv, () => {}, isMeant), remote) };
}

/** Does any operations on a store and its model, and then checks. A failure prints seed and path. */
async function forAll(
  numRuns: number,
  check: (sut: StoreUnderTest, model: StoreModel, time: FakeTime) => Promise<void>,
  options: EventStoreOptions = {},
  repeats = NONE,
): Promise<void> {
  using time = new FakeTime();
  using _clock = monotonicClock();
  const operations = fc.array(operation, { maxLength: 80, size: "max" });
  const property = fc.asyncProperty(operations, repeats, async (operations, repeats) => {
    await using sut = await repeatingStore(repeats, options);
    const model = new StoreModel(sut.store, options.keepPayloads !== undefined);
    for (const each of operations) await model.run(each, (ms) => time.tick(ms));
    await check(sut, model, time);
  });
  await fc.assert(property, { numRuns });
}

Deno.test("an entry of the schedule that is out of date takes no room in a claim", async () => {
  using time = new FakeTime();
  using _clock = monotonicClock();
  await using sut = await memoryStore();
  const model = new StoreModel(sut.store);
  const operations: readonly Operation[] = [
    { op: "emit", id: 0, key: 0, delayMs: 0 },
    { op: "emit", id: 1, key: 1, delayMs: 0 },
    { op: "emit", id: 2, key: 0, delayMs: 0 },
    { op: "claim", limit: 3 },
    // It was woken, and on the schedule twice: before and after the entry that two leases share.
    { op: "park", lease: 1, name: 0, timeoutMs: 1_001 },
    { op: "wake", name: 0 },
    { op: "advance", ms: 1_002 },
    { op: "emit", id: 3, key: 0, delayMs: 0 },
    { op: "claim", limit: 4 },
  ];
  for (const each of operations) await model.run(each, (ms) => time.tick(ms));
  const running = await Array.fromAsync(sut.store.list({ state: "running" }), ({ id }) => id);
  assertEquals(running.toSorted(), ["jobs:e0", "jobs:e1", "jobs:e2", "jobs:e3"]);
});

Deno.test("an event is found whose id an out-of-date entry of the schedule names", async () => {
  using time = new FakeTime();
  using _clock = monotonicClock();
  await using sut = await memoryStore();
  const model = new StoreModel(sut.store);
  const operations: readonly Operation[] = [
    { op: "accept", id: 0, key: 0 },
    { op: "accept", id: 5, key: 0 },
    { op: "claim", limit: 2 },
    { op: "advance", ms: 1 },
    // The other one is left in the entry that both leases share.
    { op: "complete", lease: 9 },
    { op: "purge" },
    { op: "accept", id: 5, key: 0 },
  ];
  for (const each of operations) await model.run(each, (ms) => time.tick(ms));
  assertEquals((await sut.store.cancelAll({})).changed, 2);
});

const keeping = { keepPayloads: { forMs: 604_800_000, maxBytes: 1_000_000 } };

Deno.test("the store does what its model does, whatever the operations", async () => {
  await forAll(byLength(400, 40), (_sut, model) => model.compare());
});

Deno.test("the store tells what it does, whatever the operations and repeated commits", async () => {
  await forAll(byLength(400, 40), (_sut, model) => model.compare(), {}, SOME);
  await forAll(byLength(200, 20), (_sut, model) => model.compare(), keeping, SOME);
});

Deno.test("a store that keeps payloads does what its model does", async () => {
  await forAll(byLength(400, 40), async ({ kv, store }, model) => {
    await model.compare();
    let chunks = (await keysOf(kv, "kept")).length;
    for await (const event of store.list()) {
      if (event.state !== "unreadable") chunks += event.payload?.chunks ?? 0;
    }
    assertEquals((await keysOf(kv, "payload")).length, chunks);
  }, keeping);
});

Deno.test("the store keeps nothing of events that are settled and purged", async () => {
  await forAll(byLength(200, 20), keepsNothing);
});

Deno.test("a store that keeps payloads keeps none of events that are purged", async () => {
  await forAll(byLength(200, 20), async (sut, model, time) => {
    await keepsNothing(sut, model, time);
    const { value } = await sut.kv.get<Deno.KvU64>(["events", "keptBytes"]);
    assertEquals(value?.value ?? 0n, 0n);
  }, keeping);
});

/** Ends and purges all events, and checks that nothing is left of them. */
async function keepsNothing(
  { kv, store }: StoreUnderTest,
  _model: StoreModel,
  time: FakeTime,
): Promise<void> {
  await store.cancelAll({});
  // An event that was cancelled while it ran is settled by the claim that would take it over.
  time.tick(10_000);
  await store.claim({ limit: 100, owner: "tidy", leaseMs: 1 });
  await store.purge({});
  // Values that nobody waits for are kept for a while.
  for (const key of await keysOf(kv, "waiter")) {
    assertEquals((await valueAt<{ for?: unknown }>(kv, key)).for, undefined);
    await kv.delete(key);
  }
  for await (const state of store.states()) await state.delete();
  // The store's own: that the index of dead events is complete, the key of emitted ids, the names of sources, and the
  // sum of what is kept.
  const own = ["indexed", "emit", "source", "keptBytes", "keptCounted"];
  assertEquals((await keysOf(kv)).filter((key) => !own.includes(String(key[1]))), []);
}

const recordsIn = async (store: EventStore) => await Array.fromAsync(store.list()) as EventRecord[];

/** The events that wait in ordering groups, in the order of each group. */
function waitingIn(records: readonly EventRecord[]): string[] {
  const waiting = records.filter(({ group }) => group !== null)
    .map(({ id, group }) => ({ id, key: group!.key, position: group!.position }));
  waiting.sort((a, b) => a.key < b.key ? -1 : a.key > b.key ? 1 : a.position - b.position);
  return waiting.map(({ key, id }) => `${key} ${id}`);
}

Deno.test("an import makes what an export has read, whatever the operations", async () => {
  await forAll(byLength(300, 30), async ({ store }) => {
    await using other = await repeatingStore([true]);
    const before = await recordsIn(store);
    const result = await importEvents(other.store, exportEvents(store));
    assertEquals([result.imported, result.failed], [before.length, 0]);
    const answers = await Array.fromAsync(store.answers());
    const now = Date.now();
    const expected = before.map((record) => {
      const answer = answers.find(({ eventId }) => eventId === record.id);
      const { name = "", at = 0, value } = answer ?? {};
      const ended = { name, at, ...(value !== undefined && { value: JSON.stringify(value) }) };
      const answered = answer ? unparked(record, ended, now) : record;
      const moved = imported(answered, record.payload, now);
      return moved.settledAt === null ? { ...moved, group: record.group } : moved;
    });
    const after = await recordsIn(other.store);
    assertEquals(waitingIn(after), waitingIn(expected));
    // The first of a group may be another one here: who is due then is not the same.
    const withoutDue = (record: EventRecord) =>
      facts(
        record.group
          ? { ...record, dueAt: 0, delayMs: undefined, quiet: undefined, batch: undefined }
          : { ...record, batch: undefined },
      );
    assertEquals(after.map(withoutDue), expected.map(withoutDue));
    assertEquals(await repairGroups(other.store), 0);
    assertEquals(await repairTimes(other.store), 0);
  });
});
