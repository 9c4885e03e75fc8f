import { commit } from "./_commit.ts";
import { changeRecord } from "./_changes.ts";
import { untilDone } from "./_contention.ts";
import { type StoreKeys, storeKeys } from "./_keys.ts";
import type { StoreParts } from "./_parts.ts";
import { deleteChunks } from "./_payload.ts";
import {
  type EventRecord,
  type EventState,
  isEventRecord,
  readRecord,
  withError,
} from "./event_record.ts";
import type { EventFilter, EventStats } from "./event_filter.ts";
import type { Lease } from "./event_store.ts";

/** How many records are read at a time while all are looked through. */
const BATCH_SIZE = 100;

/** Finds the events that a filter lets through, by id. */
export async function* listEvents(
  kv: Deno.Kv,
  keys: StoreKeys,
  filter: EventFilter,
): AsyncGenerator<Lease> {
  const entries = kv.list(keys.events, { batchSize: BATCH_SIZE });
  for await (const { value, versionstamp } of entries) {
    if (isEventRecord(value) && matches(value, filter)) yield { record: value, versionstamp };
  }
}

/** Counts the events by state. */
export async function countEvents(kv: Deno.Kv, keys: StoreKeys): Promise<EventStats> {
  const counts: Record<EventState, number> = { queued: 0, running: 0, done: 0, dead: 0 };
  let oldestWaitingAt: number | null = null;
  for await (const { record: { state, receivedAt } } of listEvents(kv, keys, {})) {
    counts[state]++;
    if (state === "queued") oldestWaitingAt = Math.min(oldestWaitingAt ?? receivedAt, receivedAt);
  }
  return { ...counts, oldestWaitingAt };
}

/**
 * Gives an event up on somebody's behalf, whoever works on it: its lease is lost with that. Its handler
 * may run until the lease would have ended, so neither it nor the next of its key starts before.
 */
export async function cancelEvent(parts: StoreParts, id: string): Promise<boolean> {
  const { kv, namespace } = parts;
  return await untilDone(async () => {
    const { record, versionstamp } = await readRecord(kv, storeKeys(namespace).event(id));
    if (!record || record.state === "done" || record.state === "dead") return false;
    const settledAt = Date.now();
    const errors = withError(record, "Cancelled", settledAt);
    const set = { state: "dead", dueAt: null, settledAt, errors } as const;
    const nextNotBefore = record.lease?.until ?? 0;
    const lease: Lease = { record, versionstamp: versionstamp! };
    return await changeRecord(parts, lease, { set, nextNotBefore }) ? true : undefined;
  });
}

/** Deletes a settled event with all that belongs to it, unless it has changed meanwhile. */
export async function purgeEvent(kv: Deno.Kv, keys: StoreKeys, event: Lease): Promise<boolean> {
  const { record, versionstamp } = event;
  if (record.settledAt === null) return false;
  const key = keys.event(record.id);
  const operation = kv.atomic().check({ key, versionstamp }).delete(key);
  if (record.payload) deleteChunks(operation, keys, record.payload);
  return (await commit(operation)).ok;
}

function matches(record: EventRecord, filter: EventFilter): boolean {
  const { state, type, receivedAfter = -Infinity, receivedBefore = Infinity } = filter;
  return (state === undefined || record.state === state) &&
    (type === undefined || record.type === type) &&
    record.receivedAt >= receivedAfter && record.receivedAt < receivedBefore;
}
