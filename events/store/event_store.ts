/**
 * The contract of a store, whatever its engine.
 *
 * @module
 */
import type { Emission, EmitOptions, OwnEvents } from "./emission.ts";
import type { BoundedCount, CellChange, CheckedPage, Counts, SettlementRoom } from "./engine.ts";
import type {
  Delivery,
  EventFilter,
  EventRecord,
  EventState,
  StoredEvent,
} from "./event_record.ts";
import type { FailingRule } from "./failing.ts";
import type { AlertNotes, ConsoleRecords, ScheduleNotes } from "./own_cells.ts";
import type { ProblemList, ProblemOptions } from "./_problems.ts";
import type { ListedLimit } from "./limits.ts";
import type { PortableEntry, PortableEvent } from "./portable_event.ts";
import type { ProcessNote } from "./processes.ts";
import type { AnswerResult } from "./questions.ts";
import type { AcceptResult, Lease, ReleaseOptions, StoreListener } from "./store_core.ts";
import type { TokenBuckets } from "./tokens.ts";
import type { ListedState, StateOptions, StoredState } from "./stored_state.ts";
import type { UntakenAnswer } from "./waits.ts";

/**
 * Writes for the commit that settles an event: they happen if, and only if, the event is settled by this lease. So
 * an effect that lives in the same database happens exactly once. The function is synchronous: the commit does not
 * wait for what it would add later.
 *
 * @typeParam TTx The commit or transaction of the store.
 * @category Handlers
 */
export type CommitEffects<TTx = unknown> = (tx: TTx) => EffectsResult<TTx>;

/**
 * Options of {@linkcode EventStore.emit}.
 *
 * @typeParam TTx The commit or transaction of the store.
 * @category Flows
 */
export type StoreEmitOptions<TTx = unknown> = EmitOptions & {
  /**
   * A transaction of yours that the event is stored in: with `postgres()` a client of `npm:pg` that has begun one. You
   * commit it, or take it back with all that is in it. A worker finds the event within a second of the commit. If this
   * process has ended by then, those that listen (`listenUrl`) find it within a minute.
   * Other stores take none: use {@linkcode EventStore.transact} there.
   *
   * @default {undefined} It is stored at once.
   */
  readonly tx?: TTx | undefined;
};

/**
 * Result of a function that writes in a transaction: a promise only if that is a transaction whose statements are
 * answered later, as those of `postgres()` are. It is awaited before the commit.
 *
 * @typeParam TTx The commit or transaction of the store.
 * @category Handlers
 */
export type EffectsResult<TTx> = TTx extends { query(...args: never[]): Promise<unknown> } ? unknown
  : NotPromise;

/**
 * Result of a function that must be synchronous: anything but a promise. It is not used.
 *
 * @category Handlers
 */
export type NotPromise =
  | void
  | null
  | undefined
  | boolean
  | number
  | bigint
  | string
  | symbol
  | (object & { readonly then?: never });

/**
 * Events and wake-ups of a transaction, beside its writes, see {@linkcode EventStore.transact}. The functions throw once it has
 * ended.
 *
 * @category Event store and worker
 */
export interface TransactionActions {
  /**
   * Emits an event, as {@linkcode EventStore.emit} does. An event whose id is known already is not stored again.
   *
   * @returns The event's id.
   */
  readonly emit: {
    <TEvents extends object, TType extends keyof TEvents & string>(
      source: OwnEvents<TEvents>,
      type: TType,
      payload: TEvents[TType],
      options?: EmitOptions,
    ): string;
    (source: string, type: string, payload: object, options?: EmitOptions): string;
  };
  /**
   * Wakes the event that waits for a name, as {@linkcode EventOperations.wake} does: at most three names.
   *
   * @param name The name.
   * @param value The value, as JSON has it.
   */
  readonly wake: (name: string, value?: unknown) => void;
}

/**
 * A part of an event's handling: a handler that is done, a step with its result as JSON, undefined for none, or a step
 * that begins, or has not begun after all.
 *
 * @category Event store and worker
 */
export type HandledPart =
  | {
    /** The kind of part. */
    readonly is: "handler" | "begun" | "not_begun";
    /** Its name: of a step with that of its handler in front. */
    readonly name: string;
  }
  | {
    /** The kind of part. */
    readonly is: "step";
    /** Its name, with that of its handler in front. */
    readonly name: string;
    /** Its result as JSON; undefined for none. */
    readonly json: string | undefined;
    /** True if it stays when its run is interrupted, false if it is dropped. Otherwise the rule of the event decides. */
    readonly keep?: boolean | undefined;
  };

/**
 * A step of an event, as the tools show it.
 *
 * @category Event store and worker
 */
export interface ListedStep {
  /** Its name, with that of its handler in front: `on(push)/review`. */
  readonly name: string;
  /** The time at which it was stored or, if it is not known how it ended, begun. In milliseconds since the epoch. */
  readonly at: number;
  /** True if it has begun, and it is not known how it ended. */
  readonly isBegun: boolean;
  /** Its result; undefined if it has none, or that is not kept any more. */
  readonly result: unknown;
}

/**
 * Options of {@linkcode EventStore.note}, and of {@linkcode EventStore.complete}.
 *
 * @category Event store and worker
 */
export interface NoteOptions {
  /**
   * Events that are stored in the same commit.
   *
   * @default {undefined} None.
   */
  readonly emits?: readonly Emission[] | undefined;
  /**
   * Names that the same commit wakes, at most three. Their values are JSON.
   *
   * @default {undefined} None.
   */
  readonly wakes?:
    | readonly { readonly name: string; readonly value?: string | undefined }[]
    | undefined;
  /**
   * Changes of states for the same commit. A worker makes them of what a handler has set.
   *
   * @default {undefined} None.
   * @internal
   */
  readonly cells?: readonly CellChange[] | undefined;
  /**
   * Signal that is aborted once nobody waits for the answer. What has waited for its turn by then, and would have
   * to begin anew because the lease was renewed, is not stored.
   *
   * @default {undefined} None.
   */
  readonly signal?: AbortSignal | undefined;
}

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
 * Options of an operation on an event.
 *
 * @category Event store and worker
 */
export interface Intervening {
  /**
   * The person or the tool that does it, for people: `operator 3f2a from 203.0.113.7`. The event's record notes up to
   * 80 bytes of it.
   *
   * @default {undefined} The app itself.
   */
  readonly by?: string | undefined;
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
   * @param options `by` is who does it, for people. With `eventId` only that event is woken: if it does not wait for
   * the name, the value is dropped.
   * @returns The result.
   * @throws {TypeError} If the name is something else or that of a question (`ask/...`), which is answered with
   * {@linkcode EventOperations.answer}, or the value cannot be written as JSON.
   * @throws {RangeError} If the value is too large.
   */
  wake(
    name: string,
    value?: unknown,
    options?: Intervening & { readonly eventId?: string | undefined },
  ): Promise<{
    /**
     * The fate of the value: an event has waited for it and gets it (`woken`), no event waits yet and it is kept
     * for seven days (`kept`), or it is dropped, because an earlier one is there that counts, or the event that is meant
     * does not wait for it any more (`late`).
     */
    readonly outcome: "woken" | "kept" | "late";
    /** The id of the event that gets it. */
    readonly eventId?: string | undefined;
  }>;

  /**
   * Answers a question that a handler has asked with `ask`, and wakes its event, in one commit. A handler has
   * {@linkcode HandlerContext.answer}; this is for a route, which has to know who it is that answers.
   *
   * @param name The name that `send` of the question got. Any other value is the name of no question.
   * @param value A value that can be written as JSON, of up to 8,000 bytes.
   * @param options `by` is the id of the sender, and `eventId` that of an event which brings the answer: it gets the
   * same result if it answers again. `operator` is who gives it instead, for people.
   * @returns What becomes of the answer.
   * @throws {TypeError} If the value cannot be written as JSON.
   * @throws {RangeError} If the value is too large.
   */
  answer(
    name: string | undefined,
    value?: unknown,
    options?: {
      readonly by?: number | undefined;
      readonly eventId?: string | undefined;
      readonly operator?: string | undefined;
    },
  ): Promise<AnswerResult>;

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
   * Lists the limits of services that handlers share, with what is free of each now: not what a process has taken for
   * later calls.
   *
   * @param options The `name` of the limits.
   * @returns The limits, by their names and keys.
   * @throws {TypeError} If an option is not a text.
   */
  limits(options?: { readonly name?: string | undefined }): AsyncIterableIterator<ListedLimit>;

  /**
   * Opens a limit of a service that was closed by mistake, or for too long. Each process notices that within a second.
   * Events that were put off until it would have opened come no sooner.
   *
   * @param name The name of the limit.
   * @param options The part of the limit that is counted alone.
   * @returns False if it is not closed, or cannot be read.
   * @throws {TypeError} If the name or an option is something else.
   */
  reopenLimit(
    name: string,
    options?: { readonly key?: string | number | undefined },
  ): Promise<boolean>;

  /**
   * Lists the processes that handle the store's events, with the version of each and the events that it has
   * handlers for. A process notes itself when it starts, once a minute while it handles events, and up to every 15 minutes
   * while it does not. One that was killed is listed for five more minutes, or for up to 33 if it was idle.
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
   * failed: its steps stay, and its idempotency keys are the same. The steps of a batch do not stay. A done one can be
   * put back as long as its payload is kept ({@linkcode EventStoreOptions.keepPayloads}). It begins anew: it has no
   * steps, and other keys, so that its calls are made again.
   *
   * @param id The event's id.
   * @param options Set `fresh` to let a dead one begin anew as well. `by` is who does it, for people.
   * @returns True if it was put back; false if the id is unknown, it waits or runs, or it is done and
   * its payload is not kept.
   * @throws {TypeError} If there is another option.
   */
  replay(
    id: string,
    options?: Intervening & { readonly fresh?: boolean | undefined },
  ): Promise<boolean>;

  /**
   * Lists the steps that the handlers of an event have taken, with their results, in the order in which they were
   * stored. The results are deleted when the event is done.
   *
   * @param id The event's id.
   * @returns The steps; none if the id is unknown.
   */
  steps(id: string): Promise<ListedStep[]>;

  /**
   * Forgets a step of an event that waits or is dead, with the later steps and the answers since, so that the next
   * attempt repeats its handling from there. A parked event is due at once.
   *
   * @param id The event's id.
   * @param name The step's name, as {@linkcode EventOperations.steps} lists it.
   * @param options `by` is who does it, for people.
   * @returns True if it is forgotten; false if there is no such step, or the event runs or is done.
   */
  forgetStep(id: string, name: string, options?: Intervening): Promise<boolean>;

  /**
   * Says that a step has happened that has begun without a known end, so that the next attempt goes on after it. The
   * event waits or is dead; a dead one is to be replayed then.
   *
   * @param id The event's id.
   * @param name The step's name, as {@linkcode EventOperations.steps} lists it.
   * @param result The result of the step, JSON of up to 524,288 bytes; undefined for none.
   * @param options `by` is who does it, for people.
   * @returns True if it is noted; false if no such step has begun without a known end, or the event runs or is done.
   * @throws {TypeError} If the result is not JSON, or too large.
   */
  setStep(id: string, name: string, result?: unknown, options?: Intervening): Promise<boolean>;

  /**
   * Puts dead events back, or done ones if the filter has the state `done`. Events of one ordering key are
   * handled in the order received. Without ids, dead ones are those that failed: what
   * somebody has cancelled is put back by its id, or with the outcome `cancelled`.
   *
   * @param filter The choice of events; by default those that are not dead are not changed.
   * @param options A callback for the progress, a signal that ends the operation, `fresh`, with which dead ones
   * begin anew, and `by`, who does it, for people.
   * @returns The number of events put back.
   * @throws {TypeError} If the filter has another member or a wrong value, or there is another option.
   */
  replayAll(
    filter: EventFilter,
    options?: BulkOptions & Intervening & { readonly fresh?: boolean | undefined },
  ): Promise<BulkResult>;

  /**
   * Cancels a queued or running event: it never becomes done. A queued one is dead at once. A running
   * one is flagged: its handler's signal is aborted, here at once and in another process at the lease's
   * next renewal. It is dead once that handler has ended, whatever it returned, or its lease has expired;
   * the next event of its ordering group waits until then.
   *
   * @param id The event's id.
   * @param options `by` is who does it, for people.
   * @returns True if it is cancelled; false if the id is unknown, or it is settled already.
   */
  cancel(id: string, options?: Intervening): Promise<boolean>;

  /**
   * Cancels queued and running events, as {@linkcode EventOperations.cancel} does. Those that were cancelled
   * before, and still run, are not counted again.
   *
   * @param filter The choice of events; those that are settled are not changed.
   * @param options A callback for the progress, a signal that ends the operation, and `by`, who does it, for people.
   * @returns The number of events cancelled.
   * @throws {TypeError} If the filter has another member or a wrong value, or there is another option.
   */
  cancelAll(filter: EventFilter, options?: BulkOptions & Intervening): Promise<BulkResult>;

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

/**
 * View into a store, for pages and tools that must answer soon.
 *
 * @category Event store and worker
 */
export interface StoreInspector {
  /**
   * Counts the events that are open or dead, by the indexes that lead to them.
   *
   * @param max The largest number that is counted, of the events of a state and of the entries read.
   * @param signal Ends the counting.
   * @returns The numbers, and the time since which the longest-waiting due event has been due.
   */
  count(max: number, signal?: AbortSignal): Promise<Counts>;

  /**
   * Lists the problems by which events have failed that are dead, or tried again: those with the most events first. A
   * problem is an error of one handler, whatever ids, numbers and quoted texts it has. One without events is not in it.
   *
   * @param options The only one that is meant, and the largest numbers.
   * @returns The problems, and their number.
   */
  problems(options?: ProblemOptions): Promise<ProblemList>;

  /**
   * Counts the parked events whose answers are there: each goes on when a worker claims it.
   *
   * @param max The largest number of names that are read: each parked event has one.
   * @param signal Ends the count.
   * @returns The number.
   */
  countAnswered(max: number, signal?: AbortSignal): Promise<BoundedCount>;

  /**
   * Counts the events before another one in its ordering group.
   *
   * @param event The record of the other one.
   * @param max The largest number that is counted.
   * @returns The number; undefined if the other one does not wait in a group.
   */
  countBefore(event: EventRecord, max: number): Promise<BoundedCount | undefined>;

  /**
   * Reads the first event of the ordering group in which another one waits.
   *
   * @param event The record of the other one.
   * @returns The record; undefined if the other one does not wait, or it cannot be read.
   */
  firstBefore(event: EventRecord): Promise<EventRecord | undefined>;

  /**
   * Reads the question that a parked event waits for an answer to.
   *
   * @param event The record of the event.
   * @returns The name that it is answered by, and the ids of the senders who may answer it, undefined for anybody.
   * Undefined if it waits for no question, or that cannot be read.
   */
  question(
    event: EventRecord,
  ): Promise<
    { readonly name: string; readonly by?: readonly number[] | undefined } | undefined
  >;

  /**
   * Tells which of the things the store has that not every app uses, each with one read.
   *
   * @returns Whether it has schedules, states, limits of services, and events that wait for names or have.
   */
  uses(): Promise<
    Readonly<Record<"schedules" | "states" | "limits" | "waits", boolean>>
  >;

  /**
   * Finds the events that an event has emitted with generated ids.
   *
   * @param event The record of the event.
   * @param max The largest number of them.
   * @returns Their ids, in the order in which they were emitted.
   */
  emittedBy(event: EventRecord, max: number): Promise<string[]>;

  /**
   * Finds the events with a delivery id, as the sender's pages show it.
   *
   * @param deliveryId The delivery id.
   * @returns The ids of the events.
   */
  withDeliveryId(deliveryId: string): Promise<string[]>;

  /**
   * Finds the event that has been due for the longest.
   *
   * @returns Its id, the time since which it is due, in milliseconds since the epoch, and its record, undefined if that
   * cannot be read; null if none is due.
   */
  oldestDue(): Promise<
    | {
      readonly id: string;
      readonly at: number;
      readonly record: EventRecord | undefined;
    }
    | null
  >;

  /**
   * Finds the events whose ids, or delivery ids, begin with a text.
   *
   * @param text The text, well-formed.
   * @param max The largest number of those of a source: if it has more, none of it is returned.
   * @returns The ids of the events.
   */
  withIdBeginning(text: string, max: number): Promise<string[]>;

  /**
   * Finds which of some events are done and have kept payloads.
   *
   * @param events The events.
   * @returns The ids of those that have.
   */
  keptAmong(events: readonly StoredEvent[]): Promise<ReadonlySet<string>>;
}

/**
 * Events of an app, from their receipt to their end. The records are the truth, and the notifier only notifies.
 * From the commit that stores an event until the commit that settles it, the event is on the schedule. Of an
 * ordering group only the first event is, and the next one moves up when that is settled.
 *
 * A lease whose record shows `cancelRequestedAt` settles its event in one way only: `complete`, `retry`,
 * `release` and `bury` make it dead with the outcome `cancelled`, without effects.
 *
 * @typeParam TTx The commit or transaction of the store, for effects.
 * @typeParam TReader The reader of the store, `db`.
 * @category Event store and worker
 */
export interface EventStore<TTx = unknown, TReader = unknown> extends EventOperations {
  /** The database that it is in, for reading. It cannot be closed. */
  readonly db: TReader;

  /** The way it wakes the workers of other processes, such as `watch`. */
  readonly notifier: string;

  /** Default of {@linkcode WorkerOptions.pollMs}, in milliseconds: 15,000 in a Deno KV. */
  readonly pollMs: number;

  /** The largest payload it can hold, in bytes. */
  readonly maxPayloadBytes: number;

  /** Its room for what handlers add to the settlement of their event. */
  readonly room: SettlementRoom;

  /** True if effects may be asynchronous: they are awaited before the commit, as with `postgres()`. */
  readonly awaitsEffects: boolean;

  /** Time that it remembers done events, in milliseconds. */
  readonly retentionMs: number;

  /** A view into it, for pages and tools: counts that are cheap, and what surrounds an event. */
  readonly inspect: StoreInspector;

  /**
   * Notes of the slots that were made of schedules.
   *
   * @internal
   */
  readonly scheduleNotes: ScheduleNotes;

  /**
   * Notes of what is wrong with the app, and of who has been told.
   *
   * @internal
   */
  readonly alertNotes: AlertNotes;

  /**
   * Records of the app's console, for the console alone.
   *
   * @internal
   */
  readonly consoleRecords: ConsoleRecords;

  /**
   * Buckets of tokens that all processes share, for the worker.
   *
   * @internal
   */
  readonly tokens: TokenBuckets;

  /**
   * Stores a delivery as an event, in one atomic commit: the record, payload, schedule entry and the
   * notification. A payload that is too large for a commit is written before, and becomes visible with it.
   *
   * @param delivery The delivery.
   * @param options `replayWindowMs` is the time for which the same document counts as a duplicate although it comes
   * under another delivery id, in milliseconds: from 1 to the retention, because a document whose event is forgotten
   * is new. Without it, only the delivery id counts.
   * @returns The event's id. The delivery is a duplicate if its event is known and has not died.
   * @throws {TypeError} If a member of the delivery has the wrong type.
   * @throws {RangeError} If the replay window is not from 1 to the retention, or the id or the payload is
   * too large.
   */
  accept(
    delivery: Delivery,
    options?: { readonly replayWindowMs?: number | undefined },
  ): Promise<AcceptResult>;

  /**
   * Stores an event that the app emits, in one commit.
   *
   * @typeParam TEvents The payloads by type.
   * @typeParam TType The type.
   * @param source The source.
   * @param type The type of the event: up to 100 letters, digits, `_`, `.`, `:` and `-`.
   * @param payload The payload, a JSON object.
   * @param options The id, the delay and the ordering key, and the transaction that it is stored in.
   * @returns The event's id. The event is a duplicate if its id is known, in whatever state.
   * @throws {TypeError} If an argument has the wrong type, or the store takes no transaction of yours.
   * @throws {RangeError} If the delay is out of range, or the payload takes more than 598,976 bytes.
   */
  emit<TEvents extends object, TType extends keyof TEvents & string>(
    source: OwnEvents<TEvents>,
    type: TType,
    payload: TEvents[TType],
    options?: StoreEmitOptions<TTx>,
  ): Promise<AcceptResult>;
  /**
   * Stores an event of a source that is given by its name.
   *
   * @param source The name of the source.
   * @param type The type of the event.
   * @param payload The payload, a JSON object.
   * @param options The id, the delay and the ordering key.
   * @returns The event's id.
   */
  emit(
    source: string,
    type: string,
    payload: object,
    options?: StoreEmitOptions<TTx>,
  ): Promise<AcceptResult>;

  /**
   * Gives a function a transaction, for a route or a script: what it writes in the database, the events that it emits
   * and the names that it wakes are committed together, or not at all.
   *
   * The function is synchronous, except with `postgres()`, and may be called more than once: the last call counts. With
   * `sqlite()` and `postgres()` it runs in the transaction, and reads what it has written. With `kv()` it adds to the commit, and has read before: the checks of
   * the commit tell if that has changed meanwhile.
   *
   * @typeParam TResult The result of the function.
   * @param work The function. It gets what the functions of `settleWith` get, and `emit` and `wake`. If it throws,
   * nothing is committed.
   * @returns The result of the call that was committed; undefined if that is the transaction itself.
   * @throws {TypeError} If the function returns a promise.
   * @throws {unknown} If the function throws, or what it wrote cannot be committed.
   * @throws {Error} If it is not known whether the transaction was committed.
   *
   * @example
   * ```ts
   * import { defineApp, github, openApp, sqlite } from "@org/edge-base";
   * import { assertEquals } from "@std/assert";
   *
   * const setup = "create table if not exists job (name text, event text)";
   * const bot = defineApp({
   *   name: "my-bot",
   *   platform: github(),
   *   store: sqlite({ setup: (db) => db.exec(setup) }),
   *   routes: (app, { store }) => {
   *     app.post("/jobs/:name", async (c) => {
   *       const name = c.req.param("name");
   *       const event = await store.transact((db, { emit }) => {
   *         const id = emit("jobs", "added", { name });
   *         db.prepare("insert into job values (?, ?)").run(name, id);
   *         return id;
   *       });
   *       return c.json({ event });
   *     });
   *   },
   * });
   *
   * const env = { GITHUB_WEBHOOK_SECRET: "It's a Secret to Everybody", SQLITE_FILE: ":memory:" };
   * await using app = await openApp(bot, { env, log: () => {} });
   * const { event } = await (await app.fetch(new Request("http://bot/jobs/a", { method: "POST" }))).json();
   * assertEquals(app.db.prepare("select event from job").get()?.event, event);
   * ```
   */
  transact<TResult extends EffectsResult<TTx>>(
    work: (tx: TTx, actions: TransactionActions) => TResult,
  ): Promise<Awaited<TResult>>;

  /**
   * Returns when the longest-waiting due event became due: one read.
   *
   * @returns Milliseconds since the epoch; null if nothing is due.
   */
  oldestDueAt(): Promise<number | null>;

  /**
   * Leases events that are due, the longest-waiting first: queued ones, and running ones whose lease has expired. Of
   * the latter those that were cancelled are settled instead. An event that turns out to wait in its ordering group
   * leaves its room to others.
   *
   * @param options The number of events, the worker, and the length of the leases.
   * @returns The leases; none if nothing is due or another worker was faster.
   */
  claim(options: {
    /** The number of events, at most. */
    readonly limit: number;
    /** The worker that leases them. No other one has the same name. */
    readonly owner: string;
    /** The length of the leases, in milliseconds. */
    readonly leaseMs: number;
    /**
     * Set to false to leave events whose lease has expired.
     *
     * @default {true}
     */
    readonly takeOver?: boolean | undefined;
    /**
     * A check whether the claimer still works on an event, or leaves it to others. Such an event is left out: the
     * claimer renews that lease itself, it has lost the lease and its handler still runs, or it has no handler. It
     * gets the event's id, and the time since which the event has been due.
     *
     * @default {undefined} It works on none.
     */
    readonly holds?: ((id: string, dueAt: number) => boolean) | undefined;
    /**
     * Lists the claimer's handlers of an event. Events of different types that have {@linkcode BatchOptions.together}
     * are leased together if these lists have the same members.
     *
     * @default {undefined} Only events of one type and action are leased together.
     */
    readonly handlersOf?: ((event: EventRecord) => readonly unknown[]) | undefined;
  }): Promise<Lease[]>;

  /**
   * Reads an event's payload.
   *
   * @param event The event: a lease, or its record.
   * @returns The payload, byte for byte.
   * @throws {NotKeptError} If the event is done, and its payload is not kept.
   * @throws {Error} If not all of it is there.
   */
  load(event: Pick<Lease, "record">): Promise<Uint8Array<ArrayBuffer>>;

  /**
   * Lists the events that are handled together with a leased one, because they have joined its ordering
   * group soon after it. They are settled with it.
   *
   * @param event The event: a lease, or its record.
   * @returns Their records, in the order of their positions; none for an event without a batch.
   */
  members(event: Pick<Lease, "record">): Promise<EventRecord[]>;

  /**
   * Lengthens a lease.
   *
   * @param lease The lease.
   * @param leaseMs Its length from now on, in milliseconds.
   * @returns The new lease; null if it was lost.
   */
  renew(lease: Lease, leaseMs: number): Promise<Lease | null>;

  /**
   * Notes a part of an event's handling. That stays with the event, also when it dies and is replayed or delivered
   * again.
   *
   * @param lease The lease.
   * @param part The part.
   * @param effects Further mutations for the same commit.
   * @param options Events that are stored and names that are woken in the same commit.
   * @returns The new lease; null if it was lost.
   * @throws {RangeError} If the result is too large, or the event's steps and handlers would take more than 32,768
   * bytes as JSON.
   * @throws {Error} If the event was cancelled, or the effects cannot be committed.
   */
  note(
    lease: Lease,
    part: HandledPart,
    effects?: CommitEffects<TTx>,
    options?: NoteOptions,
  ): Promise<Lease | null>;

  /**
   * Reads the result of a step.
   *
   * @param lease The lease of its event.
   * @param name The name of the step, with that of its handler in front.
   * @returns The result as JSON; undefined if it has none, null if the step is not stored.
   */
  readStep(lease: Lease, name: string): Promise<string | undefined | null>;

  /**
   * Takes the value that a name was woken with before anybody waited for it, and notes it in the event's
   * record, among `woken`.
   *
   * @param lease The lease.
   * @param name The name.
   * @returns The new lease, or the same one without such a value; null if it was lost.
   * @throws {WaitRefusedError} If another event waits for the name, or the event is handled together with
   * others.
   * @throws {RangeError} If the record has no room for the result of one more wait.
   * @throws {Error} If the event was cancelled.
   */
  takeWake(lease: Lease, name: string): Promise<Lease | null>;

  /**
   * Parks an event until its name is woken, or its time has passed. The attempt does not count. The event
   * leaves its ordering group, and joins it again when it is claimed. If the name was woken meanwhile, the
   * event is not parked but due at once.
   *
   * @param lease The lease.
   * @param wait The name, and how long it waits.
   * @returns True if it was parked, or is due at once; false if the lease was lost.
   * @throws {WaitRefusedError} If another event waits for the name, or the event is handled together with
   * others.
   */
  park(
    lease: Lease,
    wait: { readonly name: string; readonly timeoutMs: number },
  ): Promise<boolean>;

  /**
   * Reads a lease again after its record has changed: the answer to a renewal was lost, the schedule was
   * repaired, or the event was cancelled.
   *
   * @param lease The lease.
   * @returns The lease as it is now; null if it was lost.
   */
  recover(lease: Lease): Promise<Lease | null>;

  /**
   * Settles an event as done. Its payload is deleted unless {@linkcode EventStoreOptions.keepPayloads} keeps it
   * for a while; its record is kept for the retention.
   *
   * @param lease The lease.
   * @param options Further mutations for the same commit, and how long that may wait.
   * @returns True if it was settled; false if the lease was lost.
   * @throws {Error} If the effects cannot be committed.
   */
  complete(
    lease: Lease,
    options?: Omit<NoteOptions, "signal"> & {
      /** Further mutations for the same commit. */
      readonly effects?: CommitEffects<TTx> | undefined;
      /**
       * Longest wait for other changes to share a commit with, in milliseconds.
       *
       * @default {0}
       */
      readonly withinMs?: number | undefined;
      /**
       * End of the event: an ignored one had no handler.
       *
       * @default {"handled"}
       */
      readonly outcome?: "handled" | "ignored" | undefined;
    },
  ): Promise<boolean>;

  /**
   * Gives an event back, to be tried again.
   *
   * @param lease The lease.
   * @param delayMs The delay until then, in milliseconds.
   * @param error The error of the attempt.
   * @param options The `reason` why one of several handlers has put the event off. Its record notes that. The
   * attempt counts all the same. By the rules in `reports`, events are stored in the same commit that report the
   * failing one: of the type and the source `failing`, with a {@linkcode FailingEvent}, and the name of the rule as
   * action. Each is stored once in a run of the event. The `handler` is the name of the one that has failed, by which
   * equal errors of different handlers are different problems.
   * @returns True if it was given back; false if the lease was lost.
   */
  retry(
    lease: Lease,
    delayMs: number,
    error: unknown,
    options?: {
      readonly reason?: unknown;
      readonly reports?: readonly FailingRule[] | undefined;
      readonly handler?: string | undefined;
    },
  ): Promise<boolean>;

  /**
   * Gives an event back that was not tried to its end, or put off. The attempt does not count, and the
   * event keeps its position in its ordering group.
   *
   * @param lease The lease.
   * @param options The delay, whether a handler had begun with the event, and why it has put it off. The rules in
   * `reports` are as for `retry`, if its process has died.
   * @returns True if it was given back; false if the lease was lost.
   */
  release(
    lease: Lease,
    options?: ReleaseOptions & { readonly reports?: readonly FailingRule[] | undefined },
  ): Promise<boolean>;

  /**
   * Finds the newer event that interrupts the handler of a leased one: it was accepted with `newer: "interrupt"` or
   * emitted with `interrupt`, waits behind the batch of the leased one, and can be handled together with it.
   *
   * @param lease The lease.
   * @param handlersOf Lists the claimer's handlers of an event, as for {@linkcode EventStore.claim}.
   * @returns The id of the latest such event; null if there is none.
   */
  interruptedBy(
    lease: Lease,
    handlersOf?: (event: EventRecord) => readonly unknown[],
  ): Promise<string | null>;

  /**
   * Gives an event back whose handler was interrupted by a newer one of its group. The attempt does not count, and the
   * next one gets the newer events too, unless one of several handlers has ended. Of the steps so far it gets those that
   * the rule of the event keeps.
   *
   * @param lease The lease.
   * @param by The id of the newer event.
   * @returns True if it was given back; false if the lease was lost.
   */
  interrupt(lease: Lease, by: string): Promise<boolean>;

  /**
   * Adds the events that have joined its group since to the batch of a leased event, in one commit: as many as can be
   * handled together with it. Each further attempt gets them too, and they are settled with it. To find none takes one
   * read.
   *
   * @param lease The lease.
   * @param handlersOf Lists the claimer's handlers of an event, as for {@linkcode EventStore.claim}.
   * @returns The new lease and the records of these events, in their order; null if the lease was lost.
   * @throws {Error} If the event was cancelled.
   */
  takeNewer(
    lease: Lease,
    handlersOf?: (event: EventRecord) => readonly unknown[],
  ): Promise<{ readonly lease: Lease; readonly newer: readonly EventRecord[] } | null>;

  /**
   * Gives an event up. It is kept, with its payload and attempts, until somebody decides on it or its
   * delivery is sent again.
   *
   * @param lease The lease.
   * @param error The error of the attempt.
   * @param options With `reports`, an event is stored in the same commit that reports the dead one: of the type and the
   * source `dead`, with a {@linkcode DeadEvent}. An event that is cancelled is not reported, nor is one that reports
   * another, or comes of a report. By the name in `handler`, equal errors of different handlers are different problems.
   * @returns True if it was given up; false if the lease was lost.
   */
  bury(
    lease: Lease,
    error: unknown,
    options?: {
      readonly reports?: boolean | undefined;
      readonly handler?: string | undefined;
    },
  ): Promise<boolean>;

  /**
   * Reads a state that handlers share, such as a conversation's: for a route, a test, or another part
   * of an app. A handler uses `state` of its context.
   *
   * @typeParam TValue The type of its value.
   * @param key The key, of up to 256 characters.
   * @param options The intake whose states are meant.
   * @returns The state. It can be set and deleted.
   * @throws {TypeError} If the key or the intake is not a text.
   * @throws {RangeError} If one of them is too long.
   * @throws {Error} If another version wrote the state, or it is damaged.
   */
  state<TValue>(key: string, options?: StateOptions): Promise<StoredState<TValue>>;

  /**
   * Notes that a process handles events. The note is forgotten five minutes later, unless it is written again.
   *
   * @param note The note.
   * @returns A promise that resolves once it is stored.
   */
  noteProcess(note: ProcessNote): Promise<void>;

  /**
   * Deletes the note of a process that has ended.
   *
   * @param id Its id.
   * @returns A promise that resolves once that is stored.
   */
  forgetProcess(id: string): Promise<void>;

  /**
   * Puts the store in order, each part if it is asked for. Workers do so from time to time.
   *
   * @param parts The parts.
   * @returns The numbers of events that are scheduled anew, of groups that are repaired, of uploads that are deleted,
   * of payloads that are dropped, and of problems that are forgotten.
   * @throws {TypeError} If a part has another name.
   */
  tidy(parts: {
    /**
     * Schedules events anew that would wait for longer than was planned, because a clock was wrong: this one until it
     * was set back, or another machine's. Each then waits for its planned delay, and a lease is held for its length.
     * After this number of entries of the schedule it ends, unless a wrong one was among them: the next call with a
     * number goes on from there. With `Infinity`, all are read.
     *
     * @default {undefined} It reads none.
     */
    readonly times?: number | undefined;
    /**
     * Repairs damaged ordering groups, so that their events are handled. Every group is checked.
     *
     * @default {false}
     */
    readonly groups?: boolean | undefined;
    /**
     * Deletes what uploads that are older, in milliseconds, and never became an event have left behind.
     *
     * @default {undefined} It deletes none.
     */
    readonly uploadsOlderThanMs?: number | undefined;
    /**
     * Drops the payloads of done events that are too old or take too much together, and all of them if this store
     * keeps none.
     *
     * @default {false}
     */
    readonly payloads?: boolean | undefined;
    /**
     * Forgets the problems that have had no events for seven days, and how often attempts have failed by others more
     * than three days ago.
     *
     * @default {false}
     */
    readonly problems?: boolean | undefined;
  }): Promise<{
    readonly times: number;
    readonly groups: number;
    readonly uploads: number;
    readonly payloads: number;
    readonly problems: number;
  }>;

  /**
   * Checks all that the store keeps, page by page: events that nothing leads to any more are put back on the
   * schedule, and values that cannot be decoded are named and left as they are. It reads every value once.
   *
   * @param options With `discard`, values that cannot be decoded are deleted, except for records of events. Only for
   * values that no version can read any more: a state is lost then, and so is the answer to a question. Events stay,
   * and lose their place in their group.
   * @returns The pages that were checked, with what was found.
   * @throws {TypeError} If an option has the wrong type.
   */
  check(
    options?: { readonly discard?: boolean | undefined },
  ): AsyncIterableIterator<CheckedPage>;

  /**
   * Reads what the last whole check has found, in whichever process.
   *
   * @returns The time at which it ended, in milliseconds since the epoch, and the number of values that were read, of
   * events that were put back, and of values that could not be decoded and are left; null if there was none.
   */
  lastCheck(): Promise<
    {
      readonly at: number;
      readonly read: number;
      readonly putBack: number;
      readonly unreadable: number;
    } | null
  >;

  /**
   * Listens for events until the database is closed. A store has one listener.
   *
   * @param listener The worker of this process.
   * @returns A promise that resolves once the database is closed.
   */
  listen(listener: StoreListener): Promise<void>;
}

/** The result of restoring an event or an entry. */
export type RestoreOutcome = Awaited<ReturnType<EventOperations["restore"]>>;
