import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import {
  type EventHandler,
  type EventStore,
  type EventWorker,
  openEventStore,
  startWorker,
} from "../../webhook/mod.ts";
import { delivery, later } from "./store/_events.ts";

const LEASE_MS = 300;

/** How a history comes about. All choices are drawn from the seed, which a failure prints. */
interface Scenario {
  readonly seed: number;
  readonly keys: number;
  readonly eventsPerKey: number;
  /** How often a call of the store fails, before it does anything or after it has done all. */
  readonly faultRate: number;
  /** How often a handler throws. */
  readonly failureRate: number;
}

/** That a worker handled an event, from when to when. */
interface Interval {
  readonly id: string;
  readonly key: string;
  readonly start: number;
  end: number;
}

type Random = () => number;

/** A small generator of numbers from 0 to 1 with a seed: mulberry32. */
function randomOf(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A store whose calls fail at times, and all of which fail once it is cut off, as a dead process's. */
function faulty(store: EventStore, random: Random, faultRate: number) {
  const line = { cut: false };
  const flaky = new Proxy(store, {
    get: (target, name) => {
      const value = Reflect.get(target, name, target);
      if (typeof value !== "function" || name === "listen") return value?.bind?.(target) ?? value;
      return async (...args: unknown[]) => {
        if (line.cut || random() < faultRate / 2) throw new Error("fault before");
        const result = await value.apply(target, args);
        if (line.cut || random() < faultRate / 2) throw new Error("fault after");
        return result;
      };
    },
  });
  return { store: flaky, cut: () => void (line.cut = true) };
}

/** Handles an event for a while, until aborted, and notes from when to when. */
function recorder(history: Interval[], random: Random, failureRate: number): EventHandler {
  return async ({ id, payload }, { signal }) => {
    const now = performance.now();
    const interval = { id, key: String(payload.key), start: now, end: Infinity };
    history.push(interval);
    const ms = random() < 0.05 ? LEASE_MS * 2 : random() * 10;
    await Promise.race([
      later(ms),
      new Promise((resolve) => signal.addEventListener("abort", resolve)),
    ]);
    interval.end = performance.now();
    if (random() < failureRate) throw new Error("failure");
  };
}

/** Accepts as a sender does: again and again, until it is told that the event is stored. */
async function acceptAll(store: EventStore, key: string, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    const text = JSON.stringify({ key });
    while (!(await store.accept(delivery(id, text, key)).catch(() => undefined)));
  }
}

function assertNoOverlap(intervals: readonly Interval[], what: string): void {
  const sorted = intervals.toSorted((a, b) => a.start - b.start);
  for (const [i, { end }] of sorted.slice(0, -1).entries()) {
    assert(end <= sorted[i + 1]!.start, `${what} was handled twice at once`);
  }
}

async function runScenario(scenario: Scenario): Promise<void> {
  const { keys, eventsPerKey, faultRate, failureRate } = scenario;
  const random = randomOf(scenario.seed);
  using kv = await Deno.openKv(":memory:");
  const history: Interval[] = [];
  const start = async (rate: number): Promise<{ worker: EventWorker; cut: () => void }> => {
    const line = faulty(await openEventStore(kv, { bell: "watch" }), random, rate);
    const worker = startWorker(line.store, recorder(history, random, failureRate), {
      ...{ leaseMs: LEASE_MS, sweepMs: 20, concurrency: 4, log: () => {} },
      retry: { minDelayMs: 1, maxDelayMs: 20, maxAttempts: 1_000 },
    });
    return { worker, cut: line.cut };
  };
  const workers = [await start(faultRate), await start(faultRate), await start(0)];
  const store = await openEventStore(kv, { bell: "watch" });
  const sender = faulty(store, random, faultRate).store;
  const ids = new Map(Array.from({ length: keys }, (_, k) => {
    const key = `key${k}`;
    return [key, Array.from({ length: eventsPerKey }, (_, i) => `${key}-${i}`)];
  }));
  const accepting = [...ids].map(([key, its]) => acceptAll(sender, key, its));
  await later(random() * 100);
  workers[0]!.cut();
  await Promise.all(accepting);
  const deadline = performance.now() + 30_000;
  while ((await store.stats()).done < keys * eventsPerKey && performance.now() < deadline) {
    await later(20);
  }
  await Promise.all(workers.map(({ worker }) => worker.stop(0)));
  assertEquals((await store.stats()).done, keys * eventsPerKey);
  for (const [key, its] of ids) {
    const ofKey = history.filter((interval) => interval.key === key);
    assertNoOverlap(ofKey, key);
    assertEquals([...new Set(ofKey.map(({ id }) => id))], its, `${key} was out of order`);
  }
}

Deno.test("no history with faults, failures and a dead worker breaks the guarantees", async () => {
  const scenario = fc.record({
    seed: fc.nat(),
    keys: fc.integer({ min: 1, max: 5 }),
    eventsPerKey: fc.integer({ min: 1, max: 12 }),
    faultRate: fc.double({ min: 0, max: 0.2, noNaN: true }),
    failureRate: fc.double({ min: 0, max: 0.4, noNaN: true }),
  });
  await fc.assert(fc.asyncProperty(scenario, runScenario), { numRuns: 12, endOnFailure: true });
});
