/**
 * The id that an event gets, and the changes of its record: pure functions, record in and record out, in
 * the order of the table in ARCHITECTURE.md. Nothing else sets a record's state. An engine stores what
 * they return, together with all that follows from it.
 *
 * A record that was flagged by {@linkcode cancelRequested} leads to `dead` only: every function that
 * settles it or gives it back cancels it instead.
 *
 * @module
 */
import { textOf } from "../../core/text_of.ts";
import { parseTraceparent } from "../../telemetry/traceparent.ts";
import type { Delivery } from "./delivery.ts";
import type { EventRecord, GroupPosition, PayloadRef, RecordedAttempt } from "./event_record.ts";
import type { ReleaseOptions } from "./event_store.ts";
import { MAX_ID_LENGTH } from "./record_shape.ts";

/** The number of attempts that a record keeps. */
const MAX_ATTEMPTS = 10;

/** The number of characters of an attempt's error that a record keeps. */
const MAX_ERROR_LENGTH = 1000;

/** The number of bytes that the names of an event's done parts take in its record, at most. */
const MAX_PROGRESS_BYTES = 32_768;

/** The number of bytes that these and the attempts take, at most: a KV value holds 64 KiB, and the rest 8. */
const MAX_NOTES_BYTES = 57_344;

/**
 * Bytes of a part and of an attempt beside their text, in V8's serialization. A list that was read from a
 * KV is written with the index of each member, in up to 3 bytes more than the list that was stored.
 */
const [PART_BYTES, ATTEMPT_BYTES] = [8, 112] as const;

/** The error of an attempt whose worker neither settled its event nor renewed its lease. */
const LEASE_EXPIRED = "Lease expired: the process died, was frozen, or lost the KV";

/** The holder of a lease, and its length. */
export interface LeaseRequest {
  /** The worker that leases the event. */
  readonly owner: string;
  /** The length of the lease, in milliseconds. */
  readonly leaseMs: number;
}

/**
 * Makes the id of the event that a delivery becomes.
 *
 * @param delivery The delivery.
 * @returns The intake's name and the delivery id, `forge:72d3162e`; the delivery id alone if no intake
 * is named. If there is no delivery id, a UUID takes its place: another one at each call.
 * @throws {RangeError} If the id has over 600 characters.
 */
export function eventIdOf({ intake, deliveryId }: Delivery): string {
  const id = inIntake(intake, deliveryId ?? crypto.randomUUID());
  if (id.length <= MAX_ID_LENGTH) return id;
  throw new RangeError(`Cannot store the event: its id has over ${MAX_ID_LENGTH} characters`);
}

/**
 * Keeps a name apart from the same name of another intake.
 *
 * @param intake The intake's name; undefined or null for none.
 * @param name The name.
 * @returns Both, with a colon between.
 */
export function inIntake(intake: string | null | undefined, name: string): string {
  return intake == null ? name : `${intake}:${name}`;
}

/**
 * Makes the record of a delivery: due at once, and in no ordering group.
 *
 * @param delivery The delivery.
 * @param id The event's id.
 * @param payload The place of its payload.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function accepted(
  delivery: Delivery,
  id: string,
  payload: PayloadRef,
  now: number,
): EventRecord {
  const { platform, source, type, intake, deliveryId, traceparent } = delivery;
  const { action, repository, chat, sender, requestId } = delivery;
  const record: EventRecord = {
    v: 2,
    id,
    ...(intake !== undefined && { intake }),
    ...(deliveryId !== undefined && { deliveryId }),
    platform,
    source,
    type,
    ...(action !== undefined && { action }),
    ...(repository && { repository }),
    ...(chat && { chat }),
    ...(sender && { sender }),
    requestId: requestId ?? null,
    receivedAt: now,
    state: "queued",
    attempt: 0,
    dueAt: now,
    orderingKey: null,
    group: null,
    lease: null,
    settledAt: null,
    payload,
    attempts: [],
  };
  return traceparent && parseTraceparent(traceparent) ? { ...record, traceparent } : record;
}

/**
 * Gives an event its position in its ordering group. It is on the schedule only if it is the first one.
 *
 * @param record The record.
 * @param orderingKey The ordering key.
 * @param group The position.
 * @param isFirst Set if no other event is in the group.
 * @returns The record.
 */
export function joined(
  record: EventRecord,
  orderingKey: string,
  group: GroupPosition,
  isFirst: boolean,
): EventRecord {
  return { ...record, orderingKey, group, dueAt: isFirst ? record.dueAt : null };
}

/**
 * Makes an event due that has become the first of its ordering group.
 *
 * @param record The record.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function movedUp(record: EventRecord, now: number): EventRecord {
  return { ...record, dueAt: now, delayMs: 0 };
}

/**
 * Schedules an event anew that would wait for longer than was planned, because a clock was wrong. Whoever
 * holds its lease has its whole length to renew it by the clock as it is now.
 *
 * @param record The record.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function rescheduled(record: EventRecord, now: number): EventRecord {
  const delayMs = plannedDelay(record);
  const dueAt = now + delayMs;
  if (!record.lease) return { ...record, dueAt, delayMs };
  return { ...record, dueAt, lease: { ...record.lease, until: dueAt } };
}

/**
 * Leases an event. If it runs already, its lease has expired and that attempt is over.
 *
 * @param record The record.
 * @param request The holder and the length of the lease.
 * @param now The time, milliseconds since the epoch.
 * @param sharedEntry The schedule entry that it shares with others; none if it has its own.
 * @returns The record.
 */
export function leased(
  record: EventRecord,
  { owner, leaseMs }: LeaseRequest,
  now: number,
  sharedEntry?: string,
): EventRecord {
  const until = now + leaseMs;
  return {
    ...record,
    state: "running",
    attempt: record.attempt + 1,
    lease: { owner, until, ms: leaseMs, startedAt: now },
    dueAt: until,
    sharedEntry,
    attempts: record.state === "running"
      ? withAttempt(record, "expired", now, LEASE_EXPIRED)
      : record.attempts,
  };
}

/**
 * Renews a lease.
 *
 * @param record The record.
 * @param leaseMs The length of the lease from now on, in milliseconds.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function renewed(record: EventRecord, leaseMs: number, now: number): EventRecord {
  const { owner = "", startedAt = now } = record.lease ?? {};
  const until = now + leaseMs;
  return { ...record, lease: { owner, until, ms: leaseMs, startedAt }, dueAt: until };
}

/**
 * Notes that a part of an event's handling is done.
 *
 * @param record The record.
 * @param part The part's name.
 * @returns The record.
 * @throws {TypeError} If the name is not a string.
 * @throws {RangeError} If the names would take more than 32,768 bytes.
 * @throws {Error} If the event was cancelled.
 */
export function progressed(record: EventRecord, part: string): EventRecord {
  if (typeof part !== "string") {
    throw new TypeError(`Cannot note progress: a part's name must be a text, got ${typeof part}`);
  }
  if (isCancelRequested(record)) throw new Error("Cannot note progress: the event was cancelled");
  const progress = [...record.progress ?? [], part];
  const bytes = progressBytes(progress);
  if (bytes <= MAX_PROGRESS_BYTES) return { ...record, progress };
  throw new RangeError(
    `Cannot note progress: the names of the event's ${progress.length} parts would take ${bytes} ` +
      `bytes, over ${MAX_PROGRESS_BYTES}. Note larger parts, or keep a counter in the KV`,
  );
}

/**
 * Flags an event as cancelled while it runs. Its lease stays, so that its ordering group goes on only
 * when its handler has ended or its lease has expired.
 *
 * @param record The record.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function cancelRequested(record: EventRecord, now: number): EventRecord {
  return { ...record, cancelRequestedAt: now };
}

/**
 * Settles an event as done. Its payload is needed no more.
 *
 * @param record The record.
 * @param now The time, milliseconds since the epoch.
 * @param outcome The way in which it ends: it was handled, or nobody wanted it.
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
 * @returns The record.
 */
export function retried(
  record: EventRecord,
  delayMs: number,
  error: unknown,
  now: number,
): EventRecord {
  if (isCancelRequested(record)) return cancelled(record, now, error);
  const attempts = withAttempt(record, "failed", now, error);
  return { ...record, state: "queued", lease: null, dueAt: now + delayMs, delayMs, attempts };
}

/**
 * Gives an event back that was not tried to its end. The attempt does not count.
 *
 * @param record The record.
 * @param options The delay, and whether a handler had begun with it.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function released(
  record: EventRecord,
  { delayMs = 0, isBegun = false }: ReleaseOptions,
  now: number,
): EventRecord {
  if (isCancelRequested(record)) return cancelled(record, now);
  const attempt = Math.max(0, record.attempt - 1);
  const dueAt = now + delayMs;
  const after: EventRecord = { ...record, state: "queued", lease: null, attempt, dueAt, delayMs };
  return isBegun ? { ...after, isBegun } : after;
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
 * @param error The error with which its attempt ended, if it ran.
 * @returns The record.
 */
export function cancelled(record: EventRecord, now: number, error?: unknown): EventRecord {
  const attempts = record.state === "running"
    ? withAttempt(record, "cancelled", now, error)
    : record.attempts;
  return settled(record, now, { state: "dead", outcome: "cancelled", attempts });
}

/**
 * Puts a dead event back, as if it had just been received.
 *
 * @param record The record.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function replayed(record: EventRecord, now: number): EventRecord {
  const { outcome: _, cancelRequestedAt: __, ...kept } = record;
  return {
    ...kept,
    state: "queued",
    run: nextRun(record),
    attempt: 0,
    dueAt: now,
    delayMs: 0,
    lease: null,
    settledAt: null,
  };
}

/**
 * Puts a new delivery in the place of a dead event of the same id. Of that its progress stays.
 *
 * @param record The record of the new delivery.
 * @param dead The record of the dead event.
 * @returns The record.
 */
export function redelivered(record: EventRecord, dead: EventRecord): EventRecord {
  const { progress } = dead;
  return { ...record, run: nextRun(dead), ...(progress && { progress }) };
}

/**
 * Reads for how long an event was to wait when it was last scheduled.
 *
 * @param record The record.
 * @returns The delay in milliseconds; the length of its lease while it runs.
 */
export function plannedDelay({ state, lease, delayMs = 0 }: EventRecord): number {
  return state === "running" && lease ? lease.ms : delayMs;
}

/**
 * Checks whether an event was cancelled while it ran.
 *
 * @param record The record.
 * @returns True if it was, and is not settled yet.
 */
export function isCancelRequested({ cancelRequestedAt, settledAt }: EventRecord): boolean {
  return cancelRequestedAt !== undefined && settledAt === null;
}

function settled(record: EventRecord, now: number, end: Partial<EventRecord>): EventRecord {
  return { ...record, ...end, dueAt: null, lease: null, group: null, settledAt: now };
}

/**
 * Checks whether the handling of an event has begun before, so that there is something left to do: it is not
 * ignored then, even if there is no handler any more.
 *
 * @param record The record.
 * @returns True if an attempt has ended, a part is done, or a handler had begun.
 */
export function hasBegun({ attempts, progress = [], isBegun = false }: EventRecord): boolean {
  return isBegun || attempts.length + progress.length > 0;
}

/** Counts runs: the leases of an earlier one are no longer good. */
function nextRun({ run = 0 }: EventRecord): number {
  return run + 1;
}

/** Adds the attempt that ends to a record's last ten, and fewer if the record has no room for them. */
function withAttempt(
  record: EventRecord,
  outcome: RecordedAttempt["outcome"],
  endedAt: number,
  thrown?: unknown,
): RecordedAttempt[] {
  let room = MAX_NOTES_BYTES - progressBytes(record.progress ?? []) - ATTEMPT_BYTES;
  const startedAt = record.lease?.startedAt ?? endedAt;
  const ended = { attempt: record.attempt, startedAt, endedAt, outcome };
  const error = thrown === undefined ? undefined : errorWithin(room, thrown);
  const kept: RecordedAttempt[] = [error === undefined ? ended : { ...ended, error }];
  room -= textBytes(error ?? "");
  for (const earlier of record.attempts.slice(1 - MAX_ATTEMPTS).reverse()) {
    room -= textBytes(earlier.error ?? "") + ATTEMPT_BYTES;
    if (room < 0) break;
    kept.unshift(earlier);
  }
  return kept;
}

function errorWithin(room: number, thrown: unknown): string {
  const text = textOf(thrown).slice(0, MAX_ERROR_LENGTH);
  // A character takes two bytes at most.
  return textBytes(text) > room ? text.slice(0, Math.max(0, room / 2)) : text;
}

function progressBytes(progress: readonly string[]): number {
  return progress.reduce((sum, part) => sum + textBytes(part) + PART_BYTES, 0);
}

/** Counts bytes: V8 writes a text with one for each character, or with two if one of them needs that. */
function textBytes(text: string): number {
  return /^[\0-\xff]*$/.test(text) ? text.length : 2 * text.length;
}
