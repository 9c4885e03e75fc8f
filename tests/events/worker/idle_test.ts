import { assert, assertEquals } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { setImmediate } from "node:timers";
import { type EventStore, openEventStore, startWorker } from "../../../events/mod.ts";
import { openKvEngine } from "../../../events/store/kv/kv_engine.ts";
import { createEventStore } from "../../../events/store/open_store.ts";
import { openSqliteFile } from "../../../events/store/sqlite/_file.ts";
import { openSqliteEngine } from "../../../events/store/sqlite/sqlite_engine.ts";
import { delivery } from "../store/_events.ts";
import { MonotonicClock } from "../../_monotonic_clock.ts";
import { testWith } from "../../_permissions.ts";

const HOUR_MS = 3_600_000;

/** Time that passes at once, in milliseconds. */
const STEP_MS = 1_000;

/** A store whose reads are counted. */
interface CountedStore extends AsyncDisposable {
  readonly store: EventStore;
  /** The store of another process. */
  readonly other: EventStore;
  readonly reads: number;
  /** Number of commits that were tried. */
  readonly writes: number;
  /** Number of calls that are not answered yet. */
  readonly underWay: number;
}

/** Statements that read no table: the version of the file, and those that write or end a transaction. */
const NO_READ = /^(pragma data_version|begin|commit|rollback|savepoint|release|insert)/;

/** Opens a store in a KV, and counts its reads, each `get` and `getMany` and each list, and its commits. */
async function inKv(): Promise<CountedStore> {
  const real = await Deno.openKv(":memory:");
  const counts = { reads: 0, writes: 0, underWay: 0 };
  const counted = <T>(reads: number, promise: Promise<T>): Promise<T> => {
    counts.reads += reads;
    counts.underWay++;
    return promise.finally(() => counts.underWay--);
  };
  const kv = new Proxy(real, {
    get(target, name) {
      const value = Reflect.get(target, name);
      if (name === "get" || name === "getMany") {
        return (...args: unknown[]) => counted(1, value.apply(target, args));
      }
      if (name === "list") {
        return async function* (...args: unknown[]) {
          const entries = value.apply(target, args);
          for (let reads = 1;; reads = 0) {
            const { done, value } = await counted<IteratorResult<unknown>>(reads, entries.next());
            if (done) return;
            yield value;
          }
        };
      }
      if (name === "atomic") {
        return () => {
          const operation: Deno.AtomicOperation = value.apply(target);
          const commit = operation.commit.bind(operation);
          return Object.assign(operation, {
            commit: () => {
              counts.writes++;
              return counted(0, commit());
            },
          });
        };
      }
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const store = await openEventStore(kv, { notifier: "watch", log: () => {} });
  const other = await openKvEngine(real, { notifier: "watch" });
  return {
    store: store as unknown as EventStore,
    other: createEventStore({ ...other, place: {} }) as unknown as EventStore,
    get reads() {
      return counts.reads;
    },
    get writes() {
      return counts.writes;
    },
    get underWay() {
      return counts.underWay;
    },
    [Symbol.asyncDispose]: () => Promise.resolve(real.close()),
  };
}

/** Opens a store in a SQLite file, and counts the statements that read a table, and its changes. */
async function inSqlite(): Promise<CountedStore> {
  const folder = await Deno.makeTempDir();
  const [file, otherFile] = [
    await openSqliteFile(`${folder}/store.db`),
    await openSqliteFile(`${folder}/store.db`),
  ];
  let [reads, writes, underWay] = [0, 0, 0];
  for (const method of ["all", "one", "run"] as const) {
    const real = file.db[method].bind(file.db) as (sql: string, ...values: never[]) => unknown;
    file.db[method] = ((sql: string, ...values: never[]) => {
      if (!NO_READ.test(sql)) reads++;
      return real(sql, ...values);
    }) as never;
  }
  const engine = openSqliteEngine(file);
  const apply: typeof engine.apply = (change) => {
    underWay++;
    writes++;
    // By no timer: time stands still while a call is under way.
    return engine.apply({ ...change, withinMs: 0 }).finally(() => underWay--);
  };
  const other = { ...openSqliteEngine(otherFile), place: {} };
  return {
    store: createEventStore({ ...engine, apply }, { log: () => {} }) as unknown as EventStore,
    other: createEventStore(other) as unknown as EventStore,
    get reads() {
      return reads;
    },
    get writes() {
      return writes;
    },
    get underWay() {
      return underWay;
    },
    async [Symbol.asyncDispose]() {
      await file.close();
      await otherFile.close();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

/** Timer that a fake clock does not stop. */
const realTimeout = globalThis.setTimeout;

/** Lets time pass while a worker runs, and in each step some real time, in milliseconds. */
async function pass(
  sut: CountedStore,
  ms: number,
  clock: MonotonicClock,
  time: FakeTime,
  realMs?: number,
) {
  for (let passed = 0; passed < ms; passed += STEP_MS) {
    clock.advance(STEP_MS);
    time.tick(STEP_MS);
    for (let turn = 0; turn < 3 || sut.underWay > 0; turn++) {
      await new Promise<void>((resolve) => void setImmediate(resolve));
    }
    if (realMs !== undefined) await new Promise((resolve) => void realTimeout(resolve, realMs));
  }
}

/** Number of commits in an hour of an idle worker: four notes that it is there, and as many of the hourly upkeep. */
const MOST_WRITES = 8;

/** Engines: reads in an hour at most, and the longest time after a lease until somebody takes over. */
const CASES = [
  { name: "a KV", most: 400, takenOverMs: 15_000, needs: [], open: inKv },
  { name: "SQLite", most: 150, takenOverMs: 1_000, needs: ["read", "write"], open: inSqlite },
] as const;

for (const { name, most, needs, open } of CASES) {
  const limits = `reads at most ${most} times in an hour, and writes ${MOST_WRITES} times`;
  testWith(needs, `an idle worker on ${name} ${limits}`, async () => {
    await using sut = await open();
    using clock = new MonotonicClock();
    using time = new FakeTime();
    const worker = startWorker(sut.store, () => {}, { log: () => {} });
    // What a start reads, such as the whole schedule, is not an hour's. It takes its time on a busy machine.
    await pass(sut, 60_000, clock, time, 5);
    const before = sut.reads;
    await pass(sut, HOUR_MS, clock, time);
    const reads = sut.reads - before;
    const writesBefore = sut.writes;
    await pass(sut, HOUR_MS, clock, time);
    const writes = sut.writes - writesBefore;
    const awake = await sut.other.processes();
    await worker.stop();
    assert(reads > 0 && reads <= most, `it has read ${reads} times`);
    assert(writes > 0 && writes <= MOST_WRITES, `it has written ${writes} times`);
    // It is known all the same.
    assertEquals(awake.length, 1);
  });
}

Deno.test("a worker whose handler runs for long notes itself each minute", async () => {
  await using sut = await inKv();
  await sut.store.accept(delivery("d1"));
  using clock = new MonotonicClock();
  using time = new FakeTime();
  const ending = Promise.withResolvers<void>();
  const options = { timeoutMs: HOUR_MS, log: () => {} };
  const worker = startWorker(sut.store, () => ending.promise, options);
  await pass(sut, 600_000, clock, time, 1);
  const [note] = await sut.other.processes();
  ending.resolve();
  await pass(sut, 5_000, clock, time, 5);
  await worker.stop();
  assert(note && !("isUnreadable" in note));
  assertEquals(note.everyMs, 60_000);
  assert(note.seenAt - note.startedAt >= 480_000, `${note.seenAt - note.startedAt}`);
});

/** Has another process take an event in by itself, and die with it: the lease is the only sign of that. */
async function leaveLeased(store: EventStore, leaseMs: number): Promise<void> {
  const reserve = () => ({ owner: "other", leaseMs, take: () => {}, cancel: () => {} });
  store.listen({ wake: () => {}, reserve }).catch(() => {});
  await store.accept(delivery("d1"));
  assertEquals((await store.get("d1"))?.state, "running");
}

/** Length of the lease that is taken over, in milliseconds. */
const LEASE_MS = 2_000;

for (const { name, takenOverMs, needs, open } of CASES) {
  const within = `${takenOverMs / 1_000} s`;
  testWith(
    needs,
    `an idle worker on ${name} takes over within the lease and ${within}`,
    async () => {
      await using sut = await open();
      using clock = new MonotonicClock();
      using time = new FakeTime();
      let handledAt: number | undefined;
      const handler = () => void (handledAt ??= Date.now());
      const worker = startWorker(sut.store, handler, { log: () => {} });
      await pass(sut, 130_000, clock, time, 5);
      await leaveLeased(sut.other, LEASE_MS);
      const since = Date.now();
      await pass(sut, LEASE_MS + takenOverMs + STEP_MS, clock, time, 50);
      // The commits of a KV take no time of this clock.
      for (let turn = 0; handledAt === undefined && turn < 2_000; turn++) {
        await new Promise<void>((resolve) => void realTimeout(resolve, 5));
      }
      await worker.stop();
      assert(handledAt !== undefined && handledAt - since >= LEASE_MS, `handled at ${handledAt}`);
    },
  );
}
