/**
 * The events of an act on many: how they are counted for the question before it, and found for the act.
 *
 * @module
 */
import { sleep } from "../core/timeouts.ts";
import type {
  EventFilter,
  EventList,
  EventRecord,
  EventStore,
  StoredEvent,
} from "../events/store/mod.ts";
import { within } from "../watch/activity.ts";
import { type ActKind, type ActQuery, askedAtOf, newActId } from "./_query.ts";
import { filterOf } from "./_search.ts";
import { Turns } from "./_turns.ts";

/** Pace of the steps. */
interface Pace {
  /** Most events of a step. */
  readonly events: number;
  /** Pause after a step that took a time, in milliseconds. */
  readonly pauseMs: (tookMs: number) => number;
}

/** Pace of an act: 200 events a second. */
const ACT_PACE: Pace = { events: 50, pauseMs: (tookMs) => Math.max(0, 250 - tookMs) };

/** Pace of a count: it takes half of a processor at most, beside the app's deliveries. */
const COUNT_PACE: Pace = { events: 500, pauseMs: (tookMs) => Math.min(1_000, tookMs) };

/** Most records read in a step. */
const MAX_READS = 1_000;

/** Events that are to be changed together. */
interface ActStep {
  /** Filter that they must still match. */
  readonly filter: EventFilter & { readonly ids: readonly string[] };
  /** Number of events found, with those that cannot be changed. */
  readonly seen: number;
  /** Number of those that cannot be replayed, since their payloads are not kept. */
  readonly notKept: number;
}

/**
 * Finds the events of an act on many, or of the question before it, step by step, with pauses in between. They are
 * those that it was asked about: received by the time of the question and, as far as is known, in the state that they
 * are in. A replay leaves out what somebody has cancelled: that is put back one by one. A cancellation leaves out what is
 * cancelled already.
 */
export async function* stepsOf(
  store: EventStore,
  { id, kind, query }: { readonly id: string; readonly kind: ActKind; readonly query: ActQuery },
  signal: AbortSignal,
  { events: limit, pauseMs }: Pace = ACT_PACE,
): AsyncGenerator<ActStep> {
  const { state, before = Infinity } = query;
  const askedAt = Math.min(askedAtOf(id)!, Date.now());
  const filter: EventFilter = {
    ...filterOf(query),
    ...(kind === "replay" && state === "dead" && { outcome: "failed" }),
    ...((state === "done" || state === "dead") && { settledBefore: askedAt + 1 }),
    receivedBefore: Math.min(before, askedAt + 1),
  };
  let cursor: string | undefined = "";
  while (cursor !== undefined && !signal.aborted) {
    const start = performance.now();
    const list: EventList = store.list({ ...filter, limit, maxReads: MAX_READS, cursor });
    const events = (await Array.fromAsync(list)).filter((event) =>
      wasSoThen(event, askedAt) && !(kind === "cancel" && isCancelled(event))
    );
    const needsPayload = kind === "replay" && state === "done";
    const kept = needsPayload ? await store.inspect.keptAmong(events) : undefined;
    const ids = events.map(({ id }) => id).filter((id) => !kept || kept.has(id));
    const { length: seen } = events;
    yield { filter: { ...filter, ids }, seen, notKept: seen - ids.length };
    cursor = list.cursor;
    await sleep(pauseMs(performance.now() - start), signal).catch(() => {});
  }
}

/** Checks whether an open event was in its state at a time already, as far as its record tells. */
function wasSoThen(event: StoredEvent, at: number): boolean {
  if (event.state === "running") {
    return (event.lease?.startedAt ?? at) <= at || ranAt(event, at);
  }
  if (event.state === "parked") return (event.waitingFor?.since ?? at) <= at;
  return event.state !== "queued" || !ranAt(event, at);
}

/** Checks whether somebody has cancelled an event before, whose handler has not ended yet. */
const isCancelled = (event: StoredEvent): boolean =>
  event.state !== "unreadable" && event.cancelRequestedAt !== undefined;

const ranAt = ({ attempts }: EventRecord, at: number): boolean =>
  attempts.some(({ startedAt, endedAt }) => startedAt <= at && endedAt > at);

/** Longest time for which a page waits for a count, in milliseconds: it is answered within 100. */
const MAX_WAIT_MS = 60;

/** Time without a look after which a count ends, in milliseconds. */
const FORGOTTEN_MS = 10_000;

/** The same for a program, which looks when it pleases. */
export const FORGOTTEN_BY_PROGRAM_MS = 60_000;

/** Most counts that read at the same time: others wait for their turn, step by step. */
const MAX_READING = 4;

/** Most counts that are kept for those who look at them. */
const MAX_COUNTS = 100;

/** Most events of a count whose ids are told. */
const NAMED = 20;

/** Number of events that an act would change: the exact one, or how far the count has come. */
export interface ActCount {
  /** Number of events. */
  readonly count: number;
  /** True while it is being counted. */
  readonly isMore: boolean;
  /** Time of the question, to which the act keeps: it has begun with the count. */
  readonly askedAt: number;
  /** Number of further events that match and cannot be replayed, since their payloads are not kept. */
  readonly notKept: number;
  /** Ids of the first events, at most 20. */
  readonly first: readonly string[];
}

/** Count under way. */
interface Counting {
  readonly ending: AbortController;
  readonly ended: Promise<void>;
  progress: ActCount;
  /** Set once somebody was told the result. */
  isTold: boolean;
  error?: unknown;
  timer?: ReturnType<typeof setTimeout>;
}

/**
 * Exact counts of the events that acts on many would change, made before the acts begin. A count goes through the
 * same events as the act would, in the background as long as somebody looks. The result is for whoever waits for it, by a
 * page that refreshes itself or by asking again: once it was told, whoever asks anew gets a new count.
 */
export class ActCounts {
  readonly #store: EventStore;
  readonly #turns = new Turns(MAX_READING);
  /** Counts by kind and choice, in the order in which they were looked at. */
  readonly #counts = new Map<string, Counting>();

  constructor(store: EventStore) {
    this.#store = store;
  }

  /**
   * Reads how far the count of a choice has come, which begins with the first look.
   *
   * @param kind The kind of act.
   * @param query The choice.
   * @param isPoll True for the next look of who has looked before.
   * @param keepMs Time for which it goes on without a look, in milliseconds.
   */
  async look(
    kind: ActKind,
    query: ActQuery,
    isPoll: boolean,
    keepMs = FORGOTTEN_MS,
  ): Promise<ActCount> {
    const key = JSON.stringify([kind, query]);
    const known = this.#counts.get(key);
    const isUsed = known && (isPoll || !known.isTold);
    const counting = isUsed ? known : this.#begin(kind, query);
    this.#keep(key, counting, keepMs);
    await within(MAX_WAIT_MS, counting.ended);
    if (!counting.progress.isMore) counting.isTold = true;
    if (!("error" in counting)) return counting.progress;
    this.#forget(key, counting);
    throw counting.error;
  }

  /** Ends all counts. */
  async stop(): Promise<void> {
    const all = [...this.#counts];
    for (const [key, counting] of all) this.#forget(key, counting);
    await Promise.all(all.map(([, { ended }]) => ended));
  }

  #begin(kind: ActKind, query: ActQuery): Counting {
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    const progress: ActCount = {
      count: 0,
      isMore: true,
      askedAt: Date.now(),
      notKept: 0,
      first: [],
    };
    const counting: Counting = { ending: new AbortController(), ended, progress, isTold: false };
    this.#count(counting, kind, query).catch((error) => counting.error = error).then(() =>
      resolve()
    );
    return counting;
  }

  async #count(counting: Counting, kind: ActKind, query: ActQuery): Promise<void> {
    const { ending: { signal }, progress: { askedAt } } = counting;
    const question = { id: newActId(askedAt), kind, query };
    const steps = stepsOf(this.#store, question, signal, COUNT_PACE);
    while (true) {
      const { done, value } = await this.#turns.take(() => steps.next());
      if (done) break;
      const { filter, notKept } = value;
      const { progress } = counting;
      const count = progress.count + filter.ids.length;
      const first = [...progress.first, ...filter.ids.slice(0, NAMED)].slice(0, NAMED);
      counting.progress = { ...progress, count, first, notKept: progress.notKept + notKept };
    }
    if (!signal.aborted) counting.progress = { ...counting.progress, isMore: false };
  }

  /** Keeps a count for some more time, and makes room for it. */
  #keep(key: string, counting: Counting, keepMs: number): void {
    clearTimeout(this.#counts.get(key)?.timer);
    counting.timer = setTimeout(() => this.#forget(key, counting), keepMs);
    Deno.unrefTimer(counting.timer);
    this.#counts.delete(key);
    this.#counts.set(key, counting);
    const [oldest] = this.#counts;
    if (this.#counts.size > MAX_COUNTS) this.#forget(...oldest!);
  }

  #forget(key: string, counting: Counting): void {
    clearTimeout(counting.timer);
    counting.ending.abort();
    if (this.#counts.get(key) === counting) this.#counts.delete(key);
  }
}
