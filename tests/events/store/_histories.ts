/** Random operations on a store and its model, for any engine. */
import { assertEquals } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import fc from "fast-check";
import {
  type EventRecord,
  type EventStore,
  exportEvents,
  importEvents,
} from "../../../events/mod.ts";
import { imported } from "../../../events/store/arrival.ts";
import { unparked } from "../../../events/store/settlement.ts";
import { type Operation, StoreModel } from "./_model.ts";
import { facts } from "./_moving.ts";
import { repairGroups, repairTimes } from "./_tidying.ts";

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

/** Some of the commits are repeated, as by a client that gets no answer. */
export const SOME: Repeats = fc.array(fc.boolean(), { minLength: 1, maxLength: 30 });

/** A store that operations are done on, which is gone when it goes out of scope. */
interface OpenedStore extends AsyncDisposable {
  readonly store: EventStore;
}

/** Opens an empty store, some of whose commits are repeated. */
export type OpenStore<TStore extends OpenedStore> = (
  repeats: readonly boolean[],
) => Promise<TStore>;

/** Does any operations on a store and its model, and then checks. A failure prints seed and path. */
export async function forAll<TStore extends OpenedStore>(
  numRuns: number,
  open: OpenStore<TStore>,
  check: (sut: TStore, model: StoreModel, time: FakeTime) => Promise<void>,
  { keepsPayloads = false, repeats = NONE, places = 1 } = {},
): Promise<void> {
  using time = new FakeTime();
  using _clock = monotonicClock();
  const operations = fc.array(operation, { maxLength: 80, size: "max" });
  const property = fc.asyncProperty(operations, repeats, async (operations, repeats) => {
    await using sut = await open(repeats);
    const model = new StoreModel(sut.store, keepsPayloads, places);
    for (const each of operations) await model.run(each, (ms) => time.tick(ms));
    await check(sut, model, time);
  });
  await fc.assert(property, { numRuns });
}

/** Does operations on a store and its model. One of the keys may have several places. */
export async function runAll(
  store: EventStore,
  operations: readonly Operation[],
  places = 1,
): Promise<void> {
  using time = new FakeTime();
  using _clock = monotonicClock();
  const model = new StoreModel(store, false, places);
  for (const each of operations) await model.run(each, (ms) => time.tick(ms));
}

const recordsIn = async (store: EventStore) => await Array.fromAsync(store.list()) as EventRecord[];

/** The events that wait in ordering groups, in the order of each group. */
function waitingIn(records: readonly EventRecord[]): string[] {
  const waiting = records.filter(({ group }) => group !== null)
    .map(({ id, group }) => ({ id, key: group!.key, position: group!.position }));
  waiting.sort((a, b) => a.key < b.key ? -1 : a.key > b.key ? 1 : a.position - b.position);
  return waiting.map(({ key, id }) => `${key} ${id}`);
}

/** Checks that an import into an empty store makes what an export of a store has read. */
export async function assertMoves(store: EventStore, other: EventStore): Promise<void> {
  const before = await recordsIn(store);
  const result = await importEvents(other, exportEvents(store));
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
  const after = await recordsIn(other);
  assertEquals(waitingIn(after), waitingIn(expected));
  // The first of a group may be another one here: who is due then is not the same.
  const withoutDue = (record: EventRecord) =>
    facts(
      record.group
        ? { ...record, dueAt: 0, delayMs: undefined, quiet: undefined, batch: undefined }
        : { ...record, batch: undefined },
    );
  assertEquals(after.map(withoutDue), expected.map(withoutDue));
  assertEquals(await repairGroups(other), 0);
  assertEquals(await repairTimes(other), 0);
}
