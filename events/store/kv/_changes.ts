import { untilDone } from "./_contention.ts";
import { Write } from "./_write.ts";
import { keepId } from "./_ids.ts";
import { OrderingGroups } from "./_ordering_groups.ts";
import { LeasedRecord, type LeaseWanted } from "./_leased_record.ts";
import type { StoreKeys } from "./_keys.ts";
import type { StoreParts } from "./_parts.ts";
import { unpack } from "./_payload.ts";
import { deleteDue, setDue } from "./_schedule.ts";
import { type EventRecord, type GroupPosition, readRecord } from "../event_record.ts";
import { LocalHandOff } from "./_local_hand_off.ts";
import type { CommitEffects, Lease } from "../event_store.ts";

/** How a record is changed. */
export interface Change {
  readonly set: Partial<EventRecord>;
  /** Who leases the event with that. */
  readonly lease?: LeaseWanted;
  /** Further mutations for the same commit. */
  readonly add?: (write: Write) => void;
  /** Somebody else's mutations for the same commit. */
  readonly effects?: CommitEffects | undefined;
  /** In how many milliseconds the record is forgotten. */
  readonly expireIn?: number;
  /** How long the change may wait for others to share a commit with, in milliseconds. */
  readonly withinMs?: number | undefined;
  /** Before when no other event of the group must start, milliseconds since the epoch. */
  readonly nextNotBefore?: number;
}

/**
 * Changes a record and its place in the schedule in one commit, if the record still is as the lease has
 * left it. An event that is settled leaves its group in the same commit.
 *
 * @returns The event with its new version; null if it was changed by another.
 */
export function changeRecord(
  parts: StoreParts,
  lease: Lease,
  change: Change,
): Promise<Lease | null> {
  const group = change.set.settledAt != null ? lease.record.group : null;
  if (!group) return changeAlone(parts, lease, change);
  // With those that join the group, one at a time: it takes more steps and would be slower each time.
  // And before them, for all who have joined wait for the one that runs to be settled.
  return parts.locks.run(
    group.key,
    () => untilDone((isFirst) => changeInGroup(parts, lease, change, group, isFirst)),
    lease.record.state === "running",
  );
}

async function changeAlone(
  parts: StoreParts,
  lease: Lease,
  change: Change,
): Promise<Lease | null> {
  const write = startOf(parts, lease, change);
  const prepared = prepare(parts, write, lease, { ...lease.record, ...change.set });
  const record = prepared instanceof Promise ? await prepared : prepared;
  const changed = await finish(parts, write, lease, record, change);
  if (changed || !change.effects || await isChanged(parts, lease)) return changed;
  throw new Error("A check among the effects does not hold");
}

/** Makes a try; undefined if the group was changed meanwhile. */
async function changeInGroup(
  parts: StoreParts,
  lease: Lease,
  change: Change,
  place: GroupPosition,
  isFirst: boolean,
): Promise<Lease | null | undefined> {
  const orderingGroups = new OrderingGroups(parts);
  if (!isFirst) await orderingGroups.hold(place.key);
  const write = startOf(parts, lease, change);
  // Before the next event is taken: what fails from then on has to give that up.
  const record = await prepare(parts, write, lease, {
    ...lease.record,
    ...change.set,
    group: null,
  });
  let handOff: LocalHandOff | undefined;
  const before = await orderingGroups.leave(write, place, lease.record.id, {
    busyUntil: change.nextNotBefore,
    goOn: (next) => {
      handOff = LocalHandOff.of(parts, next);
      return handOff?.record ?? next;
    },
  });
  // Others wait for the group, so this waits for nobody.
  const changed = await finish(parts, write, lease, record, { ...change, withinMs: 0 }, handOff);
  if (changed) return changed;
  if (await isChanged(parts, lease)) return null;
  const { versionstamp } = await orderingGroups.read(place.key);
  if (!change.effects || versionstamp !== before.versionstamp) return undefined;
  throw new Error("A check among the effects does not hold");
}

function startOf({ keys }: StoreParts, { record, versionstamp }: Lease, change: Change): Write {
  const write = new Write().check({ key: keys.event(record), versionstamp });
  write.effects = change.effects;
  change.add?.(write);
  return write;
}

/** Adds what a record needs beside itself: its payload, and its id for as long as it is wanted. */
function prepare(
  parts: StoreParts,
  write: Write,
  { body }: Lease,
  after: EventRecord,
): EventRecord | Promise<EventRecord> {
  return keepId(write, parts, alone(write, parts.keys, after, body));
}

async function finish(
  parts: StoreParts,
  write: Write,
  { record: before }: Lease,
  record: EventRecord,
  { expireIn, withinMs, lease }: Change,
  handOff?: LocalHandOff,
): Promise<Lease | null> {
  const { keys, commits } = parts;
  const leased = lease && new LeasedRecord(keys, record, lease);
  if (before.sharedEntry) write.leaving = before;
  deleteDue(write, keys, before);
  // An event with a group has an entry of its own in the schedule, which tells its place.
  if (leased && !record.group) write.lease(leased, 0);
  else {
    const written = leased?.record ?? record;
    write.set(keys.event(written), written, expireIn === undefined ? {} : { expireIn });
    setDue(write, keys, written);
  }
  const result = await commits.commit(write, withinMs).catch((error) => {
    handOff?.endUnknown();
    throw error;
  });
  handOff?.end(result);
  if (!result.ok) return null;
  return { record: leased?.record ?? record, versionstamp: result.versionstamp };
}

/**
 * Has an event stand alone: what it shared with others in the schedule, and its payload in its record,
 * were for an event that is handled at once. One that is not would be written anew with each change.
 */
function alone(
  write: Write,
  keys: StoreKeys,
  { sharedEntry: _, ...record }: EventRecord,
  body: Uint8Array<ArrayBuffer> | undefined,
): EventRecord {
  const { payload } = record;
  if (payload?.chunks !== 0 || !body) return record;
  return { ...record, payload: unpack(write, keys, payload, body) };
}

async function isChanged({ kv, keys }: StoreParts, lease: Lease): Promise<boolean> {
  const { versionstamp } = await readRecord(kv, keys.event(lease.record));
  return versionstamp !== lease.versionstamp;
}
