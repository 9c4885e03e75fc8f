import type { GroupRecord } from "./kv/_ordering_groups.ts";
import type { UploadMark } from "./kv/_payload.ts";
import type { ScheduleEntry, SharedEntry } from "./kv/_schedule.ts";
import type {
  EventRecord,
  EventRef,
  EventState,
  GroupPosition,
  PayloadRef,
} from "./event_record.ts";

const STATES: readonly EventState[] = ["queued", "running", "done", "dead"];

/** The farthest that a date can be from the epoch, in milliseconds. */
const MAX_TIME = 8.64e15;

/** One commit holds 1,000 mutations: this many parts can be deleted in the one that settles an event. */
export const MAX_CHUNKS = 900;

/** A key of a KV takes 2,048 bytes, three of them for a character at most. */
export const MAX_ID_LENGTH = 600;

/** A commit that stores events together holds 100 checks, one of each. */
const MAX_SHARING = 500;

/** Beyond that a number that is counted up could not be told from the next one. */
const MAX_NEXT = 2 ** 52;

type Check = (value: unknown) => boolean;

const isText: Check = (value) => typeof value === "string";
const isCount: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const isTime: Check = (value) => Number.isFinite(value) && Math.abs(value as number) <= MAX_TIME;
const isGroup = shape({ key: isText, seq: isCount });
const isLease = shape({ owner: isText, until: isTime, ms: isTime });
const isChunks: Check = (value) => isCount(value) && (value as number) <= MAX_CHUNKS;
const isPayload = shape({ id: isText, chunks: isChunks, size: isCount });
const isUpload = shape({ startedAt: isTime, chunks: isChunks });
const isNumber: Check = (value) => Number.isSafeInteger(value);
const isRepository = shape({ id: isNumber, fullName: isText, owner: isText, name: isText });
const isChat = shape({ id: isNumber, type: orNone(isText) });
const isSender = shape({
  id: isNumber,
  name: orNone(isText),
  isBot: (value) => typeof value === "boolean",
});
const isError = shape({ attempt: isCount, at: isTime, message: isText });
const isTexts: Check = (value) => Array.isArray(value) && value.every(isText);

const isId: Check = (value) => isText(value) && (value as string).length <= MAX_ID_LENGTH;
const isRef = shape({ id: isId, receivedAt: isTime });
const isRefs: Check = (value) =>
  Array.isArray(value) && value.length <= MAX_SHARING && value.every(isRef);
// The first entries had no version.
const isEntryVersion: Check = (value) => value === undefined || value === 1;
const isEntry = shape({
  v: isEntryVersion,
  receivedAt: isTime,
  group: orNull(isGroup),
  delayMs: orNone(isTime),
});
const isGroupShape = shape({
  next: isCount,
  size: isCount,
  busyUntil: orNone(isTime),
  busyMs: orNone(isTime),
  heldUntil: orNone(isTime),
});
const isShared = shape({ v: isEntryVersion, events: isRefs, delayMs: orNone(isTime) });

const isRecord = shape(
  {
    v: (value) => value === 2,
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
    state: (value) => STATES.includes(value as EventState),
    run: orNone(isCount),
    attempt: isCount,
    dueAt: orNull(isTime),
    delayMs: orNone(isTime),
    sharedEntry: orNone(isText),
    orderingKey: orNull(isText),
    group: orNull(isGroup),
    lease: orNull(isLease),
    outcome: orNone(isText),
    cancelRequestedAt: orNone(isTime),
    busyUntil: orNone(isTime),
    settledAt: orNull(isTime),
    payload: orNull(isPayload),
    progress: orNone(isTexts),
    idKept: orNone((value) => typeof value === "boolean"),
    traceparent: orNone(isText),
    errors: (value) => Array.isArray(value) && value.every(isError),
  } satisfies Record<keyof EventRecord, Check>,
);

/** Tells whether a stored value is a record that this version can read. */
export function isEventRecord(value: unknown): value is EventRecord {
  return isRecord(value);
}

/** Tells whether a value is an entry of the schedule that this version can read. */
export function isScheduleEntry(value: unknown): value is ScheduleEntry | SharedEntry {
  return "events" in Object(value) ? isShared(value) : isEntry(value);
}

/** Tells whether a value names an event. */
export function isEventRef(value: unknown): value is EventRef {
  return isRef(value);
}

/** Tells whether a text can be an event's id: keys with it have to be read. */
export function isEventId(value: unknown): value is string {
  return isId(value);
}

/** Tells whether a value is a time, in milliseconds since the epoch. */
export function isTimestamp(value: unknown): value is number {
  return isTime(value);
}

/** Tells whether a value is what is stored of a group. No more events are in one than have joined it. */
export function isGroupRecord(value: unknown): value is GroupRecord {
  if (!isGroupShape(value)) return false;
  const { next, size } = value as GroupRecord;
  return size <= next && next <= MAX_NEXT;
}

/** Tells whether a value is the mark of an upload. */
export function isUploadMark(value: unknown): value is UploadMark {
  return isUpload(value);
}

/** Tells whether a value is a number of a place in a group. */
export function isSeq(value: unknown): value is number {
  return isCount(value);
}

/** Tells whether a value names a place in a group. */
export function isGroupPosition(value: unknown): value is GroupPosition {
  return isGroup(value);
}

/** Tells whether a value names a payload. */
export function isPayloadRef(value: unknown): value is PayloadRef {
  return isPayload(value);
}

/** Tells whether a value is the payload of an event, all of it. */
export function isPayloadOf(
  { payload }: Pick<EventRecord, "payload">,
  value: unknown,
): value is Uint8Array<ArrayBuffer> {
  return value instanceof Uint8Array && value.byteLength === payload?.size;
}

function orNull(check: Check): Check {
  return (value) => value === null || check(value);
}

function orNone(check: Check): Check {
  return (value) => value === undefined || check(value);
}

function shape(checks: Readonly<Record<string, Check>>): Check {
  const entries = Object.entries(checks);
  return (value) => {
    if (typeof value !== "object" || value === null) return false;
    return entries.every(([key, check]) => check((value as Record<string, unknown>)[key]));
  };
}
