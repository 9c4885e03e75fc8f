/**
 * The operations of somebody who runs a store, also while apps use it: lists, counts, and changes of many events. Each
 * event is changed by a change of its own, if it is still as it was found.
 *
 * @module
 */
import { checkInteger, checkObject, met } from "../../core/check_options.ts";
import { Pool } from "../../core/pool.ts";
import { untilDone } from "../../core/tries.ts";
import { firstOf } from "./_batches.ts";
import type { KeptPayloads } from "./_kept_payloads.ts";
import { NEXT_IS_DUE, settle } from "./_settlement.ts";
import { leavingName } from "./_waits.ts";
import {
  CursorError,
  type Engine,
  type Scan,
  type Stored,
  type Unreadable,
  type Visit,
} from "./engine.ts";
import {
  type BulkOptions,
  type BulkResult,
  checkChoice,
  checkFilter,
  type EventList,
  type EventOperations,
  type ListOptions,
  matches,
} from "./event_operations.ts";
import { type EventFilter, type EventRecord, isOpen, type StoredEvent } from "./event_record.ts";
import { cancelled, cancelledAlone, cancelRequested, isCancelRequested } from "./settlement.ts";
import { findEvent, type StoreCore } from "./store_core.ts";

/** The number of events that are changed at the same time: so many share a commit. */
const CONCURRENCY = 100;

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

/** Changes an event that was found; false if it is not meant, or not any more. */
type ChangeFound = (found: FoundEvent) => boolean | Promise<boolean>;

/** Puts a settled event back, if it is still meant. */
type Replay = (id: string, isMeant?: (record: EventRecord) => boolean) => Promise<boolean>;

/** The operations on events that are found. */
type OnEvents = Pick<
  EventOperations,
  "list" | "get" | "stats" | "replay" | "replayAll" | "cancel" | "cancelAll" | "purge"
>;

/**
 * Makes the operations on the events of a store.
 *
 * @param core The store.
 * @param kept The payloads that it keeps.
 * @param replay Puts an event back.
 * @returns The operations.
 */
export function eventOperations(core: StoreCore, kept: KeptPayloads, replay: Replay): OnEvents {
  const { engine } = core;

  async function changeAll(
    doing: string,
    filter: EventFilter,
    options: BulkOptions,
    change: ChangeFound,
    way?: Partial<Scan>,
  ): Promise<BulkResult> {
    checkChoice(doing, filter, options);
    const work = new Work(options, filter.ids);
    await changeEach(findAll(engine, filter, work, way), change, work);
    return work.result;
  }

  return {
    list: ((options = {}) => listEvents(engine, options)) as EventOperations["list"],
    replay: (id) => replay(id),

    async get(id) {
      const found = await findEvent(engine, id);
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

    async replayAll(filter, options = {}) {
      checkChoice("replay events", filter, options);
      const work = new Work(options, filter.ids);
      const meant = replayableOf(filter);
      const found = findAll(engine, meant, work);
      if (options.dryRun) await changeEach(found, (each) => canBeReplayed(kept, each), work);
      else await replayEach(found, (id) => replay(id, (record) => matches(record, meant)), work);
      return work.result;
    },

    cancel: (id) => cancelEvent(core, id),

    cancelAll(filter, options = {}) {
      return changeAll(
        "cancel events",
        filter,
        options,
        (found) => options.dryRun ? canBeCancelled(found) : cancelFound(core, filter, found),
        { onlyOpen: true },
      );
    },

    async purge(filter, options = {}) {
      const change: ChangeFound = (found) =>
        options.dryRun ? canBePurged(filter, found) : purgeFound(engine, kept, filter, found);
      const result = await changeAll("purge events", filter, options, change);
      // Their positions are not known, and the groups that they have held go on.
      const mayHaveHeld = filter.state === "unreadable" && result.changed > 0 && !options.dryRun;
      if (mayHaveHeld && (await engine.tidy({ groups: true })).groups > 0) {
        core.local.listener?.wake();
      }
      return result;
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
  if (after !== undefined && (typeof after !== "string" || !after.isWellFormed())) {
    throw new CursorError(after);
  }
  const reads = new Reads(maxReads, maxMs);
  const visits = engine.scan({
    ...{ filter: wellFormed(options), after },
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
  return find(engine.scan({ ...way, filter: wellFormed(filter) }), filter, work);
}

/** Leaves ids out of a filter that no event has: each text that an engine gets is well-formed. */
function wellFormed(filter: EventFilter): EventFilter {
  const { ids } = filter;
  return ids ? { ...filter, ids: ids.filter((id) => id.isWellFormed()) } : filter;
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

/** Changes events until the work is ended. Throws what a change throws, once those beside it are done. */
async function changeEach(
  events: AsyncIterable<FoundEvent>,
  change: ChangeFound,
  work: Work,
): Promise<void> {
  const pool = new Pool(CONCURRENCY);
  try {
    for await (const found of events) {
      await pool.add(async () => {
        if (!work.ended && await change(found)) work.hasChanged(found.event.id);
      });
    }
  } finally {
    await pool.done();
  }
}

/** Makes the filter of events that are to be put back: what a person has cancelled has to be named. */
function replayableOf(filter: EventFilter): EventFilter {
  const { state = "dead", outcome, ids } = filter;
  const isAnyDead = state === "dead" && outcome === undefined && ids === undefined;
  return { ...filter, state, ...(isAnyDead && { outcome: "failed" }) };
}

async function canBeReplayed(kept: KeptPayloads, { event }: FoundEvent): Promise<boolean> {
  if (event.state === "done") return await kept.has(event);
  return event.state === "dead" && event.payload !== null;
}

/**
 * Puts settled events back. Those with an ordering key come after the others, in the order in which they
 * were received, because they join their ordering groups in that order.
 */
async function replayEach(
  events: AsyncIterable<FoundEvent>,
  replay: Replay,
  work: Work,
): Promise<void> {
  const groups = new Map<string, { readonly id: string; readonly receivedAt: number }[]>();
  const change = async ({ event }: FoundEvent) => {
    if (event.state !== "done" && (event.state !== "dead" || !event.payload)) return false;
    const { id, orderingKey, receivedAt } = event;
    if (orderingKey === null) return await replay(id);
    const group = groups.get(orderingKey);
    if (group) group.push({ id, receivedAt });
    else groups.set(orderingKey, [{ id, receivedAt }]);
    return false;
  };
  await changeEach(events, change, work);
  const pool = new Pool(CONCURRENCY);
  for (const group of groups.values()) {
    await pool.add(async () => {
      for (const { id } of group.sort((a, b) => a.receivedAt - b.receivedAt)) {
        if (work.ended) return;
        if (await replay(id)) work.hasChanged(id);
      }
    });
  }
  await pool.done();
}

/** Cancels a queued event, or flags a running one, as long as it matches a filter. */
async function cancelEvent(
  core: StoreCore,
  id: string,
  filter: EventFilter = {},
): Promise<boolean> {
  return await untilDone(async () => {
    const found = await findEvent(core.engine, id);
    if (!found?.record || !isOpen(found.record) || !matches(found.record, filter)) return false;
    return await tryToCancel(core, found) || undefined;
  });
}

/** Cancels an event that was found, if it is queued or runs, and was not cancelled before. */
async function cancelFound(
  core: StoreCore,
  filter: EventFilter,
  found: FoundEvent,
): Promise<boolean> {
  const { stored, event: { id } } = found;
  if (!stored.record || !canBeCancelled(found)) return false;
  return await tryToCancel(core, stored) || await cancelEvent(core, id, filter) ||
    await isCancelledWithBatch(core, id);
}

function canBeCancelled({ event }: FoundEvent): boolean {
  return isOpen(event) && !isCancelRequested(event);
}

/** Checks whether an event was cancelled meanwhile together with the first one of its batch. */
async function isCancelledWithBatch({ engine }: StoreCore, id: string): Promise<boolean> {
  const [found] = await engine.get([id]);
  return found?.record?.outcome === "cancelled" && found.record.handledWith !== undefined;
}

/** Tries once; false if the event has changed meanwhile, or something else on which the change depends. */
async function tryToCancel(core: StoreCore, event: Stored): Promise<boolean> {
  const { record } = event;
  const now = core.engine.now();
  if (record.state === "queued") {
    const first = record.quiet && await firstOf(core.engine, record);
    if (!first) return Boolean(await settle(core, event, cancelled(record, now)));
    // It might note a part meanwhile, and that part would be this event's, too.
    const after = cancelledAlone(record, first.record, now);
    return Boolean(await settle(core, event, after, { unchanged: [first] }));
  }
  if (record.state === "parked") {
    const cells = await leavingName(core, record);
    return Boolean(await settle(core, event, cancelled(record, now), { cells }));
  }
  const isFlagged = isCancelRequested(record);
  if (!isFlagged && !await settle(core, event, cancelRequested(record, now))) return false;
  // Again if it was flagged before: by another process, or in a change whose answer was lost.
  for (const listener of core.listeners) listener.onCancelRequested?.(record.id);
  return true;
}

/** Checks whether an event is settled, or unreadable and meant as such. */
function canBePurged(filter: EventFilter, { event }: FoundEvent): boolean {
  return !isOpen(event) && (event.state !== "unreadable" || filter.state === "unreadable");
}

/** Deletes an event with its payload. */
async function purgeFound(
  engine: Engine,
  kept: KeptPayloads,
  filter: EventFilter,
  found: FoundEvent,
): Promise<boolean> {
  if (!canBePurged(filter, found)) return false;
  // Again if only its kept payload was dropped meanwhile.
  return await tryToPurge(engine, kept, found) ||
    (found.event.state === "done" && await tryToPurge(engine, kept, found));
}

async function tryToPurge(
  engine: Engine,
  kept: KeptPayloads,
  { stored, event }: FoundEvent,
): Promise<boolean> {
  const dropped = event.state === "done" ? await kept.drop(event) : undefined;
  const puts = [{ before: stored, after: null }];
  // One that cannot be read may be in a group.
  const change = { ...dropped, puts, leave: NEXT_IS_DUE, urgency: "work" } as const;
  return (await engine.apply(change)).ok;
}
