import {
  type EventFilter,
  type EventRef,
  isOpen,
  OPEN_STATES,
  type OpenState,
} from "../event_record.ts";
import { refOf } from "./_layout.ts";
import {
  firstPlace,
  namedOpen,
  type OpenLimits,
  type OpenPlace,
  openRefs,
  refsOf,
} from "./_open_events.ts";
import type { StoreParts } from "./_parts.ts";
import { isGap, list, type ListedEntry, readAll } from "./_reads.ts";

/**
 * The number of records read at a time while all are read. A remote KV takes 45 ms for 100, and hardly
 * more for 500.
 */
const BATCH_SIZE = 500;

/** The number of records read at a time by their ids. */
const BY_IDS = 100;

/** The number of the newest records that are read before the indexes of open events. */
const NEWEST = 2_000;

/** The limits of the indexes of open events within which the events of a page come in their order. */
const FEW: OpenLimits = { refs: 2_000, entries: 4_000 };

/** The same for a list without a limit of reads: the memory that they take is 50 MB. */
const MANY: OpenLimits = { refs: 300_000, entries: 2_000_000 };

/** The time for which it is remembered that there are more open events than a page orders, in milliseconds. */
const CROWDED_MS = 5_000;

const encoder = new TextEncoder();

/** The times between which events were received: from the first one on, and before the second. */
type Range = readonly [from: number, before: number];

/** The way through the events: its direction, the event behind which it begins, and its end. */
export interface Way {
  /** Set if the newest event comes first. */
  readonly isNewestFirst?: boolean | undefined;
  /** The place at which the same way has ended before: an event, even if it is gone by now, or a place in an index. */
  readonly after?: Place | undefined;
  /** Set if only open events are meant. */
  readonly onlyOpen?: boolean | undefined;
  /** Set if it has to begin soon, and so may come in the order of an index. */
  readonly isLimited?: boolean | undefined;
}

/** A place on the way: an event that was read, or one in the indexes of open events. */
export type Place = EventRef | OpenPlace;

/** A record that is to be read, or none, and the place on the way. */
interface Wanted {
  readonly ref: EventRef | undefined;
  readonly place: Place;
}

/** A record that was read, or none, and the place on the way. */
export interface Visit {
  readonly entry: ListedEntry | undefined;
  readonly place: Place;
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

  /** Goes through the events that may match a filter: the oldest first, or the newest, and from a place on. */
  async *visits(filter: EventFilter, way: Way): AsyncGenerator<Visit> {
    const [from, before] = rangeOf(filter, way);
    if (from >= before) return;
    const { ids, state } = filter;
    const { after, isLimited, onlyOpen = false } = way;
    if (after && !isEvent(after)) return yield* this.#read(namedOpen(this.#parts, after));
    if (ids) {
      const refs = await refsOf(this.#parts, [...new Set(ids)]);
      return yield* this.#read(onWay(refs, filter, way));
    }
    if (isOpen(filter) && isLimited) {
      const refs = await this.#few(filter.state);
      if (refs) return yield* this.#read(onWay(refs, filter, way));
      // In the order of the indexes.
      if (!after) return yield* this.#read(namedOpen(this.#parts, firstPlace(filter.state)));
    } else if (isOpen(filter) || (onlyOpen && state === undefined)) {
      return yield* this.#open(filter, way);
    }
    yield* this.#inOrder(filter, way);
  }

  /** Reads open events in the order in which they were received. */
  async *#open(filter: EventFilter, way: Way): AsyncGenerator<Visit> {
    let [rest, number] = [way, 0];
    if (way.isNewestFirst) {
      // A list of the last ones seldom needs more than these.
      for await (const visit of this.#inOrder(filter, way)) {
        yield visit;
        rest = { ...way, after: visit.place };
        if (++number >= NEWEST) break;
      }
      if (number < NEWEST) return;
    }
    const refs = await openRefs(this.#parts, isOpen(filter) ? [filter.state] : OPEN_STATES, MANY);
    if (refs) yield* this.#read(onWay(refs, filter, rest));
    else yield* this.#inOrder(filter, rest);
  }

  /** Finds the open events of a state; that there are too many to sort them for a page is remembered. */
  async #few(state: OpenState): Promise<EventRef[] | undefined> {
    if (performance.now() < (this.#crowdedUntil.get(state) ?? -Infinity)) return undefined;
    const refs = await openRefs(this.#parts, [state], FEW);
    if (!refs) this.#crowdedUntil.set(state, performance.now() + CROWDED_MS);
    return refs;
  }

  /** Reads events in the order in which they were received: dead ones by their index. */
  async *#inOrder(filter: EventFilter, way: Way): AsyncGenerator<Visit> {
    const { keys } = this.#parts;
    const range = rangeOf(filter, way);
    if (filter.state !== "dead") return yield* this.#list(keys.eventsBetween(...range), way);
    yield* this.#read(this.#list(keys.deadBetween(...range), way));
  }

  /** Lists the entries with the keys of events that are on the way. */
  async *#list(selector: Deno.KvListSelector, way: Way) {
    const options = { reverse: way.isNewestFirst ?? false, batchSize: BATCH_SIZE };
    for await (const entry of list(this.#parts.kv, selector, options)) {
      const ref = refOf(entry.key);
      if (!isGap(entry) && isOnWay(ref, way)) yield { entry, ref, place: ref };
    }
  }

  /** Reads the records of events, some at a time. */
  async *#read(wanted: Iterable<Wanted> | AsyncIterable<Wanted>): AsyncGenerator<Visit> {
    let [page, refs]: [Wanted[], number] = [[], 0];
    for await (const each of wanted) {
      page.push(each);
      if (each.ref) refs++;
      if (refs < BY_IDS && page.length < BATCH_SIZE) continue;
      yield* this.#readPage(page);
      [page, refs] = [[], 0];
    }
    yield* this.#readPage(page);
  }

  async *#readPage(page: readonly Wanted[]): AsyncGenerator<Visit> {
    const { kv, keys } = this.#parts;
    const wanted = page.flatMap(({ ref }) => ref ? [keys.event(ref)] : []);
    const entries = (await readAll(kv, wanted)).values();
    for (const { ref, place } of page) {
      const entry = ref && entries.next().value!;
      yield { entry: entry?.versionstamp ? entry as ListedEntry : undefined, place };
    }
  }
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

/** Checks whether an event is on the way that is left, and not behind it. */
function isOnWay(ref: EventRef, { after, isNewestFirst = false }: Way): boolean {
  if (!isEvent(after)) return true;
  return isNewestFirst ? compareRefs(ref, after) < 0 : compareRefs(ref, after) > 0;
}

/** Chooses the events that lie on a way, in its order. */
function onWay(refs: readonly EventRef[], filter: EventFilter, way: Way): Wanted[] {
  const [from, before] = rangeOf(filter, way);
  const wanted = refs.filter((ref) =>
    ref.receivedAt >= from && ref.receivedAt < before && isOnWay(ref, way)
  ).sort(compareRefs);
  return (way.isNewestFirst ? wanted.reverse() : wanted).map((ref) => ({ ref, place: ref }));
}

/** Compares events as a KV does: by time, and then by the bytes of their ids. */
function compareRefs(a: EventRef, b: EventRef): number {
  if (a.receivedAt !== b.receivedAt) return a.receivedAt - b.receivedAt;
  const [first, second] = [encoder.encode(a.id), encoder.encode(b.id)];
  const at = first.findIndex((byte, i) => byte !== second[i]);
  if (at < 0) return first.length - second.length;
  return first[at]! - (second[at] ?? -1);
}
