import type { Delivery } from "./delivery.ts";
import {
  type Batch,
  type EndedWait,
  EVENT_STATES,
  type EventOutcome,
  type EventRecord,
  type EventRef,
  type EventWait,
  type GroupPosition,
  type LeaseTerm,
  type PayloadRef,
  type PutOff,
  type QuietRule,
  type RecordedAttempt,
} from "./event_record.ts";

/** A check of a stored value. */
export type Check = (value: unknown) => boolean;

/** A check of each member of an object. */
type Checks<T> = Readonly<Record<keyof T, Check>>;

/** The ways in which events end. */
export const OUTCOMES: readonly EventOutcome[] = ["handled", "ignored", "failed", "cancelled"];

/** The farthest that a date can be from the epoch, in milliseconds. */
const MAX_TIME = 8.64e15;

/** A key of a KV takes 2,048 bytes, three of them for a character at most. */
export const MAX_ID_LENGTH = 600;

/** The longest ordering key that a store keeps: a longer one is cut, so that it fits a key. */
export const MAX_ORDERING_KEY_LENGTH = 256;

/** Checks for a string. */
export function isText(value: unknown): value is string {
  return typeof value === "string";
}

/** Checks for a number that counts something. */
export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** Checks for a time or a length of time, in milliseconds. */
export function isTime(value: unknown): value is number {
  return Number.isFinite(value) && Math.abs(value as number) <= MAX_TIME;
}

/** Checks whether a text can be an event's id: keys with it have to be read. */
export function isEventId(value: unknown): value is string {
  return isText(value) && value.length <= MAX_ID_LENGTH;
}

const isNumber: Check = (value) => Number.isSafeInteger(value);
const isBoolean: Check = (value) => typeof value === "boolean";
const isAnything: Check = () => true;

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
  repository: orNone(shape({ id: isNumber, fullName: isText, owner: isText, name: isText })),
  chat: orNone(shape({ id: isNumber, type: orNone(isText) })),
  sender: orNone(shape({ id: isNumber, name: orNone(isText), isBot: isBoolean })),
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
  orderingKey: orNull(isText),
  group: orNull(isGroupPosition),
  quiet: orNone(shape<QuietRule>({
    quietMs: isTime,
    maxWaitMs: isTime,
    since: isTime,
    waitedMs: isTime,
    next: orNone(isCount),
  })),
  batch: orNone(shape<Batch>({ last: isCount, events: isCount })),
  handledWith: orNone(isText),
  joinsLater: orNone(isBoolean),
  waitingFor: orNone(shape<EventWait>({ name: isText, since: isTime, until: isTime })),
  woken: orNone(listOf(shape<EndedWait>({
    name: isText,
    at: isTime,
    value: orNone(isText),
    timedOut: orNone(isBoolean),
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
  isBegun: orNone(isBoolean),
  progress: orNone(listOf(isText)),
  causedBy: orNone(isText),
  isUnreported: orNone(isBoolean),
  emitted: orNone(isCount),
  engine: isAnything,
};

/** Checks whether a stored value is a record that this version can read. */
export const isEventRecord = shape<EventRecord>(RECORD);

const DELIVERY: Checks<Delivery> = {
  ...OF_DELIVERY,
  orderingKey: optional(isText),
  quietMs: orNone(isTime),
  maxWaitMs: optional(isTime),
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

/** Makes a check that null passes as well. */
export function orNull(check: Check): Check {
  return (value) => value === null || check(value);
}

/** Makes a check that a missing value passes as well. */
export function orNone(check: Check): Check {
  return (value) => value === undefined || check(value);
}

function optional(check: Check): Check {
  return orNull(orNone(check));
}

/** Makes a check for one of several values. */
export function isOneOf(values: readonly unknown[]): Check {
  return (value) => values.includes(value);
}

/** Makes a check for an object from the checks of its members. Others are ignored. */
export function shape<T = Readonly<Record<string, unknown>>>(
  checks: Checks<T>,
): (value: unknown) => value is T {
  return (value): value is T =>
    typeof value === "object" && value !== null && wrongMember(checks, value as T) === undefined;
}

function wrongMember<T>(checks: Checks<T>, value: T): keyof T | undefined {
  for (const name in checks) if (!checks[name](value[name])) return name;
  return undefined;
}

/** Makes a check for a list from the check of its members. */
export function listOf(check: Check, maxLength = Infinity): Check {
  return (value) => Array.isArray(value) && value.length <= maxLength && value.every(check);
}
