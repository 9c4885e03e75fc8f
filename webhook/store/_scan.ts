import { readAll } from "./_reads.ts";
import type { StoreKeys } from "./_keys.ts";
import type { Work } from "./_work.ts";
import type { EventFilter } from "./event_filter.ts";
import { type StoredEvent, toStoredEvent } from "./stored_event.ts";

/**
 * How many records are read at a time while all are looked through. A remote KV takes 45 ms for 100, and
 * hardly more for 500.
 */
const BATCH_SIZE = 500;

/** An event as it was found. */
export interface FoundEvent {
  readonly event: StoredEvent;
  readonly key: Deno.KvKey;
  readonly versionstamp: string;
  /** What is stored, whether it can be read or not. */
  readonly value: unknown;
}

/** Finds the events that a filter lets through, by id, until the work is ended. */
export async function* findEvents(
  kv: Deno.Kv,
  keys: StoreKeys,
  filter: EventFilter,
  work?: Work,
): AsyncGenerator<FoundEvent> {
  const { ids } = filter;
  const entries = ids
    ? await readAll(kv, [...new Set(ids)].map((id) => keys.event(id)))
    : kv.list(keys.events, { batchSize: BATCH_SIZE });
  for await (const { key, value, versionstamp } of entries) {
    if (work?.ended) return;
    if (versionstamp === null) continue;
    work?.sawOne();
    const event = toStoredEvent({ key, value });
    if (matches(event, filter)) yield { event, key, versionstamp, value };
  }
}

function matches(event: StoredEvent, filter: EventFilter): boolean {
  const { state, type, receivedAfter, receivedBefore } = filter;
  if (state !== undefined && event.state !== state) return false;
  if (event.state === "unreadable") {
    return type === undefined && receivedAfter === undefined && receivedBefore === undefined;
  }
  return (type === undefined || event.type === type) &&
    event.receivedAt >= (receivedAfter ?? -Infinity) &&
    event.receivedAt < (receivedBefore ?? Infinity);
}
