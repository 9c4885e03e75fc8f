/**
 * The waits of events. An event that waits for a name is parked: off its ordering group, and on the schedule at
 * the end of its time. The name has an entry that leads to the event.
 *
 * Whoever wakes the name checks and changes that entry alone, and adds an entry to the schedule that names
 * the event. The event's record is changed by the claim that finds it: this takes the value into the record
 * and deletes the name's entry, in the commit that leases the event. At the end of its time the claim does the
 * same without a value. All of them check the name's entry, so each wait has one result.
 *
 * A value that comes before anybody waits has an entry without an event, for seven days. So has one whose
 * event stopped waiting, because it was purged as unreadable: that event must not swallow it.
 *
 * @module
 */
import { checkOptions, checkString, checkTexts, met } from "../../../core/check_options.ts";
import { writeLog } from "../../../core/mod.ts";
import { CLOCK_SLACK_MS } from "../../../core/timeouts.ts";
import type { PortableWaits } from "../_portable_entries.ts";
import type { CellChange } from "../engine.ts";
import type { EndedWait, EventRecord, EventRef } from "../event_record.ts";
import type { EventOperations } from "../event_operations.ts";
import type { Lease } from "../event_store.ts";
import { isCount, isEventRef, isText, isTime, orNone, shape } from "../record_shape.ts";
import { checkRoomFor, isCancelRequested, waited } from "../record_notes.ts";
import { parked, released, unparked } from "../settlement.ts";
import { type UntakenAnswer, type Wait, WaitRefusedError, type Wake } from "../waits.ts";
import { applyChange, type ChangeOptions, isChanged } from "./_apply.ts";
import { MARK, readRecord, UndecodableError } from "./_layout.ts";
import type { StoreParts } from "./_parts.ts";
import { encodeValue } from "../value_codec.ts";
import { type Entry, isGap, list, read, readAll } from "./_reads.ts";
import { deferEntry } from "./_schedule.ts";
import { untilDone, Write } from "./_write.ts";

/** The time for which a value is kept that no event waits for yet, in milliseconds: seven days. */
const KEPT_MS = 604_800_000;

type AnswerListOptions = NonNullable<Parameters<EventOperations["answers"]>[0]>;

type WakeResult = Awaited<ReturnType<EventOperations["wake"]>>;

/** The event that a name's entry is for. An event that was replayed since is another one. */
interface Waiter extends EventRef {
  readonly run: number;
}

/** The stored entry of a name: an event that waits, a value that no event has taken yet, or both. */
interface NameRecord {
  /** The event that waits. */
  readonly for?: Waiter | undefined;
  /** The time at which the name was woken, milliseconds since the epoch; undefined before that. */
  readonly at?: number | undefined;
  /** The value that it was woken with, as JSON. */
  readonly value?: string | undefined;
}

const isNameShape = shape({
  for: orNone((value) => isEventRef(value) && isCount((value as Partial<Waiter>).run)),
  at: orNone(isTime),
  value: orNone(isText),
});

function isNameRecord(value: unknown): value is NameRecord {
  return isNameShape(value);
}

/** A name's entry, as it was read. */
interface Name {
  readonly name: string;
  readonly key: Deno.KvKey;
  readonly versionstamp: string | null;
  readonly stored: NameRecord;
  /** Set if this version cannot read it. */
  readonly isUnreadable: boolean;
  /** The record of the event that waits for it still. */
  readonly holder: EventRecord | undefined;
}

/** A change that belongs to the end of a wait: the record after, and the part of the commit that ends it. */
export interface WaitEnd {
  readonly record: EventRecord;
  readonly options: ChangeOptions;
}

/** Takes the value of a name that was woken early. Returns the lease as it was if there is none. */
export async function takeWake(
  parts: StoreParts,
  lease: Lease,
  name: string,
): Promise<Lease | null> {
  const { record } = lease;
  checkIsAlone(record);
  if (isCancelRequested(record)) throw new Error("Cannot wait: the event was cancelled");
  checkRoomFor(record, name);
  return await unlessLost(parts, lease, async () => {
    const found = await readToWait(parts, name, record);
    // It was parked under a lease that was thought to be lost.
    if (found.holder) return null;
    if (found.stored.at === undefined) return lease;
    return await applyChange(
      parts,
      lease,
      waited(record, resultOf(found)),
      takingEarly(parts, found, record),
    );
  });
}

/** Parks an event, unless its name was woken meanwhile: then it is due at once. */
export async function park(parts: StoreParts, lease: Lease, wait: Wait): Promise<boolean> {
  const { record } = lease;
  checkIsAlone(record);
  const isParked = await unlessLost(parts, lease, async () => {
    const now = Date.now();
    const after = parked(record, wait, now);
    if (after.state !== "parked") return await applyChange(parts, lease, after) !== null;
    const found = await readToWait(parts, wait.name, record);
    // The answer of an earlier try was lost, or another worker has taken the event over and parked it.
    if (found.holder) {
      return isFor(found.stored, record) && found.holder.attempt === record.attempt - 1;
    }
    if (found.stored.at === undefined) {
      return await applyChange(parts, lease, after, waitingAt(found, record)) && true;
    }
    // It was woken meanwhile.
    const back = waited(released(record, { isBegun: true }, now), resultOf(found));
    return await applyChange(parts, lease, back, takingEarly(parts, found, record)) && true;
  });
  return isParked ?? false;
}

/** Makes a change of a leased event, anew while others change a name on which it depends; null if the lease is lost. */
function unlessLost<T>(
  parts: StoreParts,
  lease: Lease,
  change: () => Promise<T | null>,
): Promise<T | null> {
  return untilDone(async () =>
    await change() ?? (await isChanged(parts, lease) ? null : undefined)
  );
}

/** Wakes a name, in a commit of its own. */
export async function wake(parts: StoreParts, wake: Wake): Promise<WakeResult> {
  const result = await untilDone(async () => {
    const found = await readToWake(parts, wake.name);
    const write = new Write().check(found);
    const result = addWake(parts, write, found, wake);
    if (result.outcome === "late") return result;
    return await parts.commits.commit(write) === null ? undefined : result;
  });
  if (result.outcome === "woken") parts.local.listener?.wake();
  return result;
}

/** Applies a change of an event, and wakes names in the same commit, if there are any. */
export function applyWaking(
  parts: StoreParts,
  lease: Lease,
  after: EventRecord,
  options: ChangeOptions,
  wakes: readonly Wake[] | undefined,
): Promise<Lease | null> {
  if (!wakes) return applyChange(parts, lease, after, options);
  return unlessLost(parts, lease, async () => {
    const found = await Promise.all(wakes.map(({ name }) => readToWake(parts, name)));
    return await applyChange(parts, lease, after, {
      ...options,
      checks: found,
      add: (write) => {
        for (const [i, wake] of wakes.entries()) addWake(parts, write, found[i]!, wake);
      },
      onCommit: () => parts.local.listener?.wake(),
    });
  });
}

/** Ends the wait of a parked event if it was woken, or its time has passed; undefined if it goes on. */
export async function endOfWait(
  parts: StoreParts,
  record: EventRecord,
  now: number,
): Promise<WaitEnd | undefined> {
  const { waitingFor, id, platform, type } = record;
  const name = await readName(parts, waitingFor!.name);
  const { stored, holder } = name;
  // It may have the answer.
  if (name.isUnreadable) throw new UndecodableError(`the entry of the name ${met(name.name)}`);
  const isMine = isFor(stored, record);
  const isWoken = stored.at !== undefined && (isMine || !holder);
  if (!isWoken && (record.dueAt === null || record.dueAt > now)) return undefined;
  const timedOut = !isWoken;
  const result = isWoken ? resultOf(name) : { name: name.name, at: now, timedOut };
  const onCommit = () => {
    countEnd(parts, record, timedOut ? "timed_out" : "woken");
    writeLog(parts.log, "info", "event woken", {
      ...{ platform, type, eventId: id, waitedFor: result.name },
      ...{ waitedMs: Math.max(0, Date.now() - waitingFor!.since), timedOut },
    });
  };
  // Otherwise the entry is another event's by now, or was lost.
  const options = isWoken || isMine ? taking(name) : {};
  return { record: unparked(record, result, now), options: { ...options, onCommit } };
}

/**
 * Registers the wait of an imported, parked event. The event is queued if the name has been woken here already, and
 * it gets that value; or if the name cannot be waited for, and its handler is told.
 */
export async function arriving(parts: StoreParts, record: EventRecord): Promise<WaitEnd> {
  const now = Date.now();
  const found = await readName(parts, record.waitingFor!.name);
  if (found.holder || found.isUnreadable) {
    return { record: unparked(record, undefined, now), options: {} };
  }
  return found.stored.at === undefined
    ? { record, options: waitingAt(found, record) }
    : { record: unparked(record, resultOf(found), now), options: taking(found) };
}

/** Makes what an export and an import need of the waits. */
export function portableWaits(parts: StoreParts): PortableWaits {
  return {
    answers: () => answers(parts),
    cellOf: (name, at, value, now) => ({
      ...{ key: ["waiter", name], after: storedAnswer(at, value) },
      // By a clock that was ahead, it would have come in the future.
      forMs: Math.min(KEPT_MS, at + KEPT_MS - now),
    }),
    restoreWake: (wake, mark) => restoreWake(parts, wake, mark),
  };
}

/**
 * Wakes an event here with a value that comes from another store.
 *
 * @param parts The store.
 * @param wake The name and the value.
 * @param mark A mark, which is set with it for a time: with it, the value was restored before.
 * @returns False if it was, or no event waits for the name.
 */
async function restoreWake(
  parts: StoreParts,
  wake: Wake,
  mark: CellChange,
): Promise<boolean> {
  return await untilDone(async () => {
    const before = await read(parts.kv, parts.keys.cell(mark.key));
    const found = await readName(parts, wake.name);
    if (before.versionstamp !== null || !found.holder || found.isUnreadable) return false;
    const write = new Write().check(before).check(found);
    if (addWake(parts, write, found, wake).outcome !== "woken") return false;
    write.set(parts.keys.cell(mark.key), MARK, { expireIn: mark.forMs! });
    if (await parts.commits.commit(write) === null) return undefined;
    parts.local.listener?.wake();
    return true;
  });
}

/** Makes the part of a commit that takes a parked event off its name, because it stops waiting. */
export async function leavingName(parts: StoreParts, record: EventRecord): Promise<ChangeOptions> {
  const name = await readName(parts, record.waitingFor!.name);
  return isFor(name.stored, record) ? taking(name) : {};
}

function addWake(
  { keys }: StoreParts,
  write: Write,
  { key, stored, holder }: Name,
  { value }: Wake,
): WakeResult {
  if (stored.at !== undefined) return { outcome: "late" };
  const woken: NameRecord = { at: Date.now(), value };
  if (!holder) {
    write.set(key, encodeValue(woken), { expireIn: KEPT_MS });
    return { outcome: "kept" };
  }
  write.set(key, encodeValue({ ...woken, for: stored.for } satisfies NameRecord));
  deferEntry(write, keys, holder, 0);
  write.notifies = true;
  return { outcome: "woken", eventId: holder.id };
}

/** Takes a value that came early. One from before the event may be the answer to another one's question. */
function takingEarly(parts: StoreParts, found: Name, record: EventRecord): ChangeOptions {
  const { id, platform, type, receivedAt } = record;
  const olderByMs = receivedAt - found.stored.at!;
  const onCommit = () => {
    countEnd(parts, record, "early");
    if (olderByMs <= CLOCK_SLACK_MS) return;
    const fields = { platform, type, eventId: id, waitedFor: found.name, olderByMs };
    writeLog(parts.log, "warn", "answer is older than its event", fields);
  };
  return { ...taking(found), onCommit };
}

function countEnd(
  { local }: StoreParts,
  { platform }: EventRecord,
  outcome: "woken" | "early" | "timed_out",
): void {
  local.listener?.count?.({ is: "wait_ended", platform, outcome });
}

async function readToWait(parts: StoreParts, name: string, record: EventRecord): Promise<Name> {
  const found = await readName(parts, name);
  if (found.holder && found.holder.id !== record.id) {
    const { id } = found.holder;
    throw new WaitRefusedError(`Cannot wait for ${met(name)}: event ${id} waits for it already`);
  }
  if (found.isUnreadable) {
    throw new WaitRefusedError(`Cannot wait for ${met(name)}: ${UNREADABLE}`);
  }
  return found;
}

async function readToWake(parts: StoreParts, name: string): Promise<Name> {
  const found = await readName(parts, name);
  if (found.isUnreadable) throw new Error(`Cannot wake ${met(name)}: ${UNREADABLE}`);
  return found;
}

/** Lists the values that no event has taken yet, by their names. Entries that cannot be read are left out. */
export function answers(
  parts: StoreParts,
  options: AnswerListOptions = {},
): AsyncGenerator<UntakenAnswer> {
  checkAnswerList(options);
  return answersOf(parts, options);
}

function checkAnswerList(options: AnswerListOptions): void {
  checkOptions("list the answers", options, { names: checkTexts, prefix: checkString });
}

async function* answersOf(
  parts: StoreParts,
  options: AnswerListOptions,
): AsyncGenerator<UntakenAnswer> {
  for await (const entry of entriesOf(parts, options)) {
    if (!isNameRecord(entry.value)) continue;
    const found = await nameOf(parts, String(entry.key.at(-1)), entry);
    if (found.stored.at !== undefined) yield answerOf(parts, found, found.stored.at);
  }
}

async function* entriesOf(
  { kv, keys }: StoreParts,
  { names, prefix = "" }: AnswerListOptions,
): AsyncGenerator<Entry> {
  const isMeant = (name: string) => name.startsWith(prefix);
  if (names) {
    const wanted = [...new Set(names)].filter((name) => isMeant(name) && name.isWellFormed());
    return yield* await readAll(kv, wanted.sort().map((name) => keys.waiter(name)));
  }
  const start = prefix === "" ? {} : { start: keys.waiter(prefix) };
  for await (const entry of list(kv, { ...keys.waiters, ...start })) {
    if (isGap(entry) || isMeant(String(entry.key.at(-1)))) yield entry;
    else if (prefix !== "") return;
  }
}

function answerOf({ kv, marks }: StoreParts, found: Name, at: number): UntakenAnswer {
  const { name, key, holder, stored: { value } } = found;
  return {
    ...{ name, at, value: valueIn(value) },
    ...{ eventId: holder?.id, keptUntil: holder ? undefined : at + KEPT_MS },
    delete: async () => !holder && (await marks.commit(kv.atomic().delete(key), [found])).ok,
  };
}

async function readName(parts: StoreParts, name: string): Promise<Name> {
  return await nameOf(parts, name, await read(parts.kv, parts.keys.waiter(name)));
}

async function nameOf(
  { kv, keys }: StoreParts,
  name: string,
  { key, value, versionstamp }: Entry,
): Promise<Name> {
  const isReadable = isNameRecord(value);
  const stored: NameRecord = isReadable && !isPast(value) ? value : {};
  const { record } = stored.for ? await readRecord(kv, keys.event(stored.for)) : {};
  const holds = record?.state === "parked" && record.waitingFor?.name === name &&
    isFor(stored, record);
  const isUnreadable = versionstamp !== null && !isReadable;
  return { name, key, versionstamp, stored, isUnreadable, holder: holds ? record : undefined };
}

const UNREADABLE = "another version wrote the entry of the name, or it is damaged";

/** Refuses to let an event wait that is handled together with others: these would have to wait with it. */
function checkIsAlone({ batch }: EventRecord): void {
  if (!batch || batch.events < 2) return;
  throw new WaitRefusedError(
    `Cannot wait: the event is handled together with ${batch.events - 1} earlier ones`,
  );
}

function taking(name: Name): ChangeOptions {
  return { checks: [name], add: (write) => void write.delete(name.key) };
}

/** Makes the stored entry of a value that came before any event waited. */
function storedAnswer(at: number, value: unknown): object {
  return { at, value: JSON.stringify(value) } satisfies NameRecord;
}

function waitingAt(name: Name, { id, receivedAt, run = 0 }: EventRecord): ChangeOptions {
  const stored = encodeValue({ for: { id, receivedAt, run } } satisfies NameRecord);
  return { checks: [name], add: (write) => void write.set(name.key, stored) };
}

function resultOf({ name, stored: { at = 0, value } }: Name): EndedWait {
  return value === undefined ? { name, at } : { name, at, value };
}

/** Reads a value; undefined for none, or a damaged one: the others are listed all the same. */
function valueIn(json: string | undefined): unknown {
  try {
    return json === undefined ? undefined : JSON.parse(json);
  } catch {
    return undefined;
  }
}

/** Checks whether a value is too old for an event to take it: a KV may expire it later. */
function isPast({ for: waiter, at }: NameRecord): boolean {
  return !waiter && at !== undefined && Date.now() - at >= KEPT_MS;
}

/** Checks whether a name's entry is for an event, in its current run. */
function isFor({ for: waiter }: NameRecord, { id, receivedAt, run = 0 }: EventRecord): boolean {
  return waiter?.id === id && waiter.receivedAt === receivedAt && waiter.run === run;
}
