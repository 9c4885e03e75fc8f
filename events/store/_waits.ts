/**
 * The waits of events. An event that waits for a name is parked: off its ordering group, and due at the end
 * of its time. The name has a cell that leads to the event.
 *
 * Whoever wakes the name checks and changes that cell alone, and makes the event due. The event's record is changed by
 * the claim that finds it: this takes the value into the record and deletes the name's cell, in the change that leases
 * the event. At the end of its time the claim does the same without a value. All of them check the name's cell, so
 * each wait has one result.
 *
 * A value that comes before anybody waits has a cell without an event, for seven days. So has one whose
 * event stopped waiting, because it was purged as unreadable: that event must not swallow it.
 *
 * @module
 */
import { checkOptions, checkString, checkTexts, met } from "../../core/check_options.ts";
import { writeLog } from "../../core/mod.ts";
import { isCount, isText, isTime, orNone, shape } from "../../core/shape.ts";
import { CLOCK_SLACK_MS } from "../../core/timeouts.ts";
import { untilDone } from "../../core/tries.ts";
import { settle } from "./_settlement.ts";
import {
  type BoundedCount,
  type Cell,
  type CellChange,
  type CellKey,
  type Move,
  type Stored,
  UndecodableError,
} from "./engine.ts";
import { type EndedWait, type EventRecord, type EventRef, isEventRef } from "./event_record.ts";
import type { EventOperations } from "./event_store.ts";
import {
  checkRoomFor,
  isCancelRequested,
  parked,
  released,
  unparked,
  waited,
  whoOf,
} from "./settlement.ts";
import type { StoreCore } from "./store_core.ts";
import {
  checkIsAlone,
  type UntakenAnswer,
  type Wait,
  WaitRefusedError,
  type Wake,
} from "./waits.ts";

/** The kind of the cells of names. */
const WAITER = "waiter";

/** The time for which a value is kept that no event waits for yet, in milliseconds: seven days. */
const KEPT_MS = 604_800_000;

type AnswerListOptions = NonNullable<Parameters<EventOperations["answers"]>[0]>;

type WakeResult = Awaited<ReturnType<EventOperations["wake"]>>;

/** The event that a name's cell is for. An event that was replayed since is another one. */
interface Waiter extends EventRef {
  readonly run: number;
}

/** The value of a name's cell: an event that waits, a value that no event has taken yet, or both. */
interface NameRecord {
  /** The event that waits. */
  readonly for?: Waiter | undefined;
  /** The time at which the name was woken, milliseconds since the epoch; undefined before that. */
  readonly at?: number | undefined;
  /** The value that it was woken with, as JSON. */
  readonly value?: string | undefined;
  /** The person or the tool that has woken it. */
  readonly by?: string | undefined;
}

const isNameRecord = shape<NameRecord>({
  for: orNone((value) => isEventRef(value) && isCount((value as Partial<Waiter>).run)),
  at: orNone(isTime),
  value: orNone(isText),
  by: orNone(isText),
});

/** A name's cell, as it was read. */
export interface Name extends Pick<Cell, "version"> {
  readonly name: string;
  readonly stored: NameRecord;
  /** Set if this version cannot read it. */
  readonly isUnreadable: boolean;
  /** The record of the event that waits for it still. */
  readonly holder: EventRecord | undefined;
}

/** The part of a change that wakes names. */
interface Waking {
  readonly cells: readonly CellChange[];
  readonly moves: readonly Move[];
  /** Set if an event waits for one of them. */
  readonly announce: boolean;
}

/** A change that belongs to the end of a wait: the record after, and the part of the change that ends it. */
export interface WaitEnd {
  readonly record: EventRecord;
  readonly cells: readonly CellChange[];
  /** Called once the change is made. */
  readonly onMade?: (() => void) | undefined;
}

/** Takes the value of a name that was woken early. Returns the lease as it was if there is none. */
export async function takeWake(
  core: StoreCore,
  lease: Stored,
  name: string,
): Promise<Stored | null> {
  const { record } = lease;
  checkIsAlone(record);
  if (isCancelRequested(record)) throw new Error("Cannot wait: the event was cancelled");
  checkRoomFor(record, name);
  return await untilDone(async () => {
    const found = await readToWait(core, name, record);
    // It was parked under a lease that was thought to be lost.
    if (found.holder) return null;
    if (found.stored.at === undefined) return lease;
    return await takeEarly(core, lease, found, waited(record, resultOf(found)));
  });
}

/** Parks an event, unless its name was woken meanwhile: then it is due at once. */
export async function park(core: StoreCore, lease: Stored, wait: Wait): Promise<boolean> {
  const { record } = lease;
  checkIsAlone(record);
  const held = await untilDone(async () => {
    const now = core.engine.now();
    const after = parked(record, wait, now);
    if (after.state !== "parked") return await settle(core, lease, after);
    const found = await readToWait(core, wait.name, record);
    // The answer of an earlier try was lost, or another worker has taken the event over and parked it.
    if (found.holder) {
      return isFor(found.stored, record) && found.holder.attempt === record.attempt - 1
        ? lease
        : null;
    }
    if (found.stored.at === undefined) {
      return await settle(core, lease, after, { cells: [waitingAt(found, record)] });
    }
    // It was woken meanwhile.
    const back = waited(released(record, { isBegun: true }, now), resultOf(found));
    return await takeEarly(core, lease, found, back);
  });
  return held !== null;
}

/**
 * Takes a value that came early. One from before the event may be the answer to another one's question.
 *
 * @returns The event after; null if it was changed meanwhile, undefined if the name was.
 */
async function takeEarly(
  core: StoreCore,
  lease: Stored,
  found: Name,
  after: EventRecord,
): Promise<Stored | null | undefined> {
  const taken = await settle(core, lease, after, { cells: [taking(found)] });
  if (!taken) return taken;
  const { id, platform, type, receivedAt } = after;
  countEnd(core, after, "early");
  const olderByMs = receivedAt - found.stored.at!;
  if (olderByMs > CLOCK_SLACK_MS) {
    const fields = { platform, type, eventId: id, waitedFor: found.name, olderByMs };
    writeLog(core.log, "warn", "answer is older than its event", fields);
  }
  return taken;
}

/** Wakes a name, in a change of its own: only for a certain event if that is given. */
export async function wake(core: StoreCore, wake: Wake, eventId?: string): Promise<WakeResult> {
  return await untilDone(async () => {
    const found = await readToWake(core, wake.name);
    if (eventId !== undefined && found.holder?.id !== eventId) return { outcome: "late" };
    const { result, ...change } = wakingOf(core, found, wake);
    if (result.outcome === "late") return result;
    return (await core.engine.apply({ ...change, urgency: "work" })).ok ? result : undefined;
  });
}

/** Reads names, and makes the part of a change that wakes them, see {@linkcode wakeAll}. */
export async function wakeChange(core: StoreCore, wakes: readonly Wake[]): Promise<Waking> {
  const reading = wakes.map(async ({ name }) => [name, await readToWake(core, name)] as const);
  return wakeAll(core, wakes, new Map(await Promise.all(reading)));
}

/**
 * Makes the part of a change that wakes names. If a cell of theirs has changed meanwhile, it is to be made anew.
 *
 * @param core The store.
 * @param wakes The names, with their values.
 * @param names The names, as they were read.
 */
export function wakeAll(
  core: StoreCore,
  wakes: readonly Wake[],
  names: ReadonlyMap<string, Name>,
): Waking {
  const wakings = wakes.map((wake) => wakingOf(core, names.get(wake.name)!, wake));
  return {
    cells: wakings.flatMap(({ cells }) => cells),
    moves: wakings.flatMap(({ moves }) => moves),
    announce: wakings.some(({ announce }) => announce),
  };
}

/** Ends the wait of a parked event if it was woken, or its time has passed; undefined if it goes on. */
export async function endOfWait(
  core: StoreCore,
  record: EventRecord,
  now: number,
): Promise<WaitEnd | undefined> {
  const { waitingFor, id, platform, type } = record;
  const name = await readName(core, waitingFor!.name);
  const { stored, holder } = name;
  // It may have the answer.
  if (name.isUnreadable) throw new UndecodableError(`the entry of the name ${met(name.name)}`);
  const isMine = isFor(stored, record);
  const isWoken = stored.at !== undefined && (isMine || !holder);
  if (!isWoken && (record.dueAt === null || record.dueAt > now)) return undefined;
  const timedOut = !isWoken;
  const result = isWoken ? resultOf(name) : { name: name.name, at: now, timedOut };
  const onMade = () => {
    countEnd(core, record, timedOut ? "timed_out" : "woken");
    writeLog(core.log, "info", "event woken", {
      ...{ platform, type, eventId: id, waitedFor: result.name },
      ...{ waitedMs: Math.max(0, core.engine.now() - waitingFor!.since), timedOut },
    });
  };
  // Otherwise the cell is another event's by now, or was lost.
  const cells = isWoken || isMine ? [taking(name)] : [];
  return { record: unparked(record, result, now), cells, onMade };
}

/**
 * Registers the wait of an imported, parked event. The event is queued if the name has been woken here already, and
 * it gets that value; or if the name cannot be waited for, and its handler is told.
 */
export async function arriving(core: StoreCore, record: EventRecord): Promise<WaitEnd> {
  const now = core.engine.now();
  const found = await readName(core, record.waitingFor!.name);
  if (found.holder || found.isUnreadable) {
    return { record: unparked(record, undefined, now), cells: [] };
  }
  return found.stored.at === undefined
    ? { record, cells: [waitingAt(found, record)] }
    : { record: unparked(record, resultOf(found), now), cells: [taking(found)] };
}

/**
 * Wakes an event here with a value that comes from another store.
 *
 * @param core The store.
 * @param wake The name and the value.
 * @param mark The cell that is written with it. If it is there already, the value was restored before.
 * @returns False if it was, or no event waits for the name.
 */
export async function restoreWake(
  core: StoreCore,
  wake: Wake,
  mark: CellChange,
): Promise<boolean> {
  return await untilDone(async () => {
    const [before] = await core.engine.cells([mark.key]);
    const found = await readName(core, wake.name);
    if (before!.version !== null || !found.holder || found.isUnreadable) return false;
    const { result, cells, ...change } = wakingOf(core, found, wake);
    if (result.outcome !== "woken") return false;
    const both = [...cells, mark];
    const applied = await core.engine.apply({ ...change, cells: both, urgency: "work" });
    return applied.ok || undefined;
  });
}

/** Makes the part of a change that takes a parked event off its name, because it stops waiting. */
export async function leavingName(core: StoreCore, record: EventRecord): Promise<CellChange[]> {
  const name = await readName(core, record.waitingFor!.name);
  return isFor(name.stored, record) ? [taking(name)] : [];
}

export function wakingOf(
  { engine }: StoreCore,
  { name, version, stored, holder }: Name,
  { value, by }: Wake,
): Waking & { readonly result: WakeResult } {
  const cell = { key: keyOf(name), version };
  const none = { moves: [], announce: false };
  if (stored.at !== undefined) return { ...none, cells: [cell], result: { outcome: "late" } };
  const woken: NameRecord = { at: engine.now(), value, ...(by !== undefined && { by: whoOf(by) }) };
  if (!holder) {
    const kept = { ...cell, after: woken, forMs: KEPT_MS };
    return { ...none, cells: [kept], result: { outcome: "kept" } };
  }
  return {
    cells: [{ ...cell, after: { ...woken, for: stored.for } satisfies NameRecord }],
    moves: [{ event: holder, afterMs: 0 }],
    announce: true,
    result: { outcome: "woken", eventId: holder.id },
  };
}

function countEnd(
  { local }: StoreCore,
  { platform }: EventRecord,
  outcome: "woken" | "early" | "timed_out",
): void {
  local.listener?.count?.({ is: "wait_ended", platform, outcome });
}

async function readToWait(core: StoreCore, name: string, record: EventRecord): Promise<Name> {
  const found = await readName(core, name);
  if (found.holder && found.holder.id !== record.id) {
    const { id } = found.holder;
    throw new WaitRefusedError(`Cannot wait for ${met(name)}: event ${id} waits for it already`);
  }
  if (found.isUnreadable) {
    throw new WaitRefusedError(`Cannot wait for ${met(name)}: ${UNREADABLE}`);
  }
  return found;
}

/** Reads a name that is to be woken. */
export async function readToWake(core: StoreCore, name: string): Promise<Name> {
  const found = await readName(core, name);
  if (found.isUnreadable) throw new Error(`Cannot wake ${met(name)}: ${UNREADABLE}`);
  return found;
}

/** Lists the values that no event has taken yet, by their names. Cells that cannot be read are left out. */
export function answers(
  core: StoreCore,
  options: AnswerListOptions = {},
): AsyncGenerator<UntakenAnswer> {
  checkAnswerList(options);
  return answersOf(core, options);
}

function checkAnswerList(options: AnswerListOptions): void {
  checkOptions("list the answers", options, { names: checkTexts, prefix: checkString });
}

async function* answersOf(
  core: StoreCore,
  options: AnswerListOptions,
): AsyncGenerator<UntakenAnswer> {
  for await (const cell of cellsOf(core, options)) {
    if (!isNameRecord(cell.value) || cell.value.at === undefined) continue;
    const found = await nameOf(core, String(cell.key[1]), cell);
    if (found.stored.at !== undefined) yield answerOf(core, found, found.stored.at);
  }
}

async function* cellsOf(
  { engine }: StoreCore,
  { names, prefix = "" }: AnswerListOptions,
): AsyncGenerator<Cell> {
  if (names) {
    const wanted = [...new Set(names)]
      .filter((name) => name.startsWith(prefix) && name.isWellFormed());
    return yield* await engine.cells(wanted.sort().map(keyOf));
  }
  const from = prefix === "" ? undefined : keyOf(prefix);
  for await (const cell of engine.list([WAITER], { from })) {
    const [, name] = cell.key;
    if (name === undefined || String(name).startsWith(prefix)) yield cell;
    else if (prefix !== "") return;
  }
}

/** Counts the parked events whose names were woken: each goes on when it is claimed. Reads the names alone. */
export async function countAnswered(
  { engine }: StoreCore,
  max: number,
  signal?: AbortSignal,
): Promise<BoundedCount> {
  let [count, read] = [0, 0];
  for await (const { value } of engine.list([WAITER])) {
    if (signal?.aborted || ++read > max) return { count, isMore: true };
    if (isNameRecord(value) && value.for && value.at !== undefined) count++;
  }
  return { count, isMore: false };
}

function answerOf({ engine }: StoreCore, found: Name, at: number): UntakenAnswer {
  const { name, holder, stored: { value, by } } = found;
  const change = { cells: [taking(found)], urgency: "work" } as const;
  return {
    ...{ name, at, value: valueIn(value), ...(by !== undefined && { by }) },
    ...{ eventId: holder?.id, keptUntil: holder ? undefined : at + KEPT_MS },
    delete: async () => !holder && (await engine.apply(change)).ok,
  };
}

async function readName(core: StoreCore, name: string): Promise<Name> {
  const [cell] = await core.engine.cells([keyOf(name)]);
  return await nameOf(core, name, cell!);
}

async function nameOf(
  { engine }: StoreCore,
  name: string,
  { value, version }: Cell,
): Promise<Name> {
  const isReadable = isNameRecord(value);
  const stored: NameRecord = isReadable && !isPast(value, engine.now()) ? value : {};
  const [waiter] = stored.for ? await engine.get([stored.for]) : [];
  const record = waiter?.record;
  const holds = record?.state === "parked" && record.waitingFor?.name === name &&
    isFor(stored, record);
  const isUnreadable = version !== null && !isReadable;
  return { name, version, stored, isUnreadable, holder: holds ? record : undefined };
}

function keyOf(name: string): CellKey {
  return [WAITER, name];
}

const UNREADABLE = "another version wrote the entry of the name, or it is damaged";

function taking({ name, version }: Name): CellChange {
  return { key: keyOf(name), version, after: null };
}

/** Makes the cell of a value that came before any event waited. Its time is over if that is not positive. */
export function answerCell(name: string, at: number, value: unknown, now: number): CellChange {
  const after = { at, value: JSON.stringify(value) } satisfies NameRecord;
  // By a clock that was ahead, it would have come in the future.
  return { key: keyOf(name), after, forMs: Math.min(KEPT_MS, at + KEPT_MS - now) };
}

function waitingAt({ name, version }: Name, { id, receivedAt, run = 0 }: EventRecord): CellChange {
  const after = { for: { id, receivedAt, run } } satisfies NameRecord;
  return { key: keyOf(name), version, after };
}

function resultOf({ name, stored: { at = 0, value, by } }: Name): EndedWait {
  return { name, at, ...(value !== undefined && { value }), ...(by !== undefined && { by }) };
}

/** Reads a value; undefined for none, or a damaged one: the others are listed all the same. */
function valueIn(json: string | undefined): unknown {
  try {
    return json === undefined ? undefined : JSON.parse(json);
  } catch {
    return undefined;
  }
}

/** Checks whether a value is too old for an event to take it: an engine may forget it later. */
function isPast({ for: waiter, at }: NameRecord, now: number): boolean {
  return !waiter && at !== undefined && now - at >= KEPT_MS;
}

/** Checks whether a name's cell is for an event, in its current run. */
function isFor({ for: waiter }: NameRecord, { id, receivedAt, run = 0 }: EventRecord): boolean {
  return waiter?.id === id && waiter.receivedAt === receivedAt && waiter.run === run;
}
