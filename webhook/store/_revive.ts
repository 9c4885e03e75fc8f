import type { EventRecord } from "./event_record.ts";

/** Until when a handler of an event may run, milliseconds since the epoch; 0 where none may. */
export function busyUntil(record: EventRecord | undefined): number {
  return Math.max(record?.lease?.until ?? 0, record?.busyUntil ?? 0);
}

/** What keeps an event from starting while the handler of the one before may run, its id's or its own. */
export function notBefore(
  record: EventRecord | undefined,
  now: number,
): Pick<EventRecord, "dueAt" | "busyUntil"> {
  const until = busyUntil(record);
  return until > now ? { dueAt: until, busyUntil: until } : { dueAt: now };
}

/** Makes the record of a dead event that is put back, as if it had just been received. */
export function revive(record: EventRecord): EventRecord {
  const start = notBefore(record, Date.now());
  return { ...record, ...start, state: "queued", attempt: 0, lease: null, settledAt: null };
}
