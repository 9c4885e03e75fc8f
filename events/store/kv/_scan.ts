import type { BulkOptions, BulkResult, EventFilter } from "../event_operations.ts";
import type { EventRecord, EventRef, StoredEvent } from "../event_record.ts";
import { Pool } from "./_concurrency.ts";
import type { StoreKeys } from "./_layout.ts";
import { isOpenState, openRefs } from "./_open_events.ts";
import { cutKey } from "./_ordering_groups.ts";
import type { StoreParts } from "./_parts.ts";
import {
  type Entry,
  FIRST,
  isForeign,
  LAST,
  list,
  listAround,
  type ListedEntry,
  NumberedEntries,
  read,
  readAll,
} from "./_reads.ts";
import { MARK, refOf, toStoredEvent } from "./_layout.ts";
import { Write } from "./_write.ts";

/**
 * The number of records read at a time while all are read. A remote KV takes 45 ms for 100, and hardly
 * more for 500.
 */
const BATCH_SIZE = 500;

/** The number of records read at a time by their ids. */
const BY_IDS = 100;

/** The number of open events that are looked for by the schedule and the ordering groups. */
const MAX_OPEN = 2_000;

/** The time for which it is remembered that there are more, in milliseconds. */
const CROWDED_MS = 5_000;

/** The time for which the index of dead events counts as complete. */
const INDEXED_MS = 86_400_000;

const encoder = new TextEncoder();

/** The times between which events were received: from the first one on, and before the second. */
type Range = readonly [from: number, before: number];

/** The way through the events: its direction, the event behind which it begins, and its end. */
export interface Way {
  /** Set if the newest event comes first. */
  readonly isNewestFirst?: boolean;
  /** The event that came last on the same way, which need not exist any more. */
  readonly after?: EventRef | undefined;
  /** The limit of what is read; none if it may take any number of reads. */
  readonly reads?: Reads | undefined;
}

/** A limited number of reads, and what they have come to. */
export class Reads {
  /** The event that was read last, whether it matched or not. */
  last: EventRef | undefined;
  /** Set if the search has ended before the last event. */
  isCut = false;
  /** Set if the indexes of open and dead events are used as they are. */
  readonly isLimited: boolean;
  readonly #until: number;
  #left: number;

  /**
   * @param max The largest number of reads.
   * @param maxMs The time after which no more is read, in milliseconds.
   */
  constructor(max: number, maxMs: number) {
    this.isLimited = max !== Infinity || maxMs !== Infinity;
    this.#until = performance.now() + maxMs;
    this.#left = max;
  }

  /** Notes an event that was read; false if it is one too many. */
  add(ref: EventRef): boolean {
    this.isCut = this.#left <= 0 || (this.last !== undefined && performance.now() > this.#until);
    if (this.isCut) return false;
    this.#left--;
    this.last = ref;
    return true;
  }
}

/** An event as it was found. */
export interface FoundEvent extends ListedEntry {
  readonly event: StoredEvent;
}

/** The progress of an operation on many events. */
export class Work {
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

  /** Counts events that were changed. */
  hasChanged(ids: readonly string[]): void {
    for (const id of ids) this.#left.delete(id);
    this.#changed += ids.length;
    this.#report();
  }

  #report(): void {
    this.#options.onProgress?.({ seen: this.#seen, changed: this.#changed });
  }
}

/**
 * Finds the events that match a filter. Dead ones are found by their index, which is written with their
 * death. Those that the first layout has left have no entry in it: before the index is used, all records are
 * read and the missing entries are added. A mark notes that for a day: a process of an older version that
 * runs beside this one may still bury events without an entry, and until then they would not be found.
 */
export class EventScan {
  readonly #parts: StoreParts;
  /** The time until which open events are not looked for by the schedule, since there were too many. */
  #crowdedUntil = -Infinity;

  constructor(parts: StoreParts) {
    this.#parts = parts;
  }

  /** Finds events until the work is ended: the oldest first, or the newest, and from a place on. */
  async *find(filter: EventFilter, work?: Work, way: Way = {}): AsyncGenerator<FoundEvent> {
    const range = rangeOf(filter, way);
    if (range[0] >= range[1]) return;
    for await (const entry of this.#entries(filter, range, way, work)) {
      if (work?.ended) return;
      work?.sawOne();
      const ref = refOf(entry.key);
      if (way.after && !isBehind(ref, way.after, way.isNewestFirst)) continue;
      if (way.reads && !way.reads.add(ref)) return;
      const event = toStoredEvent(entry);
      if (matches(event, filter)) yield { ...entry, event };
    }
  }

  async *#entries(
    { ids, state }: EventFilter,
    range: Range,
    way: Way,
    work?: Work,
  ): AsyncGenerator<ListedEntry> {
    const { kv, keys } = this.#parts;
    if (ids) {
      const refs = await refsOf(kv, keys, [...new Set(ids)]);
      refs.sort(compareRefs);
      return yield* entriesOf(kv, keys, way.isNewestFirst ? refs.reverse() : refs);
    }
    const isLimited = way.reads?.isLimited ?? false;
    if (state === "dead" && !isLimited) await this.#completeIndex(work);
    if (isLimited && isOpenState(state) && performance.now() >= this.#crowdedUntil) {
      const refs = await openRefs(this.#parts, MAX_OPEN);
      if (!refs) this.#crowdedUntil = performance.now() + CROWDED_MS;
      else return yield* entriesOf(kv, keys, onWay(refs, range, way));
    }
    if (way.isNewestFirst) yield* this.#backwards(range, state === "dead");
    else if (state === "dead") yield* this.#deadBetween(range);
    else yield* entriesBetween(kv, keys, range);
  }

  /** Reads the entries of events from the last one back, dead ones by their index. */
  async *#backwards(range: Range, areDead: boolean): AsyncGenerator<ListedEntry> {
    const { kv, keys } = this.#parts;
    const selector = areDead ? keys.deadBetween(...range) : keys.eventsBetween(...range);
    const options = { reverse: true, batchSize: areDead ? BY_IDS : BATCH_SIZE };
    let last: EventRef | undefined;
    const refs: EventRef[] = [];
    try {
      for await (const entry of list(kv, selector, options)) {
        last = refOf(entry.key);
        if (!areDead) yield entry;
        else if (refs.push(last) === BY_IDS) yield* entriesOf(kv, keys, refs.splice(0));
      }
    } catch (error) {
      if (!isForeign(error)) throw error;
      // From there back events are read by their ids.
      const rest = (await refsBetween(kv, keys, range)).reverse();
      for (const ref of rest) if (!last || isBehind(ref, last, true)) refs.push(ref);
    }
    yield* entriesOf(kv, keys, refs);
  }

  /** Reads the entries of dead events by their index. */
  async *#deadBetween([after, before]: Range): AsyncGenerator<ListedEntry> {
    const { kv, keys } = this.#parts;
    const index = new NumberedEntries(kv, keys.deadIndex);
    const [from, to] = [Math.floor(after), Math.ceil(before)];
    let refs: EventRef[] = [];
    for await (const { key } of index.list(Math.max(FIRST, from), Math.min(LAST, to), BATCH_SIZE)) {
      if (key.length === 4) refs.push(refOf(key));
      // An entry that cannot be decoded: the records of that millisecond are read instead.
      else if (typeof key.at(-1) === "number") {
        yield* entriesOf(kv, keys, refs.splice(0));
        yield* entriesBetween(kv, keys, [Number(key.at(-1)), Number(key.at(-1)) + 1]);
      }
      if (refs.length < BY_IDS) continue;
      yield* entriesOf(kv, keys, refs);
      refs = [];
    }
    yield* entriesOf(kv, keys, refs);
  }

  /** Adds the dead events that have no entry in the index, unless the work is ended meanwhile. */
  async #completeIndex(work?: Work): Promise<void> {
    const { kv, keys, commits } = this.#parts;
    if ((await read(kv, keys.deadIndexed)).versionstamp !== null) return;
    const pool = new Pool(BY_IDS);
    try {
      for await (const entry of entriesBetween(kv, keys, [0, Infinity])) {
        if (work?.ended) return;
        const event = toStoredEvent(entry);
        if (event.state !== "dead") continue;
        // If it changes meanwhile, that change has written or deleted its entry.
        const write = new Write().check(entry).set(keys.dead(event), MARK);
        await pool.add(async () => void await commits.commit(write));
      }
    } finally {
      await pool.done();
    }
    await commits.commit(new Write().set(keys.deadIndexed, MARK, { expireIn: INDEXED_MS }));
  }
}

/**
 * Reads the entries of the events received from a time on and before another, in their order. A value
 * whose bytes cannot be decoded fails the reading of all that are read with it, and not even its key is
 * known: from there on events are read by their ids.
 */
async function* entriesBetween(
  kv: Deno.Kv,
  keys: StoreKeys,
  [from, before]: Range,
): AsyncGenerator<ListedEntry> {
  let time = from;
  let seenThen: string[] = [];
  try {
    const selector = keys.eventsBetween(from, before);
    for await (const entry of list(kv, selector, { batchSize: BATCH_SIZE })) {
      yield entry;
      const { id, receivedAt } = refOf(entry.key);
      if (receivedAt !== time) seenThen = [];
      seenThen.push(id);
      time = receivedAt;
    }
  } catch (error) {
    if (!isForeign(error)) throw error;
    const refs = await refsBetween(kv, keys, [time, before]);
    const rest = refs.filter((ref) => ref.receivedAt > time || !seenThen.includes(ref.id));
    yield* entriesOf(kv, keys, rest);
  }
}

/** Reads the entries of events. */
async function* entriesOf(
  kv: Deno.Kv,
  keys: StoreKeys,
  refs: readonly EventRef[],
): AsyncGenerator<ListedEntry> {
  for (let i = 0; i < refs.length; i += BY_IDS) {
    const wanted = refs.slice(i, i + BY_IDS).map((ref) => keys.event(ref));
    for (const entry of await readAll(kv, wanted)) if (isThere(entry)) yield entry;
  }
}

function isThere(entry: Entry): entry is ListedEntry {
  return entry.versionstamp !== null;
}

/** Lists the events received from a time on and before another by their ids, in their order. */
async function refsBetween(
  kv: Deno.Kv,
  keys: StoreKeys,
  [from, before]: Range,
): Promise<EventRef[]> {
  const refs: EventRef[] = [];
  for await (const { key, value } of listAround(kv, keys.ids, BATCH_SIZE)) {
    if (typeof value !== "number" || value < from || value >= before) continue;
    refs.push({ id: String(key.at(-1)), receivedAt: value });
  }
  return refs.sort(compareRefs);
}

async function refsOf(
  kv: Deno.Kv,
  keys: StoreKeys,
  ids: readonly string[],
): Promise<EventRef[]> {
  const entries = await readAll(kv, ids.map((id) => keys.id(id)));
  return entries.flatMap(({ value }, i) =>
    typeof value === "number" ? [{ id: ids[i]!, receivedAt: value }] : []
  );
}

/** Narrows the times of a filter to those on the way that is left. */
function rangeOf({ receivedAfter = 0, receivedBefore = Infinity }: EventFilter, way: Way): Range {
  const { after, isNewestFirst } = way;
  if (!after) return [receivedAfter, receivedBefore];
  return isNewestFirst
    ? [receivedAfter, Math.min(receivedBefore, after.receivedAt + 1)]
    : [Math.max(receivedAfter, after.receivedAt), receivedBefore];
}

/** Checks whether one event comes behind another. */
function isBehind(ref: EventRef, other: EventRef, isNewestFirst = false): boolean {
  return isNewestFirst ? compareRefs(ref, other) < 0 : compareRefs(ref, other) > 0;
}

/** Chooses the events that lie on a way, in its order. */
function onWay(refs: readonly EventRef[], [from, before]: Range, way: Way): EventRef[] {
  const { after, isNewestFirst } = way;
  const wanted = refs.filter((ref) =>
    ref.receivedAt >= from && ref.receivedAt < before &&
    (!after || isBehind(ref, after, isNewestFirst))
  ).sort(compareRefs);
  return isNewestFirst ? wanted.reverse() : wanted;
}

/** Compares events as a KV does: by time, and then by the bytes of their ids. */
function compareRefs(a: EventRef, b: EventRef): number {
  if (a.receivedAt !== b.receivedAt) return a.receivedAt - b.receivedAt;
  const [first, second] = [encoder.encode(a.id), encoder.encode(b.id)];
  const at = first.findIndex((byte, i) => byte !== second[i]);
  if (at < 0) return first.length - second.length;
  return first[at]! - (second[at] ?? -1);
}

/** Checks whether an event matches a filter, its ids aside. */
export function matches(event: StoredEvent, filter: EventFilter): boolean {
  const { state, receivedAfter = -Infinity, receivedBefore = Infinity } = filter;
  return (state === undefined || event.state === state) &&
    event.receivedAt >= receivedAfter && event.receivedAt < receivedBefore &&
    (event.state === "unreadable" ? !asksForMore(filter) : isOfKind(event, filter));
}

/** Checks whether a filter has conditions on what is not known of an unreadable event. */
function asksForMore(filter: EventFilter): boolean {
  const { outcome, type, source, repository, chat, orderingKey, settledBefore } = filter;
  return [outcome, type, source, repository, chat, orderingKey, settledBefore].some((each) =>
    each !== undefined
  );
}

function isOfKind(event: EventRecord, filter: EventFilter): boolean {
  const { outcome, type, source, repository, chat, orderingKey, settledBefore } = filter;
  return (outcome === undefined || event.outcome === outcome) &&
    (type === undefined || event.type === type || `${event.type}.${event.action}` === type) &&
    (source === undefined || event.source === source || event.intake === source) &&
    (repository === undefined || event.repository?.fullName === repository) &&
    (chat === undefined || event.chat?.id === chat) &&
    (orderingKey === undefined || event.orderingKey === cutKey(orderingKey)) &&
    (settledBefore === undefined || (event.settledAt ?? Infinity) < settledBefore);
}
