/**
 * The views into a store: lists of the events that match a filter, by pages if they must be short, cheap counts, and the
 * surroundings of an event.
 *
 * @module
 */
import {
  checkBoolean,
  checkFunction,
  checkInteger,
  checkKeys,
  checkObject,
  checkOptions,
  checkSignal,
  checkTexts,
  met,
} from "../../core/check_options.ts";
import { isOneOf, isText } from "../../core/shape.ts";
import type { KeptPayloads } from "./_kept_payloads.ts";
import type { Problems } from "./_problems.ts";
import { countAnswered } from "./_waits.ts";
import { cutKey, inIntake, sourceIn } from "./arrival.ts";
import { childIdOf } from "./emission.ts";
import {
  CursorError,
  type Engine,
  type GroupMember,
  type Scan,
  type Stored,
  UndecodableError,
  type Unreadable,
  type Visit,
} from "./engine.ts";
import {
  type EventFilter,
  type EventRecord,
  MAX_ID_LENGTH,
  OUTCOMES,
  STORED_STATES,
  type StoredEvent,
} from "./event_record.ts";
import type { BulkOptions, EventList, ListOptions, StoreInspector } from "./event_store.ts";
import { isProblemId } from "./problem.ts";
import { isQuestion, questionKey, questionNameOf } from "./questions.ts";
import type { StoreCore } from "./store_core.ts";

/** The number of steps without an event that may be made for each record that may be read. */
const PASSED_OVER = 20;

/** The number of sources in which emitted events are looked for. */
const MAX_SOURCES = 50;

/** The number in which the events with a delivery id are: each takes one read, and so does an id without a source. */
const MAX_READS = 1_000;

/** The character behind all others. */
const LAST_CHARACTER = "\u{10ffff}";

const LISTING = "list the events";

/** An event as it was found. */
export interface FoundEvent {
  readonly stored: Stored | Unreadable;
  readonly event: StoredEvent;
  /** The place at which it was found. */
  readonly place: string;
}

/** The steps of a search: told of each, it says whether to go on. */
interface Steps {
  /** Notes a step, with an event or without; false if the search ends before it. */
  add(visit: Visit): boolean;
}

/** The form that a value must have, in words, and a check for it. */
type Form = readonly [what: string, check: (value: unknown) => boolean];

/** The form of the value of a condition, and a check for the records that meet it. */
type Condition<T> = readonly [Form, (event: EventRecord, wanted: T) => boolean];

const TEXT: Form = ["a text", isText];
const TIME: Form = ["a time in milliseconds since the epoch", isNumber];

/** All conditions, the ids aside. By one with a name that is misspelled, all events would be meant. */
const CONDITIONS: {
  readonly [Name in keyof Omit<EventFilter, "ids">]-?: Condition<NonNullable<EventFilter[Name]>>;
} = {
  state: [among(STORED_STATES), ({ state }: StoredEvent, wanted) => state === wanted],
  outcome: [among(OUTCOMES), ({ outcome }, wanted) => outcome === wanted],
  type: [TEXT, ({ type, action }, wanted) => type === wanted || `${type}.${action}` === wanted],
  source: [TEXT, ({ source, intake }, wanted) => source === wanted || intake === wanted],
  repository: [TEXT, ({ repository }, wanted) => repository?.fullName === wanted],
  chat: [["a whole number", Number.isSafeInteger], ({ chat }, wanted) => chat?.id === wanted],
  orderingKey: [TEXT, ({ orderingKey }, wanted) => orderingKey === cutKey(wanted)],
  // An older version leaves it in the record of an event that is done.
  problem: [
    ["the id of a problem", isProblemId],
    ({ problem, state }, wanted) => problem === wanted && state !== "done",
  ],
  name: [TEXT, (event, wanted) => isIn(namesOf(event), wanted)],
  text: [TEXT, (event, wanted) => isIn([...namesOf(event), ...textsOf(event)], wanted)],
  receivedAfter: [TIME, ({ receivedAt }, wanted) => receivedAt >= wanted],
  receivedBefore: [TIME, ({ receivedAt }, wanted) => receivedAt < wanted],
  settledBefore: [TIME, ({ settledAt }, wanted) => (settledAt ?? Infinity) < wanted],
};

/** Lists the texts that name an event. */
function namesOf(event: EventRecord): (string | null | undefined)[] {
  const { id, deliveryId, requestId, type, action, source, repository, chat, orderingKey } = event;
  return [
    ...[id, deliveryId, requestId, action === undefined ? type : `${type}.${action}`, source],
    ...[repository?.fullName, chat && String(chat.id), orderingKey],
  ];
}

/** Lists the texts that say what an event is about, and how it went. */
function textsOf(event: EventRecord): (string | undefined)[] {
  const { description, sender, putOff, waitingFor, attempts } = event;
  const errors = attempts.map(({ error }) => error);
  return [description, sender?.name, putOff?.reason, waitingFor?.name, ...errors];
}

/** Checks whether a text is in one of others, in any case. */
function isIn(texts: readonly (string | null | undefined)[], wanted: string): boolean {
  const lower = wanted.toLowerCase();
  return texts.some((text) => text?.toLowerCase().includes(lower));
}

const NAMES = Object.keys(CONDITIONS) as (keyof typeof CONDITIONS)[];

/** The conditions on what is known of an unreadable event. */
const ON_UNREADABLE: readonly string[] = ["state", "receivedAfter", "receivedBefore"];

function isNumber(value: unknown): boolean {
  return typeof value === "number" && !Number.isNaN(value);
}

function among(values: readonly unknown[]): Form {
  return [`one of ${values.join(", ")}`, isOneOf(values)];
}

/** Checks whether an event matches a filter, its ids aside. */
export function matches(event: StoredEvent, filter: EventFilter): boolean {
  return NAMES.every((name) => {
    const { [name]: wanted } = filter;
    if (wanted === undefined) return true;
    if (event.state === "unreadable" && !ON_UNREADABLE.includes(name)) return false;
    const [, holds]: Condition<never> = CONDITIONS[name];
    return holds(event as EventRecord, wanted as never);
  });
}

/** Checks a choice of events. By one with a wrong value, none would be meant. */
function checkFilter(
  doing: string,
  filter: EventFilter,
  furtherKeys: readonly string[] = [],
): void {
  checkObject(doing, filter, "the filter");
  checkKeys(doing, filter, ["ids", ...NAMES, ...furtherKeys]);
  const { ids } = filter;
  if (ids !== undefined) checkTexts(doing, "ids", ids);
  for (const name of NAMES) {
    const { [name]: value } = filter;
    const [[what, check]] = CONDITIONS[name];
    if (value === undefined || check(value)) continue;
    throw new TypeError(`Cannot ${doing}: '${name}' must be ${what}, got ${met(value)}`);
  }
}

/** Checks a choice of events, and the options of an operation on them. */
export function checkChoice(doing: string, filter: EventFilter, options: BulkOptions): void {
  checkFilter(doing, filter);
  checkOptions(doing, options, {
    onProgress: checkFunction,
    signal: checkSignal,
    dryRun: checkBoolean,
  });
}

/** Lists events, see `EventStore.list`. */
export function listEvents(engine: Engine, options: ListOptions): EventList {
  checkObject(LISTING, options);
  checkFilter(LISTING, options, ["order", "limit", "maxReads", "maxMs", "cursor"]);
  const { order = "oldest", limit = Infinity, maxReads = Infinity, maxMs = Infinity, cursor } =
    options;
  for (const [name, value] of Object.entries({ limit, maxReads, maxMs })) {
    if (value !== Infinity) checkInteger(LISTING, name, value, { max: Number.MAX_SAFE_INTEGER });
  }
  if (order !== "oldest" && order !== "newest") {
    throw new TypeError(
      `Cannot ${LISTING}: 'order' must be "oldest" or "newest", got ${met(order)}`,
    );
  }
  const after = cursor === "" ? undefined : cursor;
  if (after !== undefined && (typeof after !== "string" || !after.isWellFormed())) {
    throw new CursorError(after);
  }
  const reads = new Reads(maxReads, maxMs);
  const isNewestFirst = order === "newest";
  const way = { after, isNewestFirst, isLimited: reads.isLimited };
  return new EventPage(find(engine, options, reads, way), limit, reads, after);
}

/**
 * Finds the events that match a filter among those that a scan comes by.
 *
 * @param engine The engine.
 * @param filter The filter.
 * @param steps Told of each step.
 * @param way The rest of the scan.
 * @returns The events.
 * @throws {TypeError} If the place to continue from is none.
 */
export function find(
  engine: Engine,
  filter: EventFilter,
  steps: Steps,
  way?: Partial<Scan>,
): AsyncGenerator<FoundEvent> {
  return found(engine.scan({ ...way, filter: wellFormed(filter) }), filter, steps);
}

async function* found(
  visits: AsyncIterable<Visit>,
  filter: EventFilter,
  steps: Steps,
): AsyncGenerator<FoundEvent> {
  for await (const visit of visits) {
    if (!steps.add(visit)) return;
    const { event: stored, place } = visit;
    if (!stored) continue;
    const event = storedEventOf(stored);
    if (matches(event, filter)) yield { stored, event, place };
  }
}

/** Leaves ids out of a filter that no event has: each text that an engine gets is well-formed. */
function wellFormed(filter: EventFilter): EventFilter {
  const { ids } = filter;
  return ids ? { ...filter, ids: ids.filter((id) => id.isWellFormed()) } : filter;
}

/** Makes the event that a caller gets. */
function storedEventOf(stored: Stored | Unreadable): StoredEvent {
  if (stored.record) return stored.record;
  const { id, receivedAt } = stored;
  return { id, receivedAt, state: "unreadable" };
}

/** A limited number of reads, and how far they have got. */
class Reads implements Steps {
  /** The step of the scan that was made last, whether an event matched there or not. */
  last: Visit | undefined;
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

  /** Makes the next step one too many. */
  stop(): void {
    this.#left = 0;
  }

  /** Notes a step, with an event or without; false if it is one too many. */
  add(visit: Visit): boolean {
    this.isCut = this.#left <= 0 || this.#toPassOver <= 0 ||
      (this.last !== undefined && performance.now() > this.#until);
    if (this.isCut) return false;
    if (visit.event) this.#left--;
    else this.#toPassOver -= visit.passedOver ?? 1;
    this.last = visit;
    return true;
  }
}

const END: IteratorReturnResult<undefined> = { done: true, value: undefined };

/** The events of one list, and the place where another one can continue it. */
class EventPage implements EventList {
  cursor: string | undefined;
  readonly #found: AsyncGenerator<FoundEvent>;
  readonly #reads: Reads;
  #left: number;
  #isEnded = false;

  constructor(
    found: AsyncGenerator<FoundEvent>,
    limit: number,
    reads: Reads,
    cursor: string | undefined,
  ) {
    this.cursor = cursor;
    this.#found = found;
    this.#reads = reads;
    this.#left = limit;
  }

  get reachedAt(): number | undefined {
    return this.#reads.last?.reachedAt;
  }

  async next(): Promise<IteratorResult<StoredEvent, undefined>> {
    if (this.#isEnded) return END;
    const { done, value } = await this.#found.next().catch((error) => {
      // The list is not at its end: its cursor stays.
      this.#isEnded = true;
      throw error;
    });
    // Behind the last event of a full page, one more tells whether there are any.
    if (done) this.cursor = this.#reads.isCut ? this.#reads.last?.place ?? this.cursor : undefined;
    if (done || this.#left-- <= 0) return await this.return();
    this.cursor = value.place;
    return { done: false, value: value.event };
  }

  async return(): Promise<IteratorReturnResult<undefined>> {
    this.#isEnded = true;
    // A search that is under way would go on until it finds something.
    this.#reads.stop();
    await this.#found.return(undefined);
    return END;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** Makes the view into a store. */
export function storeInspector(
  core: StoreCore,
  kept: KeptPayloads,
  problems: Problems,
): StoreInspector {
  const { engine } = core;
  return {
    problems: (options) => problems.list(options),

    count: (max, signal) => engine.count(max, signal),

    countAnswered: (max, signal) => countAnswered(core, max, signal),

    async countBefore(event, max) {
      const before = await membersBefore(engine, event, { limit: max + 1, onlyPositions: true });
      return before && { count: Math.min(before.length, max), isMore: before.length > max };
    },

    async firstBefore(event) {
      const [first] = await membersBefore(engine, event, { limit: 1 }) ?? [];
      return first?.event?.record;
    },

    async question({ state, waitingFor }) {
      const name = state === "parked" ? questionNameOf(waitingFor?.name) : undefined;
      if (name === undefined) return undefined;
      const [cell] = await engine.cells([questionKey(name)]);
      return isQuestion(cell!.value) ? { name, by: cell!.value.by } : undefined;
    },

    async uses() {
      const has = async (...kinds: readonly string[]) => {
        for (const kind of kinds) {
          for await (const _ of engine.list([kind], { atOnce: 1 })) return true;
        }
        return false;
      };
      const [schedules, states, limits, waits] = await Promise.all([
        ...[has("cron"), has("state"), has("limit"), has("waiter", "question")],
      ]);
      return { schedules: schedules!, states: states!, limits: limits!, waits: waits! };
    },

    async emittedBy({ id, emitted = 0 }, max) {
      const count = Math.min(emitted, max);
      if (count === 0) return [];
      const names = await namesOfSources(engine, MAX_SOURCES);
      const numbers = Array.from({ length: count }, (_, i) => i + 1);
      return await known(
        engine,
        numbers.flatMap((number) => names.map((name) => childIdOf(name, id, number))),
      );
    },

    async oldestDue() {
      const { events, bodies } = await engine.due({ until: engine.now(), limit: 1 });
      bodies.catch(() => {});
      const [first] = events;
      return first ? { id: first.id, at: first.at, record: first.event?.record } : null;
    },

    async withDeliveryId(deliveryId) {
      const names = await namesOfSources(engine, MAX_READS);
      return await known(engine, names.map((name) => inIntake(name, deliveryId)));
    },

    async withIdBeginning(text, max) {
      // Not every engine has a key for a longer one.
      if (text.length > MAX_ID_LENGTH) return [];
      const names = await namesOfSources(engine, MAX_SOURCES);
      const found: string[] = [];
      for (const beginning of [text, ...names.map((name) => inIntake(name, text))]) {
        const last = await engine.ids({ before: `${beginning}${LAST_CHARACTER}`, limit: max + 1 });
        const ids = last.filter((id) => id.startsWith(beginning));
        if (ids.length <= max) found.push(...ids);
      }
      return found;
    },

    async keptAmong(events) {
      const done = events.filter((event) => event.state === "done") as EventRecord[];
      return new Set((await kept.among(done)).map(({ id }) => id));
    },
  };
}

/** Reads the first ones before an event that waits in its group; undefined if it does not, or the group is unreadable. */
async function membersBefore(
  engine: Engine,
  { group, dueAt, state }: EventRecord,
  options: { readonly limit: number; readonly onlyPositions?: boolean },
): Promise<readonly GroupMember[] | undefined> {
  if (!group || dueAt !== null || state !== "queued") return undefined;
  try {
    const { members } = await engine.group(group.key, { from: 0, ...options });
    return members.filter(({ position }) => position < group.position);
  } catch (error) {
    if (error instanceof UndecodableError) return undefined;
    throw error;
  }
}

/** Finds the names of the intakes and sources whose events a store has, each with one read. */
async function namesOfSources(engine: Engine, maxReads: number): Promise<string[]> {
  const names: string[] = [];
  let before: string | undefined;
  for (let reads = 0; reads < maxReads; reads++) {
    const [id] = await engine.ids({ before, limit: 1 });
    if (id === undefined) break;
    const name = sourceIn(id);
    if (name !== undefined) names.push(name);
    before = name === undefined ? id : inIntake(name, "");
  }
  return names.reverse();
}

/** Finds those of some ids that events have. */
async function known(engine: Engine, ids: readonly string[]): Promise<string[]> {
  const found = new Set<string>();
  for await (
    const { event } of engine.scan({ filter: { ids: ids.filter((id) => id.isWellFormed()) } })
  ) {
    if (event) found.add(event.record ? event.record.id : event.id);
  }
  return ids.filter((id) => found.has(id));
}
