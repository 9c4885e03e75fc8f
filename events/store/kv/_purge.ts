import { Write } from "./_write.ts";
import { OrderingGroups } from "./_ordering_groups.ts";
import type { StoreParts } from "./_parts.ts";
import { deleteChunks } from "./_payload.ts";
import { busyUntil } from "./_revive.ts";
import { read, UNKNOWN_VERSION } from "./_reads.ts";
import { isGroupPosition, isPayloadRef } from "../_record_shape.ts";
import type { FoundEvent } from "./_scan.ts";
import type { EventFilter } from "../event_filter.ts";

/** Deletes an event with its payload, if it is settled, or unreadable and meant as such. */
export async function purgeFound(
  parts: StoreParts,
  filter: EventFilter,
  found: FoundEvent,
): Promise<boolean> {
  const { state } = found.event;
  if (state === "queued" || state === "running") return false;
  if (state === "unreadable" && filter.state !== "unreadable") return false;
  // Its record is what keeps the next event of its id from starting beside the handler.
  if (state === "dead" && busyUntil(found.event) > Date.now()) return false;
  const { key, versionstamp } = found;
  const write = new Write().delete(key);
  // What nobody can decode nobody else changes.
  if (versionstamp !== UNKNOWN_VERSION) write.check({ key, versionstamp });
  const id = await read(parts.kv, parts.keys.id(found.event.id));
  // The id may be another event's by now, if its entry had expired.
  if (id.value === key.at(-2)) write.check(id).delete(id.key);
  const { payload, group } = Object(found.value);
  if (isPayloadRef(payload)) deleteChunks(write, parts.keys, payload);
  if (state === "unreadable" && isGroupPosition(group)) {
    await new OrderingGroups(parts).leave(write, group, found.event.id);
  }
  return (await parts.commits.commit(write)).ok;
}
