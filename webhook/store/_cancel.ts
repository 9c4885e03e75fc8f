import type { PlannedChange } from "./_bulk.ts";
import { changeRecord } from "./_changes.ts";
import { untilDone } from "./_contention.ts";
import { storeKeys } from "./_keys.ts";
import type { StoreParts } from "./_parts.ts";
import type { FoundEvent } from "./_scan.ts";
import { deleteDue } from "./_schedule.ts";
import { type EventRecord, readRecord, withError } from "./event_record.ts";
import type { Lease } from "./event_store.ts";
import type { StoredEvent } from "./stored_event.ts";

/**
 * Gives an event up on somebody's behalf, whoever works on it: its lease is lost with that. Its handler
 * may run until the lease would have ended, so neither it nor the next of its key starts before.
 */
export async function cancelEvent(parts: StoreParts, id: string): Promise<boolean> {
  const { kv, namespace } = parts;
  return await untilDone(async () => {
    const { record, versionstamp } = await readRecord(kv, storeKeys(namespace).event(id));
    if (!record || !isOpen(record)) return false;
    const nextNotBefore = record.lease?.until ?? 0;
    const lease: Lease = { record, versionstamp: versionstamp! };
    return await changeRecord(parts, lease, { set: givenUp(record), nextNotBefore })
      ? true
      : undefined;
  });
}

/** Plans to give an event up, if it waits or runs. */
export function planCancel(parts: StoreParts, { event, key }: FoundEvent): PlannedChange | null {
  if (!isOpen(event)) return null;
  const alone = () => cancelEvent(parts, event.id);
  // Leaving a lane takes reading it.
  if (event.lane) return { alone };
  const add = (operation: Deno.AtomicOperation) => {
    operation.set(key, { ...event, ...givenUp(event) });
    deleteDue(operation, storeKeys(parts.namespace), event);
  };
  return { alone, add };
}

function isOpen(event: StoredEvent): event is EventRecord {
  return event.state === "queued" || event.state === "running";
}

function givenUp(record: EventRecord) {
  const settledAt = Date.now();
  const errors = withError(record, "Cancelled", settledAt);
  return { state: "dead", dueAt: null, settledAt, errors } as const;
}
