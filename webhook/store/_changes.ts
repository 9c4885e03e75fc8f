import { untilDone } from "./_contention.ts";
import { Draft } from "./_draft.ts";
import { keepId } from "./_ids.ts";
import { Lanes } from "./_lanes.ts";
import { LeasedRecord, type LeaseWanted } from "./_leased_record.ts";
import type { StoreKeys } from "./_keys.ts";
import type { StoreParts } from "./_parts.ts";
import { unpack } from "./_payload.ts";
import { deleteDue, setDue } from "./_schedule.ts";
import { type EventRecord, type LanePlace, readRecord } from "./event_record.ts";
import { Taking } from "./_taking.ts";
import type { CommitEffects, Lease } from "./event_store.ts";

/** How a record is changed. */
export interface Change {
  readonly set: Partial<EventRecord>;
  /** Who leases the event with that. */
  readonly lease?: LeaseWanted;
  /** Further mutations for the same commit. */
  readonly add?: (draft: Draft) => void;
  /** Somebody else's mutations for the same commit. */
  readonly effects?: CommitEffects | undefined;
  /** In how many milliseconds the record is forgotten. */
  readonly expireIn?: number;
  /** How long the change may wait for others to share a commit with, in milliseconds. */
  readonly withinMs?: number | undefined;
  /** Before when no other event of the lane must start, milliseconds since the epoch. */
  readonly nextNotBefore?: number;
}

/**
 * Changes a record and its place in the schedule in one commit, if the record still is as the lease has
 * left it. An event that is settled leaves its lane in the same commit.
 *
 * @returns The event with its new version; null if it was changed by another.
 */
export function changeRecord(
  parts: StoreParts,
  lease: Lease,
  change: Change,
): Promise<Lease | null> {
  const lane = change.set.settledAt != null ? lease.record.lane : null;
  if (!lane) return changeAlone(parts, lease, change);
  // With those that join the lane, one at a time: it takes more steps and would be slower each time.
  // And before them, for all who have joined wait for the one that runs to be settled.
  return parts.locks.run(
    lane.key,
    () => untilDone((isFirst) => changeInLane(parts, lease, change, lane, isFirst)),
    lease.record.state === "running",
  );
}

async function changeAlone(
  parts: StoreParts,
  lease: Lease,
  change: Change,
): Promise<Lease | null> {
  const draft = startOf(parts, lease, change);
  const prepared = prepare(parts, draft, lease, { ...lease.record, ...change.set });
  const record = prepared instanceof Promise ? await prepared : prepared;
  const changed = await finish(parts, draft, lease, record, change);
  if (changed || !change.effects || await isChanged(parts, lease)) return changed;
  throw new Error("A check among the effects does not hold");
}

/** Makes a try; undefined if the lane was changed meanwhile. */
async function changeInLane(
  parts: StoreParts,
  lease: Lease,
  change: Change,
  place: LanePlace,
  isFirst: boolean,
): Promise<Lease | null | undefined> {
  const lanes = new Lanes(parts);
  if (!isFirst) await lanes.hold(place.key);
  const draft = startOf(parts, lease, change);
  // Before the next event is taken: what fails from then on has to give that up.
  const record = await prepare(parts, draft, lease, { ...lease.record, ...change.set, lane: null });
  let taking: Taking | undefined;
  const before = await lanes.leave(draft, place, lease.record.id, {
    busyUntil: change.nextNotBefore,
    goOn: (next) => {
      taking = Taking.of(parts, next);
      return taking?.record ?? next;
    },
  });
  // Others wait for the lane, so this waits for nobody.
  const changed = await finish(parts, draft, lease, record, { ...change, withinMs: 0 }, taking);
  if (changed) return changed;
  if (await isChanged(parts, lease)) return null;
  const { versionstamp } = await lanes.read(place.key);
  if (!change.effects || versionstamp !== before.versionstamp) return undefined;
  throw new Error("A check among the effects does not hold");
}

function startOf({ keys }: StoreParts, { record, versionstamp }: Lease, change: Change): Draft {
  const draft = new Draft().check({ key: keys.event(record), versionstamp });
  draft.effects = change.effects;
  change.add?.(draft);
  return draft;
}

/** Adds what a record needs beside itself: its payload, and its id for as long as it is wanted. */
function prepare(
  parts: StoreParts,
  draft: Draft,
  { body }: Lease,
  after: EventRecord,
): EventRecord | Promise<EventRecord> {
  return keepId(draft, parts, alone(draft, parts.keys, after, body));
}

async function finish(
  parts: StoreParts,
  draft: Draft,
  { record: before }: Lease,
  record: EventRecord,
  { expireIn, withinMs, lease }: Change,
  taking?: Taking,
): Promise<Lease | null> {
  const { keys, commits } = parts;
  const leased = lease && new LeasedRecord(keys, record, lease);
  if (before.dueGroup) draft.leaving = before;
  deleteDue(draft, keys, before);
  // An event with a lane has an entry of its own in the schedule, which tells its place.
  if (leased && !record.lane) draft.lease(leased, 0);
  else {
    const written = leased?.record ?? record;
    draft.set(keys.event(written), written, expireIn === undefined ? {} : { expireIn });
    setDue(draft, keys, written);
  }
  const result = await commits.commit(draft, withinMs).catch((error) => {
    taking?.endUnknown();
    throw error;
  });
  taking?.end(result);
  if (!result.ok) return null;
  return { record: leased?.record ?? record, versionstamp: result.versionstamp };
}

/**
 * Has an event stand alone: what it shared with others in the schedule, and its payload in its record,
 * were for an event that is handled at once. One that is not would be written anew with each change.
 */
function alone(
  draft: Draft,
  keys: StoreKeys,
  { dueGroup: _, ...record }: EventRecord,
  body: Uint8Array<ArrayBuffer> | undefined,
): EventRecord {
  const { payload } = record;
  if (payload?.chunks !== 0 || !body) return record;
  return { ...record, payload: unpack(draft, keys, payload, body) };
}

async function isChanged({ kv, keys }: StoreParts, lease: Lease): Promise<boolean> {
  const { versionstamp } = await readRecord(kv, keys.event(lease.record));
  return versionstamp !== lease.versionstamp;
}
