import type { PlannedChange } from "./_bulk.ts";
import { commit } from "./_commit.ts";
import { type StoreKeys, storeKeys } from "./_keys.ts";
import { Lanes } from "./_lanes.ts";
import type { StoreParts } from "./_parts.ts";
import { deleteChunks } from "./_payload.ts";
import { isLanePlace, isPayloadRef } from "./_record_shape.ts";
import type { FoundEvent } from "./_scan.ts";
import type { EventFilter } from "./event_filter.ts";

/** A commit holds 1,000 mutations: of ten events, each may delete this many parts of its payload. */
const MAX_SHARED_CHUNKS = 90;

/** Plans to delete an event with its payload, if it is settled, or unreadable and meant as such. */
export function planPurge(
  { kv, namespace }: StoreParts,
  filter: EventFilter,
  found: FoundEvent,
): PlannedChange | null {
  const keys = storeKeys(namespace);
  const { event } = found;
  if (event.state === "unreadable") {
    const isWished = filter.state === "unreadable";
    return isWished ? { alone: () => purgeUnreadable(kv, keys, found) } : null;
  }
  if (event.state === "queued" || event.state === "running") return null;
  const { payload } = event;
  const add = (operation: Deno.AtomicOperation) => {
    operation.delete(found.key);
    if (payload) deleteChunks(operation, keys, payload);
  };
  const alone = async () => {
    const operation = kv.atomic().check(found);
    add(operation);
    return (await commit(operation)).ok;
  };
  return payload && payload.chunks > MAX_SHARED_CHUNKS ? { alone } : { alone, add };
}

/** Deletes a record that cannot be read, with what it can be seen to have: a payload, a place in a lane. */
async function purgeUnreadable(
  kv: Deno.Kv,
  keys: StoreKeys,
  found: FoundEvent,
): Promise<boolean> {
  const { payload, lane } = Object(found.value);
  const operation = kv.atomic().check(found).delete(found.key);
  if (isPayloadRef(payload)) deleteChunks(operation, keys, payload);
  if (isLanePlace(lane)) {
    const place = await kv.get(keys.lanePlace(lane.key, lane.seq));
    // It has left its lane where a worker has met it already.
    if (place.value === found.event.id) {
      await new Lanes(kv, keys).leave(operation.check(place), lane);
    }
  }
  return (await commit(operation)).ok;
}
