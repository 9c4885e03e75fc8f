import { commit } from "./_commit.ts";
import { untilDone } from "./_contention.ts";
import { type StoreKeys, storeKeys } from "./_keys.ts";
import { Lanes } from "./_lanes.ts";
import type { StoreParts } from "./_parts.ts";
import { deleteDue, setDue } from "./_schedule.ts";
import { type EventRecord, type LanePlace, readRecord } from "./event_record.ts";
import type { CommitEffects, Lease } from "./event_store.ts";

/** How a record is changed. */
export interface Change {
  readonly set: Partial<EventRecord>;
  /** Further mutations for the same commit. */
  readonly effects?: CommitEffects;
  /** In how many milliseconds the record is forgotten. */
  readonly expireIn?: number;
  /** Before when the next event of the lane must not start, milliseconds since the epoch. */
  readonly nextNotBefore?: number;
}

/**
 * Changes a record and its place in the schedule in one commit, if the record still is as the lease has
 * left it. An event that is settled leaves its lane in the same commit.
 *
 * @returns The event with its new version; null if it was changed by another.
 */
export async function changeRecord(
  parts: StoreParts,
  lease: Lease,
  change: Change,
): Promise<Lease | null> {
  const keys = storeKeys(parts.namespace);
  const lane = change.set.settledAt != null ? lease.record.lane : null;
  if (!lane) return await changeAlone(parts, keys, lease, change);
  // With those that join the lane, one at a time: it takes more steps and would be slower each time.
  return await parts.locks.run(
    lane.key,
    () => untilDone(() => changeInLane(parts, keys, lease, change, lane)),
  );
}

async function changeAlone(
  { kv }: StoreParts,
  keys: StoreKeys,
  lease: Lease,
  change: Change,
): Promise<Lease | null> {
  const operation = startOf(kv, keys, lease, change);
  const changed = await finish(operation, keys, lease, { ...lease.record, ...change.set }, change);
  if (changed) return changed;
  if (await isChanged(kv, keys, lease)) return null;
  throw new Error("A check among the effects does not hold");
}

/** Makes a try; undefined if the lane was changed meanwhile. */
async function changeInLane(
  { kv }: StoreParts,
  keys: StoreKeys,
  lease: Lease,
  change: Change,
  place: LanePlace,
): Promise<Lease | null | undefined> {
  const lanes = new Lanes(kv, keys);
  const operation = startOf(kv, keys, lease, change);
  const before = await lanes.leave(operation, place, change.nextNotBefore);
  const record: EventRecord = { ...lease.record, ...change.set, lane: null };
  const changed = await finish(operation, keys, lease, record, change);
  if (changed) return changed;
  if (await isChanged(kv, keys, lease)) return null;
  const { versionstamp } = await lanes.read(place.key);
  if (!change.effects || versionstamp !== before.versionstamp) return undefined;
  throw new Error("A check among the effects does not hold");
}

function startOf(
  kv: Deno.Kv,
  keys: StoreKeys,
  { record, versionstamp }: Lease,
  { effects }: Change,
): Deno.AtomicOperation {
  const operation = kv.atomic().check({ key: keys.event(record.id), versionstamp });
  // First: a commit that throws, for a sum over what is no number, keeps the mutations before that.
  effects?.(operation);
  return operation;
}

async function finish(
  operation: Deno.AtomicOperation,
  keys: StoreKeys,
  { record: before }: Lease,
  record: EventRecord,
  { expireIn }: Change,
): Promise<Lease | null> {
  operation.set(keys.event(record.id), record, expireIn === undefined ? {} : { expireIn });
  deleteDue(operation, keys, before);
  setDue(operation, keys, record);
  const result = await commit(operation);
  return result.ok ? { record, versionstamp: result.versionstamp } : null;
}

async function isChanged(kv: Deno.Kv, keys: StoreKeys, lease: Lease): Promise<boolean> {
  const { versionstamp } = await readRecord(kv, keys.event(lease.record.id));
  return versionstamp !== lease.versionstamp;
}
