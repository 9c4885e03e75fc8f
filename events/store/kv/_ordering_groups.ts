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
import { writeLog } from "../../../core/mod.ts";
import { Pool } from "../../../core/pool.ts";
import { isCount, isTime, orNone, shape } from "../../../core/shape.ts";
import type { Engine, Group as GroupPart, GroupMember, HeadAt, Leave } from "../engine.ts";
import {
  type EventRecord,
  type EventRef,
  type GroupPosition,
  isEventRef,
} from "../event_record.ts";
import { HOLD_MS, unlessHeld } from "./_concurrency.ts";
import { readEvent, readEvents, type StoreKeys, UndecodableError } from "./_layout.ts";
import type { StoreParts } from "./_parts.ts";
import { type Entry, isGap, list, type ListedEntry, read, readAll } from "./_reads.ts";
import { deferEntry, setDue } from "./_schedule.ts";
import { Write } from "./_write.ts";
import { encodeValue } from "./value_codec.ts";

/** The number of positions in a row that are passed over at a time: a commit has limits. */
const MAX_PASSED_OVER = 50;

/**
 * The number of checks of a commit that moves several events up, each with one: a remote KV takes 10. One is left for its
 * mark, and one for the group.
 */
const MAX_CHECKS = 8;

/** The number of positions read at a time, for all of them and for the next one. */
const [ALL, NEXT] = [500, 2];

/** The number of groups checked at the same time. */
const CONCURRENCY = 10;

/** Number of positions for a millisecond: so many events do not join a group in that time, one after the other. */
const PER_MS = 1_024;

/** Largest position: above it, two successive numbers can be equal. */
const MAX_NEXT = 2 ** 52;

/** The stored record of a group, while events are in it. */
interface GroupRecord {
  /** The position of the next event that joins. */
  readonly next: number;
  /** The number of events in it. */
  readonly size: number;
  /** The time until which no event joins because one leaves, milliseconds since the epoch. */
  readonly heldUntil?: number | undefined;
  /** The latest time from which the rule of an event counts that is handled together with others. */
  readonly joinedAt?: number | undefined;
  /** The places, if there are or were several. Otherwise the first event has the only one. */
  readonly places?: Places | undefined;
}

/** The places of a group. */
interface Places {
  /** Their number, as the event says that has joined last. */
  readonly count: number;
  /** The number of them that are taken: more than there are, if there were more before. */
  readonly taken: number;
  /** The position behind the last event that has one: all from there on wait. */
  readonly end: number;
}

const isGroupShape = shape({
  next: isCount,
  size: isCount,
  heldUntil: orNone(isTime),
  joinedAt: orNone(isTime),
  places: orNone(shape<Places>({ count: isCount, taken: isCount, end: isCount })),
});

/** The number of places of most groups. */
const ONE = { count: 1 } as const;

/** The stored entry of a position. */
type Place = ListedEntry;

/** Changes that follow when an event leaves its group. */
export interface Leaving {
  /** Makes the record of the next event. It is due from now on, unless it waits still. */
  readonly onNext: Leave["head"];
  /** The position of the last event that leaves together with it, if it is the first one. */
  readonly last?: number | undefined;
  /** Adds what becomes of an event that leaves together with it to the write. */
  readonly onMember?: (member: EventRecord) => void;
}

/** A group as it was read. */
export interface Group {
  readonly key: string;
  readonly next: number;
  readonly size: number;
  readonly heldUntil: number;
  readonly joinedAt: number | undefined;
  readonly places: Places | undefined;
  readonly versionstamp: string | null;
}

/** An event that joins a group. */
type Joining = Pick<EventRecord, "id" | "receivedAt" | "quiet">;

/** Reads a group. */
async function readGroup({ kv, keys }: StoreParts, key: string): Promise<Group> {
  return groupOf(key, await read(kv, keys.group(key)));
}

/**
 * Reads a group to join it, once it is not held any more. The positions of one without a record begin at the time: if
 * the record is lost, the group is not empty, and what joins goes behind all that is there.
 */
export async function readToJoin(parts: StoreParts, key: string): Promise<Group> {
  const group = await unlessHeld(() => readGroup(parts, key), ({ heldUntil }) => heldUntil);
  return group.versionstamp === null ? { ...group, next: firstPosition() } : group;
}

/** Finds a position beyond all that were given before. */
function firstPosition(): number {
  return PER_MS * Date.now();
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
 * Moves the first events up that wait, as long as there are places, and the commit has room.
 *
 * @param parts The store.
 * @param write The write.
 * @param waiting The positions of those that wait.
 * @param places The places.
 * @param moving Makes their records, and the position of the event that leaves.
 * @returns The number of positions passed over, and the places then.
 */
async function fillPlaces(
  parts: StoreParts,
  write: Write,
  waiting: AsyncIterable<Place>,
  { count, taken, end }: Places,
  { onNext, position }: { readonly onNext?: Leaving["onNext"]; readonly position?: number },
): Promise<[passedOver: number, places: Places]> {
  // Effects may have checks of their own.
  const room = write.effects ? 1 : Math.max(1, MAX_CHECKS - write.checks.length);
  const most = Math.min(count, taken + room);
  let passedOver = 0;
  for await (const place of waiting) {
    if (taken >= most) break;
    if (positionOf(place) === position) continue;
    const rank: HeadAt = { isFirst: taken === 0 };
    const onMoved: Leaving["onNext"] | undefined = onNext &&
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

/** Reads a group and its events from a position on, or only their positions. */
export async function readPart(
  parts: StoreParts,
  key: string,
  { from, limit, onlyPositions = false }: Parameters<Engine["group"]>[1],
): Promise<GroupPart> {
  const { next, joinedAt, places: { count: places } = ONE } = await readGroup(parts, key);
  if (limit <= 0) return { next, joinedAt, places, members: [] };
  const found: Place[] = [];
  for await (const place of placesIn(parts, key, Math.min(limit, ALL), from)) {
    if (found.push(place) >= limit) break;
  }
  const members = onlyPositions
    ? found.map((place) => ({ position: positionOf(place), event: undefined }))
    : await membersAt(parts, found);
  return { next, joinedAt, places, members };
}

/** Reads the events at positions. A position that cannot be decoded has one without an id, which cannot be read. */
async function membersAt(
  parts: StoreParts,
  places: readonly Place[],
): Promise<GroupMember[]> {
  const refs = places.map(({ value }) => isEventRef(value) ? value : undefined);
  const read = (await readEvents(parts, refs.filter((ref) => ref !== undefined))).values();
  return places.map((place, i) => {
    const position = positionOf(place);
    if (!refs[i]) {
      return { position, event: { id: "", receivedAt: 0, version: place.versionstamp } };
    }
    const event = read.next().value;
    const isThere = event !== undefined && (!event.record || isAt(place, event.record));
    return { position, event: isThere ? event : undefined };
  });
}

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
async function repairGroup(parts: StoreParts, key: string): Promise<boolean> {
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

/** Moves the first event up that is there. Returns the number of positions passed over before it. */
async function moveFirstUp(
  parts: StoreParts,
  write: Write,
  places: AsyncIterable<Place> | Iterable<Place>,
  onNext?: Leaving["onNext"],
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

/** Lists the positions in a group, in their order. */
async function* placesIn(
  { kv, keys }: StoreParts,
  key: string,
  batchSize: number,
  from = 0,
): AsyncGenerator<Place> {
  let next = from;
  const selector = { ...keys.positionsIn(key), start: keys.position(key, from) };
  for await (const entry of list(kv, selector, { batchSize })) {
    // One whose number is not known is behind those before it.
    const place = isGap(entry) ? { ...entry, key: keys.position(key, next) } : entry;
    if (place.key.length !== 4 || !isCount(place.key.at(-1))) continue;
    yield place;
    next = positionOf(place) + 1;
  }
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
  onNext: Leaving["onNext"] | undefined,
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

/** Rank of the event that gets the only place of its group. */
const FIRST: HeadAt = { isFirst: true };

/** Adds the record of a group to a write: none for an empty one. */
function setGroup(
  write: Write,
  keys: StoreKeys,
  { key, next, size, joinedAt, places }: Omit<Group, "heldUntil" | "versionstamp">,
  heldUntil?: number,
): void {
  if (size <= 0) return void write.delete(keys.group(key));
  const record: GroupRecord = { next, size, joinedAt, heldUntil, places };
  write.set(keys.group(key), encodeValue(record));
}

/** Parses a group. Throws if it cannot be decoded. */
function groupOf(key: string, { value, versionstamp }: Entry): Group {
  const none = { size: 0, heldUntil: 0, joinedAt: undefined, places: undefined };
  const empty = { key, next: 0, ...none };
  if (versionstamp === null) return { ...empty, versionstamp };
  if (!isGroupRecord(value)) throw new UndecodableError("an ordering group");
  const { next, size, heldUntil = 0, joinedAt, places } = value;
  return { key, next, size, heldUntil, joinedAt, places, versionstamp };
}

/** Lists no positions. */
async function* none(): AsyncGenerator<Place> {}

async function* chain(first: readonly Place[], rest: AsyncIterable<Place>): AsyncGenerator<Place> {
  yield* first;
  yield* rest;
}

/** Checks the record of a group. It has no more events than have joined it. */
function isGroupRecord(value: unknown): value is GroupRecord {
  if (!isGroupShape(value)) return false;
  const { next, size } = value as GroupRecord;
  return size <= next && next <= MAX_NEXT;
}

/** Makes the position of an entry. */
function at({ key }: Place): GroupPosition {
  return { key: String(key.at(-2)), position: Number(key.at(-1)) };
}

/** Returns the number of a position; -1 for none. */
function positionOf(place: Place | undefined): number {
  return place ? Number(place.key.at(-1)) : -1;
}

/** Checks whether an event that is not settled is at a position. */
function isAt({ key }: Place, { group, settledAt }: EventRecord): boolean {
  return settledAt === null && group?.key === key.at(-2) && group?.position === key.at(-1);
}
