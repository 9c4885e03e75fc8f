import { type LogSink, writeLog } from "../core/mod.ts";
import type { EventState, EventStore } from "../events/store/mod.ts";
import type { StoreInspector } from "../events/store/kv/store_inspector.ts";
import type { Count } from "./_console_data.ts";

/** Largest number that is counted. */
export const MAX_COUNT = 10_000;

/** Most entries that are read to count open events: those of one state may lie behind others. */
const MAX_OPEN_READS = 2 * MAX_COUNT;

/** Most records that are read to count those that are done, in three seconds: a backlog may lie before them. */
const MAX_READS = 20 * MAX_COUNT;

/** Count that has not come to any event. */
const NOT_COUNTED: Count = { count: 0, isMore: true };

/** Shortest time from a count to the next one: below the period of a page that looks again. */
const PERIOD_MS = 1_500;

/** Longest time from a count to the next one while nothing changes that this process knows of. */
const IDLE_PERIOD_MS = 10_000;

/** Rest after a count, as a multiple of its duration: each kind takes 5 % of the time at most. */
const REST = 20;

/** Longest wait of a page for the count that it has begun. A small store is counted by then. */
const MAX_WAIT_MS = 40;

/** Counts by state, and when they were made. */
export interface StateCounts {
  readonly counts: Readonly<Record<EventState, Count>>;
  readonly countedAt: number;
  /** Time at which those that are done were counted; null while that is done for the first time. */
  readonly doneCountedAt: number | null;
  /** Time at which the longest-waiting due event had become due then; null if none was due. */
  readonly oldestDueAt: number | null;
}

/**
 * Counts events by state while somebody looks: in the background, one count at a time, and with a rest after
 * each. Open events are counted by the schedule and the ordering groups, dead ones by their index. Only those
 * that are done are counted by their records, from the newest back: that takes longer, and rests for itself.
 *
 * Counts that did not change are not made anew for some seconds, unless something happens in this process:
 * a page that is left open would read an idle store 1,800 times an hour.
 */
export class StateCounter {
  readonly #store: EventStore;
  readonly #inspector: StoreInspector;
  readonly #log: LogSink;
  readonly #ending = new AbortController();
  #last: StateCounts | null = null;
  #counting: Promise<void> | undefined;
  #nextAt = 0;
  /** The pause after a count that changed nothing, when it ends, and what it was. */
  #idleMs = PERIOD_MS;
  #idleUntil = 0;
  #shown = "";
  #done: Count | undefined;
  #doneCountedAt: number | null = null;
  #newestDoneAt: number | undefined;
  #nextDoneAt = 0;

  constructor(store: EventStore, inspector: StoreInspector, log: LogSink) {
    this.#store = store;
    this.#inspector = inspector;
    this.#log = log;
  }

  /** Time at which the newest done event was received, as of the last count; undefined if none is known. */
  get newestDoneAt(): number | undefined {
    return this.#newestDoneAt;
  }

  /** Returns the last counts, after a new one if it is due and quick. Null while there are none. */
  async look(): Promise<StateCounts | null> {
    const isDue = performance.now() >= Math.max(this.#nextAt, this.#idleUntil);
    if (!this.#counting && isDue && !this.#ending.signal.aborted) {
      this.#counting = this.#count();
      await within(MAX_WAIT_MS, this.#counting);
    }
    return this.#last;
  }

  /** Notes that something has happened in this process, so that the next page counts again. */
  stir(): void {
    this.#idleMs = PERIOD_MS;
    this.#idleUntil = 0;
  }

  /** Ends counting. */
  async stop(): Promise<void> {
    this.#ending.abort();
    await this.#counting;
  }

  async #count(): Promise<void> {
    const start = performance.now();
    const countedAt = Date.now();
    const { signal } = this.#ending;
    try {
      const open = await this.#inspector.countOpen(MAX_OPEN_READS, signal);
      const [queued, running, parked] = [open.queued, open.running, open.parked].map(bounded);
      const dead = await this.#inspector.countDead(MAX_COUNT);
      this.#nextAt = nextAfter(start);
      const { oldestDueAt } = open;
      const show = (done: Count) => {
        const counts = { queued: queued!, running: running!, parked: parked!, dead, done };
        this.#last = { counts, countedAt, oldestDueAt, doneCountedAt: this.#doneCountedAt };
      };
      if (signal.aborted) return;
      show(this.#done ?? NOT_COUNTED);
      const done = await this.#countDone();
      if (signal.aborted) return;
      show(done);
      this.#noteIdle();
    } catch (error) {
      this.#nextAt = nextAfter(start);
      if (!signal.aborted) writeLog(this.#log, "warn", "console counts not read", { error });
    } finally {
      this.#counting = undefined;
    }
  }

  /** Waits longer and longer while the counts stay the same. */
  #noteIdle(): void {
    const { counts, oldestDueAt } = this.#last!;
    const shown = JSON.stringify([counts, oldestDueAt]);
    this.#idleMs = shown === this.#shown ? Math.min(2 * this.#idleMs, IDLE_PERIOD_MS) : PERIOD_MS;
    this.#idleUntil = performance.now() + this.#idleMs;
    this.#shown = shown;
  }

  /** Counts those that are done, unless their last count rests. */
  async #countDone(): Promise<Count> {
    const start = performance.now();
    if (this.#done && start < this.#nextDoneAt) return this.#done;
    const countedAt = Date.now();
    let count = 0;
    let newestAt: number | undefined;
    const list = this.#store.list({ state: "done", order: "newest", maxReads: MAX_READS });
    for await (const { receivedAt } of list) {
      newestAt ??= receivedAt;
      if (this.#ending.signal.aborted || ++count > MAX_COUNT) break;
    }
    this.#nextDoneAt = nextAfter(start);
    this.#doneCountedAt = countedAt;
    this.#newestDoneAt = newestAt;
    return this.#done = bounded({ count, isMore: list.cursor !== undefined });
  }
}

/** Bounds a count to the largest number that is counted. */
function bounded({ count, isMore }: Count): Count {
  return { count: Math.min(count, MAX_COUNT), isMore: isMore || count > MAX_COUNT };
}

/** Returns when the next count may begin, by the monotonic clock. */
function nextAfter(start: number): number {
  const now = performance.now();
  return now + Math.max(PERIOD_MS, REST * (now - start));
}

/** Waits for a task that does not reject, for a time at most. */
export async function within(ms: number, task: Promise<void>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  await Promise.race([task, promise]).finally(() => clearTimeout(timer));
}
