import type { EventRef, StoredEvent } from "../event_record.ts";
import { isEventRef } from "../record_shape.ts";
import type { StoreKeys } from "./_layout.ts";
import { isForeign, list, type ListedEntry } from "./_reads.ts";
import { dueOf, readableEntry } from "./_schedule.ts";

/** The number of entries read at a time. */
const BATCH_SIZE = 500;

/** The parts of a store that finding open events takes. */
interface OpenParts {
  readonly kv: Deno.Kv;
  readonly keys: StoreKeys;
}

/** Checks whether a state is one of those whose events the schedule or an ordering group leads to. */
export function isOpenState(state: StoredEvent["state"] | undefined): boolean {
  return state === "queued" || state === "running" || state === "parked";
}

/**
 * Finds all open events by the schedule and the ordering groups. Some that it finds may be settled by now.
 *
 * @param parts The store.
 * @param max The largest number of entries read in each of both.
 * @returns The events, in no order; undefined if there are more entries, or some cannot be read.
 */
export async function openRefs(
  { kv, keys }: OpenParts,
  max: number,
): Promise<EventRef[] | undefined> {
  const found = new Map<string, EventRef>();
  const prefixes = [{ prefix: keys.schedule }, keys.positions];
  try {
    for (const [i, selector] of prefixes.entries()) {
      let left = max;
      const options = { batchSize: BATCH_SIZE, limit: max + 1 };
      for await (const entry of list(kv, selector, options)) {
        const refs = i === 0 ? refsDue(entry) : refsAt(entry);
        if (!refs || --left < 0) return undefined;
        for (const { id, receivedAt } of refs) found.set(id, { id, receivedAt });
        if (found.size > 2 * max) return undefined;
      }
    }
  } catch (error) {
    if (isForeign(error)) return undefined;
    throw error;
  }
  return [...found.values()];
}

function refsDue(entry: ListedEntry): readonly EventRef[] | undefined {
  const due = readableEntry(entry);
  return due && dueOf(due);
}

function refsAt({ value }: ListedEntry): readonly EventRef[] | undefined {
  return isEventRef(value) ? [value as EventRef] : undefined;
}
