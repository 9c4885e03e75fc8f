import type { EventFilter, EventStore } from "../webhook/mod.ts";
import { UsageError } from "./_usage_error.ts";

/** The names that intakes have by default. */
const INTAKES = ["forge", "messenger"];

/**
 * Finds the events that are meant by delivery ids: an event's id begins with its intake's name, and the
 * platforms' own pages show ids without.
 *
 * @returns The filter, with the ids of events in the place of delivery ids.
 * @throws {UsageError} If an id is that of several events.
 */
export async function withEventIds(store: EventStore, filter: EventFilter): Promise<EventFilter> {
  const { ids } = filter;
  if (!ids) return filter;
  const known = new Set<string>();
  const candidates = ids.flatMap(candidatesOf);
  for await (const { id } of store.list({ ids: candidates })) known.add(id);
  return { ...filter, ids: ids.map((id) => eventIdOf(id, known)) };
}

function candidatesOf(id: string): string[] {
  return [id, ...INTAKES.map((intake) => `${intake}:${id}`)];
}

/** An id that no event has stays as it is, and is told of as such. */
function eventIdOf(id: string, known: ReadonlySet<string>): string {
  const found = candidatesOf(id).filter((each) => known.has(each));
  if (found.length > 1) {
    throw new UsageError(`${id} is the delivery id of several events: ${found.join(", ")}`);
  }
  return found[0] ?? id;
}
