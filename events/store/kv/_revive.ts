import type { EventRecord } from "../event_record.ts";

/**
 * Until when a handler of an event may run, milliseconds since the epoch; 0 where none may. That is not
 * later than its lease was long, whatever a clock has said that was set back since.
 */
export function busyUntil(record: EventRecord | undefined): number {
  if (!record) return 0;
  const { lease, busyUntil = 0, delayMs } = record;
  const longestMs = lease?.ms ?? delayMs ?? Infinity;
  return Math.min(Math.max(lease?.until ?? 0, busyUntil), Date.now() + longestMs);
}

/** What keeps an event from starting while the handler of the one before may run, its id's or its own. */
export function notBefore(
  record: EventRecord | undefined,
  now: number,
): Pick<EventRecord, "dueAt" | "busyUntil" | "delayMs"> {
  const until = busyUntil(record);
  return until > now ? { dueAt: until, busyUntil: until, delayMs: until - now } : { dueAt: now };
}

/** The run that begins when a dead event is put back: the leases of the one before are no longer good. */
export function nextRun({ run = 0 }: EventRecord): number {
  return run + 1;
}

/** Makes the record of a dead event that is put back, as if it had just been received. */
export function revive(record: EventRecord): EventRecord {
  const start = { delayMs: 0, ...notBefore(record, Date.now()) };
  const run = nextRun(record);
  return { ...record, ...start, state: "queued", run, attempt: 0, lease: null, settledAt: null };
}
