/**
 * Records of ordering groups, and the entries of their positions, as they are stored. See `_ordering_groups.ts`.
 *
 * @module
 */
import { isCount, isTime, orNone, shape } from "../../../core/shape.ts";
import type { Engine, Group as GroupPart, GroupMember } from "../engine.ts";
import { type EventRecord, type GroupPosition, isEventRef } from "../event_record.ts";
import { readEvents, type StoreKeys, UndecodableError } from "./_layout.ts";
import type { StoreParts } from "./_parts.ts";
import { type Entry, isGap, list, type ListedEntry, read } from "./_reads.ts";
import { encodeValue } from "./value_codec.ts";
import type { Write } from "./_write.ts";

/** The number of positions read at a time, for all of them and for the next one. */
export const [ALL, NEXT] = [500, 2];

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
export interface Places {
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
export type Place = ListedEntry;

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

/** Reads a group. */
export async function readGroup({ kv, keys }: StoreParts, key: string): Promise<Group> {
  return groupOf(key, await read(kv, keys.group(key)));
}

/** Finds a position beyond all that were given before. */
export function firstPosition(): number {
  return PER_MS * Date.now();
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
export async function membersAt(
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

/** Lists the positions in a group, in their order. */
export async function* placesIn(
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

/** Adds the record of a group to a write: none for an empty one. */
export function setGroup(
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
export function groupOf(key: string, { value, versionstamp }: Entry): Group {
  const none = { size: 0, heldUntil: 0, joinedAt: undefined, places: undefined };
  const empty = { key, next: 0, ...none };
  if (versionstamp === null) return { ...empty, versionstamp };
  if (!isGroupRecord(value)) throw new UndecodableError("an ordering group");
  const { next, size, heldUntil = 0, joinedAt, places } = value;
  return { key, next, size, heldUntil, joinedAt, places, versionstamp };
}

/** Checks the record of a group. It has no more events than have joined it. */
export function isGroupRecord(value: unknown): value is GroupRecord {
  if (!isGroupShape(value)) return false;
  const { next, size } = value as GroupRecord;
  return size <= next && next <= MAX_NEXT;
}

/** Makes the position of an entry. */
export function at({ key }: Place): GroupPosition {
  return { key: String(key.at(-2)), position: Number(key.at(-1)) };
}

/** Returns the number of a position; -1 for none. */
export function positionOf(place: Place | undefined): number {
  return place ? Number(place.key.at(-1)) : -1;
}

/** Checks whether an event that is not settled is at a position. */
export function isAt({ key }: Place, { group, settledAt }: EventRecord): boolean {
  return settledAt === null && group?.key === key.at(-2) && group?.position === key.at(-1);
}
