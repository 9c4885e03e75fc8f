import { type LogSink, writeLog } from "../core/mod.ts";
import type { BoundedCount, EventRecord, EventState, EventStore } from "../events/store/mod.ts";
import { waitsForLimit } from "../events/store/settlement.ts";
import { type Period, within } from "../watch/activity.ts";
import type { TypeNumbers } from "../watch/tally.ts";

/** Largest number that is counted. */
export const MAX_COUNT = 10_000;

/** Most entries that are read to count open events: the events of one state may lie behind others. */
const MAX_OPEN_READS = 2 * MAX_COUNT;

/**
 * Longest time for a part of a count, in milliseconds: with its rest it takes 2.5 seconds. Done events behind a backlog
 * are counted in several parts.
 */
const MAX_PART_MS = 120;

/** The same for the first count of those that are done, which is not repeated. */
const FIRST_PART_MS = 2_000;

/** Time after which those that are done are counted anew, although there were more than are counted. */
const RECOUNT_MS = 60_000;

/** Count that has not found any event yet. */
const NOT_COUNTED: BoundedCount = { count: 0, isMore: true };

/** Count of events of which there is none. */
const NO_EVENTS: BoundedCount = { count: 0, isMore: false };

/** Shortest time from a count to the next one: below the period of a page that looks again. */
const PERIOD_MS = 1_500;

/** Longest time from a count to the next one while nothing changes that this process knows of. */
const IDLE_PERIOD_MS = 10_000;

/** Rest after a count, as a multiple of its duration: each kind takes 5 % of the time at most. */
const REST = 20;

/** Longest wait of a page for the count that it has begun. A small store is counted by then. */
const MAX_WAIT_MS = 40;

/** Numbers of waiting events by what they wait for. Their sum is the number of waiting events, unless it is cut short. */
export interface WaitingCounts {
  /** Those that are due now. */
  readonly due: number;
  /** Those that wait for their next attempt. */
  readonly retrying: number;
  /** Those that are behind others of their ordering group. */
  readonly behind: number;
  /** Those that were put off, by their handler or a limit. */
  readonly putOff: number;
  /** Those that are to be handled later, or once their group is quiet. */
  readonly planned: number;
  /** True if there are more events than were read. */
  readonly isMore: boolean;
}

/** Counts by state, and when they were made. */
export interface StateCounts {
  /** Numbers of events by state, at most 10,000 each. */
  readonly counts: Readonly<Record<EventState, BoundedCount>>;
  /** Numbers of waiting events by what they wait for. */
  readonly waiting: WaitingCounts;
  /** Number of the parked events whose answers are there: they wait for a free place. */
  readonly answered: BoundedCount;
  /** Time at which they were counted, milliseconds since the epoch. */
  readonly countedAt: number;
  /** Time at which those that are done were counted, which takes longer; null while that is done first. */
  readonly doneCountedAt: number | null;
  /** Time at which the longest-waiting due event became due; null if none is due. */
  readonly oldestDueAt: number | null;
  /** Sums of what the processes had counted at that time, of the periods that somebody has looked at. */
  readonly totals: Totals;
}

/** Numbers of what was counted by period, of all types together; null as long as nothing was read. */
export type Totals = Readonly<Partial<Record<Period, TypeNumbers | null>>>;

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
  readonly #log: LogSink;
  readonly #totalOf: (period: Period) => Promise<TypeNumbers | null>;
  /** Periods that somebody has looked at since the last count began. */
  #periods = new Set<Period>();
  readonly #ending = new AbortController();
  #last: StateCounts | undefined;
  #counting: Promise<void> | undefined;
  #nextAt = 0;
  /** The pause after a count that changed nothing, when it ends, and what it was. */
  #idleMs = PERIOD_MS;
  #idleUntil = 0;
  #shown = "";
  /** Set if something has happened since the last count began. */
  #isStirred = false;
  /** The last count of those that are done, and when the next one may begin. */
  #done = { ...NOT_COUNTED, at: null as number | null, nextAt: 0 };
  #newestDoneAt: number | undefined;
  /** The id of the oldest one that was counted of those that are done, if there were more; and the time of a recount. */
  #oldestCounted: string | undefined;
  #recountAt = -Infinity;
  /** The count of those that are done, as far as it has got, if it takes several parts. */
  #part: DonePart | undefined;

  /**
   * @param store The store.
   * @param log The log.
   * @param totalOf Reads what was counted of a period, for a sum with the counts.
   */
  constructor(
    store: EventStore,
    log: LogSink,
    totalOf: (period: Period) => Promise<TypeNumbers | null>,
  ) {
    this.#store = store;
    this.#log = log;
    this.#totalOf = totalOf;
  }

  /** Time at which the newest done event was received, as of the last count; undefined if none is known. */
  get newestDoneAt(): number | undefined {
    return this.#newestDoneAt;
  }

  /** Returns the last counts, after a new one if it is due and quick; undefined while there are none. */
  async look(period: Period): Promise<StateCounts | undefined> {
    this.#periods.add(period);
    const isDue = performance.now() >= Math.max(this.#nextAt, this.#idleUntil);
    if (!this.#counting && isDue && !this.#ending.signal.aborted) {
      this.#counting = this.#count();
      await within(MAX_WAIT_MS, this.#counting);
    }
    return this.#last;
  }

  /** Notes that something has happened in this process, so that the next page counts again. */
  stir(): void {
    this.#isStirred = true;
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
    this.#isStirred = false;
    const { signal } = this.#ending;
    try {
      const { inspect } = this.#store;
      const { oldestDueAt, ...found } = await inspect.count(MAX_OPEN_READS, signal);
      const totals = await this.#totals();
      const waiting = await this.#sortWaiting(found.queued, countedAt);
      const answered = found.parked.count === 0
        ? NO_EVENTS
        : await inspect.countAnswered(MAX_OPEN_READS, signal);
      const show = () => {
        const { at: doneCountedAt, count, isMore } = this.#done;
        const { queued, running, parked, dead } = found;
        const counts = {
          ...{ queued: bounded(queued), running: bounded(running), parked: bounded(parked) },
          ...{ dead: bounded(dead), done: { count, isMore } },
        };
        const times = { countedAt, oldestDueAt, doneCountedAt };
        if (!signal.aborted) this.#last = { counts, waiting, answered, ...times, totals };
      };
      this.#nextAt = nextAfter(start);
      show();
      await this.#countDone();
      show();
      this.#noteIdle();
    } catch (error) {
      this.#nextAt = nextAfter(start);
      if (!signal.aborted) writeLog(this.#log, "warn", "console counts not read", { error });
    } finally {
      this.#counting = undefined;
    }
  }

  /** Reads what was counted of the periods that somebody looks at. */
  async #totals(): Promise<Totals> {
    const periods = [...this.#periods];
    this.#periods.clear();
    const totals = periods.map(async (each) => [each, await this.#totalOf(each)] as const);
    return Object.fromEntries(await Promise.all(totals));
  }

  /** Waits longer and longer while the counts stay the same. */
  #noteIdle(): void {
    const { counts, answered, oldestDueAt } = this.#last ?? {};
    // What has happened meanwhile may not be counted.
    if (this.#isStirred) return;
    const shown = JSON.stringify([counts, answered, oldestDueAt]);
    this.#idleMs = shown === this.#shown ? Math.min(2 * this.#idleMs, IDLE_PERIOD_MS) : PERIOD_MS;
    this.#idleUntil = performance.now() + this.#idleMs;
    this.#shown = shown;
  }

  /** Counts the events that wait by what they wait for. */
  async #sortWaiting({ count }: BoundedCount, now: number): Promise<WaitingCounts> {
    const found = { due: 0, retrying: 0, behind: 0, putOff: 0, planned: 0 };
    if (count === 0) return { ...found, isMore: false };
    const limits = { limit: MAX_COUNT, maxReads: MAX_OPEN_READS, maxMs: MAX_PART_MS };
    const list = this.#store.list({ state: "queued", ...limits });
    for await (const record of list) {
      if (this.#ending.signal.aborted) break;
      found[waitingFor(record, now)]++;
    }
    return { ...found, isMore: list.cursor !== undefined };
  }

  /** Counts those that are done, or a part of them, unless their last count rests. */
  async #countDone(): Promise<void> {
    const start = performance.now();
    if (await this.#isStillMore() || start < this.#done.nextAt) return;
    const part = this.#part ?? { at: Date.now(), count: 0, cursor: undefined, newestAt: undefined };
    let { count, newestAt } = part;
    const { cursor } = part;
    const isFirst = this.#done.at === null;
    const maxMs = isFirst ? FIRST_PART_MS : MAX_PART_MS;
    const list = this.#store.list({ state: "done", order: "newest", maxMs, cursor });
    for await (const { id, receivedAt } of list) {
      newestAt ??= receivedAt;
      if (++count > MAX_COUNT) this.#oldestCounted = id;
      if (this.#ending.signal.aborted || count > MAX_COUNT) break;
    }
    const isMore = list.cursor !== undefined;
    const isWhole = !isMore || count > MAX_COUNT;
    if (!isMore) this.#oldestCounted = undefined;
    this.#part = isWhole ? undefined : { ...part, count, newestAt, cursor: list.cursor };
    // A count that goes on does not take the place of a whole one.
    const found = { ...bounded({ count, isMore }), at: isWhole ? part.at : null };
    this.#done = { ...isWhole || isFirst ? found : this.#done, nextAt: nextAfter(start) };
    this.#newestDoneAt = newestAt ?? this.#newestDoneAt;
    if (isWhole) this.#recountAt = performance.now() + RECOUNT_MS;
  }

  /**
   * Tells whether more events are done than are counted, as when they were counted last: then the oldest that was counted
   * is still there. One reading takes the place of 10,000, but for a recount from time to time: newer ones may be purged.
   */
  async #isStillMore(): Promise<boolean> {
    const id = this.#oldestCounted;
    if (id === undefined || this.#part || performance.now() >= this.#recountAt) return false;
    const at = Date.now();
    const [event] = await Array.fromAsync(this.#store.list({ ids: [id] }));
    if (event?.state !== "done") return false;
    this.#done = { ...this.#done, at };
    return true;
  }
}

/** Count of the events that are done, as far as it has got. */
interface DonePart {
  readonly at: number;
  readonly count: number;
  readonly cursor: string | undefined;
  readonly newestAt: number | undefined;
}

/** Tells what a waiting event waits for. */
function waitingFor(record: EventRecord, now: number): Exclude<keyof WaitingCounts, "isMore"> {
  const { dueAt, attempt, putOff, attempts } = record;
  if (dueAt === null) return "behind";
  if (dueAt <= now) return "due";
  if (waitsForLimit(record)) return "putOff";
  // Its handler has put it off since its last attempt ended.
  if (putOff && putOff.at >= (attempts.at(-1)?.endedAt ?? -Infinity)) return "putOff";
  return attempt > 0 ? "retrying" : "planned";
}

/** Bounds a count to the largest number that is counted. */
function bounded({ count, isMore }: BoundedCount): BoundedCount {
  return { count: Math.min(count, MAX_COUNT), isMore: isMore || count > MAX_COUNT };
}

/** Returns when the next count may begin, by the monotonic clock. */
function nextAfter(start: number): number {
  const now = performance.now();
  return now + Math.max(PERIOD_MS, REST * (now - start));
}
