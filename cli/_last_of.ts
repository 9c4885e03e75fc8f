import type { StoredEvent } from "../events/mod.ts";

/** Keeps the last events of a list. */
export async function lastOf(
  events: AsyncIterable<StoredEvent>,
  limit: number,
): Promise<StoredEvent[]> {
  let kept: StoredEvent[] = [];
  for await (const event of events) {
    // Cut now and then: once for each event would move all of them each time.
    if (kept.push(event) >= 2 * limit) kept = kept.slice(-limit);
  }
  return kept.slice(-limit);
}
