import type { Mutations } from "./_draft.ts";
import type { StoreKeys } from "./_keys.ts";
import type { EventRecord, EventRef, LanePlace } from "./event_record.ts";

/** What an entry of the schedule holds. */
export interface ScheduleEntry {
  /** When the event was received: where its record is. */
  readonly receivedAt: number;
  /** Its place in its lane, so that the lane goes on even if the event's record cannot be read. */
  readonly lane: LanePlace | null;
}

/** When the event of an entry in the schedule is due. */
export function dueAtOf(key: Deno.KvKey): number {
  return Number(key.at(-2));
}

/** What an entry holds that several events share: where their records are. */
export interface SharedEntry {
  readonly events: readonly EventRef[];
}

/** Tells whether several events share an entry. */
export function isShared(value: unknown): value is SharedEntry {
  return Array.isArray((value as SharedEntry | null)?.events);
}

/** Adds an event's entry in the schedule to a commit, if it has one. */
export function setDue(commit: Mutations, keys: StoreKeys, record: EventRecord): void {
  if (record.dueAt !== null) setEntry(commit, keys, record.dueAt, record, record.lane);
}

/** Adds an entry in the schedule to a commit. */
export function setEntry(
  commit: Mutations,
  keys: StoreKeys,
  dueAt: number,
  { id, receivedAt }: EventRef,
  lane: LanePlace | null,
): void {
  commit.set(keys.due(dueAt, id), { receivedAt, lane } satisfies ScheduleEntry);
}

/** Adds the deletion of an event's entry in the schedule to a commit, if it has one of its own. */
export function deleteDue(
  commit: Mutations,
  keys: StoreKeys,
  record: EventRecord,
): void {
  if (record.dueAt !== null && !record.dueGroup) commit.delete(keys.due(record.dueAt, record.id));
}
