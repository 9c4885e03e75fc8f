import type { LogSink } from "../core/mod.ts";
import { withDeadline } from "../core/timeouts.ts";
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
import type { Activity, ActivityCounter, Period } from "../watch/activity.ts";
import type { Health } from "../watch/health.ts";
import type { NotedRefusals } from "../watch/refusals.ts";
import { Watch } from "../watch/watch.ts";
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
import { Turns } from "./_turns.ts";

/** Time for which it is remembered what the store has, in milliseconds. */
const USES_MS = 10_000;

/** State of the store and activity of the app, for the first page. What was not read yet is null. */
export type Overview =
  & { readonly [TName in keyof StateCounts]: StateCounts[TName] | null }
  & { readonly health: Health | null }
  & Awaited<ReturnType<ActivityCounter["read"]>>;

/** Longest wait of a page for what may be wrong, in milliseconds. */
const MAX_WAIT_MS = 40;

/**
 * Shortest time of reading problems after which other readers get the same, the longest time for which they do, and that
 * time for each millisecond that it took.
 */
const [LONG_MS, MAX_AGE_MS, AGE_PER_MS] = [50, 5_000, 50] as const;

/** Most searches that take seconds at the same time, and most files for which is read: the app has the rest of the database. */
const MAX_READING = 2;

/** Most searches that wait for their turn: those behind them would wait longer than for the store. */
const MAX_WAITING = 20;

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
  /** True if that is to be told of what happens; false if the app's alarm has begun with it already. */
  readonly isCounting: boolean;
  /** Acts, those that are kept among them. */
  readonly acts: Acts;
  /** Counts of the events that acts on many would change. */
  readonly actCounts: ActCounts;
  /** Turns of reading for files. */
  readonly exports: Turns = new Turns(MAX_READING);
  readonly #searches = new Turns(MAX_READING, MAX_WAITING);
  readonly #store: EventStore;
  readonly #counter: StateCounter;
  /** Problems as they were read last, and until when they are shown, by the monotonic clock. */
  readonly #problems = new Map<string, { readonly read: Promise<ProblemList>; until: number }>();
  readonly #watch: Watch;
  #uses: ReturnType<EventStore["inspect"]["uses"]> | undefined;
  #usesReadAt = -Infinity;

  /** Opens it for a store. The log is for what cannot be reported to a reader. */
  constructor(store: EventStore, log: LogSink) {
    const records = store.consoleRecords;
    this.#store = store;
    const { watch, isNew } = Watch.of(store, log);
    this.#watch = watch;
    this.#counter = new StateCounter(
      store,
      log,
      async (period) => (await watch.activity.read(period)).activity?.total ?? null,
    );
    watch.activity.onCount = () => this.stir();
    this.telemetry = watch.activity.telemetry;
    this.isCounting = isNew;
    this.acts = new Acts({ store, records, log });
    this.actCounts = new ActCounts(store);
  }

  /** Notes that something has happened, so that the first page is read anew. */
  stir(): void {
    this.#counter.stir();
    this.#watch.health.stir();
  }

  /** Event store, for the pages. */
  get store(): EventStore {
    return this.#store;
  }

  /** Tells which of the things the store has that not every app has. It is read every ten seconds at most. */
  uses(): ReturnType<EventStore["inspect"]["uses"]> {
    const now = performance.now();
    if (this.#uses && now - this.#usesReadAt < USES_MS) return this.#uses;
    this.#usesReadAt = now;
    const reading = this.#store.inspect.uses();
    reading.catch(() => this.#uses = undefined);
    return this.#uses = reading;
  }

  /** Reads the first page. */
  async overview(period: Period): Promise<Overview> {
    const { activity } = this.#watch;
    const [counted, read, health] = await Promise.all([
      this.#counter.look(period),
      activity.read(period),
      this.health(),
    ]);
    const none = {
      ...{ counts: null, waiting: null, answered: null, countedAt: null, doneCountedAt: null },
      totals: null,
    };
    const known = counted ?? { ...none, oldestDueAt: await this.#store.oldestDueAt() };
    return { ...known, ...read, health };
  }

  /** Reads the refused deliveries of all instances, those of the last one first. */
  refusals(): Promise<NotedRefusals[]> {
    return this.#watch.activity.refused();
  }

  /** Adds up what was counted in a period; null as long as nothing was read. */
  async activity(period: Period): Promise<Activity | null> {
    return (await this.#watch.activity.read(period)).activity;
  }

  /** Reads what may be wrong; null if that takes long, and a page would wait for it. */
  async health(): Promise<Health | null> {
    const reading = this.#watch.health.look();
    return await withDeadline(reading, MAX_WAIT_MS).catch(() => null) ?? null;
  }

  /** Searches deliveries, the newest first. Reads at most 2,000 records, unless the reader asks for more. */
  search(query: DeliveryQuery, cursor?: string, isFar?: boolean): Promise<DeliveryPage> {
    const place = { cursor, isFar };
    return searchDeliveries(
      ...[this.#store, query, place, this.#counter.newestDoneAt, this.#searches] as const,
    );
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
    } catch (error) {
      if (this.#problems.get(key) === counted) this.#problems.delete(key);
      throw error;
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
      const now = await this.#store.get(record.id);
      if (now?.receivedAt !== record.receivedAt) return null;
      // It was settled since it was read, and its payload went with that.
      if (now.payload?.id !== record.payload?.id) return await this.payload(now);
      throw error;
    }
  }

  /** Ends acts, writes the last record, and ends all timers. */
  async stop(): Promise<void> {
    await Promise.all([this.acts.stop(), this.actCounts.stop(), this.#counter.stop()]);
    await this.#watch.stop(this.#store);
  }
}
