/**
 * The delivery that an event is made of, and the record that a store keeps of it, each with a check of its shape.
 *
 * @module
 */
import type { JsonObject } from "../../core/parse_json.ts";
import type { BatchOptions, InterruptRule, PlacesOptions } from "./batch_options.ts";
import { isProblemId } from "./problem.ts";
import {
  type Check,
  type Checks,
  isBoolean,
  isCount,
  isInteger,
  isOneOf,
  isText,
  isTime,
  listOf,
  orNone,
  orNull,
  shape,
  wrongMember,
} from "../../core/shape.ts";

/** The longest id of an event, in characters. Every engine takes it: in UTF-8 it has up to 1,800 bytes. */
export const MAX_ID_LENGTH = 600;

/** The longest ordering key that a store keeps: a longer one is cut, so that it fits a key. */
export const MAX_ORDERING_KEY_LENGTH = 256;

/** The longest description that a record keeps, in characters: a longer one is cut. */
export const MAX_DESCRIPTION_LENGTH = 120;

/**
 * The repository of a forge's event.
 *
 * @category Handlers
 */
export interface EventRepository {
  /** Its id at the forge. */
  readonly id: number;
  /** Its owner and name: `octocat/hello-world`; at GitLab with all groups. */
  readonly fullName: string;
  /** The part before its name. */
  readonly owner: string;
  /** Its name. */
  readonly name: string;
}

/**
 * The chat of a messenger's update.
 *
 * @category Handlers
 */
export interface EventChat {
  /** Its id. */
  readonly id: number;
  /** `private`, `group`, `supergroup` or `channel`. */
  readonly type: string | undefined;
}

/**
 * The user who caused an event.
 *
 * @category Handlers
 */
export interface EventSender {
  /** The user's id. */
  readonly id: number;
  /** The login or user name, else a messenger's first name. */
  readonly name: string | undefined;
  /** Set if it is known to be a bot: one that answers itself never ends. */
  readonly isBot: boolean;
}

/**
 * A delivery that was verified and parsed, ready for the event store.
 *
 * @category Event store and worker
 */
export interface Delivery extends BatchOptions, PlacesOptions {
  /** Fate of the handler of its group that runs, see {@linkcode NewerOptions.newer}. */
  readonly newer?: "wait" | "interrupt" | "steer" | undefined;
  /** Fate of the steps of a run that newer events interrupt. Only with `interrupt`. */
  readonly interrupt?: InterruptRule | undefined;
  /** The number of interrupts after which a run is left to finish. Only with `interrupt`. */
  readonly maxInterrupts?: number | undefined;
  /** The kind of platform it came from: `forge`, `messenger`, or one of your own. */
  readonly platform: string;
  /** The product that sent it, taken from its headers: `forge`, `github`, `telegram`, ... */
  readonly source: string;
  /** The type of the event: `push`, `message`, ... */
  readonly type: string;
  /** The sender's id of it, the same when it is sent again; undefined if the sender gives none. */
  readonly deliveryId: string | undefined;
  /**
   * The intake that accepted it. It keeps delivery ids, ordering keys and documents of different intakes
   * apart, so that several can share a store.
   */
  readonly intake?: string | undefined;
  /** Events with the same key are handled in the order received: as many at a time as there are `places`. */
  readonly orderingKey?: string | undefined;
  /** The trace that its handling becomes part of, as W3C Trace Context has it. Any other text is dropped. */
  readonly traceparent?: string | undefined;
  /** The action, for types that have several: `opened`, `closed`, ... */
  readonly action?: string | undefined;
  /** The repository that it belongs to. */
  readonly repository?: EventRepository | undefined;
  /** The chat that it belongs to. */
  readonly chat?: EventChat | undefined;
  /** The user who caused it. */
  readonly sender?: EventSender | undefined;
  /** The id of the request that brought it, for the logs. */
  readonly requestId?: string | undefined;
  /** Description of what it is about, in a few words. Of a longer text, 120 characters are kept, on one line. */
  readonly description?: string | undefined;
  /** The JSON document, byte for byte. */
  readonly body: Uint8Array<ArrayBuffer>;
  /** The JSON document, parsed. */
  readonly payload: JsonObject;
}

/**
 * The state of an event: waiting for its time, leased by a worker, parked until it is woken, handled, or
 * given up.
 *
 * @category Event store and worker
 */
export type EventState = "queued" | "running" | "parked" | "done" | "dead";

/**
 * Thrown when the payload of a done event is read which is not kept, or not any more.
 *
 * @category Event store and worker
 */
export class NotKeptError extends Error {
  /** The class's name. */
  override readonly name = "NotKeptError";

  /**
   * Creates the error.
   *
   * @param id The event's id.
   */
  constructor(id: string) {
    super(`Cannot load event ${id}: it is done, and its payload is not kept`);
  }
}

/** The key of an event's record: by time first, so that events received together lie together. */
export type EventRef = Pick<EventRecord, "id" | "receivedAt">;

/**
 * The record of an event: all that is stored of it except its payload.
 *
 * @category Event store and worker
 */
export interface EventRecord {
  /** The event's id: the intake's name and the delivery id, or a UUID if the sender gave none. */
  readonly id: string;
  /** The intake that accepted it. */
  readonly intake?: string | undefined;
  /** The sender's id of the delivery, if there was one. */
  readonly deliveryId?: string | undefined;
  /** The kind of platform it came from: `forge`, `messenger`, or one of your own. Its name is the `intake`. */
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
  /** Description of what it is about, in a few words: `#1442 Crash on start`. None if nothing is known of it. */
  readonly description?: string | undefined;
  /** The time at which it was accepted, milliseconds since the epoch. */
  readonly receivedAt: number;
  /** Its state. */
  readonly state: EventState;
  /** Its end: `ignored` if it had no handler. None while it is open. */
  readonly outcome?: "handled" | "ignored" | "failed" | "cancelled" | undefined;
  /** The number of times it was put back after it was settled, by a replay or a redelivery. */
  readonly run?: number | undefined;
  /** The run that is part of its idempotency keys: the latest replay after it was done; none before. */
  readonly keyRun?: number | undefined;
  /** The number of attempts begun, without those that were given back or put off. */
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
  /**
   * The sum of its planned waits, in milliseconds: as long as it was delayed, put off or
   * parked, and all the time before its last replay. None if there were none. Waiting for its group to become
   * quiet is counted in `quiet`.
   */
  readonly plannedMs?: number | undefined;
  /**
   * The number of attempts so far when it was given back last, because one of its handlers had as many runs as it may,
   * or a limit had no room. It waits for that as long as it has no more. None if it was not.
   */
  readonly limitedAttempt?: number | undefined;
  /** The name of the limit that had no room for it then; none if it was given back for the runs of a handler. */
  readonly limitedBy?: string | undefined;
  /** The ordering key: events with the same one are handled one at a time, or as `places` says. Null if it has none. */
  readonly orderingKey: string | null;
  /** The number of events of its ordering group that are handled at a time, if it is the last that has joined. 1 if none. */
  readonly places?: number | undefined;
  /** Its position in its ordering group; null if it has none, or has left the group. */
  readonly group: {
    /** The key of the group. */
    readonly key: string;
    /** The number of the position. Events with a smaller one are handled before. */
    readonly position: number;
  } | null;
  /** Set if it is handled together with the next ones of its ordering group. */
  readonly quiet?: {
    /** Time without a new event in the group after which they are handled, in milliseconds. */
    readonly quietMs: number;
    /** Longest time that the first of them waits for that, in milliseconds. */
    readonly maxWaitMs: number;
    /** The time from which it counts: the event came in or became due, milliseconds since the epoch. */
    readonly since: number;
    /** Sum of the waits that were planned so far, in milliseconds: the clock may be wrong. */
    readonly waitedMs: number;
    /** The position that the next event will take, when the last wait began. Undefined before that. */
    readonly next?: number | undefined;
    /** Set if it is handled together with events of other types and actions as well. */
    readonly together?: "all" | undefined;
  } | undefined;
  /** The batch that it is the first event of, from its first lease on. */
  readonly batch?: {
    /** The position of its last event in the group. */
    readonly last: number;
    /** The number of its events when it was leased first. */
    readonly events: number;
  } | undefined;
  /** Rule for newer events of its group that come while it runs. None if they wait. */
  readonly newer?: {
    /** `interrupt`: they abort its handler. `steer`: its handler takes them. */
    readonly mode: "interrupt" | "steer";
    /** Fate of the steps of a run that is interrupted. */
    readonly steps?: "keep" | "drop" | undefined;
    /** The number of interrupts after which it is left to finish. */
    readonly maxInterrupts?: number | undefined;
  } | undefined;
  /** Set if it interrupts the event of its group that runs: it was accepted so, or emitted so. */
  readonly interrupts?: boolean | undefined;
  /** Interrupts of its handler by newer events, in its current run. These attempts do not count. */
  readonly interrupted?: {
    /** The number of times. */
    readonly times: number;
    /** The id of the latest newer event at the last time. */
    readonly by: string;
    /** The time at which it was interrupted last, milliseconds since the epoch. */
    readonly at: number;
  } | undefined;
  /** The id of the first event of its batch, if it was settled with it. */
  readonly handledWith?: string | undefined;
  /**
   * Set if it joins the group of its ordering key only when it is claimed: it is due later, and the group
   * does not wait for that.
   */
  readonly joinsLater?: boolean | undefined;
  /** The wait of a parked event. */
  readonly waitingFor?: {
    /** The name that it waits for. */
    readonly name: string;
    /** The time at which it was parked, milliseconds since the epoch. */
    readonly since: number;
    /** The time until which it waits, milliseconds since the epoch. */
    readonly until: number;
  } | undefined;
  /** The results of its waits, in its current run, as they have ended. */
  readonly woken?:
    | readonly {
      /** The name that the event has waited for. */
      readonly name: string;
      /** The time at which it was woken, or its time had passed, milliseconds since the epoch. */
      readonly at: number;
      /** The value that it was woken with, as JSON; undefined if there was none. */
      readonly value?: string | undefined;
      /** Set if its time has passed. */
      readonly timedOut?: boolean | undefined;
      /** The person or the tool that has woken it, as the caller has named it; none if a handler or a route has. */
      readonly by?: string | undefined;
    }[]
    | undefined;
  /** The lease; null unless it runs. */
  readonly lease: {
    /** The worker that holds it. */
    readonly owner: string;
    /** The time at which it expires, milliseconds since the epoch. */
    readonly until: number;
    /** Its length when it was last renewed, in milliseconds. */
    readonly ms: number;
    /** The time at which the attempt began, milliseconds since the epoch. */
    readonly startedAt: number;
  } | null;
  /** The time at which it was cancelled while it ran, milliseconds since the epoch. It never becomes done. */
  readonly cancelRequestedAt?: number | undefined;
  /** The time at which it was done or died, milliseconds since the epoch. */
  readonly settledAt: number | null;
  /** Its payload; null once it is done, also while that is kept: then `load` of the store reads it. */
  readonly payload: {
    /** Its id: a fresh one for each writing, so that no writer overwrites what another has stored. */
    readonly id: string;
    /** Its size in bytes. */
    readonly size: number;
  } | null;
  /** The last ten attempts that have ended, the latest last. */
  readonly attempts: readonly {
    /** The number of the attempt, from 1. */
    readonly attempt: number;
    /** The time at which it was leased, milliseconds since the epoch. */
    readonly startedAt: number;
    /** The time at which it ended, milliseconds since the epoch. */
    readonly endedAt: number;
    /** Its end: `expired` if its worker never settled it. */
    readonly outcome: "handled" | "ignored" | "failed" | "cancelled" | "expired";
    /** The name and message of what was thrown, bounded in length. */
    readonly error?: string | undefined;
  }[];
  /** Set if its handler has put it off, in its current run. These attempts do not count. */
  readonly putOff?: {
    /** The time at which it was put off first, in its current run, milliseconds since the epoch. */
    readonly since: number;
    /** The time at which it was put off last, milliseconds since the epoch. */
    readonly at: number;
    /** The number of times. */
    readonly times: number;
    /** The reason for the last time, bounded in length. */
    readonly reason: string;
    /**
     * The time since which it is put off because no handler was there for it, milliseconds since the epoch; none if
     * the last one who has put it off was its handler.
     */
    readonly unhandledSince?: number | undefined;
  } | undefined;
  /**
   * The problem by which its last attempt has failed: the same for errors of the same handler and with the same message
   * but for ids, numbers and what is quoted. None once it is done, cancelled, parked or put back.
   */
  readonly problem?: string | undefined;
  /** Set if it has failed in its current run, where that is reported. */
  readonly failing?: {
    /** The time at which the first attempt of the run had failed, milliseconds since the epoch. */
    readonly since: number;
    /** The rules by which it was reported in the run: `attempt-5` or `after-600000ms`. */
    readonly reported: readonly string[];
  } | undefined;
  /** Set if a handler had begun with it in an attempt that was given back, which does not count. */
  readonly isBegun?: boolean | undefined;
  /** The names of its handlers that are done. */
  readonly progress?: readonly string[] | undefined;
  /** The steps of its handlers. */
  readonly steps?:
    | readonly {
      /** The name, with that of its handler in front: `on(push)/review`. */
      readonly name: string;
      /** The time at which it was stored, or has begun, milliseconds since the epoch. */
      readonly at: number;
      /** Set if it has begun, and it is not known how it has ended. */
      readonly isBegun?: boolean | undefined;
      /** The event's `run` when it was stored. */
      readonly run?: number | undefined;
      /** The number of parts that its result has; none if it has no result. */
      readonly parts?: number | undefined;
      /** Set if it stays, or is dropped, when its run is interrupted, whatever the rule of the event says. */
      readonly keep?: boolean | undefined;
    }[]
    | undefined;
  /** The last five things that people, tools or the app have done to it from outside, the latest last. */
  readonly interventions?:
    | readonly {
      /**
       * The kind: `replayed`, `cancelled`, `step_forgotten` or `step_set`. A newer version of this package may have
       * written another one.
       */
      readonly is: string;
      /** The time, milliseconds since the epoch. */
      readonly at: number;
      /** The person or the tool that has done it, as the caller has named it, bounded in length; none if it has not. */
      readonly by?: string | undefined;
      /** The name of the step that is meant, bounded in length. */
      readonly step?: string | undefined;
    }[]
    | undefined;
  /** The trace of its delivery, as the header `traceparent` of W3C Trace Context has it. */
  readonly traceparent?: string | undefined;
  /** The id of the event whose handler emitted this one. */
  readonly causedBy?: string | undefined;
  /** Set if its death is not reported: it comes of an event that has reported another one. */
  readonly isUnreported?: boolean | undefined;
  /** The number of generated ids that its handlers have given to the events that they emitted. */
  readonly emitted?: number | undefined;
  /** Notes of the engine that holds the event. Only the engine reads and sets them. */
  readonly engine?: unknown;
}

/**
 * A stored event. Its `state` is `unreadable` if this version cannot read its record: another version wrote it, or it
 * is damaged. It is left as it is, and not handled, until a version that can read it comes or somebody purges it.
 *
 * @category Event store and worker
 */
export type StoredEvent = EventRecord | {
  /** The event's id. */
  readonly id: string;
  /** The time at which it was accepted, milliseconds since the epoch, taken from its key. */
  readonly receivedAt: number;
  /** A state that no readable record has. */
  readonly state: "unreadable";
};

/**
 * A choice of events: those that meet all given conditions. Of an unreadable event only the id, the state and
 * the time are known, so a filter with another condition never matches it.
 *
 * @category Event store and worker
 */
export interface EventFilter {
  /** Events with these ids. */
  readonly ids?: readonly string[] | undefined;
  /** Events in this state. */
  readonly state?: StoredEvent["state"] | undefined;
  /** Events that ended in this way: done ones `handled` or `ignored`, dead ones `failed` or `cancelled`. */
  readonly outcome?: EventRecord["outcome"];
  /** Events of this type, or of this type and action: `issues` or `issues.opened`. */
  readonly type?: string | undefined;
  /** Events of this source: the product that sent them, the intake, or a source of the app. */
  readonly source?: string | undefined;
  /** Events of the repository with this full name: `octocat/hello-world`. */
  readonly repository?: string | undefined;
  /** Events of the chat with this id. */
  readonly chat?: number | undefined;
  /** Events with this ordering key. */
  readonly orderingKey?: string | undefined;
  /** Dead events and those that are tried again whose last attempt has failed by this problem: its id. */
  readonly problem?: string | undefined;
  /**
   * Events whose id, request id, type, source, repository, chat or ordering key has this text in it, in upper or lower
   * case.
   */
  readonly name?: string | undefined;
  /**
   * The same, and events whose description, sender's name, errors, reason for being put off or awaited name has this text
   * in it. Payloads are not searched.
   */
  readonly text?: string | undefined;
  /** Events received at this time or later, milliseconds since the epoch. */
  readonly receivedAfter?: number | undefined;
  /** Events received before this time, milliseconds since the epoch. */
  readonly receivedBefore?: number | undefined;
  /**
   * Events that became done or dead before this time, milliseconds since the epoch, by the clock of the
   * process that settled them: none that wait or run.
   */
  readonly settledBefore?: number | undefined;
}

/** End of an event. */
type EventOutcome = NonNullable<EventRecord["outcome"]>;

/** The position of an event in its ordering group. */
export type GroupPosition = NonNullable<EventRecord["group"]>;

/** Rule of an event that is handled together with those that join its ordering group soon after it. */
type QuietRule = NonNullable<EventRecord["quiet"]>;

/** Batch of events of one ordering group that one run of a handler gets together, with its first event. */
export type Batch = NonNullable<EventRecord["batch"]>;

/** Wait of a parked event. */
type EventWait = NonNullable<EventRecord["waitingFor"]>;

/** Result of a wait that is over. */
export type EndedWait = NonNullable<EventRecord["woken"]>[number];

/** A thing that was done to an event from outside. */
export type Intervention = NonNullable<EventRecord["interventions"]>[number];

/** A kind of it that this version writes. */
export type InterventionKind = "replayed" | "cancelled" | "step_forgotten" | "step_set";

/** The lease of a running event. */
type LeaseTerm = NonNullable<EventRecord["lease"]>;

/** The place of an event's payload. */
export type PayloadRef = NonNullable<EventRecord["payload"]>;

/** One attempt to handle an event that has ended. */
export type RecordedAttempt = EventRecord["attempts"][number];

/** A step of a handler that is stored, or has begun. */
export type EventStep = NonNullable<EventRecord["steps"]>[number];

/** Note of how often, since when and why an event was put off by its handler. */
type PutOff = NonNullable<EventRecord["putOff"]>;

/** The state of an event that is not settled. */
export type OpenState = Exclude<EventState, "done" | "dead">;

/** The states of events that are not settled. */
export const OPEN_STATES: readonly OpenState[] = ["queued", "running", "parked"];

/** The states of all events, in the order in which they are shown. */
export const EVENT_STATES: readonly EventState[] = [...OPEN_STATES, "done", "dead"];

/** The same with the state of events whose records cannot be read. */
export const STORED_STATES: readonly StoredEvent["state"][] = [...EVENT_STATES, "unreadable"];

/** Checks whether an event, or the state that a filter asks for, is not settled. */
export function isOpen<T extends { readonly state?: StoredEvent["state"] | undefined }>(
  event: T,
): event is T & { readonly state: OpenState } {
  return (OPEN_STATES as readonly unknown[]).includes(event.state);
}

/** The ways in which events end. */
export const OUTCOMES: readonly EventOutcome[] = ["handled", "ignored", "failed", "cancelled"];

/** Checks whether a text can be an event's id: keys with it have to be read. */
export function isEventId(value: unknown): value is string {
  return isText(value) && value.length <= MAX_ID_LENGTH;
}

/** Checks whether a value names an event. */
export const isEventRef = shape<EventRef>({ id: isEventId, receivedAt: isTime });

/** Checks whether a value names a position in an ordering group. */
export const isGroupPosition = shape<GroupPosition>({ key: isText, position: isCount });

/** Checks whether a value names a payload. */
export const isPayloadRef = shape<PayloadRef>({ id: isText, size: isCount });

/** Members of a delivery that the record of its event takes over. */
const OF_DELIVERY = {
  intake: orNone(isText),
  deliveryId: orNone(isText),
  platform: isText,
  source: isText,
  type: isText,
  action: orNone(isText),
  repository: orNone(shape({ id: isInteger, fullName: isText, owner: isText, name: isText })),
  chat: orNone(shape({ id: isInteger, type: orNone(isText) })),
  sender: orNone(shape({ id: isInteger, name: orNone(isText), isBot: isBoolean })),
  description: orNone(isText),
  traceparent: orNone(isText),
};

const RECORD: Checks<EventRecord> = {
  ...OF_DELIVERY,
  id: isText,
  requestId: orNull(isText),
  receivedAt: isTime,
  state: isOneOf(EVENT_STATES),
  outcome: orNone(isOneOf(OUTCOMES)),
  run: orNone(isCount),
  keyRun: orNone(isCount),
  attempt: isCount,
  dueAt: orNull(isTime),
  delayMs: orNone(isTime),
  plannedMs: orNone(isTime),
  limitedAttempt: orNone(isCount),
  limitedBy: orNone(isText),
  orderingKey: orNull(isText),
  places: orNone((value) => isCount(value) && value !== 0),
  group: orNull(isGroupPosition),
  quiet: orNone(shape<QuietRule>({
    quietMs: isTime,
    maxWaitMs: isTime,
    since: isTime,
    waitedMs: isTime,
    next: orNone(isCount),
    together: orNone(isOneOf(["all"])),
  })),
  batch: orNone(shape<Batch>({ last: isCount, events: isCount })),
  newer: orNone(shape<NonNullable<EventRecord["newer"]>>({
    mode: isOneOf(["interrupt", "steer"]),
    steps: orNone(isOneOf(["keep", "drop"])),
    maxInterrupts: orNone(isCount),
  })),
  interrupts: orNone(isBoolean),
  interrupted: orNone(shape<NonNullable<EventRecord["interrupted"]>>({
    times: isCount,
    by: isText,
    at: isTime,
  })),
  handledWith: orNone(isText),
  joinsLater: orNone(isBoolean),
  waitingFor: orNone(shape<EventWait>({ name: isText, since: isTime, until: isTime })),
  woken: orNone(listOf(shape<EndedWait>({
    name: isText,
    at: isTime,
    value: orNone(isText),
    timedOut: orNone(isBoolean),
    by: orNone(isText),
  }))),
  lease: orNull(
    shape<LeaseTerm>({ owner: isText, until: isTime, ms: isTime, startedAt: isTime }),
  ),
  cancelRequestedAt: orNone(isTime),
  settledAt: orNull(isTime),
  payload: orNull(isPayloadRef),
  attempts: listOf(shape<RecordedAttempt>({
    attempt: isCount,
    startedAt: isTime,
    endedAt: isTime,
    outcome: isOneOf([...OUTCOMES, "expired"]),
    error: orNone(isText),
  })),
  putOff: orNone(shape<PutOff>({
    since: isTime,
    at: isTime,
    times: isCount,
    reason: isText,
    unhandledSince: orNone(isTime),
  })),
  problem: orNone(isProblemId),
  failing: orNone(shape<NonNullable<EventRecord["failing"]>>({
    since: isTime,
    reported: listOf(isText),
  })),
  isBegun: orNone(isBoolean),
  progress: orNone(listOf(isText)),
  steps: orNone(listOf(shape<EventStep>({
    name: isText,
    at: isTime,
    isBegun: orNone(isBoolean),
    run: orNone(isCount),
    parts: orNone(isCount),
    keep: orNone(isBoolean),
  }))),
  interventions: orNone(listOf(shape<Intervention>({
    // Of any kind: otherwise an older version could not read the record of an event that a newer one has changed.
    is: isText,
    at: isTime,
    by: orNone(isText),
    step: orNone(isText),
  }))),
  causedBy: orNone(isText),
  isUnreported: orNone(isBoolean),
  emitted: orNone(isCount),
  engine: () => true,
};

/** Checks whether a stored value is a record that this version can read. */
export const isEventRecord = shape<EventRecord>(RECORD);

const DELIVERY: Checks<Delivery> = {
  ...OF_DELIVERY,
  orderingKey: optional(isText),
  quietMs: orNone(isTime),
  maxWaitMs: optional(isTime),
  together: orNone(isOneOf(["all"])),
  newer: orNone(isOneOf(["wait", "interrupt", "steer"])),
  interrupt: orNone(shape<InterruptRule>({ steps: isOneOf(["keep", "drop"]) })),
  maxInterrupts: orNone(isCount),
  places: orNone(isCount),
  traceparent: optional(isText),
  repository: orNull(OF_DELIVERY.repository),
  chat: orNull(OF_DELIVERY.chat),
  sender: orNull(OF_DELIVERY.sender),
  requestId: optional(isText),
  body: (value) => value instanceof Uint8Array,
  payload: (value) => typeof value === "object" && value !== null,
};

/** Finds a field that no record has like that; undefined for none. */
export function wrongFieldOf(record: EventRecord): keyof EventRecord | undefined {
  return wrongMember(RECORD, record);
}

/** Finds a member of a delivery of the wrong type, with which its event could not be read; undefined for none. */
export function wrongMemberOf(delivery: Delivery): keyof Delivery | undefined {
  return wrongMember(DELIVERY, delivery);
}

/** Checks whether a value is the payload of an event, all of it. */
export function isPayloadOf(
  { payload }: Pick<EventRecord, "payload">,
  value: unknown,
): value is Uint8Array<ArrayBuffer> {
  return value instanceof Uint8Array && value.byteLength === payload?.size;
}

function optional(check: Check): Check {
  return orNull(orNone(check));
}
