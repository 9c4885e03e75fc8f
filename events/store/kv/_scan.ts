import { entriesBetween, entriesOf } from "./_entries.ts";
import type { StoreKeys } from "./_keys.ts";
import { readAll } from "./_reads.ts";
import type { Work } from "./_work.ts";
import type { EventFilter } from "../event_filter.ts";
import type { EventRef } from "../event_record.ts";
import { type StoredEvent, toStoredEvent } from "../stored_event.ts";

/** An event as it was found. */
export interface FoundEvent extends Deno.KvEntry<unknown> {
  readonly event: StoredEvent;
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
    ? entriesOf(kv, keys, await refsOf(kv, keys, [...new Set(ids)]))
    : entriesBetween(kv, keys, receivedAfter, receivedBefore);
  for await (const entry of entries) {
    if (work?.ended) return;
    work?.sawOne();
    const event = toStoredEvent(entry);
    if (matches(event, filter)) yield { ...entry, event };
  }
}

async function refsOf(
  kv: Deno.Kv,
  keys: StoreKeys,
  ids: readonly string[],
): Promise<EventRef[]> {
  const entries = await readAll(kv, ids.map((id) => keys.id(id)));
  return entries.flatMap(({ value }, i) =>
    typeof value === "number" ? [{ id: ids[i]!, receivedAt: value }] : []
  );
}

function matches(event: StoredEvent, filter: EventFilter): boolean {
  const { state, type, receivedAfter = -Infinity, receivedBefore = Infinity } = filter;
  return (state === undefined || event.state === state) &&
    (type === undefined || (event.state !== "unreadable" && event.type === type)) &&
    event.receivedAt >= receivedAfter && event.receivedAt < receivedBefore;
}
