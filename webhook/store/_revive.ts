import type { EventRecord } from "./event_record.ts";

/** When an event may start: not while the handler of the dead one of its id may still run. */
export function notBefore(record: EventRecord | undefined, now: number): number {
  return Math.max(now, record?.lease?.until ?? 0);
}

/** Makes the record of a dead event that is put back, as if it had just been received. */
export function revive(record: EventRecord): EventRecord {
  const dueAt = notBefore(record, Date.now());
  return { ...record, state: "queued", attempt: 0, dueAt, lease: null, settledAt: null };
}
