/**
 * The repair of ordering groups: when damage is noticed, and by a check of all groups from time to time. See
 * `_ordering_groups.ts`.
 *
 * @module
 */
import { writeLog } from "../../../core/mod.ts";
import { Pool } from "../../../core/pool.ts";
import { type EventRef, isEventRef } from "../event_record.ts";
import { chain, fillPlaces, moveFirstUp } from "./_group_moves.ts";
import {
  ALL,
  firstPosition,
  isAt,
  isGroupRecord,
  type Place,
  type Places,
  placesIn,
  positionOf,
  setGroup,
} from "./_group_records.ts";
import { readEvent } from "./_layout.ts";
import type { StoreParts } from "./_parts.ts";
import { isGap, list, read } from "./_reads.ts";
import { Write } from "./_write.ts";

/** The number of groups checked at the same time. */
const CONCURRENCY = 10;

/** Repairs damaged groups. Returns the number of them. */
export async function repairGroups(parts: StoreParts): Promise<number> {
  const { kv, keys } = parts;
  const groups = new Set<string>();
  for (const prefix of [keys.orderingGroups, keys.positions]) {
    for await (const { key } of list(kv, prefix, { batchSize: ALL })) groups.add(String(key[2]));
  }
  let repaired = 0;
  const pool = new Pool(CONCURRENCY);
  for (const key of groups) {
    await pool.add(async () => {
      if (await repairGroup(parts, key)) repaired++;
    });
  }
  await pool.done();
  return repaired;
}

/**
 * Repairs a group whose record does not match its positions, or whose first event is not on the schedule. That one gets
 * an entry and keeps its record: whoever claims it makes it due.
 *
 * If the number of the next position is lost, the group goes on from the time, beyond all that it has given before:
 * an event at one of those might be settled with a batch that is handled by now without it.
 *
 * @returns True if there was something to repair.
 */
export async function repairGroup(parts: StoreParts, key: string): Promise<boolean> {
  const { kv, keys, commits } = parts;
  const groupKey = keys.group(key);
  const { versionstamp, value } = await read(kv, groupKey);
  const known = isGroupRecord(value) ? value : undefined;
  // What cannot be decoded is left for a version that can.
  if (versionstamp !== null && !known) return false;
  const places = await Array.fromAsync(placesIn(parts, key, ALL));
  if (places.some(isGap)) return false;
  const [given, behind] = [known?.next ?? 0, 1 + positionOf(places.at(-1))];
  const next = given >= behind ? given : Math.max(behind, firstPosition());
  const isRight = versionstamp === null ? places.length === 0 : known?.size === places.length;
  const areRight = await areMoving(parts, places, known?.places);
  if (isRight && given === next && areRight) return false;
  const write = new Write().check({ key: groupKey, versionstamp });
  const [passedOver, left] = await repairPlaces(parts, write, places, known?.places);
  const size = places.length - passedOver;
  setGroup(write, keys, { key, next, size, joinedAt: known?.joinedAt, places: left });
  write.notifies = true;
  const isMade = await commits.commit(write) !== null;
  if (isMade) reportRepair(parts, places);
  return isMade;
}

/** Logs a repair, without the key: that may be from a payload. */
function reportRepair({ log }: StoreParts, places: readonly Place[]): void {
  const first = places.find(({ value }) => isEventRef(value))?.value as EventRef | undefined;
  const fields = { events: places.length, eventId: first?.id ?? null };
  writeLog(log, "error", "ordering group damaged, repaired", fields);
}

/** Checks whether the events of a group that have a place are on the schedule. */
async function areMoving(
  parts: StoreParts,
  positions: readonly Place[],
  places: Places | undefined,
): Promise<boolean> {
  if (!places) return await isMoving(parts, positions[0]);
  const holders = positions.filter((place) => positionOf(place) < places.end);
  if (holders.length !== places.taken || (holders.length === 0 && positions.length > 0)) {
    return false;
  }
  const moving = await Promise.all(holders.map((place) => isMoving(parts, place)));
  return moving.every(Boolean);
}

/**
 * Puts the events of a group back on the schedule that have a place, or the first one.
 *
 * @returns The number of positions passed over, and the places then.
 */
async function repairPlaces(
  parts: StoreParts,
  write: Write,
  positions: readonly Place[],
  places: Places | undefined,
): Promise<[passedOver: number, places: Places | undefined]> {
  if (!places) return [await moveFirstUp(parts, write, positions), undefined];
  const holders = positions.filter((place) => positionOf(place) < places.end).length;
  const meant = chain(positions, none());
  // Whether those behind them may be handled beside them, only the next one that leaves can say. If the record was lost and
  // made anew, all seem to have a place.
  const count = Math.max(1, Math.min(holders, places.count));
  const [passedOver, left] = await fillPlaces(parts, write, meant, { count, taken: 0, end: 0 }, {});
  return [passedOver, { ...left, count: places.count }];
}

/** Checks whether the first event of a group is on the schedule; true if there is none, or it cannot be read. */
async function isMoving(parts: StoreParts, first: Place | undefined): Promise<boolean> {
  if (!first) return true;
  // Twice: it may have been moved between the two readings.
  return await isOnSchedule(parts, first) || await isOnSchedule(parts, first);
}

async function isOnSchedule(parts: StoreParts, place: Place): Promise<boolean> {
  const { value: ref } = place;
  if (!isEventRef(ref)) return true;
  const event = await readEvent(parts, ref);
  if (!event) return false;
  // Only a version that can read it knows the time of its schedule entry.
  const { record } = event;
  if (!record) return true;
  if (!isAt(place, record) || record.dueAt === null) return false;
  return (await read(parts.kv, parts.keys.due(record.dueAt, record.id))).versionstamp !== null;
}

/** Lists no positions. */
async function* none(): AsyncGenerator<Place> {}
