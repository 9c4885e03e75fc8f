/**
 * The changes of an event's record from its place in a group to the lease of a worker: pure functions, record
 * in and record out.
 *
 * @module
 */
import { CLOCK_SLACK_MS } from "../../core/timeouts.ts";
import type { EventRecord, GroupPosition } from "./event_record.ts";
import { withAttempt } from "./record_notes.ts";

/** The error of an attempt whose worker neither settled its event nor renewed its lease. */
const LEASE_EXPIRED = "Lease expired: the process died, was frozen, or lost the database";

/** The holder of a lease, and its length. */
export interface LeaseRequest {
  /** The worker that leases the event. */
  readonly owner: string;
  /** The length of the lease, in milliseconds. */
  readonly leaseMs: number;
}

/**
 * Gives an event its position in its ordering group. It is on the schedule only if it is the first one. An
 * event that is handled together with the next ones is due once it may be quiet.
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
  const after = { ...record, orderingKey, group, dueAt: isFirst ? record.dueAt : null };
  const { quiet, dueAt, delayMs = 0 } = after;
  if (!quiet || dueAt === null) return after;
  const waitMs = Math.min(quiet.quietMs, quiet.maxWaitMs);
  // After a delay that it has brought along from another store.
  return { ...waiting(after, waitMs, group.position + 1, dueAt), delayMs: delayMs + waitMs };
}

/**
 * Gives an event that joins late its position in its ordering group. If it is the first one it can
 * be leased; otherwise it waits at the end of the group, off the schedule.
 *
 * @param record The record.
 * @param group The position.
 * @param isFirst Set if no other event is in the group.
 * @returns The record.
 */
export function joinedLate(
  { joinsLater: _, ...record }: EventRecord,
  group: GroupPosition,
  isFirst: boolean,
): EventRecord {
  return isFirst ? { ...record, group } : { ...record, group, dueAt: null, delayMs: 0 };
}

/**
 * Lets the first event of a group wait, because others have joined a short time ago.
 *
 * @param record The record.
 * @param delayMs The time until it may be quiet, in milliseconds.
 * @param next The position that the next event of the group will take.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function waiting(
  record: EventRecord,
  delayMs: number,
  next: number,
  now: number,
): EventRecord {
  const quiet = { ...record.quiet!, waitedMs: record.quiet!.waitedMs + delayMs, next };
  return { ...record, quiet, dueAt: now + delayMs, delayMs };
}

/**
 * Determines the events that are handled together with the first one of a group. What joins later is not
 * among them.
 *
 * @param record The record of the first event.
 * @param batch The last of them, and their number.
 * @returns The record.
 */
export function batched(
  record: EventRecord,
  batch: NonNullable<EventRecord["batch"]>,
): EventRecord {
  return { ...record, batch };
}

/**
 * Checks whether an event is to begin a batch when it is leased.
 *
 * @param record The record.
 * @returns True if it is handled together with the next ones of its group, and they are not determined yet.
 */
export function beginsBatch({ quiet, batch, group }: EventRecord): boolean {
  return quiet !== undefined && batch === undefined && group !== null;
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
 * Puts an open event back that nothing leads to. With a time it is to be on the schedule again at that time.
 * Without one its position in its ordering group is lost: it is due now, and joins the end of its group
 * when it is claimed.
 *
 * @param record The record.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function foundAgain(record: EventRecord, now: number): EventRecord {
  if (record.dueAt !== null) return record;
  const due = { ...record, dueAt: now, delayMs: 0, group: null };
  return record.orderingKey === null ? due : { ...due, joinsLater: true };
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
  const { waitingFor } = record;
  if (waitingFor) return { ...record, dueAt, delayMs, waitingFor: { ...waitingFor, until: dueAt } };
  if (!record.lease) return { ...record, dueAt, delayMs };
  return { ...record, dueAt, lease: { ...record.lease, until: dueAt } };
}

/**
 * Schedules an event anew if it would wait for longer than was planned.
 *
 * @param record The record.
 * @param now The time, milliseconds since the epoch.
 * @returns The record; null if its time is right.
 */
export function corrected(record: EventRecord, now: number): EventRecord | null {
  const waitMs = (record.dueAt ?? now) - now;
  return waitMs > plannedDelay(record) + CLOCK_SLACK_MS ? rescheduled(record, now) : null;
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
 * Leases an event. If it runs already, its lease has expired and that attempt is over.
 *
 * @param record The record.
 * @param request The holder and the length of the lease.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function leased(
  record: EventRecord,
  { owner, leaseMs }: LeaseRequest,
  now: number,
): EventRecord {
  const until = now + leaseMs;
  return {
    ...record,
    state: "running",
    attempt: record.attempt + 1,
    lease: { owner, until, ms: leaseMs, startedAt: now },
    dueAt: until,
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
 * Checks whether a record is still leased as it was, whatever else of it has changed.
 *
 * @param held The record under the lease.
 * @param record The record now; undefined if there is none.
 * @returns True if it is the same attempt under the same lease.
 */
export function isSameLease(
  held: EventRecord,
  record: EventRecord | undefined,
): record is EventRecord {
  return record?.state === "running" &&
    record.run === held.run && record.attempt === held.attempt &&
    record.lease?.owner === held.lease?.owner &&
    record.lease?.startedAt === held.lease?.startedAt &&
    // An event that was purged and sent again within a millisecond has the same key.
    record.payload?.id === held.payload?.id;
}
