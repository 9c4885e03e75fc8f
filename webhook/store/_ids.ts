import type { Mutations } from "./_draft.ts";
import type { StoreParts } from "./_parts.ts";
import type { EventRecord } from "./event_record.ts";

const DAY_MS = 86_400_000;

/**
 * For how long beyond the retention an id is known by the entry written when its event was received, so
 * that settling it need not write that again: by default an event is retried for a day.
 */
const MARGIN_MS = 2 * DAY_MS;

/** Adds an id's entry to a commit. */
export function setId(
  commit: Mutations,
  { keys, retentionMs }: Pick<StoreParts, "keys" | "retentionMs">,
  { id, receivedAt, state }: EventRecord,
): void {
  // A dead event is kept until somebody decides on it.
  const options = state === "dead" ? {} : { expireIn: retentionMs + MARGIN_MS };
  commit.set(keys.id(id), receivedAt, options);
}

/** Adds an id's entry to a commit that changes its event, where it would not last. */
export function keepId(commit: Mutations, parts: StoreParts, record: EventRecord): void {
  const isOld = Date.now() - record.receivedAt > DAY_MS;
  if (record.state === "dead" || (isOld && record.settledAt === null)) {
    setId(commit, parts, record);
  }
}
