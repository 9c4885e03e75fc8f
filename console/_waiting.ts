import type { EventRecord } from "../events/mod.ts";
import { duration } from "./_format.ts";

/** Time for which an event may be due before its page says for how long it has been. */
const SOON_MS = 5_000;

/**
 * Says what an open event waits for, in a few words: a retry, a time, others of its ordering group, an answer.
 * Only its record is read.
 *
 * @param record The record.
 * @param now The time, milliseconds since the epoch.
 * @returns The words; undefined if the state alone says it.
 */
export function waitOf(record: EventRecord, now: number): string | undefined {
  const { state, lease, waitingFor, cancelRequestedAt } = record;
  if (state === "queued") return nextOf(record, now);
  if (state === "parked" && waitingFor) {
    const left = waitingFor.until - now;
    return left > 0 ? `${duration(left)} at most` : "its time is over";
  }
  if (state !== "running") return undefined;
  if (lease && lease.until < now - SOON_MS) return `lease over for ${duration(now - lease.until)}`;
  return cancelRequestedAt === undefined ? undefined : "cancelled";
}

function nextOf(record: EventRecord, now: number): string {
  const { dueAt, quiet, batch, attempt } = record;
  if (dueAt === null) return "behind others";
  const left = dueAt - now;
  if (left <= -SOON_MS) return `due for ${duration(-left)}`;
  if (left <= 0) return "due";
  const time = `in ${duration(left)}`;
  if (isPutOff(record)) return `put off, ${time}`;
  if (attempt > 0) return `retry ${time}`;
  return quiet && !batch ? `until quiet, ${time}` : `planned ${time}`;
}

/** Checks whether its handler has put an event off since its last attempt has ended. */
function isPutOff({ putOff, attempts }: EventRecord): boolean {
  return putOff !== undefined && putOff.at >= (attempts.at(-1)?.endedAt ?? -Infinity);
}
