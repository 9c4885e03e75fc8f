import type {
  EventFilter,
  EventList,
  EventRecord,
  EventStore,
  StoredEvent,
} from "../events/store/mod.ts";
import type { StoreInspector } from "../events/store/kv/store_inspector.ts";
import type {
  ActCount,
  ActKind,
  Count,
  DeliveryDetails,
  DeliveryPage,
  DeliveryQuery,
} from "./_console_data.ts";
import { MAX_COUNT } from "./_counts.ts";

/** Most events of a page, and most records read for it. */
const SHOWN = 50;
const MAX_READS = 2_000;

/** Records that are read however long it takes: where the app is busy, a page would find nothing. */
const MIN_READS = 200;

/** Longest time for which a page goes on then, in milliseconds: it is answered within 100. */
const MAX_MS = 25;

/**
 * Longest time for which the question before an act on many counts, in milliseconds: a page is answered within
 * 100, and one that is asked to count all within some seconds.
 */
const MAX_COUNT_MS = 60;
const MAX_PATIENT_MS = 2_000;

/** Most events that are shown of those that another one has emitted. */
const MAX_EMITTED = 50;

/** Most of them that are named. */
const MAX_NAMED = 10;

/** Time after an event was settled in which those are found that it has emitted. */
const EMITTED_MS = 5_000;

/** Most records read for that. */
const EMITTED_READS = 300;

/** Longest id that is looked up: a key of a KV takes 2,048 bytes. */
const MAX_ID_LENGTH = 600;

/** Number of done events whose payloads are looked for at a time. */
const KEPT_BATCH = 100;

/** Tells whether a place is the id of a chat. */
const isChat = (place: string) => /^-?\d{1,16}$/.test(place) && Number.isSafeInteger(+place);

/** States of the events that an act can change. Those that it changes without a choice of state come first. */
const CHANGED = {
  replay: ["dead", "done"],
  // In the order in which events go through them, so that none is missed that is claimed meanwhile.
  cancel: ["queued", "parked", "running"],
  purge: ["dead", "done", "unreadable"],
} as const satisfies Record<ActKind, readonly DeliveryQuery["state"][]>;

/** Numbers of states that an act changes without a choice of state. */
const MEANT = { replay: 1, cancel: 3, purge: 2 } as const satisfies Record<ActKind, number>;

/** Makes the filter of a choice. */
function filterOf(query: DeliveryQuery): EventFilter {
  const { state, type, source, place, group, from, before } = query;
  return {
    ...{ state, type, source, orderingKey: group, receivedAfter: from, receivedBefore: before },
    ...(place !== undefined &&
      (isChat(place) ? { chat: Number(place) } : { repository: place })),
  };
}

/** Makes the filters of the events that an act on a choice changes, one for each state; none if it changes none. */
export function actFiltersOf(kind: ActKind, query: DeliveryQuery): EventFilter[] {
  const { state } = query;
  const states: readonly DeliveryQuery["state"][] = CHANGED[kind];
  if (state !== undefined && !states.includes(state)) return [];
  const meant = state === undefined ? states.slice(0, MEANT[kind]) : [state];
  return meant.map((each) => ({ ...filterOf(query), state: each }));
}

/** Searches deliveries, the newest first. */
export async function searchDeliveries(
  store: EventStore,
  query: DeliveryQuery,
  cursor?: string,
): Promise<DeliveryPage> {
  const filter = { ...filterOf(query), order: "newest" } as const;
  let list = store.list({ ...filter, limit: SHOWN, maxReads: MIN_READS, cursor });
  const events = await Array.fromAsync(list);
  if (list.cursor !== undefined && events.length < SHOWN) {
    const limits = { limit: SHOWN - events.length, maxReads: MAX_READS - MIN_READS, maxMs: MAX_MS };
    list = store.list({ ...filter, ...limits, cursor: list.cursor });
    events.push(...await Array.fromAsync(list));
  }
  const isCut = list.cursor !== undefined && events.length < SHOWN;
  return { events, cursor: list.cursor, searchedTo: isCut ? list.reachedAt : undefined };
}

/** Parts that are counted with. */
export interface CountingParts {
  readonly store: EventStore;
  readonly inspector: StoreInspector;
}

/** Counts the events that an act on a choice would change, to 10,000 at most, and no longer than a page may take. */
export async function countFor(
  { store, inspector }: CountingParts,
  kind: ActKind,
  query: DeliveryQuery,
  isPatient = false,
): Promise<ActCount> {
  const until = performance.now() + (isPatient ? MAX_PATIENT_MS : MAX_COUNT_MS);
  let count = 0;
  let notKept = 0;
  for (const filter of actFiltersOf(kind, query)) {
    const maxMs = Math.ceil(Math.max(1, until - performance.now()));
    const max = MAX_COUNT - count;
    const part: ActCount = isAnyDead(filter)
      ? await inspector.countDead(max, { range: rangeOf(filter), maxMs })
      : kind === "replay" && filter.state === "done"
      ? await countKept({ store, inspector }, filter, max, maxMs)
      : await countMatching(store, filter, max, maxMs);
    count += part.count;
    notKept += part.notKept ?? 0;
    if (part.isMore) return { count, isMore: true, ...(notKept > 0 && { notKept }) };
  }
  return { count, isMore: false, ...(notKept > 0 && { notKept }) };
}

/** Checks whether the index of dead events alone tells the number. */
function isAnyDead({ receivedAfter: _, receivedBefore: __, ...others }: EventFilter): boolean {
  return Object.entries(others).every(([name, value]) =>
    name === "state" ? value === "dead" : value === undefined
  );
}

function rangeOf({ receivedAfter = -1, receivedBefore = Infinity }: EventFilter) {
  return [receivedAfter, receivedBefore] as const;
}

async function countMatching(
  store: EventStore,
  filter: EventFilter,
  max: number,
  maxMs: number,
): Promise<Count> {
  let count = 0;
  let cursor: string | undefined = "";
  for (const limits of [{ maxReads: MIN_READS }, { maxMs }]) {
    const list: EventList = store.list({ ...filter, ...limits, order: "newest", cursor });
    for await (const _ of list) if (++count > max) return { count: max, isMore: true };
    cursor = list.cursor;
    if (cursor === undefined) break;
  }
  return { count, isMore: cursor !== undefined };
}

/** Counts done events whose payloads are kept, and those whose are not. */
async function countKept(
  { store, inspector }: CountingParts,
  filter: EventFilter,
  max: number,
  maxMs: number,
): Promise<ActCount> {
  const until = performance.now() + maxMs;
  const list = store.list({ ...filter, order: "newest", maxMs });
  let [count, notKept] = [0, 0];
  const batch: StoredEvent[] = [];
  const look = async () => {
    const kept = await inspector.keptAmong(batch);
    count += kept.size;
    notKept += batch.splice(0).length - kept.size;
    return count > max || performance.now() > until;
  };
  for await (const event of list) {
    if (batch.push(event) === KEPT_BATCH && await look()) {
      return { count: Math.min(count, max), isMore: true, notKept };
    }
  }
  await look();
  const isMore = count > max || list.cursor !== undefined;
  return { count: Math.min(count, max), isMore, notKept };
}

/** Checks whether an event can have an id. */
export const isFit = (id: string): boolean => id.length <= MAX_ID_LENGTH && id.isWellFormed();

/** Reads a delivery with what surrounds it; null if there is none. */
export async function readDetails(
  { store, inspector }: { readonly store: EventStore; readonly inspector: StoreInspector },
  id: string,
): Promise<DeliveryDetails | null> {
  if (!isFit(id)) return null;
  const [event] = await Array.fromAsync(store.list({ ids: [id] }));
  if (!event || event.state === "unreadable") {
    return event
      ? { event, before: undefined, first: undefined, emitted: [], related: new Map() }
      : null;
  }
  const [before, first, emitted] = await Promise.all([
    inspector.countBefore(event, MAX_COUNT),
    inspector.firstBefore(event),
    emittedBy(store, inspector, event),
  ]);
  const ids = [...event.causedBy === undefined ? [] : [event.causedBy], ...emitted];
  return { event, before, first, emitted, related: await namedOf(store, ids.slice(0, MAX_NAMED)) };
}

/** Reads the records of events, to name them. */
async function namedOf(
  store: EventStore,
  ids: readonly string[],
): Promise<Map<string, EventRecord>> {
  if (ids.length === 0) return new Map();
  const found = await Array.fromAsync(store.list({ ids }));
  return new Map(
    found.flatMap((each) => each.state === "unreadable" ? [] : [[each.id, each as EventRecord]]),
  );
}

/**
 * Finds the events that another one has emitted: by their generated ids, and those with ids of their own
 * among those that were stored just after it was settled.
 */
async function emittedBy(
  store: EventStore,
  inspector: StoreInspector,
  event: EventRecord,
): Promise<string[]> {
  const { id, settledAt } = event;
  const found = new Set(await inspector.emittedBy(event, MAX_EMITTED));
  if (settledAt === null || event.outcome !== "handled") return [...found];
  const list = store.list({
    ...{ receivedAfter: settledAt, receivedBefore: settledAt + EMITTED_MS },
    maxReads: EMITTED_READS,
  });
  for await (const each of list) {
    if (each.state !== "unreadable" && each.causedBy === id) found.add(each.id);
    if (found.size >= MAX_EMITTED) break;
  }
  return [...found];
}
