import type { Delivery } from "./delivery.ts";
import {
  EVENT_STATES,
  type EventOutcome,
  type EventRecord,
  type EventRef,
  type GroupPosition,
  type PayloadRef,
  type RecordedOutcome,
} from "./event_record.ts";

/** A check of a stored value. */
export type Check = (value: unknown) => boolean;

/** The ways in which events end. */
export const OUTCOMES: readonly EventOutcome[] = ["handled", "ignored", "failed", "cancelled"];
const ATTEMPT_OUTCOMES: readonly RecordedOutcome[] = [...OUTCOMES, "expired"];

/** The farthest that a date can be from the epoch, in milliseconds. */
const MAX_TIME = 8.64e15;

/** A key of a KV takes 2,048 bytes, three of them for a character at most. */
export const MAX_ID_LENGTH = 600;

/** Checks for a string. */
export const isText: Check = (value) => typeof value === "string";

/** Checks for a number that counts something. */
export const isCount: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;

/** Checks for a time or a length of time, in milliseconds. */
export const isTime: Check = (value) =>
  Number.isFinite(value) && Math.abs(value as number) <= MAX_TIME;

const isGroup = shape({ key: isText, position: isCount });
const isLease = shape({ owner: isText, until: isTime, ms: isTime, startedAt: isTime });
const isPayload = shape({ id: isText, chunks: isCount, size: isCount });
const isNumber: Check = (value) => Number.isSafeInteger(value);
const isBoolean: Check = (value) => typeof value === "boolean";
const isRepository = shape({ id: isNumber, fullName: isText, owner: isText, name: isText });
const isChat = shape({ id: isNumber, type: orNone(isText) });
const isSender = shape({ id: isNumber, name: orNone(isText), isBot: isBoolean });
const isAttempt = shape({
  attempt: isCount,
  startedAt: isTime,
  endedAt: isTime,
  outcome: oneOf(ATTEMPT_OUTCOMES),
  error: orNone(isText),
});
const isQuietRule = shape({
  quietMs: isTime,
  maxWaitMs: isTime,
  since: isTime,
  waitedMs: isTime,
  next: orNone(isCount),
});
const isBatch = shape({ last: isCount, events: isCount });
const isPutOff = shape({
  since: isTime,
  at: isTime,
  times: isCount,
  reason: isText,
  unhandledSince: orNone(isTime),
});
const isWait = shape({ name: isText, since: isTime, until: isTime });
const isEndedWait = shape({
  name: isText,
  at: isTime,
  value: orNone(isText),
  timedOut: orNone(isBoolean),
});
const isTexts = listOf(isText);
const isId: Check = (value) => isText(value) && (value as string).length <= MAX_ID_LENGTH;
const isRef = shape({ id: isId, receivedAt: isTime });

const RECORD = {
  id: isText,
  intake: orNone(isText),
  deliveryId: orNone(isText),
  platform: isText,
  source: isText,
  type: isText,
  action: orNone(isText),
  repository: orNone(isRepository),
  chat: orNone(isChat),
  sender: orNone(isSender),
  requestId: orNull(isText),
  receivedAt: isTime,
  state: oneOf(EVENT_STATES),
  outcome: orNone(oneOf(OUTCOMES)),
  run: orNone(isCount),
  keyRun: orNone(isCount),
  attempt: isCount,
  dueAt: orNull(isTime),
  delayMs: orNone(isTime),
  plannedMs: orNone(isTime),
  sharedEntry: orNone(isText),
  orderingKey: orNull(isText),
  group: orNull(isGroup),
  quiet: orNone(isQuietRule),
  batch: orNone(isBatch),
  handledWith: orNone(isText),
  joinsLater: orNone(isBoolean),
  waitingFor: orNone(isWait),
  woken: orNone(listOf(isEndedWait)),
  lease: orNull(isLease),
  cancelRequestedAt: orNone(isTime),
  settledAt: orNull(isTime),
  payload: orNull(isPayload),
  attempts: listOf(isAttempt),
  putOff: orNone(isPutOff),
  isBegun: orNone(isBoolean),
  progress: orNone(isTexts),
  idKept: orNone(isBoolean),
  traceparent: orNone(isText),
  waitsFor: orNone(isTexts),
  causedBy: orNone(isText),
  isUnreported: orNone(isBoolean),
  emitted: orNone(isCount),
} satisfies Record<keyof EventRecord, Check>;

const isRecord = shape(RECORD);

/** Checks whether a stored value is a record that this version can read. */
export function isEventRecord(value: unknown): value is EventRecord {
  return isRecord(value);
}

const optional = (check: Check): Check => orNull(orNone(check));

const DELIVERY = {
  platform: isText,
  source: isText,
  type: isText,
  deliveryId: orNone(isText),
  intake: orNone(isText),
  orderingKey: optional(isText),
  quietMs: orNone(isTime),
  maxWaitMs: optional(isTime),
  traceparent: optional(isText),
  action: orNone(isText),
  repository: optional(isRepository),
  chat: optional(isChat),
  sender: optional(isSender),
  requestId: optional(isText),
  body: (value) => value instanceof Uint8Array,
  payload: (value) => typeof value === "object" && value !== null,
} satisfies Record<keyof Delivery, Check>;

/** Finds a member of a delivery of the wrong type, with which its event could not be read; undefined for none. */
export function wrongMemberOf(delivery: Delivery): keyof Delivery | undefined {
  for (const key in DELIVERY) {
    const name = key as keyof Delivery;
    if (!DELIVERY[name](delivery[name])) return name;
  }
  return undefined;
}

/** Checks whether a value names an event. */
export function isEventRef(value: unknown): value is EventRef {
  return isRef(value);
}

/** Checks whether a text can be an event's id: keys with it have to be read. */
export function isEventId(value: unknown): value is string {
  return isId(value);
}

/** Checks whether a value is a time, in milliseconds since the epoch. */
export function isTimestamp(value: unknown): value is number {
  return isTime(value);
}

/** Checks whether a value names a position in an ordering group. */
export function isGroupPosition(value: unknown): value is GroupPosition {
  return isGroup(value);
}

/** Checks whether a value names a payload. */
export function isPayloadRef(value: unknown): value is PayloadRef {
  return isPayload(value);
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

/** Makes a check for an object from the checks of its members. Others are ignored. */
export function shape(checks: Readonly<Record<string, Check>>): Check {
  const entries = Object.entries(checks);
  return (value) => {
    if (typeof value !== "object" || value === null) return false;
    return entries.every(([key, check]) => check((value as Record<string, unknown>)[key]));
  };
}

/** Makes a check for a list from the check of its members. */
export function listOf(check: Check, maxLength = Infinity): Check {
  return (value) => Array.isArray(value) && value.length <= maxLength && value.every(check);
}

function oneOf(values: readonly string[]): Check {
  return (value) => values.includes(value as string);
}
