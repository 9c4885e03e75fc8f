import type { BoundedCount, Counts, Engine, ProblemCount } from "../engine.ts";
import { type EventRef, isEventRef, OPEN_STATES, type OpenState } from "../event_record.ts";
import { type KvParts, readEvents, type StoreKeys } from "./_layout.ts";
import { isGap, list, type ListedEntry, readAll, readFirst } from "./_reads.ts";
import { dueOf, isShared, readableEntry, type Schedule, type ScheduleEntry } from "./_schedule.ts";

/** The number of entries read at a time. */
const BATCH_SIZE = 500;

/** The number of records read at a time. */
const RECORDS = 100;

const NONE: BoundedCount = { count: 0, isMore: false };

/** The time in which nearly all leases end, in milliseconds. */
const SOON_MS = 60_000;

/** A place in the indexes of open events, from which on they are read. */
export interface OpenPlace {
  /** The state of the events. */
  readonly state: OpenState;
  /** The time at which the first reading began, milliseconds since the epoch. */
  readonly at: number;
  /** The part of the indexes. */
  readonly part: number;
  /** The end of the key of an entry of that part; none for its beginning. */
  readonly key: Deno.KvKey;
  /** The number of events of that entry that were read before; 1 if it names none. */
  readonly read: number;
}

/** An event that an index names, or none: the entry is of another state, and only tells how far a reading is. */
export interface Named {
  readonly ref: EventRef | undefined;
  /** Set if the entry tells that the event is in the state; otherwise only the record does. */
  readonly isSure: boolean;
  /** The place behind it. */
  readonly place: OpenPlace;
}

/** A part of the indexes: a range of keys, and the events that its entries name. */
interface Part {
  readonly selector: (keys: StoreKeys, at: number) => Deno.KvListSelector;
  /** Undefined for an entry that cannot be read: its key may name an event. */
  readonly refsIn: (entry: ListedEntry) => readonly EventRef[] | undefined;
}

/**
 * The parts of the indexes that lead to the events of each state. No event is in two parts. The states are in the
 * order in which events go through them: an event that moves on while all are read is not missed.
 *
 * Queued events are on the schedule, and those of an ordering group have a position in it. Running ones are on
 * the schedule at the end of their leases, on their own or together with others. Parked ones have the entries of
 * the names that they wait for. Entries of the schedule say what they are for, so a record is read only of an
 * event that is likely to be in the state.
 */
const PARTS: Readonly<Record<OpenState, readonly Part[]>> = {
  queued: [
    {
      selector: ({ positions }) => positions,
      refsIn: ({ value }) => isEventRef(value) ? [value] : [],
    },
    {
      selector: ({ schedule }) => schedule,
      refsIn: onSchedule({ isOwn: (entry) => !entry.state && !entry.group }),
    },
  ],
  running: [
    // Of those that share an entry most are settled by now, so these come behind.
    { selector: due((at) => at + 1, (at) => at + SOON_MS), refsIn: onSchedule({ isOwn: runs }) },
    {
      selector: due((at) => at + 1, (at) => at + SOON_MS),
      refsIn: onSchedule({ areShared: true }),
    },
    {
      selector: due(() => -Infinity, (at) => at + 1),
      refsIn: onSchedule({ isOwn: runs, areShared: true }),
    },
    {
      selector: due((at) => at + SOON_MS, () => Infinity),
      refsIn: onSchedule({ isOwn: runs, areShared: true }),
    },
  ],
  parked: [{ selector: ({ waiters }) => waiters, refsIn: waiterIn }],
};

/** Selects the schedule from a time on, and before another. */
function due(from: (at: number) => number, before: (at: number) => number): Part["selector"] {
  return ({ dueBetween }, at) => dueBetween(from(at), before(at));
}

/**
 * Makes a reader of the events that entries of the schedule name: on their own, or together with those that were
 * leased when they were stored.
 */
function onSchedule(
  { isOwn, areShared = false }: {
    readonly isOwn?: (entry: ScheduleEntry) => boolean;
    readonly areShared?: boolean;
  },
): Part["refsIn"] {
  return (entry) => {
    const known = readableEntry(entry);
    if (!known) return isOwn ? undefined : [];
    const { value } = known;
    return (isShared(value) ? areShared : isOwn?.(value)) ? dueOf(known) : [];
  };
}

/** Finds the event that the entry of a name is for. */
function waiterIn({ value }: ListedEntry): readonly EventRef[] {
  const { for: waiter } = Object(value);
  return isEventRef(waiter) ? [waiter] : [];
}

function runs({ state }: ScheduleEntry): boolean {
  return state === "running";
}

/** The beginning of the indexes of a state. */
export function firstPlace(state: OpenState): OpenPlace {
  return { state, at: Date.now(), part: 0, key: [], read: 0 };
}

/**
 * Reads the indexes of open events, from a place on. Some of those that it names may be in another state by now,
 * and one that changes meanwhile may come twice, or not at all.
 */
export async function* namedOpen(parts: KvParts, from: OpenPlace): AsyncGenerator<Named> {
  const { kv, keys } = parts;
  const indexes = PARTS[from.state];
  for (let number = from.part; number < indexes.length; number++) {
    const { selector, refsIn } = indexes[number]!;
    const start = number === from.part ? from.key : [];
    const whole = selector(keys, from.at);
    const prefix = "prefix" in whole ? whole.prefix : whole.start.slice(0, -1);
    const rest = start.length === 0 ? whole : { ...whole, start: [...prefix, ...start] };
    for await (const entry of list(kv, rest, { batchSize: BATCH_SIZE })) {
      if (isGap(entry)) continue;
      const key = entry.key.slice(prefix.length);
      const place = { state: from.state, at: from.at, part: number, key, read: 0 };
      const named = refsIn(entry);
      const refs = named ?? await refsOf(parts, [String(key.at(-1))]);
      const isSure = named !== undefined && !("events" in Object(entry.value));
      const isSame = start.length > 0 && key.every((part, i) => part === start[i]);
      const skipped = isSame ? from.read : 0;
      if (refs.length === 0 && skipped === 0) {
        yield { ref: undefined, isSure, place: { ...place, read: 1 } };
      }
      for (let i = skipped; i < refs.length; i++) {
        const { id, receivedAt } = refs[i]!;
        yield { ref: { id, receivedAt }, isSure, place: { ...place, read: i + 1 } };
      }
    }
  }
}

/** Finds the events with some ids. */
export async function refsOf(
  { kv, keys }: KvParts,
  ids: readonly string[],
): Promise<EventRef[]> {
  const entries = await readAll(kv, ids.map((id) => keys.id(id)));
  return entries.flatMap(({ value }, i) =>
    typeof value === "number" ? [{ id: ids[i]!, receivedAt: value }] : []
  );
}

/** The limits of {@linkcode openRefs}. */
export interface OpenLimits {
  /** The largest number of events. */
  readonly refs: number;
  /** The largest number of entries read. */
  readonly entries: number;
}

/**
 * Finds all events of some open states by the indexes. Some of them may be in another state by now.
 *
 * @param parts The store.
 * @param states The states.
 * @param limits The limits.
 * @returns The events, in no order; undefined if there are more.
 */
export async function openRefs(
  parts: KvParts,
  states: readonly OpenState[],
  limits: OpenLimits,
): Promise<EventRef[] | undefined> {
  const found = new Map<string, EventRef>();
  let entries = 0;
  for (const state of Object.keys(PARTS) as OpenState[]) {
    if (!states.includes(state)) continue;
    for await (const { ref } of namedOpen(parts, firstPlace(state))) {
      // By its time as well: an entry may still name an earlier event of its id, which was purged.
      if (ref) found.set(`${ref.receivedAt} ${ref.id}`, ref);
      if (++entries > limits.entries || found.size > limits.refs) return undefined;
    }
  }
  return [...found.values()];
}

/**
 * Counts events by their indexes. Records are read only where an entry does not tell the state.
 *
 * @param parts The store.
 * @param schedule Its schedule.
 * @param max The largest number that is counted of a state; twice as many entries are read for it.
 * @param signal Ends the counting of open events.
 * @returns The numbers.
 */
export async function countEvents(
  parts: KvParts,
  schedule: Schedule,
  max: number,
  signal?: AbortSignal,
): Promise<Counts> {
  const now = Date.now();
  const first = await schedule.first();
  const seen = new Set<string>();
  const count = (state: OpenState) =>
    // Each open event is on the schedule, or behind one that is.
    first === null ? NONE : countOpen(parts, state, max, seen, signal);
  return {
    oldestDueAt: first !== null && first <= now ? first : null,
    // A parked event that was woken is on the schedule as well, and a running one keeps its position.
    parked: await count("parked"),
    running: await count("running"),
    queued: await count("queued"),
    dead: await countDead(parts, max),
  };
}

/** Counts the open events of a state that were not seen in another one. */
async function countOpen(
  parts: KvParts,
  state: OpenState,
  max: number,
  seen: Set<string>,
  signal: AbortSignal | undefined,
): Promise<BoundedCount> {
  const before = seen.size;
  const unsure: EventRef[] = [];
  const sort = async () => {
    for (const event of await readEvents(parts, unsure.splice(0))) {
      if (event?.record?.state === state) seen.add(event.record.id);
    }
  };
  let [entries, isMore] = [0, false];
  for await (const { ref, isSure } of namedOpen(parts, firstPlace(state))) {
    isMore = signal?.aborted || seen.size - before > max || ++entries > 2 * max;
    if (isMore) break;
    if (ref && !seen.has(ref.id)) {
      if (isSure) seen.add(ref.id);
      else unsure.push(ref);
    }
    if (unsure.length >= RECORDS) await sort();
  }
  if (!signal?.aborted) await sort();
  const count = seen.size - before;
  return { count: Math.min(count, max), isMore: isMore || count > max };
}

/** Counts dead events. */
async function countDead({ kv, keys }: KvParts, max: number): Promise<BoundedCount> {
  let count = 0;
  const options = { batchSize: Math.min(max + 1, BATCH_SIZE) };
  for await (const _ of list(kv, keys.deadIndex, options)) {
    if (++count > max) return { count: max, isMore: true };
  }
  return { count, isMore: false };
}

/** Counts the events of problems, by their index. */
export async function countProblems(
  { kv, keys }: KvParts,
  { id, max, problems }: Parameters<Engine["problems"]>[0],
): Promise<ProblemCount[]> {
  const { prefix } = keys.failedIndex;
  const counts: ProblemCount[] = [];
  for (let next = id ?? ""; counts.length < problems;) {
    const first = await readFirst(kv, { prefix, start: [...prefix, next] });
    const problem = first && !isGap(first) ? String(first.key[prefix.length]) : undefined;
    if (problem === undefined || (id !== undefined && problem !== id)) break;
    counts.push(await countProblem({ kv, keys }, problem, max));
    next = `${problem}\u0000`;
  }
  return counts;
}

async function countProblem(
  { kv, keys }: KvParts,
  id: string,
  max: number,
): Promise<ProblemCount> {
  const counts = { dead: 0, retrying: 0 };
  let isMore = false;
  const entries = list(kv, keys.failedBetween(id, 0, Infinity), { batchSize: BATCH_SIZE });
  for await (const entry of entries) {
    if (isGap(entry)) continue;
    const kind = entry.value === true ? "dead" : "retrying";
    isMore = counts[kind] === max;
    if (isMore) break;
    counts[kind]++;
  }
  const { dead, retrying } = counts;
  return { id, dead: { count: dead, isMore }, retrying: { count: retrying, isMore } };
}

/** Writes a place as a text. */
export function textOfPlace({ state, at, part, key, read }: OpenPlace): string {
  return `${state}:${JSON.stringify([at, part, read, ...key])}`;
}

/** Reads a place from a text; undefined if it is none. */
export function placeIn(text: string): OpenPlace | undefined {
  const [, name, json = ""] = /^(\w+):(\[.*\])$/s.exec(text) ?? [];
  const state = OPEN_STATES.find((each) => each === name);
  if (!state) return undefined;
  try {
    const [at, part, read, ...key] = JSON.parse(json);
    const isPlace = [at, part, read].every(Number.isSafeInteger) && part >= 0 && key.length < 3 &&
      key.every((each: unknown) => typeof each === "string" || Number.isFinite(each));
    return isPlace ? { state, at, part, key, read } : undefined;
  } catch {
    return undefined;
  }
}
