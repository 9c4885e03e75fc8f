/**
 * The export of a store: all of its events as lines of text, each with its payload. It works with every engine,
 * and while apps use the store.
 *
 * Events come in the order received. Events that wait in ordering groups come last, in the order of their groups: an
 * import queues them in the order of the lines. Several are read at the same time, within a budget of bytes, so
 * that no more than a few are in memory.
 *
 * @module
 */
import { checkFunction, checkOptions } from "../../core/check_options.ts";
import { reasonOf } from "../../core/text_of.ts";
import type {
  EndedWait,
  EventFilter,
  EventRecord,
  NotKeptError,
  StoredEvent,
} from "./event_record.ts";
import type { EventStore } from "./event_store.ts";
import { ownSteps } from "./arrival.ts";
import { inOrder, lineOf, type PortableEvent, portableOf } from "./portable_event.ts";
import { inBatchOf, unparked } from "./settlement.ts";

/** The number of events that are read again at a time. */
const PAGE = 100;

/** The number of times that an event is read which others change meanwhile. */
const MAX_READS = 5;

/** The name of the error of a payload that is not kept, also of a store in another process. */
const NOT_KEPT: NotKeptError["name"] = "NotKeptError";

/** The id of an event or the name of an entry that cannot be exported, and the reason as a sentence. */
interface LeftOut {
  readonly id: string;
  readonly reason: string;
}

/**
 * Exports events: each as a line of JSON, with its payload. Nothing in the store is changed. Without a filter,
 * what the store has beside them comes first: states, values that came before any event waited for them, and
 * the notes of schedules.
 *
 * Each event is as it is when it is read: while others change the store, the lines show no single moment. An event that
 * is delivered again meanwhile may be in two lines, of which an import takes the first.
 *
 * The payload is the last member of a line, byte for byte: `payload` if it is JSON on one line, `payloadText` (a string)
 * for other JSON, `payloadBase64` for other bytes. From a file, 5,000 events of 7 KB a second were exported.
 *
 * @param store The store.
 * @param filter The choice of events; all by default.
 * @param options `onLeftOut` is called with the id of each event, or the name of each entry, that cannot be read,
 * and with the reason as a sentence. The others follow. Without it, the export rejects at the first one.
 * @returns The lines, each with its line break.
 * @throws {Error} If an event cannot be exported, and no callback is given.
 *
 * @example
 * ```ts
 * import { exportEvents, importEvents, openEventStore } from "@org/edge-base/events";
 * import { assertEquals } from "@std/assert";
 *
 * using kv = await Deno.openKv(":memory:");
 * const [from, to] = [
 *   await openEventStore(kv, { namespace: "old-bot" }),
 *   await openEventStore(kv, { namespace: "new-bot" }),
 * ];
 * const payload = { action: "opened" };
 * const { id } = await from.accept({
 *   platform: "forge",
 *   source: "github",
 *   type: "issues",
 *   deliveryId: "72d3162e-cc78-11e3-81ab-4c9367dc0958",
 *   body: new TextEncoder().encode(JSON.stringify(payload)),
 *   payload,
 * });
 * const { imported } = await importEvents(to, exportEvents(from));
 * assertEquals(imported, 1);
 * assertEquals((await to.get(id))?.state, "queued");
 * ```
 *
 * @category Moving events
 */
export async function* exportEvents(
  store: Pick<EventStore, "get" | "list" | "load" | "steps" | "answers" | "portableEntries">,
  filter: EventFilter = {},
  options: {
    readonly onLeftOut?:
      | ((event: { readonly id: string; readonly reason: string }) => void)
      | undefined;
  } = {},
): AsyncGenerator<string, void> {
  checkOptions("export events", options, { onLeftOut: checkFunction });
  const { onLeftOut = refuse } = options;
  if (isEmpty(filter)) {
    for await (const entry of store.portableEntries()) {
      if (entry.kind !== "unreadable") yield `${await lineOf(entry)}\n`;
      else onLeftOut({ id: entry.name, reason: "this version cannot read it" });
    }
  }
  const answers = await answersOf(store);
  const events = inGroupsLast(store, filter);
  const exporting = (event: StoredEvent) => exported(store, event, answers);
  for await (const result of inOrder(events, sizeOf, exporting)) {
    if (typeof result === "string") yield `${result}\n`;
    else if (result) onLeftOut(result);
  }
}

function isEmpty(filter: EventFilter): boolean {
  return Object.values(filter).every((condition) => condition === undefined);
}

/** Lists events, those that wait in ordering groups last and in the order of their groups. */
async function* inGroupsLast(
  store: Pick<EventStore, "list">,
  filter: EventFilter,
): AsyncGenerator<StoredEvent> {
  const waiting: Place[] = [];
  const firsts: Firsts = new Map();
  for await (const event of store.list(filter)) {
    noteFirst(event, firsts);
    const place = placeOf(event);
    if (place) waiting.push(place);
    else yield event;
  }
  // The filter may have left the first event of a batch out.
  if (!isEmpty(filter) && waiting.some(({ key }) => !firsts.has(key))) {
    for await (const event of store.list()) noteFirst(event, firsts);
  }
  const sorted = inGroupOrder(waiting);
  for (let i = 0; i < sorted.length; i += PAGE) {
    for await (const event of again(store, sorted.slice(i, i + PAGE))) {
      yield withParts(event, firsts);
    }
  }
}

/** The first events of batches, by the keys of their groups. */
type Firsts = Map<string, EventRecord>;

function noteFirst(event: StoredEvent, firsts: Firsts): void {
  if (event.state !== "unreadable" && event.group && event.batch) {
    firsts.set(event.group.key, event);
  }
}

/** Adds the parts that are done of the event's batch: an import makes batches anew, of events that are as far. */
function withParts(event: StoredEvent, firsts: Firsts): StoredEvent {
  if (event.state === "unreadable" || !event.group) return event;
  noteFirst(event, firsts);
  const { key, position } = event.group;
  const first = firsts.get(key);
  return first?.batch && position <= first.batch.last ? inBatchOf(event, first) : event;
}

/**
 * Sorts the events of each group by their positions. Groups stay mixed as their events were received: an import
 * then has others to store while one waits for its predecessor.
 */
function inGroupOrder(places: readonly Place[]): Place[] {
  const groups = new Map([...Map.groupBy(places, ({ key }) => key)].map(([key, group]) => [
    key,
    group.sort((a, b) => a.position - b.position).values(),
  ]));
  return places.map(({ key }) => groups.get(key)!.next().value!);
}

/** An event's place in its ordering group. */
interface Place extends Pick<EventRecord, "id" | "receivedAt"> {
  readonly key: string;
  readonly position: number;
}

function placeOf(event: StoredEvent): Place | undefined {
  if (event.state === "unreadable" || event.group === null) return undefined;
  const { id, receivedAt, group: { key, position } } = event;
  return { id, receivedAt, key, position };
}

/** Reads events again, in the order of their places. */
async function* again(
  store: Pick<EventStore, "list">,
  places: readonly Place[],
): AsyncGenerator<StoredEvent> {
  const found = new Map<string, StoredEvent>();
  for await (const event of store.list({ ids: places.map(({ id }) => id) })) {
    found.set(event.id, event);
  }
  for (const place of places) {
    const event = found.get(place.id) ?? await atTimeOf(store, place);
    if (event) yield event;
  }
}

/** Finds an event by its time, if its id's entry is lost; undefined if it is gone. */
async function atTimeOf(
  store: Pick<EventStore, "list">,
  { id, receivedAt }: Place,
): Promise<StoredEvent | undefined> {
  const times = { receivedAfter: receivedAt, receivedBefore: receivedAt + 1 };
  for await (const event of store.list(times)) if (event.id === id) return event;
  return undefined;
}

/** Answers that parked events are about to get, by the ids of the events. */
type Answers = ReadonlyMap<string, EndedWait>;

async function answersOf(store: Pick<EventStore, "answers">): Promise<Answers> {
  const answers = new Map<string, EndedWait>();
  for await (const { eventId, name, at, value } of store.answers()) {
    if (eventId === undefined) continue;
    answers.set(eventId, {
      name,
      at,
      ...(value !== undefined && { value: JSON.stringify(value) }),
    });
  }
  return answers;
}

/** Gives a parked event the answer that its next claim would give it. */
function answered(record: EventRecord, answers: Answers): EventRecord {
  const answer = answers.get(record.id);
  if (record.state !== "parked" || answer?.name !== record.waitingFor?.name) return record;
  return unparked(record, answer!, Date.now());
}

/** Reads an event's payload; null if it has none any more. */
async function bodyOf(
  store: Pick<EventStore, "load">,
  record: EventRecord,
): Promise<PortableEvent["body"]> {
  if (!record.payload && record.state !== "done") return null;
  try {
    return await store.load({ record });
  } catch (error) {
    if (error instanceof Error && error.name === NOT_KEPT) return null;
    throw error;
  }
}

/** Reads the results of an event's steps; undefined if there are none. */
async function resultsOf(
  store: Pick<EventStore, "steps">,
  { id, steps }: EventRecord,
): Promise<PortableEvent["results"]> {
  if (!steps) return undefined;
  const known = (await store.steps(id)).filter(({ result }) => result !== undefined);
  return Object.fromEntries(known.map(({ name, result }) => [name, result]));
}

/** Makes the line of an event; undefined if it is gone. */
async function exported(
  store: Pick<EventStore, "get" | "load" | "steps">,
  event: StoredEvent,
  answers: Answers,
): Promise<string | LeftOut | undefined> {
  const { id } = event;
  if (event.state === "unreadable") {
    return { id, reason: "this version cannot read its record" };
  }
  let record: EventRecord | null = event;
  for (let reads = 1; record; reads++) {
    const { payload }: EventRecord = record;
    try {
      const body = await bodyOf(store, record);
      const own = { ...answered(record, answers), steps: ownSteps(record) };
      return await lineOf(portableOf(own, body, await resultsOf(store, own)));
    } catch (error) {
      // Its payload goes with its end. Throws if it is the store that fails.
      record = await store.get(id);
      const isSame = record?.payload?.id === payload?.id;
      if ((isSame && reads > 1) || reads === MAX_READS) return { id, reason: reasonOf(error) };
    }
  }
  return undefined;
}

function refuse({ id, reason }: LeftOut): never {
  throw new Error(`Cannot export event ${id}: ${reason}`);
}

function sizeOf(event: StoredEvent): number {
  return event.state === "unreadable" ? 0 : event.payload?.size ?? 0;
}
