import type { Mutations } from "./_draft.ts";
import type { StoreKeys } from "./_keys.ts";
import type { EventRecord, LanePlace } from "./event_record.ts";

/**
 * What an entry of the schedule holds: the event's place in its lane, so that the lane goes on even if
 * the event's record cannot be read.
 */
export type ScheduleEntry = LanePlace | null;

/** Adds an event's entry in the schedule to a commit, if it has one. */
export function setDue(commit: Mutations, keys: StoreKeys, record: EventRecord): void {
  const entry: ScheduleEntry = record.lane;
  if (record.dueAt !== null) commit.set(keys.due(record.dueAt, record.id), entry);
}

/** Adds the deletion of an event's entry in the schedule to a commit, if it has one. */
export function deleteDue(
  commit: Mutations,
  keys: StoreKeys,
  record: EventRecord,
): void {
  if (record.dueAt !== null) commit.delete(keys.due(record.dueAt, record.id));
}
