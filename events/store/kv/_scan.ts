import type { BulkOptions, BulkResult, EventFilter } from "../event_operations.ts";
import {
  type EventRecord,
  type EventRef,
  isOpen,
  OPEN_STATES,
  type OpenState,
  type StoredEvent,
} from "../event_record.ts";
import type { StoreKeys } from "./_layout.ts";
import {
  firstPlace,
  type Named,
  namedOpen,
  type OpenLimits,
  type OpenPlace,
  openRefs,
} from "./_open_events.ts";
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
  readAll,
} from "./_reads.ts";
import { refOf, toStoredEvent } from "./_layout.ts";

/**
 * The number of records read at a time while all are read. A remote KV takes 45 ms for 100, and hardly
 * more for 500.
 */
const BATCH_SIZE = 500;

/** The number of records read at a time by their ids. */
const BY_IDS = 100;

/** The number of the newest records that are read before the indexes of all open events. */
const NEWEST = 2_000;

/** The limits of the indexes of open events within which the events of a page come in their order. */
const FEW: OpenLimits = { refs: 2_000, entries: 4_000 };

/** The same for a list without a limit of reads: the memory that they take is 50 MB. */
const MANY: OpenLimits = { refs: 300_000, entries: 2_000_000 };

/** The number of entries of an index that may be passed over for each record that may be read. */
const PASSED_OVER = 20;

/** The time for which it is remembered that there are more open events than a page orders, in milliseconds. */
const CROWDED_MS = 5_000;

const encoder = new TextEncoder();

/** The times between which events were received: from the first one on, and before the second. */
type Range = readonly [from: number, before: number];

/** The way through the events: its direction, the event behind which it begins, and its end. */
export interface Way {
  /** Set if the newest event comes first. */
  readonly isNewestFirst?: boolean;
  /** The place at which the same way has ended before: an event, which need not exist any more, or an index. */
  readonly after?: Place | undefined;
  /** Set if only open events are meant. */
  readonly onlyOpen?: boolean;
  /** The limit of what is read; none if it may take any number of reads. */
  readonly reads?: Reads | undefined;
}

/** A place on the way: an event that was read, or one in the indexes of open events. */
export type Place = EventRef | OpenPlace;

/** A record that was read, or none, and the place on the way. */
interface Visit {
  readonly entry: ListedEntry | undefined;
  readonly place: Place;
}

/** A limited number of reads, and what they have come to. */
export class Reads {
  /** The place that was read last, whether an event matched there or not. */
  last: Place | undefined;
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

  /** Notes a place that was read, with a record or without; false if it is one too many. */
  add({ entry, place }: Visit): boolean {
    this.isCut = this.#left <= 0 || this.#toPassOver <= 0 ||
      (this.last !== undefined && performance.now() > this.#until);
    if (this.isCut) return false;
    if (entry) this.#left--;
    else this.#toPassOver--;
    this.last = place;
    return true;
  }
}

/** An event as it was found. */
export interface FoundEvent extends ListedEntry {
  readonly event: StoredEvent;
  /** The place at which it was found. */
  readonly place: Place;
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
 * Finds the events that match a filter: dead ones by their index, open ones by the schedule, the positions of
 * ordering groups and the names that are waited for, and all others by their records.
 *
 * Open events are read in the order in which they were received if they are few enough to be sorted. With a
 * limit of reads that holds for 2,000 of a state: if there are more, they come in the order of the indexes, and
 * the place is one in those.
 */
export class EventScan {
  readonly #parts: StoreParts;
  /** The times until which open events of a state are not sorted, since there were too many. */
  readonly #crowdedUntil = new Map<OpenState, number>();

  constructor(parts: StoreParts) {
    this.#parts = parts;
  }

  /** Finds events until the work is ended: the oldest first, or the newest, and from a place on. */
  async *find(filter: EventFilter, work?: Work, way: Way = {}): AsyncGenerator<FoundEvent> {
    const range = rangeOf(filter, way);
    if (range[0] >= range[1]) return;
    for await (const visit of this.#visits(filter, range, way)) {
      const { entry, place } = visit;
      if (work?.ended) return;
      if (entry) work?.sawOne();
      if (way.reads && !way.reads.add(visit)) return;
      if (!entry) continue;
      const event = toStoredEvent(entry);
      if (matches(event, filter)) yield { ...entry, event, place };
    }
  }

  async *#visits(filter: EventFilter, range: Range, way: Way): AsyncGenerator<Visit> {
    const { after } = way;
    if (after && !isEvent(after)) return yield* this.#named(after);
    const states = filter.ids ? [] : openStatesOf(filter, way);
    if (states.length === 0) return yield* visitsOf(this.#entries(filter, range, way), way);
    if (!way.reads?.isLimited) return yield* this.#open(states, filter, way);
    const [state] = states;
    const refs = await this.#few(state!);
    if (Array.isArray(refs)) yield* visitsOf(this.#entriesOf(onWay(refs, range, way)));
    else if (after || !refs) yield* visitsOf(this.#entries(filter, range, way), way);
    else yield* this.#named(firstPlace(state!));
  }

  /** Reads open events in the order in which they were received. */
  async *#open(states: readonly OpenState[], filter: EventFilter, way: Way): AsyncGenerator<Visit> {
    let [rest, number] = [way, 0];
    if (way.isNewestFirst) {
      // A list of the last ones seldom needs more than these.
      const newest = this.#backwards(rangeOf(filter, way), false);
      for await (const visit of visitsOf(newest, way)) {
        yield visit;
        rest = { ...way, after: visit.place };
        if (++number >= NEWEST) break;
      }
      if (number < NEWEST) return;
    }
    const range = rangeOf(filter, rest);
    const refs = await this.#refs(states, MANY);
    if (Array.isArray(refs)) yield* visitsOf(this.#entriesOf(onWay(refs, range, rest)));
    else yield* visitsOf(this.#entries(filter, range, rest), rest);
  }

  async *#entries(
    { ids, state }: EventFilter,
    range: Range,
    way: Way,
  ): AsyncGenerator<ListedEntry> {
    const { kv, keys } = this.#parts;
    if (ids) {
      const refs = await refsOf(kv, keys, [...new Set(ids)]);
      refs.sort(compareRefs);
      return yield* this.#entriesOf(way.isNewestFirst ? refs.reverse() : refs);
    }
    if (way.isNewestFirst) yield* this.#backwards(range, state === "dead");
    else if (state === "dead") yield* this.#deadBetween(range);
    else yield* entriesBetween(kv, keys, range);
  }

  #entriesOf(refs: readonly EventRef[]): AsyncGenerator<ListedEntry> {
    return entriesOf(this.#parts.kv, this.#parts.keys, refs);
  }

  /** Finds the open events of a state; that there are too many to sort them for a page is remembered. */
  async #few(state: OpenState): Promise<EventRef[] | "more" | undefined> {
    if (performance.now() < (this.#crowdedUntil.get(state) ?? -Infinity)) return "more";
    const refs = await this.#refs([state], FEW);
    if (refs === "more") this.#crowdedUntil.set(state, performance.now() + CROWDED_MS);
    return refs;
  }

  /** Finds the events of open states; undefined if an index cannot be decoded. */
  async #refs(
    states: readonly OpenState[],
    limits: OpenLimits,
  ): Promise<EventRef[] | "more" | undefined> {
    try {
      return await openRefs(this.#parts, states, limits) ?? "more";
    } catch (error) {
      if (isForeign(error)) return undefined;
      throw error;
    }
  }

  /** Reads open events in the order of their indexes, from a place on. */
  async *#named(from: OpenPlace): AsyncGenerator<Visit> {
    let page: Named[] = [];
    let refs = 0;
    for await (const named of namedOpen(this.#parts, from)) {
      page.push(named);
      if (named.ref) refs++;
      if (refs < BY_IDS && page.length < BATCH_SIZE) continue;
      yield* this.#read(page);
      [page, refs] = [[], 0];
    }
    yield* this.#read(page);
  }

  async *#read(page: readonly Named[]): AsyncGenerator<Visit> {
    const { kv, keys } = this.#parts;
    const wanted = page.flatMap(({ ref }) => ref ? [keys.event(ref)] : []);
    const entries = (await readAll(kv, wanted)).values();
    for (const { ref, place } of page) {
      const entry = ref && entries.next().value!;
      yield { entry: entry && isThere(entry) ? entry : undefined, place };
    }
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

/** Makes the visits of records that are read in the order in which they were received: those on a way. */
async function* visitsOf(
  entries: AsyncIterable<ListedEntry>,
  { after, isNewestFirst }: Way = {},
): AsyncGenerator<Visit> {
  for await (const entry of entries) {
    const place = refOf(entry.key);
    if (!isEvent(after) || isBehind(place, after, isNewestFirst)) yield { entry, place };
  }
}

/** Lists the open states that a list is limited to; none if it is not. */
function openStatesOf(filter: EventFilter, { onlyOpen = false }: Way): readonly OpenState[] {
  if (isOpen(filter)) return [filter.state];
  return onlyOpen && filter.state === undefined ? OPEN_STATES : [];
}

/** Checks for the place of an event. */
function isEvent(place: Place | undefined): place is EventRef {
  return place !== undefined && "id" in place;
}

/** Narrows the times of a filter to those on the way that is left. */
function rangeOf({ receivedAfter = 0, receivedBefore = Infinity }: EventFilter, way: Way): Range {
  const { after, isNewestFirst } = way;
  if (!isEvent(after)) return [receivedAfter, receivedBefore];
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
    (!isEvent(after) || isBehind(ref, after, isNewestFirst))
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
