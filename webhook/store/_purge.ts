import { Draft } from "./_draft.ts";
import { Lanes } from "./_lanes.ts";
import type { StoreParts } from "./_parts.ts";
import { deleteChunks } from "./_payload.ts";
import { busyUntil } from "./_revive.ts";
import { read, UNKNOWN_VERSION } from "./_reads.ts";
import { isLanePlace, isPayloadRef } from "./_record_shape.ts";
import type { FoundEvent } from "./_scan.ts";
import type { EventFilter } from "./event_filter.ts";

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
  const draft = new Draft().delete(key);
  // What nobody can decode nobody else changes.
  if (versionstamp !== UNKNOWN_VERSION) draft.check({ key, versionstamp });
  const id = await read(parts.kv, parts.keys.id(found.event.id));
  // The id may be another event's by now, if its entry had expired.
  if (id.value === key.at(-2)) draft.check(id).delete(id.key);
  const { payload, lane } = Object(found.value);
  if (isPayloadRef(payload)) deleteChunks(draft, parts.keys, payload);
  if (state === "unreadable" && isLanePlace(lane)) {
    await new Lanes(parts).leave(draft, lane, found.event.id);
  }
  return (await parts.commits.commit(draft)).ok;
}
