/**
 * The changes of an event's record that end an attempt, and its cancelling: pure functions, record in and
 * record out.
 *
 * A record that was flagged by `cancelRequested` leads to `dead` only: every function that settles it or
 * gives it back cancels it instead.
 *
 * @module
 */
import type { EndedWait, EventRecord } from "./event_record.ts";
import {
  BRIEF_BYTES,
  isCancelRequested,
  shortened,
  waited,
  withAttempt,
  withHandler,
  withPutOff,
} from "./record_notes.ts";
import type { ReleaseOptions } from "./store_core.ts";
import type { Wait } from "./waits.ts";

/**
 * Settles an event as done. Its payload is needed no more.
 *
 * @param record The record.
 * @param now The time, milliseconds since the epoch.
 * @param outcome Its end: it was handled, or nobody wanted it.
 * @returns The record.
 */
export function completed(
  record: EventRecord,
  now: number,
  outcome: "handled" | "ignored" = "handled",
): EventRecord {
  if (isCancelRequested(record)) return cancelled(record, now);
  const attempts = withAttempt(record, outcome, now);
  return settled(record, now, { state: "done", outcome, payload: null, attempts });
}

/**
 * Gives an event back whose attempt failed, to be tried again later.
 *
 * @param record The record.
 * @param delayMs The delay until then, in milliseconds.
 * @param error The error.
 * @param now The time, milliseconds since the epoch.
 * @param reason The reason why one of its handlers has put it off, if one has.
 * @returns The record.
 */
export function retried(
  record: EventRecord,
  delayMs: number,
  error: unknown,
  now: number,
  reason?: unknown,
): EventRecord {
  if (isCancelRequested(record)) return cancelled(record, now, error);
  const noted = reason === undefined ? withHandler(record) : withPutOff(record, reason, now);
  const attempts = withAttempt(noted, "failed", now, error);
  return { ...noted, state: "queued", lease: null, dueAt: now + delayMs, delayMs, attempts };
}

/**
 * Gives an event back that was not tried to its end, or that its handler puts off. The attempt does not
 * count.
 *
 * @param record The record.
 * @param options The delay, whether a handler had begun with it, and why it puts the event off.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function released(
  record: EventRecord,
  { delayMs = 0, isBegun = false, reason, isUnhandled }: ReleaseOptions,
  now: number,
): EventRecord {
  if (isCancelRequested(record)) return cancelled(record, now, reason);
  const attempt = Math.max(0, record.attempt - 1);
  const dueAt = now + delayMs;
  const after: EventRecord = { ...record, state: "queued", lease: null, attempt, dueAt, delayMs };
  const begun = isBegun ? withHandler({ ...after, isBegun }) : after;
  if (reason === undefined) return begun;
  return planning(withPutOff(begun, reason, now, isUnhandled), delayMs);
}

/**
 * Parks an event until it is woken, or its time has passed. The attempt does not count. It leaves its
 * ordering group, or an answer from the same chat could never come, and joins it again when it is claimed.
 *
 * @param record The record.
 * @param wait The name that it waits for, and for how long.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function parked(record: EventRecord, { name, timeoutMs }: Wait, now: number): EventRecord {
  if (isCancelRequested(record)) return cancelled(record, now);
  const after = released(record, { delayMs: timeoutMs, isBegun: true }, now);
  const { quiet, batch: _batch, putOff: _putOff, ...rest } = after;
  return {
    ...planning(rest, quiet?.waitedMs ?? 0),
    state: "parked",
    waitingFor: { name, since: now, until: now + timeoutMs },
    group: null,
    ...(record.orderingKey !== null && { joinsLater: true }),
  };
}

/**
 * Wakes a parked event: it is due at once.
 *
 * @param record The record.
 * @param result The result of its wait; undefined if it has none, and its handler waits anew.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function unparked(
  { waitingFor, ...record }: EventRecord,
  result: EndedWait | undefined,
  now: number,
): EventRecord {
  const { since = now, until = now } = waitingFor ?? {};
  const after = planning(record, Math.max(0, Math.min(result?.at ?? now, until) - since));
  const due: EventRecord = { ...after, state: "queued", dueAt: now, delayMs: 0 };
  return result ? waited(due, result) : due;
}

/**
 * Gives an event up that has failed.
 *
 * @param record The record.
 * @param error The error.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function buried(record: EventRecord, error: unknown, now: number): EventRecord {
  if (isCancelRequested(record)) return cancelled(record, now, error);
  const attempts = withAttempt(record, "failed", now, error);
  return settled(record, now, { state: "dead", outcome: "failed", attempts });
}

/**
 * Settles an event as cancelled.
 *
 * @param record The record.
 * @param now The time, milliseconds since the epoch.
 * @param error The error that ended its attempt, if it ran.
 * @returns The record.
 */
export function cancelled(record: EventRecord, now: number, error?: unknown): EventRecord {
  const attempts = record.state === "running"
    ? withAttempt(record, "cancelled", now, error)
    : record.attempts;
  const { waitingFor: _, ...rest } = record;
  return settled(rest, now, { state: "dead", outcome: "cancelled", attempts });
}

/**
 * Settles an event together with the first one of its batch, and in the same way. One that
 * dies takes over what is done of the handling.
 *
 * @param record The record.
 * @param first The record of the first one, settled.
 * @returns The record.
 */
export function settledWith(record: EventRecord, first: EventRecord): EventRecord {
  const { id, state, outcome, attempt, attempts } = first;
  // The first one has all of the error.
  const last = attempts.slice(-1).map((each) => shortened(each, BRIEF_BYTES));
  const ended = { state, outcome, attempt, attempts: last, handledWith: id };
  if (state === "done") {
    // The notes of a hundred events would not fit the commit, and a replay of a done event begins anew.
    const { progress: _, ...rest } = record;
    return settled(rest, first.settledAt!, { ...ended, payload: null });
  }
  return settled(record, first.settledAt!, { ...ended, ...progressFrom(first) });
}

/**
 * Settles an event as cancelled that leaves its batch by that. It takes over what is done of the handling, like
 * one that dies with the first one.
 *
 * @param record The record.
 * @param first The record of the first one. It is open.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function cancelledAlone(record: EventRecord, first: EventRecord, now: number): EventRecord {
  return cancelled(inBatchOf(record, first), now);
}

/**
 * Copies the batch's progress from its first event.
 *
 * @param record The record.
 * @param first The record of the first one.
 * @returns The record.
 */
export function inBatchOf(record: EventRecord, first: EventRecord): EventRecord {
  return { ...record, ...progressFrom(first) };
}

/** Takes what is done of a batch's handling. */
function progressFrom({ progress }: EventRecord): Pick<EventRecord, "progress"> {
  return progress ? { progress } : {};
}

/** Notes a planned wait. */
function planning<TRecord extends Pick<EventRecord, "plannedMs">>(
  record: TRecord,
  ms: number,
): TRecord {
  return ms > 0 ? { ...record, plannedMs: (record.plannedMs ?? 0) + ms } : record;
}

function settled(record: EventRecord, now: number, end: Partial<EventRecord>): EventRecord {
  return { ...record, ...end, dueAt: null, lease: null, group: null, settledAt: now };
}
