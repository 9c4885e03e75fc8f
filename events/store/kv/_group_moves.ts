/**
 * Moving events of an ordering group up: those that wait are put on the schedule when there is a place for them. See
 * `_ordering_groups.ts`.
 *
 * @module
 */
import { writeLog } from "../../../core/mod.ts";
import type { HeadAt, Leave } from "../engine.ts";
import { type EventRef, isEventRef } from "../event_record.ts";
import { at, isAt, type Place, type Places, positionOf } from "./_group_records.ts";
import { readEvent } from "./_layout.ts";
import type { StoreParts } from "./_parts.ts";
import { deferEntry, setDue } from "./_schedule.ts";
import { encodeValue } from "./value_codec.ts";
import type { Write } from "./_write.ts";

/** The number of positions in a row that are passed over at a time: a commit has limits. */
const MAX_PASSED_OVER = 50;

/**
 * The number of checks of a commit that moves several events up, each with one: a remote KV takes 10. One is left for its
 * mark, and one for the group.
 */
const MAX_CHECKS = 8;

/** Rank of the event that gets the only place of its group. */
const FIRST: HeadAt = { isFirst: true };

/**
 * Moves the first events up that wait, as long as there are places, and the commit has room.
 *
 * @param parts The store.
 * @param write The write.
 * @param waiting The positions of those that wait.
 * @param places The places.
 * @param moving Makes their records, and the position of the event that leaves.
 * @returns The number of positions passed over, and the places then.
 */
export async function fillPlaces(
  parts: StoreParts,
  write: Write,
  waiting: AsyncIterable<Place>,
  { count, taken, end }: Places,
  { onNext, position }: { readonly onNext?: Leave["head"]; readonly position?: number },
): Promise<[passedOver: number, places: Places]> {
  // Effects may have checks of their own.
  const room = write.effects ? 1 : Math.max(1, MAX_CHECKS - write.checks.length);
  const most = Math.min(count, taken + room);
  let passedOver = 0;
  for await (const place of waiting) {
    if (taken >= most) break;
    if (positionOf(place) === position) continue;
    const rank: HeadAt = { isFirst: taken === 0 };
    const onMoved: Leave["head"] | undefined = onNext &&
      ((record, now) => onNext(record, now, rank));
    const isMoved = await moveUp(parts, write, place, onMoved);
    if (isMoved === null) break;
    if (!isMoved && passedOver < MAX_PASSED_OVER) {
      // Its record is gone: it would have a place for ever.
      write.delete(place.key);
      passedOver++;
      continue;
    }
    if (!isMoved) deferEntry(write, parts.keys, place.value as EventRef, 0, at(place));
    [taken, end] = [taken + 1, positionOf(place) + 1];
  }
  return [passedOver, { count, taken, end }];
}

/** Moves the first event up that is there. Returns the number of positions passed over before it. */
export async function moveFirstUp(
  parts: StoreParts,
  write: Write,
  places: AsyncIterable<Place> | Iterable<Place>,
  onNext?: Leave["head"],
): Promise<number> {
  let passedOver = 0;
  for await (const place of places) {
    if (await moveUp(parts, write, place, onNext)) break;
    if (passedOver >= MAX_PASSED_OVER) {
      // More do not fit a commit: the worker that claims this one next passes over the rest.
      deferEntry(write, parts.keys, place.value as EventRef, 0, at(place));
      break;
    }
    // Its record is gone: it would hold up the group for ever.
    write.delete(place.key);
    passedOver++;
  }
  return passedOver;
}

/**
 * Puts the event at a position on the schedule. One whose record cannot be read gets an entry as well, for a
 * version that can; a position that cannot be decoded holds the group.
 *
 * @returns False if the event is gone, null if it waits still.
 */
async function moveUp(
  parts: StoreParts,
  write: Write,
  place: Place,
  onNext: Leave["head"] | undefined,
): Promise<boolean | null> {
  const { value: ref } = place;
  if (!isEventRef(ref)) {
    // Without the key: that may be from a payload.
    const fields = { remedy: "run the version that wrote it, or ask events doctor" };
    writeLog(parts.log, "error", "ordering group held: a position cannot be read", fields);
    return true;
  }
  const { keys } = parts;
  const event = await readEvent(parts, ref);
  if (!event) return false;
  const { record, version } = event;
  if (!record) {
    deferEntry(write, keys, ref, 0, at(place));
    return true;
  }
  if (!isAt(place, record)) return false;
  const key = keys.event(ref);
  const next = record.dueAt === null ? onNext?.(record, Date.now(), FIRST) : undefined;
  if (next === null) return null;
  write.check({ key, versionstamp: version });
  if (record.dueAt !== null) setDue(write, keys, record);
  else if (!next) deferEntry(write, keys, ref, 0, at(place));
  else {
    write.set(key, encodeValue(next));
    setDue(write, keys, next);
  }
  return true;
}

export async function* chain(
  first: readonly Place[],
  rest: AsyncIterable<Place>,
): AsyncGenerator<Place> {
  yield* first;
  yield* rest;
}
