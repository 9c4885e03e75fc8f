import { changeRecord } from "./_changes.ts";
import { untilDone } from "./_contention.ts";
import { lookUp } from "./_lookup.ts";
import type { StoreParts } from "./_parts.ts";
import { busyUntil } from "./_revive.ts";
import type { FoundEvent } from "./_scan.ts";
import { type EventRecord, type Known, knownOf, withError } from "../event_record.ts";
import type { Lease } from "../event_store.ts";
import type { StoredEvent } from "../stored_event.ts";

/**
 * Gives an event up on somebody's behalf, whoever works on it: its lease is lost with that. Its handler
 * may run until the lease would have ended, so neither it nor the next of its key starts before.
 */
export async function cancelEvent(parts: StoreParts, id: string): Promise<boolean> {
  return await untilDone(async () => {
    const known = await lookUp(parts.kv, parts.keys, id);
    if (!known.record || !isOpen(known.record)) return false;
    return await tryToCancel(parts, leaseOf(known)) || undefined;
  });
}

/** Gives an event up that was found, if it waits or runs. */
export async function cancelFound(parts: StoreParts, found: FoundEvent): Promise<boolean> {
  const { event } = found;
  if (!isOpen(event)) return false;
  return await tryToCancel(parts, leaseOf(knownOf(found))) || await cancelEvent(parts, event.id);
}

async function tryToCancel(parts: StoreParts, lease: Lease): Promise<boolean> {
  const { record } = lease;
  const settledAt = Date.now();
  const errors = withError(record, "Cancelled", settledAt);
  const busy = busyUntil(record);
  const mark = busy > settledAt && { busyUntil: busy };
  const set = { state: "dead", dueAt: null, settledAt, errors, ...mark } as const;
  return await changeRecord(parts, lease, { set, nextNotBefore: busy }) !== null;
}

/** What is known of an event that is there, as changing it takes it. */
function leaseOf({ record, versionstamp, body }: Known): Lease {
  return { record: record!, versionstamp: versionstamp!, body };
}

function isOpen(event: StoredEvent): event is EventRecord {
  return event.state === "queued" || event.state === "running";
}
