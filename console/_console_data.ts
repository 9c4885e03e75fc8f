import type { LogSink } from "../core/mod.ts";
import {
  type BoundedCount,
  type EventList,
  type EventRecord,
  type EventStore,
  type ListedLimit,
  NotKeptError,
  type ProblemList,
  type ProblemOptions,
} from "../events/store/mod.ts";
import type { Telemetry } from "../telemetry/mod.ts";
import { ActivityCounter, type Period } from "./_activity.ts";
import { ActCounts } from "./_act_steps.ts";
import { Acts } from "./_acts.ts";
import { StateCounter, type StateCounts } from "./_counts.ts";
import type { DeliveryQuery } from "./_query.ts";
import {
  countNewer,
  type DeliveryDetails,
  type DeliveryPage,
  filterOf,
  readDetails,
  searchDeliveries,
} from "./_search.ts";

/** State of the store and activity of the app, for the first page. What was not read yet is null. */
export type Overview =
  & { readonly [TName in keyof StateCounts]: StateCounts[TName] | null }
  & Awaited<ReturnType<ActivityCounter["read"]>>;

/**
 * Shortest time of reading problems after which other readers get the same, the longest time for which they do, and that
 * time for each millisecond that it took.
 */
const [LONG_MS, MAX_AGE_MS, AGE_PER_MS] = [50, 5_000, 50] as const;

/** Most lists of problems that are kept for other readers. */
const MAX_LISTS = 10;

/**
 * Data that the console's pages show, and the acts that they offer. It counts what its telemetry is told, and writes
 * that each minute. Nothing is read before somebody looks.
 */
export class ConsoleData {
  /**
   * Receiver of what is counted, for the app's intakes and its worker. A worker that has it counts as one
   * of this instance until it stops.
   */
  readonly telemetry: Telemetry;
  /** Acts, those that are kept among them. */
  readonly acts: Acts;
  /** Counts of the events that acts on many would change. */
  readonly actCounts: ActCounts;
  readonly #store: EventStore;
  readonly #counter: StateCounter;
  readonly #activity: ActivityCounter;
  /** Problems as they were read last, and until when they are shown, by the monotonic clock. */
  readonly #problems = new Map<string, { readonly read: Promise<ProblemList>; until: number }>();

  /** Opens it for a store. The log is for what cannot be reported to a reader. */
  constructor(store: EventStore, log: LogSink) {
    const records = store.consoleRecords;
    this.#store = store;
    this.#counter = new StateCounter(store, log);
    this.#activity = new ActivityCounter(records, log, () => this.#counter.stir());
    this.telemetry = this.#activity.telemetry;
    this.acts = new Acts({ store, records, log });
    this.actCounts = new ActCounts(store);
    this.#activity.start();
  }

  /** Reads the first page. */
  async overview(period: Period): Promise<Overview> {
    const [counted, read] = await Promise.all([this.#counter.look(), this.#activity.read(period)]);
    const none = { counts: null, countedAt: null, doneCountedAt: null };
    return { ...counted ?? { ...none, oldestDueAt: await this.#store.oldestDueAt() }, ...read };
  }

  /** Searches deliveries, the newest first. Reads at most 2,000 records, unless the reader asks for more. */
  search(query: DeliveryQuery, cursor?: string, isFar?: boolean): Promise<DeliveryPage> {
    const place = { cursor, isFar };
    return searchDeliveries(this.#store, query, place, this.#counter.newestDoneAt);
  }

  /** Counts deliveries that came after a time. */
  newer(query: DeliveryQuery, top: number): Promise<BoundedCount | undefined> {
    return countNewer(this.#store, query, top);
  }

  /** Lists all deliveries of a choice, the newest first. */
  list(query: DeliveryQuery): EventList {
    return this.#store.list({ ...filterOf(query), order: "newest" });
  }

  /** Reads a delivery; null if there is none of this id. */
  details(id: string): Promise<DeliveryDetails | null> {
    return readDetails(this.#store, id);
  }

  /** Finds the ids of the events that have a delivery id, as their senders' pages show it. */
  withDeliveryId(deliveryId: string): Promise<readonly string[]> {
    return this.#store.inspect.withDeliveryId(deliveryId);
  }

  /** Reads the first limits of services, by their names and keys. */
  async limits(max: number): Promise<ListedLimit[]> {
    const found: ListedLimit[] = [];
    for await (const limit of this.#store.limits()) {
      if (found.push(limit) === max) break;
    }
    return found;
  }

  /** Reads the problems that have events, those with the most first, or the one with an id. */
  async problems(options: ProblemOptions): Promise<ProblemList> {
    const key = JSON.stringify(options);
    const known = this.#problems.get(key);
    if (known && performance.now() < known.until) return await known.read;
    const start = performance.now();
    const counted = { read: this.#store.inspect.problems(options), until: Infinity };
    if (this.#problems.size >= MAX_LISTS) this.#problems.clear();
    this.#problems.set(key, counted);
    try {
      return await counted.read;
    } finally {
      const tookMs = performance.now() - start;
      const ageMs = tookMs < LONG_MS ? 0 : Math.min(MAX_AGE_MS, AGE_PER_MS * tookMs);
      counted.until = start + tookMs + ageMs;
    }
  }

  /** Reads the bytes of a payload; null if it is not kept any more. */
  async payload(record: EventRecord): Promise<Uint8Array<ArrayBuffer> | null> {
    try {
      return await this.#store.load({ record });
    } catch (error) {
      if (error instanceof NotKeptError) return null;
      throw error;
    }
  }

  /** Ends acts, writes the last record, and ends all timers. */
  async stop(): Promise<void> {
    await Promise.all([this.acts.stop(), this.actCounts.stop(), this.#counter.stop()]);
    await this.#activity.stop();
  }
}
