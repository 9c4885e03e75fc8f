import {
  checkBoolean,
  checkFunction,
  checkKeys,
  checkObject,
  checkOptions,
  checkSignal,
  checkTexts,
  met,
} from "../../core/check_options.ts";
import { isOneOf, isText } from "../../core/shape.ts";
import { cutKey } from "./arrival.ts";
import {
  type EventFilter,
  type EventRecord,
  type EventState,
  OUTCOMES,
  STORED_STATES,
  type StoredEvent,
} from "./event_record.ts";
import type { PortableEntry, PortableEvent } from "./portable_event.ts";
import type { ProcessNote } from "./processes.ts";
import type { ListedState } from "./stored_state.ts";
import type { UntakenAnswer } from "./waits.ts";

/**
 * A choice of events to list, and the part of them that is wanted.
 *
 * @category Event store and worker
 */
export interface ListOptions extends EventFilter {
  /**
   * The order: the oldest first or the newest, by the time received.
   *
   * @default {"oldest"}
   */
  readonly order?: "oldest" | "newest" | undefined;
  /**
   * The largest number of events. To tell whether there are more, one more that matches is looked for: with
   * a rare `type`, that may read all records.
   *
   * @default {undefined} All of them.
   */
  readonly limit?: number | undefined;
  /**
   * The largest number of records read. A list that ends because of it has a cursor, also if nothing was
   * found. More than 2,000 events in an open state then come in the order of the indexes that lead to
   * them, such as the schedule, and not in the order received.
   *
   * @default {undefined} As many as it takes.
   */
  readonly maxReads?: number | undefined;
  /**
   * The time after which no more is read, in milliseconds: the same as with `maxReads`. At least one record is
   * read, and records come up to 500 at a time.
   *
   * @default {undefined} As long as it takes.
   */
  readonly maxMs?: number | undefined;
  /**
   * The {@linkcode EventList.cursor} of an earlier list with the same filter and order: this one continues it. An empty cursor starts from the beginning.
   *
   * @default {undefined} From the first event.
   */
  readonly cursor?: string | undefined;
}

/**
 * A list of events, read while it is iterated over.
 *
 * @category Event store and worker
 */
export interface EventList<TEvent extends StoredEvent = StoredEvent>
  extends AsyncIterableIterator<TEvent> {
  /**
   * The place where another list can continue this one; undefined once no event is left. A list that ends because
   * of its `limit` has a cursor only if there are more events.
   */
  readonly cursor: string | undefined;
  /**
   * The time at which the last event that was read was received, whether it matched or not, in milliseconds
   * since the epoch; undefined before the first, and where events do not come in that order.
   */
  readonly reachedAt: number | undefined;
}

/**
 * The number of events in each state.
 *
 * @category Event store and worker
 */
export interface EventStats extends Readonly<Record<StoredEvent["state"], number>> {
  /** The number of queued events that are due later: delayed, put off, or waiting for their next attempt. */
  readonly dueLater: number;
  /**
   * The time since which the oldest of the other queued events has waited, milliseconds since the epoch: its
   * receipt, and later if it was to wait. Null without one.
   */
  readonly oldestWaitingAt: number | null;
}

/**
 * Options of an operation on many events.
 *
 * @category Event store and worker
 */
export interface BulkOptions {
  /** Called from time to time with the number of events read, and of those changed, so far. */
  readonly onProgress?:
    | ((progress: { readonly seen: number; readonly changed: number }) => void)
    | undefined;
  /** Ends the operation between two commits. What was done by then stays done. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Changes nothing, and counts what would be changed now.
   *
   * @default {false}
   */
  readonly dryRun?: boolean | undefined;
}

/**
 * The result of an operation on many events.
 *
 * @category Event store and worker
 */
export interface BulkResult {
  /** The number of events changed. */
  readonly changed: number;
  /** The ids of the filter whose events were not changed. */
  readonly left: readonly string[];
}

/**
 * The operations on a store by somebody who runs it, also while apps use it. Each change is one commit,
 * of one event or of several, so an operation that is interrupted leaves no event between two states.
 *
 * @category Event store and worker
 */
export interface EventOperations {
  /**
   * Reads an event's record.
   *
   * @param id The event's id.
   * @returns The record; null if there is none.
   * @throws {Error} If this version cannot read it. `list` returns that event and does not throw.
   */
  get(id: string): Promise<EventRecord | null>;

  /**
   * Lists the events in a state.
   *
   * @param options The choice of events, their order, and the part that is wanted.
   * @returns The records. A list by pages shows each event as it is when it is read, and is not a snapshot.
   * @throws {TypeError} If a condition, the order or the cursor is not valid. A route that is given the cursor
   * by its client should answer 400 then.
   * @throws {RangeError} If a limit is not a positive whole number.
   *
   * @example
   * ```ts
   * import { createBaseApp, HttpError, openEventStore } from "@org/edge-base";
   * import { assertEquals } from "@std/assert";
   *
   * using kv = await Deno.openKv(":memory:");
   * const store = await openEventStore(kv);
   *
   * const app = createBaseApp({ name: "my-bot", logger: false });
   * function listDead(cursor?: string) {
   *   try {
   *     return store.list({ state: "dead", order: "newest", limit: 50, cursor });
   *   } catch (cause) {
   *     throw new HttpError(400, "Bad cursor", { code: "BAD_REQUEST", cause });
   *   }
   * }
   * app.get("/dead", async (c) => {
   *   const dead = listDead(c.req.query("cursor"));
   *   const events = await Array.fromAsync(dead);
   *   return c.json({ events, cursor: dead.cursor });
   * });
   *
   * assertEquals(await (await app.request("/dead")).json(), { events: [] });
   * assertEquals((await app.request("/dead?cursor=x")).status, 400);
   * ```
   */
  list(options: ListOptions & { readonly state: EventState }): EventList<EventRecord>;

  /**
   * Lists events, unreadable ones among them.
   *
   * @param options The choice of events, their order, and the part that is wanted.
   * @returns The records.
   * @throws {TypeError} If a condition, the order or the cursor is not valid.
   * @throws {RangeError} If a limit is not a positive whole number.
   */
  list(options?: ListOptions): EventList;

  /**
   * Wakes the event that waits for a name: a handler has called `waitFor`, and gets the value when it runs
   * again. If no event waits, the value is kept for seven days. If an earlier value is there that no event
   * has taken yet, that one counts. The whole store shares the names: intakes do not keep them apart.
   *
   * @param name The name, a text of 1 to 256 characters.
   * @param value A value that can be written as JSON, of up to 8,192 bytes in UTF-8. Undefined
   * for none.
   * @returns The result.
   * @throws {TypeError} If the name is something else, or the value cannot be written as JSON.
   * @throws {RangeError} If the value is too large.
   */
  wake(name: string, value?: unknown): Promise<{
    /**
     * The fate of the value: an event has waited for it and gets it (`woken`), no event waits yet and it is kept
     * for seven days (`kept`), or it is dropped, because an earlier one is there that counts (`late`).
     */
    readonly outcome: "woken" | "kept" | "late";
    /** The id of the event that gets it. */
    readonly eventId?: string | undefined;
  }>;

  /**
   * Lists the values that names were woken with, and that no event has taken yet: those that came before any
   * event waited, and the values of parked events that are about to be claimed.
   *
   * @param options The names, or their beginning.
   * @returns The values, by their names.
   * @throws {TypeError} If an option is something else.
   */
  answers(
    options?: {
      readonly names?: readonly string[] | undefined;
      readonly prefix?: string | undefined;
    },
  ): AsyncIterableIterator<UntakenAnswer>;

  /**
   * Lists the states that handlers share.
   *
   * @param options The `intake`, an empty text for the states of none, and the beginning of the keys as `prefix`.
   * @returns The states, by their intakes and keys.
   * @throws {TypeError} If an option is not a text.
   */
  states(
    options?: { readonly intake?: string | undefined; readonly prefix?: string | undefined },
  ): AsyncIterableIterator<ListedState>;

  /**
   * Lists the processes that handle the store's events, with the version of each and the events that it has
   * handlers for. A process notes itself when it starts and once a minute. One that was killed is listed for
   * five more minutes.
   *
   * @returns The processes. Of a note that another version wrote, or that is damaged, only the id.
   */
  processes(): Promise<
    (ProcessNote | { readonly id: string; readonly isUnreadable: true })[]
  >;

  /**
   * Counts events.
   *
   * @param filter The choice of events; all by default.
   * @param options A callback for the progress.
   * @returns The number of events in each state.
   * @throws {TypeError} If the filter has another member or a wrong value, or there is another option.
   */
  stats(filter?: EventFilter, options?: Pick<BulkOptions, "onProgress">): Promise<EventStats>;

  /**
   * Puts a settled event back, to be handled as if it had just been received. A dead one goes on where it has
   * failed: its progress stays, and its idempotency keys are the same. A done one can be put back as long as
   * its payload is kept ({@linkcode EventStoreOptions.keepPayloads}). It begins anew: it has no progress, and
   * other keys, so that its calls are made again.
   *
   * @param id The event's id.
   * @returns True if it was put back; false if the id is unknown, it waits or runs, or it is done and
   * its payload is not kept.
   */
  replay(id: string): Promise<boolean>;

  /**
   * Puts dead events back, or done ones if the filter has the state `done`. Events of one ordering key are
   * handled in the order received. Without ids, dead ones are those that failed: what
   * somebody has cancelled is put back by its id, or with the outcome `cancelled`.
   *
   * @param filter The choice of events; by default those that are not dead are not changed.
   * @param options A callback for the progress, and a signal that ends the operation.
   * @returns The number of events put back.
   * @throws {TypeError} If the filter has another member or a wrong value, or there is another option.
   */
  replayAll(filter: EventFilter, options?: BulkOptions): Promise<BulkResult>;

  /**
   * Cancels a queued or running event: it never becomes done. A queued one is dead at once. A running
   * one is flagged: its handler's signal is aborted, here at once and in another process at the lease's
   * next renewal. It is dead once that handler has ended, whatever it returned, or its lease has expired;
   * the next event of its ordering group waits until then.
   *
   * @param id The event's id.
   * @returns True if it is cancelled; false if the id is unknown, or it is settled already.
   */
  cancel(id: string): Promise<boolean>;

  /**
   * Cancels queued and running events, as {@linkcode EventOperations.cancel} does. Those that were cancelled
   * before, and still run, are not counted again.
   *
   * @param filter The choice of events; those that are settled are not changed.
   * @param options A callback for the progress, and a signal that ends the operation.
   * @returns The number of events cancelled.
   * @throws {TypeError} If the filter has another member or a wrong value, or there is another option.
   */
  cancelAll(filter: EventFilter, options?: BulkOptions): Promise<BulkResult>;

  /**
   * Deletes events that are done or dead. A delivery of theirs that is sent again makes a new event.
   * Unreadable ones are deleted only if the filter has the state `unreadable`: another version may be
   * able to read them, and they may wait to be handled.
   *
   * @param filter The choice of events; those that are queued or running are not deleted.
   * @param options A callback for the progress, and a signal that ends the operation.
   * @returns The number of events deleted.
   * @throws {TypeError} If the filter has another member or a wrong value, or there is another option.
   */
  purge(filter: EventFilter, options?: BulkOptions): Promise<BulkResult>;

  /**
   * Stores an event that comes from another store, with all that has become of it there. An open event of
   * an ordering group joins the end of its group here. A running one comes queued: the attempt that ran
   * does not count. `importEvents` reads events from the lines of an export.
   *
   * @param event The event.
   * @returns What became of it. An event whose id is known here is left as it is.
   * @throws {TypeError} If the event is not valid.
   * @throws {RangeError} If its record or its payload is too large.
   */
  restore(event: PortableEvent): Promise<"restored" | "known" | "expired">;

  /**
   * Lists what an export takes along beside the events: states, values that came before any event waited for
   * them, and the notes of schedules.
   *
   * @returns The entries. Of one that cannot be read, only a name for people: `the state "chat:1"`.
   */
  portableEntries(): AsyncIterableIterator<
    PortableEntry | { readonly kind: "unreadable"; readonly name: string }
  >;

  /**
   * Stores an entry that comes from another store, as {@linkcode EventOperations.portableEntries} lists it.
   *
   * @param entry The entry.
   * @returns What became of it. An entry that is here is left as it is, and one that was restored in the last
   * seven days is not restored again, also if it is gone by now.
   * @throws {TypeError} If the entry is not valid.
   */
  restoreEntry(entry: PortableEntry): Promise<"restored" | "known" | "expired">;
}

/** The result of restoring an event or an entry. */
export type RestoreOutcome = Awaited<ReturnType<EventOperations["restore"]>>;

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
  receivedAfter: [TIME, ({ receivedAt }, wanted) => receivedAt >= wanted],
  receivedBefore: [TIME, ({ receivedAt }, wanted) => receivedAt < wanted],
  settledBefore: [TIME, ({ settledAt }, wanted) => (settledAt ?? Infinity) < wanted],
};

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
export function checkFilter(
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
