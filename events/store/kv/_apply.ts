import type { EventRecord } from "../event_record.ts";
import type { Emission } from "../emission.ts";
import type { CellChange } from "../engine.ts";
import type { CommitEffects, Lease } from "../event_store.ts";
import type { LeaseRequest } from "../claims.ts";
import { withoutOwnKeys } from "./_own_keys.ts";
import { settledWith } from "../settlement.ts";
import { encodeValue } from "../value_codec.ts";
import { dyingAhead } from "./_batches.ts";
import { addEmissions } from "./_emit.ts";
import { DAY_MS, type Known, readRecord, type StoreKeys } from "./_layout.ts";
import { LocalHandOff } from "./_local_hand_off.ts";
import { type Group, holdGroup, leaveBehind, leaveGroup, readGroup } from "./_ordering_groups.ts";
import type { StoreParts } from "./_parts.ts";
import { deleteChunks, unpack } from "./_payload.ts";
import { isUndecodable, read, readAll } from "./_reads.ts";
import { deleteDue } from "./_schedule.ts";
import { LeasedRecord, untilDone, Write, writeNew } from "./_write.ts";

/** Options of a change. */
export interface ChangeOptions {
  /** The lease that the event gets in the commit. */
  readonly lease?: LeaseRequest | undefined;
  /** Adds further mutations of the store to the same commit. */
  readonly add?: ((write: Write) => void) | undefined;
  /** A handler's mutations for the same commit. */
  readonly effects?: CommitEffects<Deno.AtomicOperation> | undefined;
  /** Cells that a handler changes in the same commit. */
  readonly cells?: readonly CellChange[] | undefined;
  /** Events that are stored in the same commit. */
  readonly emits?: readonly Emission[] | undefined;
  /** Set if it has its turn among those with emitted events. */
  readonly hasTurn?: boolean | undefined;
  /** Longest wait for others to share a commit with, in milliseconds. */
  readonly withinMs?: number | undefined;
  /** Further checks, on which the change depends: if one of them does not hold, it is to be made anew. */
  readonly checks?: readonly Deno.AtomicCheck[] | undefined;
  /** Called once the change is committed. */
  readonly onCommit?: (() => void) | undefined;
}

/** Makes a lease of a stored record: changes are made with one. */
export function leaseOf({ record, versionstamp, body }: Known): Lease {
  return { record: record!, version: versionstamp!, body };
}

/**
 * Applies a change of a stored record in one commit, if the record still has the version that the lease
 * knows. All that follows from the change is worked out here, from the record before and after: the
 * schedule entry, the payload, the id and the index of dead events. A settled or parked event also leaves its
 * ordering group, where the next one moves up.
 *
 * @param parts The store.
 * @param lease The record before, its version, and the payload if the record holds it.
 * @param after The record after, as a transition made it.
 * @param options The lease that it gets, and what else the commit holds.
 * @returns The event with its new version; null if another change was faster.
 */
export function applyChange(
  parts: StoreParts,
  lease: Lease,
  after: EventRecord,
  options: ChangeOptions = {},
): Promise<Lease | null> {
  const { group, batch } = lease.record;
  const leaves = group !== null && (after.settledAt !== null || after.state === "parked");
  // Nothing else has to be tried again.
  if (!leaves && !options.emits) {
    return tryToApply(parts, lease, after, options) as Promise<Lease | null>;
  }
  const change = (isFirst: boolean) => tryToApply(parts, lease, after, options, isFirst, leaves);
  if (!leaves) return untilDone(change);
  if (!batch || after.state !== "dead") return inLock(parts, lease.record, change);
  return buryAhead(parts, lease, after)
    .then((isHeld) => isHeld ? inLock(parts, lease.record, change) : null);
}

/**
 * Makes a change of a group, one at a time: settling takes more steps than joining, and would lose each race.
 * Settling goes first, because the events that have joined wait for it.
 */
function inLock<T>(
  { locks }: StoreParts,
  { group, state }: EventRecord,
  change: (isFirst: boolean) => Promise<T | undefined>,
): Promise<T> {
  return locks.run(group!.key, () => untilDone(change), { isUrgent: state === "running" });
}

/**
 * Settles events of a batch that dies before its first one, as many as would not fit the commit in which that
 * one dies.
 *
 * @param parts The store.
 * @param lease The first event.
 * @param after Its record after.
 * @param reportsOf Makes the reports of their deaths; undefined if these are not reported.
 * @returns False if another change of the first event was faster.
 */
export async function buryAhead(
  parts: StoreParts,
  lease: Lease,
  after: EventRecord,
  reportsOf?: (dead: readonly EventRecord[]) => readonly Emission[] | undefined,
): Promise<boolean> {
  for (let isDone = !lease.record.batch; !isDone;) {
    const isHeld = await inLock(parts, lease.record, async () => {
      const ahead = await dyingAhead(parts, lease, after);
      isDone = ahead === undefined;
      if (!ahead) return true;
      const { group, members } = ahead;
      const write = startOf(parts, lease, {});
      leaveBehind(parts, write, group, members.map((each) => each.group!.position));
      for (const member of members) settleMember(write, parts, member, after);
      const deaths = reportsOf?.(members.map((member) => settledWith(member, after)));
      const turn = { isTaken: false, isFirst: true };
      if (deaths) await addEmissions(parts, write, deaths, after, turn);
      if (await parts.commits.commit(write) !== null) return true;
      return await isChanged(parts, lease) ? false : undefined;
    });
    if (!isHeld) return false;
  }
  return true;
}

/**
 * Adds what a change removes to a write: the old schedule entry, payload and place of the record. The
 * payload of an event that becomes done may be kept.
 */
export function removeOld(
  write: Write,
  { keys, kept }: StoreParts,
  before: EventRecord,
  after: EventRecord,
  body?: Uint8Array<ArrayBuffer>,
): void {
  if (before.sharedEntry) write.leave(before);
  deleteDue(write, keys, before);
  const isMoved = before.receivedAt !== after.receivedAt;
  if (isMoved) write.delete(keys.event(before));
  if (before.payload && before.payload.id !== after.payload?.id) {
    const isKept = after.state === "done" && kept.keep(write, after, before.payload, body);
    if (!isKept) deleteChunks(write, keys, before.payload);
  }
  if (before.state === "dead" && (isMoved || after.state !== "dead")) {
    write.delete(keys.dead(before));
  }
}

/**
 * Tries once to apply a change.
 *
 * @returns Null if another change of the event was faster; undefined if others changed its group, or emitted events
 * with ids of their own meanwhile.
 */
async function tryToApply(
  parts: StoreParts,
  lease: Lease,
  after: EventRecord,
  options: ChangeOptions,
  isFirst = true,
  leaves = false,
): Promise<Lease | null | undefined> {
  const { record: { group, batch, id }, record: before, body } = lease;
  const { emits, hasTurn = false } = options;
  const effects = options.effects ?? options.cells;
  const { keys, commits, local } = parts;
  if (leaves && !isFirst) await holdGroup(parts, group!.key);
  const write = startOf(parts, lease, options);
  // Before the next event is handed off: if a step fails after that, the hand-off has to be given up.
  let record = unshared(write, keys, after, body);
  if (emits) {
    record = await addEmissions(parts, write, emits, record, { isTaken: hasTurn, isFirst });
  }
  if (mustWriteId(record)) record = await keepId(write, parts, record);
  let handOff: LocalHandOff | undefined;
  let left: Group | undefined;
  if (leaves) {
    left = await leaveGroup(parts, write, group!, id, {
      last: batch?.last,
      onMember: (member) => settleMember(write, parts, member, record),
      onNext: (next) => {
        handOff = LocalHandOff.of(parts, next);
        return handOff?.record ?? next;
      },
    });
  }
  const leasing = options.lease && new LeasedRecord(parts, record, options.lease);
  removeOld(write, parts, before, record, body);
  // An event in a group has its own entry in the schedule: that names its position.
  if (leasing && !record.group) write.lease(leasing, 0);
  else writeNew(write, parts, leasing?.record ?? record);
  write.notifies ||= isGivenBack(before, record);
  let version: string | null;
  try {
    // Others wait for the group, so this waits for nobody.
    version = await commits.commit(write, leaves ? 0 : options.withinMs);
  } catch (error) {
    handOff?.endUnknown();
    throw error;
  }
  handOff?.end(version);
  if (version !== null) {
    // The next event of the group is due as soon as the one before is settled.
    if (leaves || write.emitsDue) local.listener?.wake();
    options.onCommit?.();
    return { record: leasing?.record ?? record, version };
  }
  if ((!effects && !emits && !leaves) || await isChanged(parts, lease, options)) return null;
  if (!effects) return undefined;
  if (left && (await readGroup(parts, left.key)).versionstamp !== left.versionstamp) {
    return undefined;
  }
  if (emits && await hasOvertaken(parts, write)) return undefined;
  throw new Error("A check among the effects does not hold");
}

/** Adds the settlement of an event to the write that settles the first one of its batch. */
function settleMember(
  write: Write,
  parts: StoreParts,
  member: EventRecord,
  first: EventRecord,
): void {
  const after = settledWith(member, first);
  removeOld(write, parts, member, after);
  // The id of one that dies is kept already: only such events are in a batch.
  writeNew(write, parts, after.state === "done" ? writeId(write, parts, after) : after);
}

function startOf(
  { keys }: StoreParts,
  { record, version }: Lease,
  { effects, cells, add, checks }: ChangeOptions,
): Write {
  const write = new Write().check({ key: keys.event(record), versionstamp: version });
  if (checks) { for (const check of checks) write.check(check); }
  if (effects || cells) {
    write.effects = (commit) => {
      effects?.(withoutOwnKeys(commit, keys.namespaces));
      for (const cell of cells ?? []) addCell(commit, keys, cell);
    };
  }
  add?.(write);
  return write;
}

/** Adds the change of a cell to a commit. */
function addCell(
  commit: Deno.AtomicOperation,
  keys: StoreKeys,
  { key: cell, version, after, forMs }: CellChange,
): void {
  const key = keys.cell(cell);
  if (version !== undefined) commit.check({ key, versionstamp: version });
  if (after === null) commit.delete(key);
  else if (after !== undefined) {
    commit.set(key, encodeValue(after), forMs === undefined ? {} : { expireIn: forMs });
  }
}

/** Checks whether an event was running and is due again at once: another worker may take it. */
function isGivenBack(before: EventRecord, { state, delayMs }: EventRecord): boolean {
  return before.state === "running" && state === "queued" && delayMs === 0;
}

/**
 * Begins a write for an event that is about to join its group: all of it that does not depend on its position.
 *
 * @param parts The store.
 * @param lease The event as it is stored.
 * @param after The event outside of its group.
 * @param options What else the commit holds.
 * @returns The write, and the record that goes with it.
 */
export async function startOfJoining(
  parts: StoreParts,
  lease: Lease,
  after: EventRecord,
  options: Pick<ChangeOptions, "add" | "checks">,
): Promise<{ readonly write: Write; readonly record: EventRecord }> {
  const write = startOf(parts, lease, options);
  let record = unshared(write, parts.keys, after, lease.body);
  if (mustWriteId(record)) record = await keepId(write, parts, record);
  removeOld(write, parts, lease.record, record);
  return { write, record };
}

/**
 * Takes an event out of its shared entry, and its payload out of its record. Both save work only if the
 * event is settled at once. Otherwise each change of the record would write the payload again.
 */
function unshared(
  write: Write,
  keys: StoreKeys,
  record: EventRecord,
  body: Uint8Array<ArrayBuffer> | undefined,
): EventRecord {
  const { payload, sharedEntry } = record;
  const own = sharedEntry === undefined ? record : { ...record, sharedEntry: undefined };
  if (payload?.chunks !== 0 || !body) return own;
  return { ...own, payload: unpack(write, keys, payload, body) };
}

/**
 * Checks whether an event's record has another version than a lease knows, or one of the further checks
 * does not hold any more.
 */
export async function isChanged(
  parts: StoreParts,
  { record, version }: Lease,
  { checks = [] }: ChangeOptions = {},
): Promise<boolean> {
  const now = await readRecord(parts.kv, parts.keys.event(record));
  return now.versionstamp !== version || await hasOvertaken(parts, { checks });
}

/** Checks whether others have changed what a change has checked. */
async function hasOvertaken(
  { kv }: StoreParts,
  { checks }: { readonly checks: readonly Deno.AtomicCheck[] },
): Promise<boolean> {
  const entries = await readAll(kv, checks.map(({ key }) => key));
  return entries.some(({ versionstamp }, i) => versionstamp !== checks[i]!.versionstamp);
}

/** Checks whether the entry of an event's id has to be written with a change, to last long enough. */
function mustWriteId({ state, idKept, receivedAt }: EventRecord): boolean {
  if (state === "done") return idKept === true || isOld(receivedAt);
  // A dead event's entry is written even if it should exist: operators find the event by its id.
  return !idKept || state === "dead";
}

/**
 * Keeps an event's id for as long as the event is open or dead, and for the retention once it is done. A redelivery
 * may own an entry that has expired.
 *
 * @returns The record, which notes that.
 */
async function keepId(write: Write, parts: StoreParts, record: EventRecord): Promise<EventRecord> {
  const mayBeOthers = isOld(record.receivedAt) && !record.idKept;
  if (!mayBeOthers && record.state !== "dead") return writeId(write, parts, record);
  const entry = await read(parts.kv, parts.keys.id(record.id));
  const isOthers = typeof entry.value === "number" && entry.value !== record.receivedAt;
  if (isOthers || isUndecodable(entry)) return record;
  write.check(entry);
  return writeId(write, parts, record);
}

function writeId(write: Write, { keys, retentionMs }: StoreParts, record: EventRecord) {
  const { idKept: _, ...rest } = record;
  const isDone = record.state === "done";
  const options = isDone ? { expireIn: retentionMs } : undefined;
  write.set(keys.id(record.id), encodeValue(record.receivedAt), options);
  return isDone ? rest : { ...rest, idKept: true };
}

function isOld(receivedAt: number): boolean {
  return Date.now() - receivedAt > DAY_MS;
}
