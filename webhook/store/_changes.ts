import { commit } from "./_commit.ts";
import type { StoreKeys } from "./_keys.ts";
import { Lanes } from "./_lanes.ts";
import { deleteDue, setDue } from "./_schedule.ts";
import { type EventRecord, readRecord } from "./event_record.ts";
import type { CommitEffects, Lease } from "./event_store.ts";

/** How often a commit is tried while others change the lane of its event. */
const MAX_TRIES = 50;

/** How a record is changed. */
export interface Change {
  readonly set: Partial<EventRecord>;
  /** Further mutations for the same commit. */
  readonly effects?: CommitEffects;
  /** In how many milliseconds the record is forgotten. */
  readonly expireIn?: number;
}

/**
 * Changes a record and its place in the schedule in one commit, if the record still is as the lease has
 * left it. An event that is settled leaves its lane in the same commit.
 *
 * @returns The event with its new version; null if it was changed by another.
 */
export async function changeRecord(
  kv: Deno.Kv,
  keys: StoreKeys,
  lease: Lease,
  change: Change,
): Promise<Lease | null> {
  const { record: before, versionstamp } = lease;
  const key = keys.event(before.id);
  const settles = change.set.settledAt != null;
  const record: EventRecord = { ...before, ...change.set, lane: settles ? null : before.lane };
  const lane = settles ? before.lane : null;
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const operation = kv.atomic().check({ key, versionstamp });
    // First: a commit that throws, for a sum over what is no number, keeps the mutations before that.
    change.effects?.(operation);
    if (lane) await new Lanes(kv, keys).leave(operation, lane);
    operation.set(key, record, change.expireIn === undefined ? {} : { expireIn: change.expireIn });
    deleteDue(operation, keys, before);
    setDue(operation, keys, record);
    const result = await commit(operation);
    if (result.ok) return { record, versionstamp: result.versionstamp };
    if ((await readRecord(kv, key)).versionstamp !== versionstamp) return null;
    if (!lane && change.effects) throw new Error("A check among the effects does not hold");
  }
  throw new Error(
    `Cannot change event ${before.id}: its lane changed ${MAX_TRIES} times meanwhile`,
  );
}
