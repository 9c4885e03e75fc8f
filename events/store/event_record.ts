import type { EventChat, EventRepository, EventSender } from "./delivery.ts";

/**
 * The state of an event: waiting for its time, leased by a worker, handled, or given up.
 */
export type EventState = "queued" | "running" | "done" | "dead";

/** The way in which an event ended. Every `done` and `dead` event has one. An `ignored` one had no handler. */
export type EventOutcome = "handled" | "ignored" | "failed" | "cancelled";

/** The way in which one attempt ended. An attempt is `expired` if its worker never settled it. */
export type RecordedOutcome = EventOutcome | "expired";

/** One attempt to handle an event that has ended. */
export interface RecordedAttempt {
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  /** The time at which it was leased, milliseconds since the epoch. */
  readonly startedAt: number;
  /** The time at which it ended, milliseconds since the epoch. */
  readonly endedAt: number;
  /** The way in which it ended. */
  readonly outcome: RecordedOutcome;
  /** The name and message of what was thrown, bounded in length. */
  readonly error?: string | undefined;
}

/** The place of an event's payload. */
export interface PayloadRef {
  /** Its id: a fresh one for each writing, so that no writer overwrites what another has stored. */
  readonly id: string;
  /** The number of its parts; 0 if it is in the event's record. */
  readonly chunks: number;
  /** Its size in bytes. */
  readonly size: number;
}

/** The lease of a running event: its holder, and the time until which nobody else takes it. */
export interface LeaseTerm {
  /** The worker that holds it. */
  readonly owner: string;
  /** The time at which it expires, milliseconds since the epoch. */
  readonly until: number;
  /** Its length when it was last renewed, in milliseconds. */
  readonly ms: number;
  /** The time at which the attempt began, milliseconds since the epoch. */
  readonly startedAt: number;
}

/** The position of an event in its ordering group. */
export interface GroupPosition {
  /** The key of the group. */
  readonly key: string;
  /** The number of the position. Events with a smaller one are handled before. */
  readonly position: number;
}

/** The key of an event's record: by time first, so that events received together lie together. */
export type EventRef = Pick<EventRecord, "id" | "receivedAt">;

/** The record of an event: all that is stored of it except its payload. */
export interface EventRecord {
  /** The version of this layout. */
  readonly v: 2;
  /** The event's id: the intake's name and the delivery id, or a UUID if the sender gave none. */
  readonly id: string;
  /** The intake that accepted it. */
  readonly intake?: string | undefined;
  /** The sender's id of the delivery, if there was one. */
  readonly deliveryId?: string | undefined;
  /** The platform it came from. */
  readonly platform: string;
  /** The product that sent it. */
  readonly source: string;
  /** The type of the event. */
  readonly type: string;
  /** The action, for types that have several. */
  readonly action?: string | undefined;
  /** The repository that it belongs to. */
  readonly repository?: EventRepository | undefined;
  /** The chat that it belongs to. */
  readonly chat?: EventChat | undefined;
  /** The user who caused it. */
  readonly sender?: EventSender | undefined;
  /** The id of the request that brought it. */
  readonly requestId: string | null;
  /** The time at which it was accepted, milliseconds since the epoch. */
  readonly receivedAt: number;
  /** Its state. */
  readonly state: EventState;
  /** The way in which it ended; none while it is open. */
  readonly outcome?: EventOutcome | undefined;
  /** The number of times it was put back after it had died, by a replay or a redelivery. */
  readonly run?: number | undefined;
  /** The number of attempts begun. */
  readonly attempt: number;
  /**
   * Its time in the schedule, milliseconds since the epoch: when it is due or, while it runs, when its
   * lease expires. Null once it is settled, and while it waits for others of its ordering group.
   */
  readonly dueAt: number | null;
  /**
   * The delay that was planned when it was last scheduled, in milliseconds; none if it was due at once.
   * A longer wait is the mistake of a clock. A running event waits for the end of its lease instead.
   */
  readonly delayMs?: number | undefined;
  /** The schedule entry that it shares with other events; none if it has its own. */
  readonly sharedEntry?: string | undefined;
  /** The ordering key: events with the same one are handled one at a time. Null if it has none. */
  readonly orderingKey: string | null;
  /** Its position in its ordering group; null if it has none, or has left the group. */
  readonly group: GroupPosition | null;
  /** The lease; null unless it runs. */
  readonly lease: LeaseTerm | null;
  /** The time at which it was cancelled while it ran, milliseconds since the epoch. It never becomes done. */
  readonly cancelRequestedAt?: number | undefined;
  /** The time at which it was done or died, milliseconds since the epoch. */
  readonly settledAt: number | null;
  /** Its payload; null once that is deleted. */
  readonly payload: PayloadRef | null;
  /** The last ten attempts that have ended, the latest last. */
  readonly attempts: readonly RecordedAttempt[];
  /** Set if a handler had begun with it in an attempt that was given back, which does not count. */
  readonly isBegun?: boolean | undefined;
  /** The names of the parts of its handling that are done. */
  readonly progress?: readonly string[] | undefined;
  /**
   * Set if its id is remembered until it is settled, however long that takes. Otherwise the id is kept
   * for two days beyond the retention, enough for an event that was leased when it was stored.
   */
  readonly idKept?: boolean | undefined;
  /** The trace of its delivery, as the header `traceparent` of W3C Trace Context has it. */
  readonly traceparent?: string | undefined;
  /** Reserved: the ids of events that have to be settled before it is due. Kept when it is there. */
  readonly waitsFor?: readonly string[] | undefined;
  /** Reserved: the id of the event whose handler created this one. Kept when it is there. */
  readonly causedBy?: string | undefined;
}

/**
 * An event whose record this version cannot read: another version wrote it, or it is damaged. It is left
 * as it is, and not handled, until a version that can read it comes or somebody purges it.
 */
export interface UnreadableRecord {
  /** The event's id. */
  readonly id: string;
  /** The time at which it was accepted, milliseconds since the epoch, taken from its key. */
  readonly receivedAt: number;
  /** A state that no readable record has. */
  readonly state: "unreadable";
  /** The version of its layout; null if it has none. */
  readonly v: number | null;
}

/** A stored event. Its `state` is `unreadable` if its record cannot be read. */
export type StoredEvent = EventRecord | UnreadableRecord;
