import type { StoredEvent } from "../webhook/mod.ts";

/** How many events are kept beyond the wanted ones before the others are dropped. */
const SLACK = 1_000;

/** Keeps the events received last, in their order. What cannot be read counts as received first. */
export async function newest(
  events: AsyncIterable<StoredEvent>,
  limit: number,
): Promise<StoredEvent[]> {
  let kept: StoredEvent[] = [];
  const drop = () => kept.sort((a, b) => timeOf(a) - timeOf(b)).slice(-limit);
  for await (const event of events) {
    if (kept.push(event) >= limit + SLACK) kept = drop();
  }
  return drop();
}

function timeOf(event: StoredEvent): number {
  return event.state === "unreadable" ? 0 : event.receivedAt;
}
