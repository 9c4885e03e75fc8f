import type { EventStore } from "../events/store/mod.ts";
import type { StoreInspector } from "../events/store/kv/store_inspector.ts";
import { newActId } from "./_act_record.ts";
import { type Pace, stepsOf } from "./_act_steps.ts";
import type { ActCount, ActKind, DeliveryQuery } from "./_console_data.ts";
import { within } from "./_counts.ts";

/** Longest time for which a page waits for a count, in milliseconds: it is answered within 100. */
const MAX_WAIT_MS = 60;

/** Time after which a count ends that nobody looks at any more. */
const FORGOTTEN_MS = 10_000;

/** Most counts at the same time. */
const MAX_COUNTS = 4;

/** Pace of a count: it takes half of a processor at most, beside the app's deliveries. */
const PACE: Pace = { events: 500, reads: 1_000, pauseMs: (tookMs) => Math.min(1_000, tookMs) };

/** Parts that are counted with. */
export interface CountingParts {
  readonly store: EventStore;
  readonly inspector: StoreInspector;
}

/** Count under way. */
interface Counting {
  readonly askedAt: number;
  readonly ending: AbortController;
  readonly ended: Promise<void>;
  count: number;
  notKept: number;
  isMore: boolean;
  error?: unknown;
  timer?: ReturnType<typeof setTimeout>;
}

/**
 * Exact counts of the events that acts on many would change, made before the acts begin. A count goes through the
 * same events as the act would, in the background as long as somebody looks. One that has ended is for the page that
 * waits for it: who asks anew gets a new one.
 */
export class ActCounts {
  readonly #parts: CountingParts;
  /** Counts by kind and choice, in the order in which they were looked at. */
  readonly #counts = new Map<string, Counting>();

  constructor(parts: CountingParts) {
    this.#parts = parts;
  }

  /** Reads how far the count of a choice has come, which begins with the first look. */
  async look(kind: ActKind, query: DeliveryQuery, isPoll = false): Promise<ActCount> {
    const key = JSON.stringify([kind, query]);
    const known = this.#counts.get(key);
    const counting = known && (known.isMore || isPoll) ? known : this.#begin(kind, query);
    this.#keep(key, counting);
    await within(MAX_WAIT_MS, counting.ended);
    const { askedAt, count, notKept, isMore } = counting;
    if ("error" in counting) {
      this.#forget(key, counting);
      throw counting.error;
    }
    return { count, isMore, askedAt, ...(notKept > 0 && { notKept }) };
  }

  /** Ends all counts. */
  async stop(): Promise<void> {
    const all = [...this.#counts];
    for (const [key, counting] of all) this.#forget(key, counting);
    await Promise.all(all.map(([, { ended }]) => ended));
  }

  #begin(kind: ActKind, query: DeliveryQuery): Counting {
    const ending = new AbortController();
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    const counting: Counting = {
      ...{ askedAt: Date.now(), ending, ended, count: 0, notKept: 0, isMore: true },
    };
    this.#count(counting, kind, query).catch((error) => {
      counting.error = error;
      counting.isMore = false;
    }).then(resolve);
    return counting;
  }

  async #count(counting: Counting, kind: ActKind, query: DeliveryQuery): Promise<void> {
    const { askedAt, ending: { signal } } = counting;
    const question = { id: newActId(askedAt), kind, at: askedAt };
    for await (const step of stepsOf({ ...this.#parts, signal }, question, query, PACE)) {
      counting.count += step.filter.ids.length;
      counting.notKept += step.notKept;
    }
    if (!signal.aborted) counting.isMore = false;
  }

  /** Keeps a count for some more time, and makes room for it. */
  #keep(key: string, counting: Counting): void {
    clearTimeout(this.#counts.get(key)?.timer);
    counting.timer = setTimeout(() => this.#forget(key, counting), FORGOTTEN_MS);
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
