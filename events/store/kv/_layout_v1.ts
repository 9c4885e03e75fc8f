/**
 * The first layout of records and schedule entries, converted when they are read. Any change of such
 * an event writes it in the current layout.
 *
 * It had `lane {key, seq}` for the ordering group, `errors` for the attempts, `dueGroup` for the shared
 * entry, no outcome, and for a cancelled handler `busyUntil`, which means nothing any more.
 *
 * @module
 */

/** Longest default delay of the first layout, which did not note the delay. */
const LONGEST_DELAY_MS = 4_500_000;

/** The error of an event that was cancelled. */
const CANCELLED = "Cancelled";

type Fields = Readonly<Record<string, unknown>>;

/** Converts a record of the first layout. Anything else is returned as it is. */
export function recordOfToday(value: unknown): unknown {
  if ((value as Fields | null | undefined)?.v !== 1) return value;
  const { lane, errors, busyUntil: _, dueGroup, ...kept } = value as Fields;
  const list: readonly Fields[] = Array.isArray(errors) ? errors.map(Object) : [];
  return {
    ...kept,
    v: 2,
    group: groupOf(lane),
    attempts: Array.isArray(errors) ? list.map(attemptOf) : errors,
    lease: leaseOf(kept.lease),
    ...outcomeOf(kept, list),
    ...delayOf(kept, list),
    ...(dueGroup !== undefined && { sharedEntry: dueGroup }),
  };
}

/** Converts an entry of the schedule of the first layout. Anything else is returned as it is. */
export function entryOfToday(value: unknown): unknown {
  const { v, lane, ...kept } = Object(value) as Fields;
  const isFirst = lane !== undefined && (v === undefined || v === 1);
  return isFirst ? { ...kept, v: 2, group: groupOf(lane) } : value;
}

function groupOf(lane: unknown): unknown {
  if (typeof lane !== "object" || lane === null) return lane;
  const { key, seq } = lane as Fields;
  return { key, position: seq };
}

function attemptOf({ attempt, at, message }: Fields): Fields {
  const ended = { attempt, startedAt: at, endedAt: at };
  if (message === CANCELLED) return { ...ended, outcome: "cancelled" };
  return { ...ended, outcome: "failed", error: message };
}

function leaseOf(lease: unknown): unknown {
  if (typeof lease !== "object" || lease === null) return lease;
  const { until, ms } = lease as Fields;
  return { ...lease, startedAt: Number(until) - Number(ms) };
}

function outcomeOf({ state }: Fields, errors: readonly Fields[]): Fields {
  if (state === "done") return { outcome: "handled" };
  if (state !== "dead") return {};
  return { outcome: errors.at(-1)?.message === CANCELLED ? "cancelled" : "failed" };
}

/** Works out the delay from the time of the error, which is by the clock that scheduled the event. */
function delayOf(
  { state, delayMs, dueAt, receivedAt }: Fields,
  errors: readonly Fields[],
): Fields {
  if (state !== "queued" || delayMs !== undefined || typeof dueAt !== "number") return {};
  const failedAt = errors.at(-1)?.at;
  if (typeof failedAt === "number") return { delayMs: Math.max(0, dueAt - failedAt) };
  return dueAt === receivedAt ? {} : { delayMs: LONGEST_DELAY_MS };
}
