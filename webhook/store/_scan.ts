import type { StoreKeys } from "./_keys.ts";
import type { Work } from "./_work.ts";
import type { EventFilter } from "./event_filter.ts";
import { type StoredEvent, toStoredEvent } from "./stored_event.ts";

/**
 * How many records are read at a time while all are looked through. A remote KV takes 45 ms for 100, and
 * hardly more for 500.
 */
const BATCH_SIZE = 500;

/** How many keys can be read at once by `getMany`. */
const MAX_GET_MANY = 10;

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
  const entries = ids ? readAll(kv, keys, ids) : kv.list(keys.events, { batchSize: BATCH_SIZE });
  for await (const { key, value, versionstamp } of entries) {
    if (work?.ended) return;
    if (versionstamp === null) continue;
    work?.sawOne();
    const event = toStoredEvent({ key, value });
    if (matches(event, filter)) yield { event, key, versionstamp, value };
  }
}

async function* readAll(
  kv: Deno.Kv,
  keys: StoreKeys,
  ids: readonly string[],
): AsyncGenerator<Deno.KvEntryMaybe<unknown>> {
  const all = [...new Set(ids)].map((id) => keys.event(id));
  for (let i = 0; i < all.length; i += MAX_GET_MANY) {
    yield* await kv.getMany(all.slice(i, i + MAX_GET_MANY));
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
