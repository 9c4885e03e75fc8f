import type {
  BoundedCount,
  EventFilter,
  EventRecord,
  EventStore,
  ListedStep,
  StoredEvent,
} from "../events/store/mod.ts";
import { MAX_COUNT } from "./_counts.ts";
import { recordOf } from "./_format.ts";
import type { DeliveryQuery } from "./_query.ts";

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

/** Page of deliveries, the newest first. */
export interface DeliveryPage {
  /** Events found, at most 50. */
  readonly events: readonly StoredEvent[];
  /** Cursor for the next page; undefined if everything was searched. */
  readonly cursor: string | undefined;
  /** True if the search ended before the last event, and has found fewer than a page shows. */
  readonly isCut: boolean;
  /** Time of receipt back to which was searched then; undefined where events do not come in that order. */
  readonly searchedTo: number | undefined;
  /** False if more events are open than a page sorts: they come in the order of the store's indexes. */
  readonly isSorted: boolean;
}

/** Delivery with what surrounds it. */
export interface DeliveryDetails {
  /** Record of the event. */
  readonly event: StoredEvent;
  /** Number of events that wait before it in its ordering group, if it waits in one. */
  readonly before?: BoundedCount | undefined;
  /** First event of that group. */
  readonly first?: EventRecord | undefined;
  /** Steps that its handlers have taken, with their results. */
  readonly steps: readonly ListedStep[];
  /** Ids of the events that its handlers emitted, as far as they are found, at most 50. */
  readonly emitted: readonly string[];
  /** Records of the first ones of those and of the one that caused it, by their ids, to name them. */
  readonly related: ReadonlyMap<string, EventRecord>;
}

/** Tells whether a place is the id of a chat. */
const isChat = (place: string) => /^-?\d{1,16}$/.test(place) && Number.isSafeInteger(+place);

/** Makes the filter of a choice. */
export function filterOf(query: DeliveryQuery): EventFilter {
  const { state, type, source, place, group, problem, from, before } = query;
  return {
    ...{ state, type, source, orderingKey: group, receivedAfter: from, receivedBefore: before },
    ...(problem !== undefined && { problem }),
    ...(place !== undefined &&
      (isChat(place) ? { chat: Number(place) } : { repository: place })),
  };
}

/**
 * Searches deliveries, the newest first. If the newest records are of another state, the newest done one is known
 * from the count of those, and the search goes on there.
 *
 * @param store The store.
 * @param query The choice.
 * @param cursor The cursor of the page before.
 * @param newestDoneAt The time at which the newest done event was received, if it is known.
 * @returns The page.
 */
export async function searchDeliveries(
  store: EventStore,
  query: DeliveryQuery,
  cursor: string | undefined,
  newestDoneAt: number | undefined,
): Promise<DeliveryPage> {
  const filter = { ...filterOf(query), order: "newest" } as const;
  let list = store.list({ ...filter, limit: SHOWN, maxReads: MIN_READS, cursor });
  const events = await Array.fromAsync(list);
  if (list.cursor !== undefined && events.length < SHOWN) {
    const limits = { limit: SHOWN - events.length, maxReads: MAX_READS - MIN_READS, maxMs: MAX_MS };
    list = store.list({ ...filter, ...limits, cursor: list.cursor });
    events.push(...await Array.fromAsync(list));
  }
  const { cursor: next, reachedAt } = list;
  const isCut = next !== undefined && events.length < SHOWN;
  const isNothing = isCut && events.length === 0 && query.state === "done";
  if (isNothing && newestDoneAt !== undefined && newestDoneAt < (reachedAt ?? -Infinity)) {
    const before = newestDoneAt + 1;
    return await searchDeliveries(store, { ...query, before }, undefined, undefined);
  }
  return {
    ...{ events, cursor: next, isCut, searchedTo: isCut ? reachedAt : undefined },
    isSorted: events.length === 0 || reachedAt !== undefined,
  };
}

/** Reads an event; undefined if there is none of this id. */
export async function findEvent(store: EventStore, id: string): Promise<StoredEvent | undefined> {
  return (await Array.fromAsync(store.list({ ids: [id] })))[0];
}

/** Reads a delivery with what surrounds it; null if there is none. */
export async function readDetails(
  store: EventStore,
  id: string,
): Promise<DeliveryDetails | null> {
  const event = await findEvent(store, id);
  const record = event && recordOf(event);
  if (!record) return event ? { event, steps: [], emitted: [], related: new Map() } : null;
  const [before, first, steps, emitted] = await Promise.all([
    store.inspect.countBefore(record, MAX_COUNT),
    store.inspect.firstBefore(record),
    record.steps ? store.steps(id) : [],
    emittedBy(store, record),
  ]);
  const ids = [...record.causedBy === undefined ? [] : [record.causedBy], ...emitted];
  return {
    event,
    before,
    first,
    steps,
    emitted,
    related: await namedOf(store, ids.slice(0, MAX_NAMED)),
  };
}

/** Reads the records of events, to name them. */
async function namedOf(
  store: EventStore,
  ids: readonly string[],
): Promise<Map<string, EventRecord>> {
  const found = ids.length === 0 ? [] : await Array.fromAsync(store.list({ ids }));
  return new Map(found.map(recordOf).flatMap((each) => each ? [[each.id, each]] : []));
}

/**
 * Finds the events that another one has emitted: by their generated ids and, if the handler chose the ids, among the
 * events that were stored just after it was settled.
 */
async function emittedBy(
  store: EventStore,
  event: EventRecord,
): Promise<string[]> {
  const { id, settledAt } = event;
  const found = new Set(await store.inspect.emittedBy(event, MAX_EMITTED));
  if (settledAt === null || event.outcome !== "handled") return [...found];
  const list = store.list({
    ...{ receivedAfter: settledAt, receivedBefore: settledAt + EMITTED_MS },
    maxReads: EMITTED_READS,
  });
  for await (const each of list) {
    if (recordOf(each)?.causedBy === id) found.add(each.id);
    if (found.size >= MAX_EMITTED) break;
  }
  return [...found];
}
