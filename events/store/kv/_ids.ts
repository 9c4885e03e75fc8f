import type { EventRecord } from "../event_record.ts";
import type { StoreParts } from "./_parts.ts";
import { read, UNKNOWN_VERSION } from "./_reads.ts";
import type { Mutations, Write } from "./_write.ts";

const DAY_MS = 86_400_000;

/**
 * The time beyond the retention for which an id is kept whose event was leased in the commit that stored
 * it: nearly all of these are settled at once, and then the entry need not be written again.
 */
const MARGIN_MS = 2 * DAY_MS;

/** Adds an id's entry to a commit: for as long as its event is open, or for a time if that will do. */
export function setId(
  commit: Mutations,
  { keys, retentionMs }: Pick<StoreParts, "keys" | "retentionMs">,
  { id, receivedAt, idKept }: EventRecord,
): void {
  commit.set(keys.id(id), receivedAt, idKept ? {} : { expireIn: retentionMs + MARGIN_MS });
}

/**
 * Keeps an event's id for as long as the event is open or dead, and for the retention once it is done.
 *
 * @returns The record, which notes that; a promise if the entry may have expired already.
 */
export function keepId(
  write: Write,
  parts: StoreParts,
  record: EventRecord,
): EventRecord | Promise<EventRecord> {
  if (!hasToBeWritten(record)) return record;
  const mayBeOthers = isOld(record.receivedAt) && !record.idKept;
  if (mayBeOthers || record.state === "dead") return keepOldId(write, parts, record);
  return writeId(write, parts, record);
}

/** Checks whether the entry of an event's id has to be written with a change, to last long enough. */
function hasToBeWritten({ state, idKept, receivedAt }: EventRecord): boolean {
  if (state === "done") return idKept === true || isOld(receivedAt);
  // For a dead one also if it should be there: operators find the event by its id.
  return !idKept || state === "dead";
}

/** Keeps an id whose entry may have expired. It may be another event's by now: a redelivery took it. */
async function keepOldId(write: Write, parts: StoreParts, record: EventRecord) {
  const { key, value, versionstamp } = await read(parts.kv, parts.keys.id(record.id));
  if (typeof value === "number" && value !== record.receivedAt) return record;
  // No check holds of an entry that cannot be decoded.
  if (versionstamp !== UNKNOWN_VERSION) write.check({ key, versionstamp });
  return writeId(write, parts, record);
}

function writeId(write: Write, { keys, retentionMs }: StoreParts, record: EventRecord) {
  const { idKept: _, ...rest } = record;
  const isDone = record.state === "done";
  write.set(keys.id(record.id), record.receivedAt, isDone ? { expireIn: retentionMs } : {});
  return isDone ? rest : { ...rest, idKept: true };
}

function isOld(receivedAt: number): boolean {
  return Date.now() - receivedAt > DAY_MS;
}
