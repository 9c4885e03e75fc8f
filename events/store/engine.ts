/**
 * The seam between what an event store promises and where its bytes lie.
 *
 * The store (`open_store.ts` and the files beside it) owns all policy: what a duplicate is, when a lease has expired,
 * what an attempt does to a record, which events are handled together. An engine owns bytes, keys, indexes,
 * versions and time. It stores what it is given, in commits that are made whole or not at all, and finds it again.
 * It reads the columns of a record (its id, state, times, group and payload) and never decides by them. It may keep
 * notes of its own in the column `engine`: the store hands them back with the record, and does not read them.
 *
 * A new engine is a folder beside `kv/` that implements {@linkcode Engine}, and a fixture for the contract
 * tests in `tests/events/store/contract/`.
 *
 * **Refused or unknown.** {@linkcode Engine.apply} says that a change is refused only if nothing of it was made
 * or will be. If it cannot know, it rejects.
 *
 * @module
 */
import { met } from "../../core/check_options.ts";
import type {
  EventFilter,
  EventRecord,
  EventRef,
  EventState,
  GroupPosition,
  PayloadRef,
} from "./event_record.ts";

/** Bytes of a payload. */
export type Bytes = Uint8Array<ArrayBuffer>;

/** Version of something that is stored. Each change makes another one. */
export type Version = string;

/** An event, as it was read or written. */
export interface Stored {
  /** Its record. */
  readonly record: EventRecord;
  /** The version of the record. */
  readonly version: Version;
  /** Its payload, if it was read together with the record. */
  readonly body?: Bytes | undefined;
}

/**
 * An event whose record this version cannot read. It is left as it is. The store hands the same object back, so an engine
 * may add what it can read of it.
 */
export interface Unreadable extends EventRef {
  readonly record?: undefined;
  readonly version: Version;
}

/** The moment at which a change is made. */
export interface Moment {
  /** The time, milliseconds since the epoch. */
  readonly now: number;
  /** The position that the event gets in the group that it joins. */
  readonly group?: GroupPosition | undefined;
  /** Set if there is a place for the event in that group: it can be handled beside the others. */
  readonly hasPlace?: boolean | undefined;
}

/** The id of a new event, and what is to happen if an event has it already. */
export interface NewId {
  readonly id: string;
  /**
   * - `absent`: the change is refused, with the event that has the id.
   * - `skip`: only this put is left out, and all else of the change is made. Of two puts with the same id the second
   *   one is left out.
   * - `free`: it cannot happen, since the id was made for this event. An engine need not look, and may treat it as
   *   `absent`.
   */
  readonly must: "absent" | "skip" | "free";
}

/** Change of one event. */
export interface Put {
  /** The event as it was read: the change is refused if it has another version by now. Or the id of a new event. */
  readonly before: Stored | Unreadable | NewId;
  /**
   * Makes the record after, or null to delete the event. It may be called more than once, with other moments: only the
   * last record counts, and an engine may set its `engine`. It has the same id as the one before, and another time of
   * receipt if a delivery has replaced a dead event.
   */
  readonly after: ((at: Moment) => EventRecord) | null;
  /**
   * The bytes of a payload that the record after names, or `keeps`, if this change stores it. A payload that is not
   * here was stored before: by {@linkcode Engine.upload}, or with the record before.
   */
  readonly body?: Bytes | undefined;
  /**
   * A payload that is to stay although the record after does not name it. Without this, the payload that the record
   * before names is deleted unless the record after names it too.
   */
  readonly keeps?: PayloadRef | undefined;
  /**
   * The time after which the event is forgotten with its id, in milliseconds from this change, if its record after is
   * done: no method finds it then. Undefined if it stays. For any other record after, it is only a forecast of the
   * time that the change which settles the event will give: an engine may use it to store an id by itself once, or
   * ignore it.
   */
  readonly forMs?: number | undefined;
  /**
   * The key of an ordering group that the event joins as its last one. The engine gives it the next position of the
   * group, and tells `after` with {@linkcode Moment.group}. Nothing else gives an event a position, and while events
   * are in a group none is given twice, even if a repair has to find the next one: a batch is known by its last
   * position. A change has at most one put that joins, and then no effects.
   */
  readonly joins?: string | undefined;
  /**
   * The number of places that the group has from then on: so many of its first events are due, and the others wait.
   *
   * @default {1}
   */
  readonly places?: number | undefined;
  /**
   * The event as {@linkcode Engine.due} has found it. Nothing that made it due then does so after this change: only the
   * record after, or another move.
   */
  readonly via?: Due | undefined;
}

/** Rank of an event that gets a place in its ordering group. */
export interface HeadAt {
  /** Set if it is the first one of its group. */
  readonly isFirst: boolean;
}

/**
 * Change of the ordering groups that events leave. In a group only the first event has a place and is due, or the first
 * ones, as the last put that has joined it says ({@linkcode Put.places}); the others wait, with no time in their records.
 * An event that has a place keeps it until it leaves. None gets a place while one before it waits.
 *
 * An event leaves its group if its record after names none, if it is deleted, or by a {@linkcode Move}. If one that had
 * a place has left, the next one becomes due, or as many as there are places by now: `head` makes their records, once
 * all events have left that leave by the change. A next one that cannot be read stays as it is, is due now, and holds its
 * place.
 */
export interface Leave {
  /**
   * Makes the record of the next event of a group, which is due now; null if it, and all behind it, wait still. It may be
   * called more than once.
   */
  readonly head: (record: EventRecord, now: number, at: HeadAt) => EventRecord | null;
  /**
   * The last position of a batch. If the event of the first put is the first one of its group, all others up to this
   * position leave with it. One that cannot be read stays.
   */
  readonly through?: number | undefined;
  /** Makes the change of each other event of the batch. It may be called more than once. */
  readonly member?: ((record: EventRecord) => LeavingMember) | undefined;
}

/** Change of an event of a batch that leaves its group together with the first one. */
export interface LeavingMember
  extends Pick<Put, "keeps" | "forMs">, Pick<Change, "puts" | "cells" | "sums"> {
  /** Its record. */
  readonly after: EventRecord;
}

/**
 * The key of a cell: its kind, and texts, numbers or bytes that follow. Cells are in the order of their keys: numbers
 * by size, texts by their bytes.
 */
export type CellKey = readonly [kind: string, ...rest: (string | number | Uint8Array)[]];

/** A value beside the events, such as a state, a note or the name that an event waits for. */
export interface Cell {
  readonly key: CellKey;
  /** The value, a JSON value; null if there is none, undefined if this version cannot read it. */
  readonly value: unknown;
  /** Its version; null if there is none. */
  readonly version: Version | null;
}

/** Change of a cell. */
export interface CellChange {
  readonly key: CellKey;
  /** The version that it must have, null for none: else the change is refused. Undefined if it may be any. */
  readonly version?: Version | null | undefined;
  /** The new value, a JSON value. Null deletes the cell, undefined leaves it as it is. */
  readonly after?: unknown;
  /** The time after which it is forgotten, in milliseconds; undefined if it stays. */
  readonly forMs?: number | undefined;
}

/** A sum: a cell whose value is a whole number, which changes add to without reading it. */
export type SumChange =
  & { readonly key: CellKey }
  & ({ readonly by: number } | { readonly to: number });

/**
 * Change of the time at which an event is due, without a change of its record: a wake-up, or the delay of an event that
 * cannot be read.
 *
 * An event is due at the time in its record (`dueAt`), and at one other time, if a move has set one. A move sets that
 * other time, and a put sets the record: each leaves the other one alone, unless that is the `via` by which it was
 * found.
 */
export interface Move {
  readonly event: EventRef;
  /** The time from now on until it is due, in milliseconds; null for no other time. */
  readonly afterMs: number | null;
  /**
   * The event as {@linkcode Engine.due} has found it. The change is refused if that has changed since, and what made
   * the event due then does not do so any more.
   */
  readonly via?: Due | undefined;
  /** Set if it leaves its ordering group as well. */
  readonly leavesGroup?: boolean | undefined;
}

/** The turn of a change that may have to wait for others. */
export interface Turn {
  /** Longest wait, in milliseconds: then the change is refused with a {@linkcode NoTurnError}. */
  readonly withinMs: number;
  /** A signal that ends the wait. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Makes the first put anew if its event has got another version while the change waited: a lease may have been
   * renewed. It is called once before the change is refused for that, so that it need not wait a second time. Null refuses
   * the change.
   */
  readonly again?: ((now: Stored) => Put | null) | undefined;
}

/** A change: all of it is made, in one commit, or nothing. */
export interface Change<TTx = unknown> {
  readonly puts?: readonly Put[] | undefined;
  /** The change of the ordering groups that events leave by a put or a move: needed if one does. */
  readonly leave?: Leave | undefined;
  /** Events that must have their versions still, and are not changed. */
  readonly unchanged?: readonly Stored[] | undefined;
  readonly moves?: readonly Move[] | undefined;
  readonly cells?: readonly CellChange[] | undefined;
  readonly sums?: readonly SumChange[] | undefined;
  /** Payloads that are deleted, beside those that puts delete. No record names them. */
  readonly drops?: readonly PayloadRef[] | undefined;
  /**
   * Adds a handler's writes to the commit. If it throws, or they cannot be committed, the change is refused. It may be
   * called more than once. An engine that checks versions before it commits calls it only if they were right.
   */
  readonly effects?: ((tx: TTx) => unknown) | undefined;
  /** Deliveries that are taken in have their sender waiting; all else is work. */
  readonly urgency: "intake" | "work";
  /** Longest wait for other changes to share a commit with, in milliseconds; 0 by default. */
  readonly withinMs?: number | undefined;
  /** Set if workers of other processes should be woken. It is read once the records after are made. */
  readonly announce?: boolean | undefined;
  /** Its turn, if it may have to wait for others that take the same ids or join the same group. */
  readonly turn?: Turn | undefined;
}

/** The outcome of a change that was made, or refused: then nothing of it was made. */
export type Applied =
  | {
    readonly ok: true;
    /** The version of the cells that were written. */
    readonly version: Version;
    /** The events of the puts, in their order, without those that members bring; null for one left out or deleted. */
    readonly written: readonly (Stored | null)[];
    /** The next event of the group that the event of the first put has left, if it is due now, or the first of them. */
    readonly head?: Stored | undefined;
  }
  | {
    readonly ok: false;
    /**
     * The reason: an event of a put or of `unchanged` has another version (`event`), an id that had to be absent is
     * known (`id`, with the event that has it in `found`), a cell has another version (`cell`), what led to an event
     * has changed (`via`), an uploaded payload has been deleted (`payload`), or the effects threw or cannot be
     * committed (`effects`, with their `error`).
     */
    readonly why: "event" | "id" | "cell" | "via" | "payload" | "effects";
    readonly found?: Stored | Unreadable | undefined;
    readonly error?: unknown;
  };

/**
 * An event whose time has come: it is due, or its lease has expired. The store hands the same object back as `via`,
 * so an engine may add what it needs there to recognize what has made the event due.
 */
export interface Due extends EventRef {
  /** The time since which it is due, milliseconds since the epoch. */
  readonly at: number;
  /** The event; undefined if there is none any more. */
  readonly event: Stored | Unreadable | undefined;
}

/** Some of the events that are due, the longest-waiting first. */
export interface DuePage {
  readonly events: readonly Due[];
  /** Their small payloads, in the same order, undefined for any other. They are read meanwhile. */
  readonly bodies: Promise<readonly (Bytes | undefined)[]>;
  /** Beginning of the next page; undefined if this is the last one. */
  readonly cursor?: string | undefined;
  /**
   * Set if this is the last page: the time at which the first event behind it is due, which is later than the time that
   * was asked for; null if there is none. For a limit of 0 it is the time at which the next event is due, or became due.
   */
  readonly next?: number | null | undefined;
}

/** An event at its position in an ordering group. */
export interface GroupMember {
  readonly position: number;
  /**
   * The event; undefined if there is none at this position any more, or it is not read. One whose position cannot be
   * read has an empty id.
   */
  readonly event: Stored | Unreadable | undefined;
}

/** A part of an ordering group. */
export interface Group {
  /** The position that the next event will take. */
  readonly next: number;
  /** The number of places. */
  readonly places: number;
  /** The latest `quiet.since` of the events that have joined, milliseconds since the epoch; undefined without any. */
  readonly joinedAt: number | undefined;
  /** The events from the first position on that was asked for. */
  readonly members: readonly GroupMember[];
}

/** A choice of events, and the way through them. */
export interface Scan {
  /** The choice. The engine may yield others too: it narrows by what it has indexes for. */
  readonly filter: EventFilter;
  readonly isNewestFirst?: boolean | undefined;
  /** A place that an earlier scan has reached: this one continues behind it. */
  readonly after?: string | undefined;
  /** Set if only open events are meant. */
  readonly onlyOpen?: boolean | undefined;
  /** Set if it has to begin soon: then it may come in the order of an index. */
  readonly isLimited?: boolean | undefined;
}

/** A step of a scan. */
export interface Visit {
  /** The event that was read; undefined for a step that only tells how far the scan has got. */
  readonly event: Stored | Unreadable | undefined;
  /** The place, for another scan. */
  readonly place: string;
  /** The time of receipt that all events before the place are before, or after, if it comes in that order. */
  readonly reachedAt: number | undefined;
  /** The number of events that were passed over for a step without one, at 1/20 of the work of reading one; 1 by default. */
  readonly passedOver?: number | undefined;
}

/**
 * A number of events, counted up to a largest one.
 *
 * @category Event store and worker
 */
export interface BoundedCount {
  /** The number. */
  readonly count: number;
  /** True if there are more. */
  readonly isMore: boolean;
}

/**
 * Numbers of events by state.
 *
 * @category Event store and worker
 */
export interface Counts extends Readonly<Record<Exclude<EventState, "done">, BoundedCount>> {
  /** The time at which the longest-waiting due event became due; null if none is due. */
  readonly oldestDueAt: number | null;
}

/** Numbers of the events that have failed by a problem: see `EventRecord.problem`. */
export interface ProblemCount {
  /** The id of the problem. */
  readonly id: string;
  /** The number of those that are dead. */
  readonly dead: BoundedCount;
  /** The number of those that are open. */
  readonly retrying: BoundedCount;
}

/** Name of a value whose key cannot be read, either. */
export const UNNAMED = "(written by a newer version of Deno)";

/**
 * Part of a check of a store.
 *
 * @category Operations
 */
export interface CheckedPage {
  /** Number of values that were read. */
  readonly read: number;
  /**
   * Findings among them: events that nothing led to and that are back on the schedule, and values that cannot be
   * decoded.
   */
  readonly findings: readonly (
    | {
      /** An event was put back: its schedule entry, its position, or its entry in an index was missing. */
      readonly is: "put_back";
      /** Its id. */
      readonly eventId: string;
    }
    | {
      /** A value cannot be decoded: another version wrote it, or it is damaged. If asked for, it was deleted. */
      readonly is: "unreadable" | "discarded";
      /** Kind of the value. */
      readonly kind:
        | "event"
        | "id"
        | "schedule entry"
        | "ordering group"
        | "position"
        | "name"
        | "state"
        | "schedule"
        | "kept payload"
        | "step"
        | "question"
        | "limit";
      /**
       * Name of the value: the id of an event, the key of a group or a state, the name of a schedule. A value that
       * another program has written with a newer Deno has none in an older one.
       */
      readonly name: string;
      /** Place of the value: the key of a cell, or what the engine has; the place around it if it has no name. */
      readonly at: unknown;
    }
  )[];
}

/** Finding of a check. */
export type StoreFinding = CheckedPage["findings"][number];

/** Kind of a stored value that cannot be decoded. */
export type StoredKind = Exclude<StoreFinding, { readonly is: "put_back" }>["kind"];

/**
 * Room for what handlers add to the change that settles their event, or that notes a part of it.
 *
 * @category Event store and worker
 */
export interface SettlementRoom {
  /** The number of events that it emits. */
  readonly events: number;
  /** The number of bytes of these events: of their payloads, and of all else in their records. */
  readonly eventBytes: number;
  /** The number of bytes of the ids of these events. */
  readonly idBytes: number;
  /** The number of states that it changes. */
  readonly states: number;
  /** The number of bytes that the value of a state takes as JSON. */
  readonly stateBytes: number;
  /** The number of names that it wakes. */
  readonly wakes: number;
}

/**
 * Limits of an engine, each the largest number. The errors of the store name them.
 *
 * Other limits are the store's, so that what one engine holds fits any other one: an id of an event has up to 600
 * characters; a key of a group or a state, and a name that is waited for, 256; the JSON of a record and of any other
 * cell takes up to 65,536 bytes.
 */
export interface Limits {
  /** The largest payload, in bytes. */
  readonly payloadBytes: number;
  /** The largest payload that {@linkcode Put.body} takes, in bytes. A larger one is uploaded before. */
  readonly bodyBytes: number;
  /** See {@linkcode SettlementRoom}. */
  readonly room: SettlementRoom;
  /** The number of the first ones of some events that can be settled together by one change. */
  together(events: readonly EventRecord[]): number;
}

/** The parts of a store's upkeep that belong to its engine. Each is done if it is asked for. */
export interface Tidying {
  /** Repairs times that a wrong clock has made. */
  readonly times?: {
    /** The number of events to look at; `Infinity` for all of them. */
    readonly reads: number;
    /** Makes the record of an event that would be due too late; null if its time is right. */
    corrected(record: EventRecord, now: number): EventRecord | null;
  } | undefined;
  /** Repairs the ordering groups. */
  readonly groups?: boolean | undefined;
  /** Deletes the uploads that are older, in milliseconds, and never became an event's payload. */
  readonly uploadsOlderThanMs?: number | undefined;
}

/**
 * Engine: the events of one store, and all else that the store keeps.
 *
 * It forgets what a change has stored for a time only: a done event with its id ({@linkcode Put.forMs}), and a cell
 * ({@linkcode CellChange.forMs}). All texts that it gets, such as ids and keys, are well-formed.
 *
 * @typeParam TTx The commit or transaction that a handler's effects get.
 * @typeParam TReader The reader that handlers get.
 */
export interface Engine<TTx = unknown, TReader = unknown> {
  /** Its name, for people: `kv`. */
  readonly name: string;
  /** The way in which workers of other processes are woken, for people: `enqueue`. */
  readonly notifier: string;
  readonly limits: Limits;
  /**
   * Longest time between two looks at the schedule by a worker that nothing wakes, in milliseconds. It finds what
   * another process has made due, and {@linkcode Engine.listen} has not told, up to this much later.
   */
  readonly pollMs: number;
  /**
   * Set if effects, and the function of {@linkcode Engine.transact}, may be asynchronous: the engine awaits them before
   * it commits.
   *
   * @default {false}
   */
  readonly awaitsEffects?: boolean | undefined;
  /** The reader of handlers, routes and resources. */
  readonly reader: TReader;
  /** The same object for each engine of this process on the same events. */
  readonly place: object;
  /** The time, milliseconds since the epoch: the only clock of the store. */
  now(): number;

  /**
   * Makes a change. Changes that come at the same time may share a commit, and one that others overtake is tried
   * again: the caller hears of neither.
   *
   * @throws {NoTurnError} If it had to wait for too long. Nothing was made, nor will be.
   * @throws {TooLargeError} If it is too large for a commit. Nothing was made.
   * @throws {Error} If it is not known whether it was made.
   */
  apply(change: Change<TTx>): Promise<Applied>;

  /**
   * Makes a change, of which a function writes a part itself and returns the rest. The function may be called more than
   * once: the change of the last call is made. If it throws, or what it wrote cannot be committed, the change is
   * refused as with {@linkcode Change.effects}.
   *
   * @param make The function. What it returns has no effects. It returns no promise, unless the engine awaits effects.
   * @throws {TooLargeError} If the change is too large for a commit. Nothing was made.
   * @throws {Error} If it is not known whether the change was made.
   */
  transact(make: (tx: TTx) => Change | Promise<Change>): Promise<Applied>;

  /**
   * Stores new events in a transaction that the caller has begun, and ends. Undefined if the engine takes none.
   *
   * @param tx The transaction.
   * @param puts The events, each with its payload.
   * @returns The events in their order; null for one whose id is known.
   * @throws {unknown} If a statement fails, and the transaction with it.
   */
  insertIn?(tx: TTx, puts: readonly Put[]): Promise<readonly (Stored | null)[]>;

  /**
   * Reads events by their ids, or by id and time of receipt, in the same order; null for one that is not there. With
   * the time it is that very event, also if its id is forgotten or another one's by now.
   */
  get(events: readonly (string | EventRef)[]): Promise<(Stored | Unreadable | null)[]>;

  /** Reads the last ids of events, in the order of their bytes, before a text. Some may be forgotten, or unreadable. */
  ids(options: { readonly before?: string | undefined; readonly limit: number }): Promise<string[]>;

  /**
   * Reads events that are due up to and including a time, the longest-waiting first. With a limit of 0 it only reads
   * {@linkcode DuePage.next}: that is one entry.
   */
  due(
    options: {
      readonly until: number;
      readonly limit: number;
      readonly cursor?: string | undefined;
    },
  ): Promise<DuePage>;

  /** Reads an ordering group from a position on, or only its positions: then no event is read. */
  group(
    key: string,
    options: {
      readonly from: number;
      readonly limit: number;
      readonly onlyPositions?: boolean | undefined;
    },
  ): Promise<Group>;

  /**
   * Goes through events, in the order received unless {@linkcode Scan.isLimited} is set. Ids that no event has are
   * passed over, and so are those that cannot be read.
   *
   * @throws {CursorError} If {@linkcode Scan.after} is not a place, before anything is read.
   */
  scan(scan: Scan): AsyncIterableIterator<Visit>;

  /** Counts events by state, up to a largest number of each. */
  count(max: number, signal?: AbortSignal): Promise<Counts>;

  /**
   * Counts the events of each problem that has some, by an index, in the order of their ids. Those that are done do not
   * count.
   *
   * @param limits The only problem that is meant, the largest number that is counted of each, and the one of problems.
   */
  problems(limits: {
    readonly id?: string | undefined;
    readonly max: number;
    readonly problems: number;
  }): Promise<readonly ProblemCount[]>;

  /** Stores a payload that is too large for a change. It is deleted after a while unless a put names it. */
  upload(ref: PayloadRef, body: Bytes): Promise<void>;

  /** Reads a payload of an event: the bytes of it that are there. The store checks that they are all. */
  payload(ref: PayloadRef, of: EventRef): Promise<Bytes>;

  /** Reads cells, in the same order. */
  cells(keys: readonly CellKey[]): Promise<Cell[]>;

  /**
   * Goes through cells whose keys begin with the given one, from a key on and before another. One that cannot be read
   * even as to its key has the key that it begins with, and the value undefined.
   */
  list(begin: CellKey, options?: {
    readonly from?: CellKey | undefined;
    readonly before?: CellKey | undefined;
    readonly isReverse?: boolean | undefined;
    readonly atOnce?: number | undefined;
  }): AsyncIterableIterator<Cell>;

  /**
   * Resolves once all that can be read now will be found after a power cut, too: an engine may let others read a commit
   * that is not on the disk yet.
   *
   * @throws {Error} If it is not known whether it will.
   */
  whenStored(): Promise<void>;

  /** Calls back when another process may have made events due. Resolves when its database is closed. */
  listen(wake: () => void): Promise<void>;

  /** Repairs and deletes what is left over. Returns the numbers of events, groups and uploads. */
  tidy(
    what: Tidying,
  ): Promise<{ readonly times: number; readonly groups: number; readonly uploads: number }>;

  /**
   * Checks that the events can be read and found, with all that leads to them, page by page, and puts back what nothing
   * leads to. The store checks the cells.
   */
  check(options: {
    /** Set if values that cannot be read are deleted, except for records. */
    readonly discard: boolean;
    /** Makes the record of an open event that nothing leads to. */
    foundAgain(record: EventRecord, now: number): EventRecord;
  }): AsyncIterableIterator<CheckedPage>;
}

/**
 * Thrown if a change had to wait for others, and has not had its turn in time: nothing of it is stored, nor will
 * be. The database may well answer.
 */
export class NoTurnError extends Error {
  /** The class's name. */
  override readonly name = "NoTurnError";

  /**
   * Creates the error.
   *
   * @param reason The reason.
   */
  constructor(reason: string) {
    super(`No turn to change the store: ${reason}`);
  }
}

/** Thrown if a change is too large for a commit of its engine. Nothing of it was made. */
export class TooLargeError extends RangeError {
  /** The class's name. */
  override readonly name = "TooLargeError";
}

/** Thrown if a list of events is to begin behind something that is not a place in a scan. */
export class CursorError extends TypeError {
  /**
   * Creates the error.
   *
   * @param cursor The value that is none.
   */
  constructor(cursor: unknown) {
    super(
      `Cannot list the events: 'cursor' must be the cursor of another list, got ${met(cursor)}`,
    );
  }
}

/** Thrown once the database of an engine is closed: it will never answer again. */
export class ClosedError extends Error {
  /** The class's name. */
  override readonly name = "ClosedError";

  /**
   * Creates the error.
   *
   * @param cause The error that it was noticed by, if there was one.
   */
  constructor(cause?: unknown) {
    super("The store is closed", { cause });
  }
}

/** Thrown when an operation depends on a value that cannot be decoded. The value is left as it is. */
export class UndecodableError extends Error {
  override readonly name = "UndecodableError";

  /** @param what The value, for people: `the note of a schedule`. */
  constructor(what: string) {
    super(`Cannot read ${what}: another version wrote it, or it is damaged. It is left as it is`);
  }
}
