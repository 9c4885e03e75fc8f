/** More comes than can be handled: what waits gets its share of the handlers. */
import { assert, assertGreater, assertLess } from "@std/assert";
import { type EventHandler, type EventStore, startWorker } from "../../../events/mod.ts";
import { ON_DENO_2_5 } from "../../_deno_version.ts";
import { testSimulated } from "./_worker.ts";
import { delivery, later } from "../store/_events.ts";

const CONCURRENCY = 4;
const HANDLER_MS = 40;

/** Number of events that the handlers can take in a second. */
const CAPACITY = CONCURRENCY * 1_000 / HANDLER_MS;

/** Ratio of the events that come to those that the handlers can take. */
const LOAD = 1.15;

/** Time during which they come, in milliseconds. */
const LENGTH_MS = 8_000;

/** Number of events that wait from the start. */
const BACKLOG = 150;

interface Start {
  readonly isClaimed: boolean;
  /** Time that the oldest waiting event had waited. */
  readonly oldestMs: number;
  readonly isRetry: boolean;
}

/** Has more come than can be handled, some of which fails once, and tells what was started. */
async function overload(store: EventStore): Promise<Start[]> {
  await Promise.all(Array.from({ length: BACKLOG }, () => store.accept(delivery())));
  const claimed = new Set<string>();
  const claim = store.claim.bind(store);
  store.claim = async (options) => {
    const leases = await claim(options);
    for (const { record: { id, attempt } } of leases) claimed.add(`${id} ${attempt}`);
    return leases;
  };
  const starts: Start[] = [];
  let oldest: number | null = null;
  const handler: EventHandler = async ({ id, attempt, body }) => {
    const isClaimed = claimed.has(`${id} ${attempt}`);
    starts.push({ isClaimed, oldestMs: Date.now() - (oldest ?? Date.now()), isRetry: attempt > 1 });
    await later(HANDLER_MS);
    if (attempt === 1 && body.byteLength === 2) throw new Error("once");
  };
  const retry = { minDelayMs: 1_000, maxDelayMs: 1_000 };
  const worker = startWorker(store, handler, { concurrency: CONCURRENCY, retry, log: () => {} });
  const start = Date.now();
  const accepting: Promise<unknown>[] = [];
  while (Date.now() < start + LENGTH_MS) {
    const count = Math.floor((Date.now() - start) / 1_000 * CAPACITY * LOAD);
    while (accepting.length < count) {
      const fails = accepting.length % 20 === 0;
      accepting.push(store.accept(delivery(undefined, fails ? "{}" : undefined)));
    }
    oldest = await store.oldestDueAt();
    await later(20);
  }
  const [handled] = [
    starts.slice(),
    await Promise.all(accepting),
    await worker.stop({ graceMs: 100 }),
  ];
  return handled;
}

testSimulated(
  "most handlers are for what waits the longest while more comes than they can handle",
  async ({ store }) => {
    const starts = await overload(store);
    const late = starts.filter(({ oldestMs }) => oldestMs > 1_000);
    assertGreater(late.length, starts.length / 2);
    assertGreater(late.filter(({ isClaimed }) => isClaimed).length, late.length / 2);
    assert(starts.some(({ isRetry }) => isRetry), "no retry was handled");
    // Backlog and what came above the capacity are 270 events, for which handlers take 2.7 s.
    assertLess(starts.at(-1)!.oldestMs, 5_000);
    assertGreater(starts.length, 0.85 * CAPACITY * LENGTH_MS / 1_000);
  },
  ON_DENO_2_5 ? "a turn of the event loop takes more than a millisecond there" : undefined,
);
