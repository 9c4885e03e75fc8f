/**
 * Ordering groups: the events of one ordering key have positions in a group, and only the first of them is on
 * the schedule, or the first ones if the group has several places.
 *
 * A group has one record, with the next position and the number of events, and one entry for each
 * position. To join, an event takes the next position; it is due only if the group was empty. When the
 * first event is settled it leaves its position in the same commit, and the next one is put on the
 * schedule. An event that is not the first one just leaves. Every change checks the version of the
 * group's record, so the changes of a group happen one after the other. That is also why the events of a
 * batch can leave in one commit, although it checks none of their records: each change of a record that
 * waits in a group changes the group as well.
 *
 * A group with several places notes how many of them are taken, and the position from which on events wait: so it need
 * not look at the events that have a place. What joins has one if there is one, and nobody waits. When an event leaves
 * its place, or there are more places by now, the first of those that wait are put on the schedule.
 *
 * A position whose record is gone is passed over, so that it does not hold up the group. One that cannot be
 * decoded, or whose record cannot be read, holds the group: the order of its events would be lost. A group whose
 * record does not match its positions, or whose first event is not on the schedule, is repaired when that
 * is noticed, and by a check of all groups from time to time.
 *
 * @module
 */
import type { Leave } from "../engine.ts";
import {
  type EventRecord,
  type EventRef,
  type GroupPosition,
  isEventRef,
} from "../event_record.ts";
import { HOLD_MS, unlessHeld } from "./_concurrency.ts";
import { chain, fillPlaces, moveFirstUp } from "./_group_moves.ts";
import {
  ALL,
  firstPosition,
  type Group,
  groupOf,
  membersAt,
  NEXT,
  type Place,
  type Places,
  placesIn,
  positionOf,
  readGroup,
  setGroup,
} from "./_group_records.ts";
import { repairGroup } from "./_group_repair.ts";
import { UndecodableError } from "./_layout.ts";
import type { StoreParts } from "./_parts.ts";
import { readAll } from "./_reads.ts";
import { encodeValue } from "./value_codec.ts";
import { Write } from "./_write.ts";

/** Changes that follow when an event leaves its group. */
export interface Leaving {
  /** Makes the record of the next event. It is due from now on, unless it waits still. */
  readonly onNext: Leave["head"];
  /** The position of the last event that leaves together with it, if it is the first one. */
  readonly last?: number | undefined;
  /** Adds what becomes of an event that leaves together with it to the write. */
  readonly onMember?: (member: EventRecord) => void;
}

/** An event that joins a group. */
type Joining = Pick<EventRecord, "id" | "receivedAt" | "quiet">;

/**
 * Reads a group to join it, once it is not held any more. The positions of one without a record begin at the time: if
 * the record is lost, the group is not empty, and what joins goes behind all that is there.
 */
export async function readToJoin(parts: StoreParts, key: string): Promise<Group> {
  const group = await unlessHeld(() => readGroup(parts, key), ({ heldUntil }) => heldUntil);
  return group.versionstamp === null ? { ...group, next: firstPosition() } : group;
}

/** Keeps others from joining a group for a moment, so that an event can leave it. */
export async function holdGroup(parts: StoreParts, key: string): Promise<void> {
  const group = await readGroup(parts, key);
  const { versionstamp } = group;
  if (versionstamp === null) return;
  const write = new Write().check({ key: parts.keys.group(key), versionstamp });
  setGroup(write, parts.keys, group, Date.now() + HOLD_MS);
  await parts.commits.commit(write);
}

/**
 * Reads which event of a group has its only place, before one joins that says that there are several.
 *
 * @param parts The store.
 * @param group The group, as it was read.
 * @returns The group.
 */
export async function withPlaces(parts: StoreParts, group: Group): Promise<Group> {
  if (group.places) return group;
  // Others may join in the same commit before it.
  if (group.size === 0) return { ...group, places: { count: 1, taken: 0, end: group.next } };
  const { value: first } = await placesIn(parts, group.key, NEXT).next();
  const taken = first ? 1 : 0;
  return { ...group, places: { count: 1, taken, end: 1 + positionOf(first) } };
}

/**
 * Finds whether an event has a place that joins a group.
 *
 * @param group The group with those that have joined before. If it has one place, and gets several, with {@linkcode withPlaces}.
 * @param count The number of places from then on.
 * @returns The places with the event, and whether it has one.
 */
export function placeFor(
  { next, size, places }: Group,
  count: number,
): [Places | undefined, boolean] {
  if (!places && count === 1) return [undefined, size === 0];
  const { taken, end } = places!;
  const hasPlace = taken === size && taken < count;
  return [hasPlace ? { count, taken: taken + 1, end: next + 1 } : { count, taken, end }, hasPlace];
}

/** Adds joining the end of a group to a write. Returns the group as that leaves it, but for its version. */
export function joinGroup(
  { keys }: StoreParts,
  write: Write,
  group: Group,
  events: readonly Joining[],
  places: Places | undefined,
): Group {
  const { key, next, size, versionstamp } = group;
  let { joinedAt } = group;
  for (const { quiet } of events) if (quiet) joinedAt = Math.max(joinedAt ?? 0, quiet.since);
  const count = events.length;
  const after = { ...group, next: next + count, size: size + count, joinedAt, places };
  write.check({ key: keys.group(key), versionstamp });
  setGroup(write, keys, after);
  for (const [i, { id, receivedAt }] of events.entries()) {
    const ref: EventRef = { id, receivedAt };
    write.set(keys.position(key, next + i), encodeValue(ref));
  }
  return after;
}

/**
 * Adds leaving a group to a write. If the event had a place, the next one is put on the schedule.
 *
 * @param parts The store.
 * @param write The write.
 * @param place The position of the event.
 * @param id The event's id.
 * @param leaving The events that leave with it, and a change of the next one.
 * @returns The group as it was.
 */
export async function leaveGroup(
  parts: StoreParts,
  write: Write,
  place: GroupPosition,
  id: string,
  leaving: Leaving,
): Promise<Group> {
  const { key, position } = place;
  const [group, isThere] = await find(parts, place, id);
  if (!isThere) {
    // Another event has taken the position meanwhile, or the entry was lost.
    await repairGroup(parts, key);
    return group;
  }
  if (group.places && group.size > 1) {
    const [gone, places] = await leavePlace(parts, write, group, position, leaving);
    leaveBehind(parts, write, { ...group, places }, [position], gone);
    return group;
  }
  // Of 10,000 keys most have one event at a time: without this check, 1.1 times as many are handled.
  const gone = group.size === 1 ? 0 : await moveNextUp(parts, write, place, leaving);
  leaveBehind(parts, write, group, [position], gone);
  return group;
}

/**
 * Has an event leave a group with several places, and moves as many up as there are places then. Those that do not fit the
 * commit are moved up when the next one leaves.
 *
 * @returns The number of events that leave with it and of positions passed over, and the places then.
 */
async function leavePlace(
  parts: StoreParts,
  write: Write,
  { key, size, places }: Group,
  position: number,
  { last = position, onMember, onNext }: Leaving,
): Promise<[gone: number, places: Places]> {
  const { count, end } = places!;
  const taken = position < end ? places!.taken - 1 : places!.taken;
  const after = { count, taken, end };
  const isBatch = last > position && await isFirstAt(parts, key, position);
  if (!isBatch && (taken >= count || taken >= size - 1)) return [0, after];
  const waiting = placesIn(parts, key, Math.min(last - position + NEXT, ALL), end);
  const rest: Place[] = [];
  const gone = isBatch ? await takeOut(parts, write, waiting, last, rest, onMember) : 0;
  const others = chain(rest, waiting);
  const [passedOver, filled] = await fillPlaces(parts, write, others, after, { onNext, position });
  await others.return(undefined);
  return [gone + passedOver, filled];
}

async function isFirstAt(parts: StoreParts, key: string, position: number): Promise<boolean> {
  const { value: first } = await placesIn(parts, key, NEXT).next();
  return positionOf(first) === position;
}

/**
 * Moves the event up that is behind the first one, or behind those that leave with it.
 *
 * @returns The number of events that leave with it and of positions passed over; 0 if the event that leaves is
 * not the first one.
 */
async function moveNextUp(
  parts: StoreParts,
  write: Write,
  { key, position }: GroupPosition,
  { last = position, onMember, onNext }: Leaving,
): Promise<number> {
  const isBatch = last > position;
  const places = placesIn(parts, key, Math.min(last - position + NEXT, ALL));
  const { value: first } = await places.next();
  let gone = 0;
  if (positionOf(first) === position) {
    const rest: Place[] = [];
    if (isBatch) gone = await takeOut(parts, write, places, last, rest, onMember);
    gone += await moveFirstUp(parts, write, isBatch ? chain(rest, places) : places, onNext);
  }
  await places.return(undefined);
  return gone;
}

/**
 * Takes events out of the group together with the first one.
 *
 * @param parts The store.
 * @param write The write.
 * @param places The positions behind the first one.
 * @param last The last position of those that leave.
 * @param rest Gets the positions that were read and stay: one behind them, and those that cannot be read.
 * @param onMember Called with each event.
 * @returns The number of them.
 */
async function takeOut(
  parts: StoreParts,
  write: Write,
  places: AsyncIterator<Place>,
  last: number,
  rest: Place[],
  onMember: Leaving["onMember"],
): Promise<number> {
  const meant: Place[] = [];
  let next = await places.next();
  for (; !next.done && positionOf(next.value) <= last; next = await places.next()) {
    meant.push(next.value);
  }
  for (const [i, { event }] of (await membersAt(parts, meant)).entries()) {
    if (event && !event.record) rest.push(meant[i]!);
    else write.delete(meant[i]!.key);
    if (event?.record) onMember?.(event.record);
  }
  const left = rest.length;
  if (!next.done) rest.push(next.value);
  return meant.length - left;
}

/**
 * Adds to a write that events leave a group, without moving another one up.
 *
 * @param parts The store.
 * @param write The write.
 * @param group The group as it was before their positions were read.
 * @param positions Their positions.
 * @param others The number of events that leave it besides, in the same write.
 */
export function leaveBehind(
  { keys }: StoreParts,
  write: Write,
  group: Group,
  positions: readonly number[],
  others = 0,
): void {
  const { key, size, versionstamp } = group;
  write.check({ key: keys.group(key), versionstamp });
  for (const position of positions) write.delete(keys.position(key, position));
  const left = Math.max(0, size - positions.length - others);
  setGroup(write, keys, { ...group, size: left });
}

/** Reads a group, and whether an event has its position in it. */
async function find(
  parts: StoreParts,
  { key, position }: GroupPosition,
  id: string,
): Promise<[Group, boolean]> {
  const { kv, keys } = parts;
  const [entry, place] = await readAll(kv, [keys.group(key), keys.position(key, position)]);
  const { value, versionstamp } = place!;
  if (versionstamp !== null && !isEventRef(value)) {
    throw new UndecodableError("a position in an ordering group");
  }
  const isThere = isEventRef(value) && value.id === id;
  if (!isThere || entry!.versionstamp !== null) return [groupOf(key, entry!), isThere];
  await repairGroup(parts, key);
  return [await readGroup(parts, key), isThere];
}
