import type { EventFilter, EventRecord, EventStore } from "../events/store/mod.ts";
import type { StoreInspector } from "../events/store/kv/store_inspector.ts";
import { isEventId } from "../events/store/record_shape.ts";
import type { ActKind, DeliveryDetails, DeliveryPage, DeliveryQuery } from "./_console_data.ts";
import { MAX_COUNT } from "./_counts.ts";

/** Most events of a page, and most records read for it. */
const SHOWN = 50;
const MAX_READS = 2_000;

/** Records that are read however long it takes: where the app is busy, a page would find nothing. */
const MIN_READS = 200;

/** Longest time for which a page goes on then, in milliseconds: it is answered within 100. */
const MAX_MS = 25;

/** Most events that are shown of those that another one has emitted. */
const MAX_EMITTED = 50;

/** Most of them that are named. */
const MAX_NAMED = 10;

/** Time after an event was settled in which those are found that it has emitted. */
const EMITTED_MS = 5_000;

/** Most records read for that. */
const EMITTED_READS = 300;

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

/**
 * Makes the filters of the events that an act on a choice changes, one for each state; none if it changes none. A
 * replay leaves out what somebody has cancelled: that is put back one by one.
 */
export function actFiltersOf(kind: ActKind, query: DeliveryQuery): EventFilter[] {
  const { state } = query;
  const states: readonly DeliveryQuery["state"][] = CHANGED[kind];
  if (state !== undefined && !states.includes(state)) return [];
  const meant = state === undefined ? states.slice(0, MEANT[kind]) : [state];
  return meant.map((each) => ({
    ...filterOf(query),
    state: each,
    ...(kind === "replay" && each === "dead" && { outcome: "failed" }),
  }));
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
  const { cursor: next, reachedAt } = list;
  return {
    ...{ events, cursor: next, isCut, searchedTo: isCut ? reachedAt : undefined },
    isSorted: events.length === 0 || reachedAt !== undefined,
  };
}

/**
 * Searches deliveries as {@linkcode searchDeliveries} does. If the newest records are of another state, the newest
 * done one is known from the count of those, and the search goes on there.
 */
export async function searchFrom(
  store: EventStore,
  query: DeliveryQuery,
  cursor: string | undefined,
  newestDoneAt: number | undefined,
): Promise<DeliveryPage> {
  const page = await searchDeliveries(store, query, cursor);
  const { isCut, events, searchedTo = -Infinity } = page;
  const isBehind = query.state === "done" && newestDoneAt !== undefined &&
    newestDoneAt < searchedTo;
  if (!isCut || events.length > 0 || !isBehind) return page;
  return await searchDeliveries(store, { ...query, before: newestDoneAt + 1 });
}

/** Checks whether an event can have an id. */
export const isFit = (id: string): boolean => isEventId(id) && id.isWellFormed();

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
