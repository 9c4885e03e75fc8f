import type { EventRecord, GroupPosition } from "../event_record.ts";
import { deathOf, type Emission } from "../emission.ts";
import type { CommitEffects, EventStore, Lease } from "../event_store.ts";
import type { Wake } from "../waits.ts";
import { type LeaseRequest, renewed } from "../claims.ts";
import { withoutOwnKeys } from "../own_keys.ts";
import { inBrief, isCancelRequested, progressed } from "../record_notes.ts";
import { buried, completed, released, retried, settledWith } from "../settlement.ts";
import { addEmissions, hasOvertaken, inTurn } from "./_emit.ts";
import { MARK, readRecord, type StoreKeys } from "./_layout.ts";
import { LocalHandOff } from "./_local_hand_off.ts";
import { OrderingGroups } from "./_ordering_groups.ts";
import type { StoreParts } from "./_parts.ts";
import { Batches } from "./_batches.ts";
import { deleteChunks, readPayload, unpack } from "./_payload.ts";
import { isUndecodable, read, readAll } from "./_reads.ts";
import { encodeValue } from "../value_codec.ts";
import { deleteDue, setDue } from "./_schedule.ts";
import { Waits } from "./_waits.ts";
import { hasTooManyChecks, isTooMuch, LeasedRecord, untilDone, Write } from "./_write.ts";

const DAY_MS = 86_400_000;

/** The time after which a lease that has waited for its turn was probably renewed meanwhile. */
const OLD_MS = 1_000;

/** The operations of a worker on an event that it has leased. */
type LeaseOperations = Pick<
  EventStore,
  | "load"
  | "members"
  | "renew"
  | "checkpoint"
  | "recover"
  | "complete"
  | "retry"
  | "release"
  | "bury"
  | "takeWake"
  | "park"
>;

/** Makes the operations on leased events of a store: each applies one transition. */
export function leaseOperations(parts: StoreParts): LeaseOperations {
  const { kv, keys } = parts;
  const batches = new Batches(parts);
  const waits = new Waits(parts);

  async function recover({ record: held }: Lease): Promise<Lease | null> {
    const { record, versionstamp, body } = await readRecord(kv, keys.event(held));
    const isSame = record?.state === "running" && record.run === held.run &&
      record.attempt === held.attempt && record.lease?.owner === held.lease?.owner &&
      record.lease?.startedAt === held.lease?.startedAt &&
      // An event that was purged and sent again within a millisecond has the same key.
      record.payload?.id === held.payload?.id;
    return isSame ? { record, versionstamp: versionstamp!, body } : null;
  }

  /** Makes a change that may have waited for its turn: meanwhile the lease may have been renewed. */
  async function recovering(
    lease: Lease,
    change: (lease: Lease, hasTurn: boolean) => Promise<Lease | null>,
    hasTurn: boolean,
    waitedMs = 0,
    signal?: AbortSignal,
  ): Promise<Lease | null> {
    // A try with an old version takes others the time of four answers.
    const isOld = waitedMs > OLD_MS;
    const changed = isOld ? null : await change(lease, hasTurn);
    if (changed || !hasTurn) return changed;
    const renewed = await recover(lease);
    return renewed && !signal?.aborted && isOnlyRenewed(lease.record, renewed.record)
      ? await change(renewed, true)
      : null;
  }

  /** Makes a change, and wakes names in the same commit. */
  function waking(
    lease: Lease,
    after: EventRecord,
    options: ChangeOptions,
    wakes: readonly Wake[] | undefined,
  ): Promise<Lease | null> {
    return wakes
      ? waits.apply(lease, after, options, wakes)
      : applyChange(parts, lease, after, options);
  }

  return {
    takeWake: (lease, name) => waits.take(lease, name),
    park: (lease, wait) => waits.park(lease, wait),

    async load({ record }) {
      const { payload, id, state } = record;
      if (!payload && state === "done") return await parts.kept.load(record);
      if (!payload) throw new Error(`Cannot load event ${id}: it has no payload`);
      if (payload.chunks > 0) return await readPayload(kv, keys, payload);
      const now = await readRecord(kv, keys.event(record));
      if (now.body) return now.body;
      if (now.record?.payload?.chunks) return await readPayload(kv, keys, now.record.payload);
      throw new Error(`Cannot read the payload: the record of event ${id} does not hold it`);
    },

    members(lease) {
      return batches.members(lease);
    },

    renew(lease, leaseMs) {
      return applyChange(parts, lease, renewed(lease.record, leaseMs, Date.now()));
    },

    async checkpoint(lease, part, effects, { emits, wakes, signal } = {}) {
      const note = (lease: Lease, hasTurn = false) =>
        waking(lease, progressed(lease.record, part), { effects, emits, hasTurn }, wakes);
      if (!emits) return await note(lease);
      const inItsTurn = (hasTurn: boolean, waitedMs?: number) =>
        recovering(lease, note, hasTurn, waitedMs, signal);
      return await inTurn(parts, lease.record, { emits, wakes, signal }, inItsTurn);
    },

    recover,

    async complete(lease, options = {}) {
      const { effects, emits, wakes, withinMs, outcome } = typeof options === "function"
        ? { effects: options }
        : options;
      const settle = (lease: Lease, hasTurn = false) => {
        const after = completed(lease.record, Date.now(), outcome);
        // A cancelled event has no effects, emits nothing and wakes nobody.
        if (after.state !== "done") {
          return fitting(after, (after) => applyChange(parts, lease, after));
        }
        if (!effects && !emits && !wakes) {
          return fitting(after, (after) => applyChange(parts, lease, after, { withinMs }));
        }
        // Others wait for their turn, so this waits for nobody.
        const change = { effects, emits, hasTurn, withinMs: hasTurn ? 0 : withinMs };
        return waking(lease, after, change, wakes);
      };
      if (!emits) return await settle(lease) !== null;
      const inItsTurn = (hasTurn: boolean, waitedMs?: number) =>
        recovering(lease, settle, hasTurn, waitedMs);
      return await inTurn(parts, lease.record, { emits, wakes }, inItsTurn) !== null;
    },

    retry(lease, delayMs, error, { reason } = {}) {
      const after = retried(lease.record, delayMs, error, Date.now(), reason);
      return fitting(after, (after) => settle(parts, lease, after));
    },

    release(lease, options = {}) {
      const after = released(lease.record, options, Date.now());
      return fitting(after, (after) => settle(parts, lease, after));
    },

    async bury(lease, error, { reports = false } = {}) {
      const dead = buried(lease.record, error, Date.now());
      const isReported = reports && dead.outcome === "failed";
      return await fitting(dead, async (after, isBrief) => {
        if (!isReported) return await applyChange(parts, lease, after) !== null;
        const reportsOf = (dead: readonly EventRecord[]) => deathsOf(dead, isBrief);
        if (!await buryAhead(parts, lease, after, reportsOf)) return false;
        const members = lease.record.batch ? await batches.members(lease) : [];
        const emits = reportsOf([after, ...members.map((member) => settledWith(member, after))]);
        return await applyChange(parts, lease, after, { emits }) !== null;
      });
    },
  };
}

/**
 * Makes a change that a KV must take, or its event would be handled for ever: if it is too large, with the
 * shortest form of the record.
 */
async function fitting<T>(
  after: EventRecord,
  change: (after: EventRecord, isBrief: boolean) => Promise<T>,
): Promise<T> {
  try {
    return await change(after, false);
  } catch (error) {
    if (!isTooMuch(error) || hasTooManyChecks(error)) throw error;
    return await change(inBrief(after), true);
  }
}

/** Makes the reports of deaths; undefined if none is reported. */
function deathsOf(
  dead: readonly EventRecord[],
  isBrief: boolean,
): readonly Emission[] | undefined {
  const deaths = dead.flatMap((record) => deathOf(record, isBrief) ?? []);
  return deaths.length > 0 ? deaths : undefined;
}

/** Checks that a record was neither cancelled meanwhile nor changed by an earlier try of the same change. */
function isOnlyRenewed({ progress = [], emitted = 0 }: EventRecord, now: EventRecord): boolean {
  const isSame = (now.progress ?? []).length === progress.length && (now.emitted ?? 0) === emitted;
  return isSame && !isCancelRequested(now);
}

async function settle(
  parts: StoreParts,
  lease: Lease,
  after: Lease["record"],
): Promise<boolean> {
  return await applyChange(parts, lease, after) !== null;
}

/** Options of a change. */
export interface ChangeOptions {
  /** The lease that the event gets in the commit. */
  readonly lease?: LeaseRequest | undefined;
  /** Adds further mutations of the store to the same commit. */
  readonly add?: ((write: Write) => void) | undefined;
  /** A handler's mutations for the same commit. */
  readonly effects?: CommitEffects | undefined;
  /** Events that are stored in the same commit. */
  readonly emits?: readonly Emission[] | undefined;
  /** Set if it has its turn among those with emitted events. */
  readonly hasTurn?: boolean | undefined;
  /** The time for which the change may wait for others to share a commit with, in milliseconds. */
  readonly withinMs?: number | undefined;
  /** Further checks, on which the change depends: if one of them does not hold, it is to be made anew. */
  readonly checks?: readonly Deno.AtomicCheck[] | undefined;
  /** Called once the change is committed. */
  readonly onCommit?: (() => void) | undefined;
}

/**
 * Applies a change of a stored record in one commit, if the record still has the version that the lease
 * knows. All that follows from the change is worked out here, from the record before and after: the
 * schedule entry, the payload, the id and the index of dead events. A settled event also leaves its
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
  // A parked event leaves its group as well.
  const stays = after.settledAt === null && after.state !== "parked";
  if (!group || stays) {
    return options.emits
      ? untilDone((isFirst) => applyToEvent(parts, lease, after, options, isFirst))
      : applyToEvent(parts, lease, after, options) as Promise<Lease | null>;
  }
  const leaving = (isFirst: boolean) => applyInGroup(parts, lease, after, options, group, isFirst);
  if (!batch || after.state !== "dead") return inLock(parts, lease.record, leaving);
  return buryAhead(parts, lease, after).then((isHeld) =>
    isHeld ? inLock(parts, lease.record, leaving) : null
  );
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
async function buryAhead(
  parts: StoreParts,
  lease: Lease,
  after: EventRecord,
  reportsOf?: (dead: readonly EventRecord[]) => readonly Emission[] | undefined,
): Promise<boolean> {
  if (!lease.record.batch) return true;
  const batches = new Batches(parts);
  const orderingGroups = new OrderingGroups(parts);
  for (let isDone = false; !isDone;) {
    const isHeld = await inLock(parts, lease.record, async () => {
      const ahead = await batches.dyingAhead(lease, after);
      isDone = ahead === undefined;
      if (!ahead) return true;
      const { group, members } = ahead;
      const write = startOf(parts, lease, {});
      orderingGroups.leaveBehind(write, group, members.map((each) => each.group!.position));
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
 * Adds a change of a stored record to a write that holds several, see {@linkcode applyChange}.
 *
 * @param parts The store.
 * @param write The write.
 * @param lease The record before, its version, and the payload if the record holds it.
 * @param after The record after. It has a position in a group.
 * @param options The lease that it gets, and what else the commit holds.
 * @returns The record as it is written.
 */
export async function addChange(
  parts: StoreParts,
  write: Write,
  { record: before, versionstamp, body }: Lease,
  after: EventRecord,
  { lease, add, checks = [] }: Pick<ChangeOptions, "lease" | "add" | "checks">,
): Promise<EventRecord> {
  write.check({ key: parts.keys.event(before), versionstamp });
  for (const check of checks) write.check(check);
  add?.(write);
  const record = await keepId(write, parts, unshared(write, parts.keys, after, body));
  const written = lease ? new LeasedRecord(parts.keys, record, lease).record : record;
  removeOld(write, parts, before, written);
  writeNew(write, parts, written);
  return written;
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
  if (before.sharedEntry) write.leaving = before;
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

/** Adds a record to a write, with its schedule entry, and its entry in the index of dead events. */
export function writeNew(
  write: Write,
  { keys, retentionMs }: StoreParts,
  record: EventRecord,
): void {
  const options = record.state === "done" ? { expireIn: retentionMs } : {};
  write.set(keys.event(record), encodeValue(record), options);
  setDue(write, keys, record);
  if (record.state === "dead") write.set(keys.dead(record), MARK);
}

/** Tries once; undefined if others emitted events with ids of their own meanwhile. */
async function applyToEvent(
  parts: StoreParts,
  lease: Lease,
  after: EventRecord,
  options: ChangeOptions,
  isFirst = true,
): Promise<Lease | null | undefined> {
  const { effects, emits } = options;
  const write = startOf(parts, lease, options);
  const prepared = prepare(parts, write, lease, after, options, isFirst);
  const record = prepared instanceof Promise ? await prepared : prepared;
  const changed = await commitChange(parts, write, lease, record, options);
  if (changed || (!effects && !emits) || await isChanged(parts, lease, options)) return changed;
  if (emits && (!effects || await hasOvertaken(parts, write))) return undefined;
  throw new Error("A check among the effects does not hold");
}

/** Tries once; undefined if the group was changed meanwhile. */
async function applyInGroup(
  parts: StoreParts,
  lease: Lease,
  after: EventRecord,
  options: ChangeOptions,
  position: GroupPosition,
  isFirst: boolean,
): Promise<Lease | null | undefined> {
  const orderingGroups = new OrderingGroups(parts);
  if (!isFirst) await orderingGroups.hold(position.key);
  const write = startOf(parts, lease, options);
  // Before the next event is handed off: if a step fails after that, the hand-off has to be given up.
  const record = await prepare(parts, write, lease, after, options, isFirst);
  let handOff: LocalHandOff | undefined;
  const before = await orderingGroups.leave(write, position, lease.record.id, {
    last: lease.record.batch?.last,
    onMember: (member) => settleMember(write, parts, member, record),
    onNext: (next) => {
      handOff = LocalHandOff.of(parts, next);
      return handOff?.record ?? next;
    },
  });
  // Others wait for the group, so this waits for nobody.
  const atOnce = { ...options, withinMs: 0 };
  const changed = await commitChange(parts, write, lease, record, atOnce, handOff);
  if (changed) {
    // The next event is due as soon as the one before is settled.
    parts.local.listener?.wake();
    return changed;
  }
  if (await isChanged(parts, lease, options)) return null;
  const { versionstamp } = await orderingGroups.read(position.key);
  if (!options.effects || versionstamp !== before.versionstamp) return undefined;
  if (options.emits && await hasOvertaken(parts, write)) return undefined;
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
  { record, versionstamp }: Lease,
  { effects, add, checks }: ChangeOptions,
): Write {
  const write = new Write().check({ key: keys.event(record), versionstamp });
  if (checks) { for (const check of checks) write.check(check); }
  write.effects = effects && ((commit) => effects(withoutOwnKeys(commit, keys.namespaces)));
  add?.(write);
  return write;
}

async function commitChange(
  parts: StoreParts,
  write: Write,
  { record: before, body }: Lease,
  record: EventRecord,
  { withinMs, lease, onCommit }: ChangeOptions,
  handOff?: LocalHandOff,
): Promise<Lease | null> {
  const { keys, commits } = parts;
  const leasing = lease && new LeasedRecord(keys, record, lease);
  removeOld(write, parts, before, record, body);
  // An event in a group has its own entry in the schedule, which names its position.
  if (leasing && !record.group) write.lease(leasing, 0);
  else writeNew(write, parts, leasing?.record ?? record);
  write.notifies ||= isGivenBack(before, record);
  const versionstamp = await commits.commit(write, withinMs).catch((error) => {
    handOff?.endUnknown();
    throw error;
  });
  handOff?.end(versionstamp);
  if (versionstamp !== null) {
    if (write.emitsDue) parts.local.listener?.wake();
    onCommit?.();
  }
  return versionstamp === null ? null : { record: leasing?.record ?? record, versionstamp };
}

/** Checks whether an event was running and is due again at once: another worker may take it. */
function isGivenBack(before: EventRecord, { state, delayMs }: EventRecord): boolean {
  return before.state === "running" && state === "queued" && delayMs === 0;
}

/** Adds what a record needs beside itself: its payload, and its id for as long as it is wanted. */
function prepare(
  parts: StoreParts,
  write: Write,
  { body }: Lease,
  after: EventRecord,
  { emits, hasTurn: isTaken = false }: ChangeOptions,
  isFirst: boolean,
): EventRecord | Promise<EventRecord> {
  const record = unshared(write, parts.keys, after, body);
  if (!emits) return keepId(write, parts, record);
  return addEmissions(parts, write, emits, record, { isTaken, isFirst })
    .then((parent) => keepId(write, parts, parent));
}

/**
 * Takes an event out of its shared entry, and its payload out of its record. Both save work only if the
 * event is settled at once. Otherwise each change of the record would write the payload again.
 */
function unshared(
  write: Write,
  keys: StoreKeys,
  { sharedEntry: _, ...record }: EventRecord,
  body: Uint8Array<ArrayBuffer> | undefined,
): EventRecord {
  const { payload } = record;
  if (payload?.chunks !== 0 || !body) return record;
  return { ...record, payload: unpack(write, keys, payload, body) };
}

/**
 * Checks whether an event's record has another version than a lease knows, or one of the further checks
 * does not hold any more.
 */
export async function isChanged(
  { kv, keys }: StoreParts,
  lease: Lease,
  { checks }: ChangeOptions = {},
): Promise<boolean> {
  const { versionstamp } = await readRecord(kv, keys.event(lease.record));
  if (versionstamp !== lease.versionstamp) return true;
  if (!checks) return false;
  const entries = await readAll(kv, checks.map(({ key }) => key));
  return entries.some((entry, i) => entry.versionstamp !== checks[i]!.versionstamp);
}

/**
 * Keeps an event's id for as long as the event is open or dead, and for the retention once it is done.
 *
 * @returns The record, which notes that; a promise if the entry may have expired already.
 */
function keepId(
  write: Write,
  parts: StoreParts,
  record: EventRecord,
): EventRecord | Promise<EventRecord> {
  if (!hasToBeWritten(record)) return record;
  const mayBeOthers = isOld(record.receivedAt) && !record.idKept;
  if (mayBeOthers || record.state === "dead") return keepOldId(write, parts, record);
  return writeId(write, parts, record);
}

/** Checks whether the entry of an event's id has to be written with a change, to last long enough. */
function hasToBeWritten({ state, idKept, receivedAt }: EventRecord): boolean {
  if (state === "done") return idKept === true || isOld(receivedAt);
  // A dead event's entry is written even if it should exist: operators find the event by its id.
  return !idKept || state === "dead";
}

/** Renews an id's entry, unless a redelivery owns it now or it cannot be decoded. It may have expired. */
async function keepOldId(write: Write, parts: StoreParts, record: EventRecord) {
  const entry = await read(parts.kv, parts.keys.id(record.id));
  const isOthers = typeof entry.value === "number" && entry.value !== record.receivedAt;
  if (isOthers || isUndecodable(entry)) return record;
  write.check(entry);
  return writeId(write, parts, record);
}

function writeId(write: Write, { keys, retentionMs }: StoreParts, record: EventRecord) {
  const { idKept: _, ...rest } = record;
  const isDone = record.state === "done";
  const options = isDone ? { expireIn: retentionMs } : {};
  write.set(keys.id(record.id), encodeValue(record.receivedAt), options);
  return isDone ? rest : { ...rest, idKept: true };
}

function isOld(receivedAt: number): boolean {
  return Date.now() - receivedAt > DAY_MS;
}
