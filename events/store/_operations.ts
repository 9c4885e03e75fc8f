import { checkInteger, checkObject, met } from "../../core/check_options.ts";
import type { StoreCore } from "./_core.ts";
import { checkChoice, checkFilter, matches } from "./_filter.ts";
import type { Engine, Scan, Stored, Unreadable, Visit } from "./engine.ts";
import type {
  BulkOptions,
  BulkResult,
  EventFilter,
  EventList,
  EventOperations,
  ListOptions,
} from "./event_operations.ts";
import type { EventRecord, StoredEvent } from "./event_record.ts";

/** The number of steps without an event that may be made for each record that may be read. */
const PASSED_OVER = 20;

const LISTING = "list the events";

/** An event as it was found. */
interface FoundEvent {
  readonly stored: Stored | Unreadable;
  readonly event: StoredEvent;
  /** The place at which it was found. */
  readonly place: string;
}

/** Makes the operations that read the events of a store. */
export function readOperations(
  { engine }: StoreCore,
): Pick<EventOperations, "list" | "get" | "stats"> {
  return {
    list: ((options = {}) => listEvents(engine, options)) as EventOperations["list"],
    async get(id) {
      const [found] = await engine.get([id]);
      if (!found || found.record) return found?.record ?? null;
      throw new Error(
        `Cannot read the record of event ${id}: another version wrote it, or it is damaged`,
      );
    },

    async stats(filter = {}, options = {}) {
      checkChoice("count the events", filter, options);
      const counts = { queued: 0, running: 0, parked: 0, done: 0, dead: 0, unreadable: 0 };
      let oldestWaitingAt: number | null = null;
      let dueLater = 0;
      for await (const { event } of findAll(engine, filter, new Work(options))) {
        counts[event.state]++;
        if (event.state !== "queued") continue;
        const now = engine.now();
        if ((event.dueAt ?? 0) > now) dueLater++;
        else oldestWaitingAt = Math.min(oldestWaitingAt ?? Infinity, waitsSince(event, now));
      }
      return { ...counts, dueLater, oldestWaitingAt };
    },
  };
}

function listEvents(engine: Engine, options: ListOptions): EventList {
  checkObject(LISTING, options);
  checkFilter(LISTING, options, ["order", "limit", "maxReads", "maxMs", "cursor"]);
  const { order = "oldest", limit = Infinity, maxReads = Infinity, maxMs = Infinity, cursor } =
    options;
  for (const [name, value] of Object.entries({ limit, maxReads, maxMs })) {
    if (value !== Infinity) checkInteger(LISTING, name, value, { max: Number.MAX_SAFE_INTEGER });
  }
  if (order !== "oldest" && order !== "newest") {
    throw new TypeError(
      `Cannot ${LISTING}: 'order' must be "oldest" or "newest", got ${met(order)}`,
    );
  }
  const after = cursor === "" ? undefined : cursor;
  const reads = new Reads(maxReads, maxMs);
  const visits = engine.scan({
    ...{ filter: options, after },
    ...{ isNewestFirst: order === "newest", isLimited: reads.isLimited },
  });
  return new EventPage(find(visits, options, undefined, reads), limit, reads, after);
}

/** Finds all events that match a filter, until the work is ended. */
function findAll(
  engine: Engine,
  filter: EventFilter,
  work: Work,
  way?: Partial<Scan>,
): AsyncGenerator<FoundEvent> {
  return find(engine.scan({ ...way, filter }), filter, work);
}

/** Finds the events that match a filter among those that a scan comes by. */
async function* find(
  visits: AsyncIterable<Visit>,
  filter: EventFilter,
  work?: Work,
  reads?: Reads,
): AsyncGenerator<FoundEvent> {
  for await (const visit of visits) {
    const { event: stored, place } = visit;
    if (work?.ended) return;
    if (stored) work?.sawOne();
    if (reads && !reads.add(visit)) return;
    if (!stored) continue;
    const event = storedEventOf(stored);
    if (matches(event, filter)) yield { stored, event, place };
  }
}

/** Makes the event that a caller gets. */
function storedEventOf(stored: Stored | Unreadable): StoredEvent {
  if (stored.record) return stored.record;
  const { id, receivedAt } = stored;
  return { id, receivedAt, state: "unreadable" };
}

/** A limited number of reads, and how far they have got. */
class Reads {
  /** The step of the scan that was made last, whether an event matched there or not. */
  last: Visit | undefined;
  /** Set if the search has ended before the last event. */
  isCut = false;
  /** Set if there is a limit. */
  readonly isLimited: boolean;
  readonly #until: number;
  #left: number;
  #toPassOver: number;

  /**
   * @param max The largest number of reads.
   * @param maxMs The time after which no more is read, in milliseconds.
   */
  constructor(max: number, maxMs: number) {
    this.isLimited = max !== Infinity || maxMs !== Infinity;
    this.#until = performance.now() + maxMs;
    this.#left = max;
    this.#toPassOver = PASSED_OVER * max;
  }

  /** Notes a step, with an event or without; false if it is one too many. */
  add(visit: Visit): boolean {
    this.isCut = this.#left <= 0 || this.#toPassOver <= 0 ||
      (this.last !== undefined && performance.now() > this.#until);
    if (this.isCut) return false;
    if (visit.event) this.#left--;
    else this.#toPassOver--;
    this.last = visit;
    return true;
  }
}

const END: IteratorReturnResult<undefined> = { done: true, value: undefined };

/** The events of one list, and the place where another one can continue it. */
class EventPage implements EventList {
  cursor: string | undefined;
  readonly #found: AsyncGenerator<FoundEvent>;
  readonly #reads: Reads;
  #left: number;
  #isEnded = false;

  constructor(
    found: AsyncGenerator<FoundEvent>,
    limit: number,
    reads: Reads,
    cursor: string | undefined,
  ) {
    this.cursor = cursor;
    this.#found = found;
    this.#reads = reads;
    this.#left = limit;
  }

  get reachedAt(): number | undefined {
    return this.#reads.last?.reachedAt;
  }

  async next(): Promise<IteratorResult<StoredEvent, undefined>> {
    if (this.#isEnded) return END;
    const { done, value } = await this.#found.next().catch((error) => {
      // The list is not at its end: its cursor stays.
      this.#isEnded = true;
      throw error;
    });
    // Behind the last event of a full page, one more tells whether there are any.
    if (done) this.cursor = this.#reads.isCut ? this.#reads.last?.place : undefined;
    if (done || this.#left-- <= 0) return await this.return();
    this.cursor = value.place;
    return { done: false, value: value.event };
  }

  async return(): Promise<IteratorReturnResult<undefined>> {
    this.#isEnded = true;
    await this.#found.return(undefined);
    return END;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** Finds the time since which a queued event waits that is due: planned waits do not count. */
function waitsSince({ receivedAt, plannedMs = 0, quiet }: EventRecord, now: number): number {
  return Math.min(receivedAt + plannedMs + (quiet?.waitedMs ?? 0), now);
}

/** The progress of an operation on many events. */
class Work {
  readonly #options: BulkOptions;
  readonly #left: Set<string>;
  #seen = 0;
  #changed = 0;

  /** @param ids The ids of the filter, of which the result names the unchanged ones. */
  constructor(options: BulkOptions = {}, ids: readonly string[] = []) {
    this.#options = options;
    this.#left = new Set(ids);
  }

  /** True once it is to end. */
  get ended(): boolean {
    return this.#options.signal?.aborted ?? false;
  }

  /** The result so far. */
  get result(): BulkResult {
    return { changed: this.#changed, left: [...this.#left] };
  }

  /** Counts an event that was read. */
  sawOne(): void {
    this.#seen++;
    this.#report();
  }

  /** Counts an event that was changed. */
  hasChanged(id: string): void {
    this.#left.delete(id);
    this.#changed++;
    this.#report();
  }

  #report(): void {
    this.#options.onProgress?.({ seen: this.#seen, changed: this.#changed });
  }
}
