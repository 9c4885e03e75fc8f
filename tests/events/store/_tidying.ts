import { assert } from "@std/assert";
import type { EventStore } from "../../../events/mod.ts";
import { claimOne, delivery } from "./_events.ts";

/** Repairs times that a wrong clock has made. Returns the number of events. */
export async function repairTimes(
  store: EventStore,
  maxReads: number = Infinity,
): Promise<number> {
  return (await store.tidy({ times: maxReads })).times;
}

/** Repairs the ordering groups. Returns their number. */
export async function repairGroups(store: EventStore): Promise<number> {
  return (await store.tidy({ groups: true })).groups;
}

/** Deletes uploads that never became an event. Returns their number. */
export async function deleteUploads(store: EventStore, olderThanMs: number): Promise<number> {
  return (await store.tidy({ uploadsOlderThanMs: olderThanMs })).uploads;
}

/** Drops payloads that are not kept any longer. Returns their number. */
export async function trimPayloads(store: EventStore): Promise<number> {
  return (await store.tidy({ payloads: true })).payloads;
}

/** Does something by a clock that is ahead, as it was before it was set back. */
export async function ahead<T>(byMs: number, fn: () => Promise<T>): Promise<T> {
  const { now } = Date;
  Date.now = () => now() + byMs;
  try {
    return await fn();
  } finally {
    Date.now = now;
  }
}

/** Takes an event in, and settles it as done. */
export async function settle(store: EventStore, id: string, text = `{"a":1}`, key?: string) {
  await store.accept(delivery(id, text, key));
  assert(await store.complete(await claimOne(store)));
}

/** Waits for what settlements trim in passing: for what is on its way, and for what waits for that. */
export async function trimmed(store: EventStore): Promise<void> {
  await trimPayloads(store);
  await trimPayloads(store);
}
