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

/** Finds the events that a filter lets through, in the order received, until the work is ended. */
export async function* findEvents(
  kv: Deno.Kv,
  keys: StoreKeys,
  filter: EventFilter,
  work?: Work,
): AsyncGenerator<FoundEvent> {
  const { ids, receivedAfter = 0, receivedBefore = Infinity } = filter;
  if (receivedAfter >= receivedBefore) return;
  const entries = ids
    ? await readByIds(kv, keys, [...new Set(ids)])
    : kv.list(keys.eventsBetween(receivedAfter, receivedBefore), { batchSize: BATCH_SIZE });
  for await (const { key, value, versionstamp } of entries) {
    if (work?.ended) return;
    if (versionstamp === null) continue;
    work?.sawOne();
    const event = toStoredEvent({ key, value });
    if (matches(event, filter)) yield { event, key, versionstamp, value };
  }
}

async function readByIds(
  kv: Deno.Kv,
  keys: StoreKeys,
  ids: readonly string[],
): Promise<Deno.KvEntryMaybe<unknown>[]> {
  const entries = await readAll(kv, ids.map((id) => keys.id(id)));
  const refs = entries.flatMap(({ value }, i) =>
    typeof value === "number" ? [{ id: ids[i]!, receivedAt: value }] : []
  );
  return await readAll(kv, refs.map((ref) => keys.event(ref)));
}

function matches(event: StoredEvent, filter: EventFilter): boolean {
  const { state, type, receivedAfter = -Infinity, receivedBefore = Infinity } = filter;
  return (state === undefined || event.state === state) &&
    (type === undefined || (event.state !== "unreadable" && event.type === type)) &&
    event.receivedAt >= receivedAfter && event.receivedAt < receivedBefore;
}
