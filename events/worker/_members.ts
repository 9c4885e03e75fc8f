import { withDeadline } from "../../core/timeouts.ts";
import type { EventRecord, EventStore } from "../store/mod.ts";
import { toEvent, type WebhookEvent } from "./event.ts";

/** Number of payloads of a batch that are read at a time. */
const LOADED_AT_ONCE = 10;

/**
 * Loads the events of a batch behind its first one.
 *
 * @param parts The store, and the time within which it has to answer, in milliseconds.
 * @param members Their records.
 * @param attempt The attempt of the first one.
 * @returns The events.
 */
export async function loadMembers(
  { store, leaseMs }: { readonly store: EventStore; readonly leaseMs: number },
  members: readonly EventRecord[],
  attempt: number,
): Promise<WebhookEvent[]> {
  const events: WebhookEvent[] = [];
  for (let from = 0; from < members.length; from += LOADED_AT_ONCE) {
    const some = members.slice(from, from + LOADED_AT_ONCE).map(async (member) => {
      const body = await withDeadline(store.load({ record: member }), leaseMs);
      return toEvent({ ...member, attempt }, body);
    });
    events.push(...await Promise.all(some));
  }
  return events;
}
