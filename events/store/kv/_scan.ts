import { CursorError, type Scan, type Visit } from "../engine.ts";
import { type EventRef, isOpen, OPEN_STATES, type OpenState } from "../event_record.ts";
import { eventOf, refOf } from "./_layout.ts";
import {
  firstPlace,
  namedOpen,
  type OpenLimits,
  type OpenPlace,
  openRefs,
  placeIn,
  refsOf,
  textOfPlace,
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

/** A place on the way: an event, even if it is gone by now, or one in the indexes of open events. */
type Place = EventRef | OpenPlace;

/** A scan whose place was read. */
interface Way extends Omit<Scan, "after"> {
  readonly after?: Place | undefined;
}

/** A record that is to be read, or was, or none, and the place on the way. */
interface Step {
  readonly ref: EventRef | undefined;
  readonly place: Place;
  readonly entry?: ListedEntry | undefined;
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

  /**
   * Goes through the events that may match a filter: the oldest first, or the newest, and from a place on.
   *
   * @throws {CursorError} If the scan begins behind something else than a place.
   */
  visits({ after, ...scan }: Scan): AsyncGenerator<Visit> {
    return visitsOf(this.#steps({ ...scan, after: placeAt(after) }));
  }

  async *#steps(way: Way): AsyncGenerator<Step> {
    const [from, before] = rangeOf(way);
    if (from >= before) return;
    const { after, filter, isLimited, onlyOpen = false } = way;
    const { ids, state } = filter;
    if (after && !isEvent(after)) return yield* this.#read(namedOpen(this.#parts, after));
    if (filter.problem !== undefined && !ids) return yield* this.#inOrder(way);
    if (ids) {
      const refs = await refsOf(this.#parts, [...new Set(ids)]);
      return yield* this.#read(onWay(refs, way));
    }
    if (isOpen(filter) && isLimited) {
      const refs = await this.#few(filter.state);
      if (refs) return yield* this.#read(onWay(refs, way));
      // In the order of the indexes.
      if (!after) return yield* this.#read(namedOpen(this.#parts, firstPlace(filter.state)));
    } else if (isOpen(filter) || (onlyOpen && state === undefined)) {
      return yield* this.#open(way, isOpen(filter) ? [filter.state] : OPEN_STATES);
    }
    yield* this.#inOrder(way);
  }

  /** Reads open events in the order in which they were received. */
  async *#open(way: Way, states: readonly OpenState[]): AsyncGenerator<Step> {
    let [rest, number] = [way, 0];
    if (way.isNewestFirst) {
      // A list of the last ones seldom needs more than these.
      for await (const step of this.#inOrder(way)) {
        yield step;
        rest = { ...way, after: step.place };
        if (++number >= NEWEST) break;
      }
      if (number < NEWEST) return;
    }
    const refs = await openRefs(this.#parts, states, MANY);
    if (refs) yield* this.#read(onWay(refs, rest));
    else yield* this.#inOrder(rest);
  }

  /** Finds the open events of a state; that there are too many to sort them for a page is remembered. */
  async #few(state: OpenState): Promise<EventRef[] | undefined> {
    if (performance.now() < (this.#crowdedUntil.get(state) ?? -Infinity)) return undefined;
    const refs = await openRefs(this.#parts, [state], FEW);
    if (!refs) this.#crowdedUntil.set(state, performance.now() + CROWDED_MS);
    return refs;
  }

  /** Reads events in the order in which they were received: dead ones by their index. */
  async *#inOrder(way: Way): AsyncGenerator<Step> {
    const { keys } = this.#parts;
    const range = rangeOf(way);
    const { problem, state } = way.filter;
    if (problem !== undefined) return yield* this.#read(this.#failed(problem, range, way));
    if (state !== "dead") return yield* this.#list(keys.eventsBetween(...range), way);
    yield* this.#read(this.#list(keys.deadBetween(...range), way));
  }

  /** Lists the events of a problem. Those in other states are steps as well, so that a page is bounded by them. */
  async *#failed(problem: string, range: Range, way: Way): AsyncGenerator<Step> {
    const { filter: { state }, onlyOpen = false } = way;
    const isMeant = (isDead: unknown) =>
      isDead ? state === "dead" || (state === undefined && !onlyOpen) : state !== "dead";
    const selector = this.#parts.keys.failedBetween(problem, ...range);
    for await (const step of this.#list(selector, way)) {
      yield isMeant(step.entry!.value) ? step : { ref: undefined, place: step.place };
    }
  }

  /** Lists the entries with the keys of events that are on the way. */
  async *#list(selector: Deno.KvListSelector, way: Way): AsyncGenerator<Step> {
    const options = { reverse: way.isNewestFirst ?? false, batchSize: BATCH_SIZE };
    for await (const entry of list(this.#parts.kv, selector, options)) {
      const ref = refOf(entry.key);
      if (!isGap(entry) && isOnWay(ref, way)) yield { entry, ref, place: ref };
    }
  }

  /** Reads the records of events, some at a time. */
  async *#read(steps: Iterable<Step> | AsyncIterable<Step>): AsyncGenerator<Step> {
    let [page, refs]: [Step[], number] = [[], 0];
    for await (const step of steps) {
      page.push(step);
      if (step.ref) refs++;
      if (refs < BY_IDS && page.length < BATCH_SIZE) continue;
      yield* this.#readPage(page);
      [page, refs] = [[], 0];
    }
    yield* this.#readPage(page);
  }

  async *#readPage(page: readonly Step[]): AsyncGenerator<Step> {
    const { kv, keys } = this.#parts;
    const wanted = page.flatMap(({ ref }) => ref ? [keys.event(ref)] : []);
    const entries = (await readAll(kv, wanted)).values();
    for (const { ref, place } of page) {
      const entry = ref && entries.next().value!;
      yield { ref, place, entry: entry?.versionstamp ? entry as ListedEntry : undefined };
    }
  }
}

async function* visitsOf(steps: AsyncIterable<Step>): AsyncGenerator<Visit> {
  for await (const { entry, place } of steps) {
    const event = entry && eventOf(entry);
    const reachedAt = isEvent(place) ? place.receivedAt : undefined;
    yield { event, place: textOf(place), reachedAt };
  }
}

/** Writes a place as a text. */
function textOf(place: Place): string {
  return isEvent(place) ? `${place.receivedAt}:${place.id}` : textOfPlace(place);
}

/** Reads a place from a text: an event that it names may be gone. */
function placeAt(text: string | undefined): Place | undefined {
  if (text === undefined) return undefined;
  const [, time, id] = /^(-?\d{1,16}(?:\.\d{1,16})?):(.*)$/s.exec(text) ?? [];
  const place = id === undefined ? placeIn(text) : { id, receivedAt: Number(time) };
  if (place) return place;
  throw new CursorError(text);
}

/** Checks for the place of an event. */
function isEvent(place: Place | undefined): place is EventRef {
  return place !== undefined && "id" in place;
}

/** Narrows the times of a filter to those on the way that is left. */
function rangeOf({ filter, after, isNewestFirst }: Way): Range {
  const { receivedAfter = 0, receivedBefore = Infinity } = filter;
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
function onWay(refs: readonly EventRef[], way: Way): Step[] {
  const [from, before] = rangeOf(way);
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
