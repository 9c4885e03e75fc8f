import { isOpen } from "../events/store/event_record.ts";
import type {
  BoundedCount,
  EventFilter,
  EventRecord,
  EventStore,
  ListedStep,
  ListOptions,
  StoredEvent,
} from "../events/store/mod.ts";
import { MAX_COUNT } from "./_counts.ts";
import { recordOf } from "./_format.ts";
import { type Hung, hungIn } from "./_hung.ts";
import type { DeliveryQuery } from "./_query.ts";
import type { Turns } from "./_turns.ts";
import { readAnswers, type WaitingAnswer } from "./_waits.ts";

/** Most events of a page, and most records read for it. */
const SHOWN = 50;
const MAX_READS = 2_000;

/** Records that are read however long it takes: where the app is busy, a page would find nothing. */
const MIN_READS = 200;

/** Longest time for which a page goes on then, in milliseconds: it is answered within 100. */
const MAX_MS = 50;

/** The same for a reader who asks to search further, and the records that are read then. */
const FAR_MS = 3_000;
const FAR_READS = 1_000_000;

/**
 * The same for a state whose events lie behind many others, while none was found: they were counted, so they are there.
 * Only a KV has to look for them.
 */
const PATIENT_MS = 2_000;

/** Most ids that begin with a text for which it counts as the beginning of an id. */
const MAX_IDS = 20;

/** Shortest beginning of an id: a shorter one would be that of many. */
const MIN_BEGINNING = 4;

/** Most newer events that are counted, and most records read for it. */
const MAX_NEWER = 99;
const NEWER_READS = 200;

/** Most events that are shown of those that another one has emitted. */
const MAX_EMITTED = 50;

/** Most events that are shown of those that an event came of. */
const MAX_ANCESTORS = 5;

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

/** Place of a page in a list, and the way to it. */
export interface PagePlace {
  /** Cursor of the page before; undefined for the first page. */
  readonly cursor?: string | undefined;
  /** True if the reader has asked to search further: it may take three seconds then. */
  readonly isFar?: boolean | undefined;
}

/** Delivery with what surrounds it. */
export interface DeliveryDetails {
  /** Record of the event. */
  readonly event: StoredEvent;
  /** Number of events that wait before it in its ordering group, if it waits in one. */
  readonly before?: BoundedCount | undefined;
  /** First event of that group. */
  readonly first?: EventRecord | undefined;
  /** Its handler, if it was told to end and has not. */
  readonly hung?: Hung | undefined;
  /** Answer that it gets when it is claimed, if it is parked and that is there. */
  readonly answer?: WaitingAnswer | undefined;
  /** Steps that its handlers have taken, with their results. */
  readonly steps: readonly ListedStep[];
  /** Ids of the events that its handlers emitted, as far as they are found, at most 50. */
  readonly emitted: readonly string[];
  /** The event that caused it, what caused that, and so on: the nearest last, at most five. */
  readonly ancestors: readonly { readonly id: string }[];
  /** Records of those and of the events that it emitted, by their ids, as far as they are stored. */
  readonly related: ReadonlyMap<string, EventRecord>;
}

/** Tells whether a place is the id of a chat. */
const isChat = (place: string) => /^-?\d{1,16}$/.test(place) && Number.isSafeInteger(+place);

/** Makes the filter of a choice. */
export function filterOf(query: DeliveryQuery): EventFilter {
  const { state, type, source, place, group, problem, q, name, from, before } = query;
  return {
    ...{ state, type, source, orderingKey: group, receivedAfter: from, receivedBefore: before },
    ...{ problem, text: q, name },
    ...(place !== undefined &&
      (isChat(place) ? { chat: Number(place) } : { repository: place })),
  };
}

/** Tells whether nothing but a state, a problem and times is chosen: an index leads to these events. */
const isByIndex = (
  { state: _state, problem: _problem, from: _from, before: _before, ...others }: DeliveryQuery,
) => Object.values(others).every((each) => each === undefined);

/**
 * Searches deliveries, the newest first. Those whose ids begin with the text that is looked for come before all others.
 * If the newest records are of another state, the newest done one is known from the count of those, and the search goes
 * on there.
 *
 * @param store The store.
 * @param query The choice.
 * @param place The place of the page.
 * @param newestDoneAt The time at which the newest done event was received, if it is known.
 * @param turns Turns of the searches that take longer than a page should.
 * @returns The page.
 */
export async function searchDeliveries(
  store: EventStore,
  query: DeliveryQuery,
  { cursor, isFar = false }: PagePlace,
  newestDoneAt: number | undefined,
  turns: Turns,
): Promise<DeliveryPage> {
  const named = await withId(store, query);
  const seen = new Set(named.map(({ id }) => id));
  const shown = cursor === undefined ? named : [];
  const limit = SHOWN - shown.length;
  const events: StoredEvent[] = [];
  let next = cursor ?? "";
  let reachedAt: number | undefined;
  const go = async (limits: Pick<ListOptions, "maxReads" | "maxMs">) => {
    const rest = { limit: limit - events.length, cursor: next, order: "newest" } as const;
    const list = store.list({ ...filterOf(query), ...rest, ...limits });
    for await (const event of list) events.push(event);
    next = list.cursor ?? END;
    reachedAt = list.reachedAt;
  };
  // For a text an engine may pass over many records, and only the time tells how many.
  const isText = query.q !== undefined || query.name !== undefined;
  if (!isText) await go({ maxReads: MIN_READS });
  const isLeft = () => next !== END && events.length < limit;
  if (isLeft()) {
    if (isFar) await turns.take(() => go({ maxReads: FAR_READS, maxMs: FAR_MS }));
    else await go({ maxReads: MAX_READS - MIN_READS, maxMs: MAX_MS });
  }
  const isNothing = () => isLeft() && events.length === 0 && shown.length === 0;
  if (isNothing() && query.state === "done" && newestDoneAt !== undefined) {
    const before = newestDoneAt + 1;
    if (newestDoneAt < (reachedAt ?? -Infinity)) {
      return await searchDeliveries(store, { ...query, before }, {}, undefined, turns);
    }
  }
  if (isNothing() && isOpen(query) && isByIndex(query)) {
    await turns.take(() => go({ maxReads: FAR_READS, maxMs: PATIENT_MS }));
  }
  return {
    events: [...shown, ...events.filter(({ id }) => !seen.has(id))],
    ...{ cursor: next === END ? undefined : next, isCut: isLeft() },
    searchedTo: isLeft() ? reachedAt : undefined,
    isSorted: events.length === 0 || reachedAt !== undefined,
  };
}

/** Mark of a search that has come to its end: no cursor is like that. */
const END = "end";

/** Finds the events of a choice whose ids, or delivery ids, begin with the text that is looked for, the newest first. */
async function withId(store: EventStore, query: DeliveryQuery): Promise<StoredEvent[]> {
  const text = (query.q ?? query.name)?.trim() ?? "";
  if (text.length < MIN_BEGINNING) return [];
  const ids = await store.inspect.withIdBeginning(text, MAX_IDS);
  if (ids.length === 0) return [];
  const others = filterOf({ ...query, q: undefined, name: undefined });
  return await Array.fromAsync(store.list({ ...others, ids, order: "newest" }));
}

/**
 * Counts events of a choice that have come since the first one of a page.
 *
 * @param store The store.
 * @param query The choice.
 * @param top The time of receipt of the first one, milliseconds since the epoch.
 * @returns The number, up to 99; undefined if so many others have come that it is not known.
 */
export async function countNewer(
  store: EventStore,
  query: DeliveryQuery,
  top: number,
): Promise<BoundedCount | undefined> {
  const limits = {
    limit: MAX_NEWER,
    maxReads: NEWER_READS,
    maxMs: MAX_MS,
    order: "newest",
  } as const;
  const list = store.list({ ...filterOf(query), ...limits, receivedAfter: top + 1 });
  const { length: count } = await Array.fromAsync(list);
  const isMore = list.cursor !== undefined;
  return isMore && count === 0 ? undefined : { count, isMore };
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
  if (!record) {
    return event ? { event, steps: [], emitted: [], ancestors: [], related: new Map() } : null;
  }
  const [hung, answers, before, first, steps, emitted, ancestors] = await Promise.all([
    hungHandler(store, record),
    readAnswers(store, [record]),
    store.inspect.countBefore(record, MAX_COUNT),
    store.inspect.firstBefore(record),
    record.steps ? store.steps(id) : [],
    emittedBy(store, record),
    ancestorsOf(store, record),
  ]);
  const related = await namedOf(store, emitted);
  for (const { id, record } of ancestors) if (record) related.set(id, record);
  const answer = answers.get(id);
  return { event, hung, before, first, answer, steps, emitted, ancestors, related };
}

/** Finds the handler of an event that was told to end and has not: there may be one once it was begun. */
async function hungHandler(store: EventStore, record: EventRecord): Promise<Hung | undefined> {
  return record.attempt === 0 ? undefined : hungIn(record, await store.processes(), Date.now());
}

/** Finds the events that an event came of, the nearest last. An event may be forgotten: then nothing is known before. */
async function ancestorsOf(
  store: EventStore,
  { id, causedBy }: EventRecord,
): Promise<{ readonly id: string; readonly record: EventRecord | undefined }[]> {
  const found: { readonly id: string; readonly record: EventRecord | undefined }[] = [];
  // An import could bring a circle.
  const seen = new Set([id]);
  for (let next = causedBy; next !== undefined && found.length < MAX_ANCESTORS;) {
    if (seen.has(next)) break;
    seen.add(next);
    const event = await findEvent(store, next);
    const record = event && recordOf(event);
    found.unshift({ id: next, record });
    next = record?.causedBy;
  }
  return found;
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
