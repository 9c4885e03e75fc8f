import type { EventFilter, EventStore } from "../events/mod.ts";
import { UsageError } from "./_usage_error.ts";

/**
 * Finds the events that are meant by delivery ids: an event's id begins with its intake's name, and the
 * platforms' own pages show ids without. Only for those all events are looked through.
 *
 * @returns The filter, with the ids of events in the place of delivery ids.
 * @throws {UsageError} If an id is that of several events.
 */
export async function withEventIds(store: EventStore, filter: EventFilter): Promise<EventFilter> {
  const { ids } = filter;
  if (!ids) return filter;
  const others = new Set(ids);
  for await (const { id } of store.list({ ids })) others.delete(id);
  if (others.size === 0) return filter;
  const found = new Map<string, string[]>();
  for await (const { id } of store.list()) {
    const deliveryId = id.slice(id.indexOf(":") + 1);
    if (others.has(deliveryId)) found.set(deliveryId, [...found.get(deliveryId) ?? [], id]);
  }
  return { ...filter, ids: ids.map((id) => eventIdOf(id, found.get(id) ?? [])) };
}

/** An id that no event has stays as it is, and is told of as such. */
function eventIdOf(id: string, found: readonly string[]): string {
  if (found.length > 1) {
    throw new UsageError(`${id} is the delivery id of several events: ${found.join(", ")}`);
  }
  return found[0] ?? id;
}
