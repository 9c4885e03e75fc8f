import type { EventStore } from "../../../events/mod.ts";

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
