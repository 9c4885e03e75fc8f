import { Buffer } from "node:buffer";
import {
  checkFilled,
  checkOptions,
  checkWellFormed,
  MAX_KEPT_MS,
  wholeNumber,
} from "../../core/check_options.ts";
import { nonJsonPartOf } from "../../core/json_value.ts";
import { isTime, orNull, shape } from "../../core/shape.ts";
import type { Cell, CellChange, CellKey, Engine, SettlementRoom, Version } from "./engine.ts";
import { isUnnamed, nameOfCell, type StoreCore } from "./store_core.ts";

/** Longest key of a state, see `Limits`. */
const MAX_KEY_LENGTH = 256;

/** Kind of the cells of states. */
const STATE = "state";

/** The number of states that are read at a time: each may be large. */
const AT_ONCE = 50;

const [READING, SETTING] = ["read the state", "set the state"] as const;

/**
 * Options of reading a state.
 *
 * @category Flows
 */
export interface StateOptions {
  /**
   * The intake whose states are meant. Intakes do not share states: two bots of a messenger have chats of the same
   * number.
   *
   * @default {undefined} In a handler the event's intake, and otherwise none.
   */
  readonly intake?: string | undefined;
}

/**
 * Options of setting a state.
 *
 * @category Flows
 */
export interface SetStateOptions {
  /**
   * The time after which the state is forgotten, in milliseconds from the commit.
   *
   * @default {undefined} It stays until it is deleted.
   */
  readonly expireAfterMs?: number | undefined;
}

/**
 * A state, as a handler gets it: the progress of a conversation, or of another course of events.
 *
 * @typeParam TValue The type of its value, which is not checked: it was set before.
 * @category Flows
 */
export interface HandlerState<TValue> {
  /** The value, with what this handler has set; undefined if there is none. To change it, set it. */
  readonly value: TValue | undefined;
  /**
   * Sets the value in the commit that settles the event. It is copied now: set it again after changing it.
   *
   * @param value The value: what JSON has. Members that are undefined are left out.
   * @param options The time after which it is forgotten.
   * @throws {TypeError} If JSON would change it (a date, a map, `NaN`), it is undefined, or the handler has ended.
   * @throws {RangeError} If it takes more bytes than the store's `room.stateBytes`, or the time is out of range.
   */
  set(value: TValue, options?: SetStateOptions): void;
  /**
   * Deletes the value in the commit that settles the event.
   *
   * @throws {TypeError} If the handler has ended.
   */
  delete(): void;
}

/**
 * A state, as a route, a test or another part of an app gets it from the store.
 *
 * @typeParam TValue The type of its value, which is not checked: it was set before.
 * @category Flows
 */
export interface StoredState<TValue> {
  /** Its version, which each change makes anew; null if there is none. */
  readonly version: string | null;
  /** The value; undefined if there is none. */
  readonly value: TValue | undefined;
  /**
   * Sets the value now, unless somebody has changed it since it was read.
   *
   * @param value The value: what JSON has. Members that are undefined are left out.
   * @param options The time after which it is forgotten.
   * @returns False if it was changed meanwhile: read it again.
   * @throws {TypeError} If JSON would change it (a date, a map, `NaN`), or it is undefined.
   * @throws {RangeError} If it takes more bytes than the store's `room.stateBytes`, or the time is out of range.
   * @throws {Error} If the store fails: whether it was set is not known then.
   */
  set(value: TValue, options?: SetStateOptions): Promise<boolean>;
  /**
   * Deletes the value now, unless somebody has changed it since it was read.
   *
   * @returns False if it was changed meanwhile: read it again.
   * @throws {Error} If the store fails: whether it was deleted is not known then.
   */
  delete(): Promise<boolean>;
}

/**
 * A state as a list has it.
 *
 * @category Flows
 */
export interface ListedState {
  /** The intake that it belongs to; undefined for none. */
  readonly intake: string | undefined;
  /** The key. */
  readonly key: string;
  /** Its version, which each change makes anew. */
  readonly version: string;
  /** The value; undefined if the entry cannot be read. */
  readonly value: unknown;
  /** The time at which it is forgotten, milliseconds since the epoch; undefined if it stays. */
  readonly expiresAt: number | undefined;
  /** Set if another version wrote it, or it is damaged. */
  readonly isUnreadable: boolean;
  /**
   * Deletes it now, unless somebody has changed it since it was read.
   *
   * @returns False if it was changed meanwhile.
   */
  delete(): Promise<boolean>;
}

/**
 * Thrown when a state was changed by somebody else while its handler ran. The attempt has failed then.
 *
 * @category Flows
 */
export class StateConflictError extends Error {
  /** The class's name. */
  override readonly name = "StateConflictError";
  /** The key of the state. */
  readonly key: string;

  /**
   * Creates the error.
   *
   * @param key The key of the state. The message does not have it, since it may name a person.
   */
  constructor(key: string) {
    super("A state that the handler has changed was changed by another one meanwhile");
    this.key = key;
  }
}

/** The change of a state: what its entry becomes, or null for its deletion. */
export type StateChange = StateEntry | null;

/** The new entry of a state. */
interface StateEntry {
  /** A copy of the value. */
  readonly value: unknown;
  /** The time after which it is forgotten, in milliseconds; undefined if it stays. */
  readonly forMs: number | undefined;
}

/** An entry as it is stored. */
interface StoredEntry {
  /** The time at which the state is forgotten; null if it stays. */
  readonly until: number | null;
  /** The value. */
  readonly value: unknown;
}

/** Options of listing states. */
interface StateListOptions {
  readonly intake?: string | undefined;
  readonly prefix?: string | undefined;
}

const isEntry = shape<StoredEntry>({
  until: orNull(isTime),
  value: (value) => value !== undefined,
});

/** Reads a state. */
export async function readState<TValue>(
  { engine }: StoreCore,
  key: string,
  options: StateOptions = {},
): Promise<StoredState<TValue>> {
  checkState(key, options);
  const [cell] = await engine.cells([stateKey(options.intake ?? "", key)]);
  const value = valueOf(cell!.value, engine.now()) as TValue | undefined;
  return new CellState(engine, cell!, value, cell!.version !== null && value === undefined);
}

/** Lists states in the order of their intakes and keys. */
export function listStates(
  core: StoreCore,
  options: StateListOptions = {},
): AsyncIterableIterator<ListedState> {
  checkOptions("list the states", options, { intake: checkWellFormed, prefix: checkWellFormed });
  return listed(core, options);
}

/** Checks the key of a state, and the options with which it is read. */
export function checkState(key: unknown, options: StateOptions): void {
  checkOptions(READING, options, { intake: checkWellFormed });
  checkFilled(READING, "key", key);
  checkWellFormed(READING, "key", key);
  if ((key as string).length <= MAX_KEY_LENGTH && (options.intake ?? "").length <= MAX_KEY_LENGTH) {
    return;
  }
  throw new RangeError(
    `Cannot ${READING}: 'key' and 'intake' must have up to ${MAX_KEY_LENGTH} characters`,
  );
}

/** Makes the new entry of a state, which an engine has some room for. */
export function entryOf(
  value: unknown,
  options: SetStateOptions = {},
  room: SettlementRoom,
): StateEntry {
  checkOptions(SETTING, options, { expireAfterMs: wholeNumber({ max: MAX_KEPT_MS }) });
  const { expireAfterMs } = options;
  if (value === undefined) {
    throw new TypeError(`Cannot ${SETTING}: 'value' must not be undefined: delete the state`);
  }
  const wrong = nonJsonPartOf(value);
  if (wrong) throw new TypeError(`Cannot ${SETTING}: it must be JSON, and ${wrong}`);
  const json = JSON.stringify(value);
  checkSize(json, room);
  return { value: JSON.parse(json), forMs: expireAfterMs };
}

/** Makes the entry of a state that comes from another store. */
export function entryUntil(
  value: unknown,
  until: number | undefined,
  now: number,
  room: SettlementRoom,
): StateEntry {
  checkSize(JSON.stringify(value), room);
  return {
    value,
    forMs: until === undefined ? undefined : Math.min(until - now, MAX_KEPT_MS),
  };
}

/** Makes the key of the cell of a state; the intake is empty for none. */
export function stateKey(intake: string, key: string): CellKey {
  return [STATE, intake, key];
}

/**
 * Makes the change of a state's cell.
 *
 * @param key The key of the cell.
 * @param version The version that it must have still.
 * @param change The change.
 * @param now The time at which the new entry's time begins.
 * @returns The change of the cell.
 */
export function stateChange(
  key: CellKey,
  version: Version | null,
  change: StateChange,
  now: number,
): CellChange {
  if (!change) return { key, version, after: null };
  const { value, forMs } = change;
  // An engine may forget what has expired only after a while.
  const until = forMs === undefined ? null : now + forMs;
  return { key, version, after: { until, value } satisfies StoredEntry, forMs };
}

async function* listed(
  core: StoreCore,
  { intake, prefix = "" }: StateListOptions,
): AsyncGenerator<ListedState> {
  const { engine } = core;
  // Of each intake only those that begin with it are read.
  if (intake === undefined && prefix !== "") {
    for await (const each of intakesOf(engine)) yield* listed(core, { intake: each, prefix });
    return;
  }
  const begin: CellKey = intake === undefined ? [STATE] : [STATE, intake];
  const isOrdered = intake !== undefined && prefix !== "";
  const from = isOrdered ? stateKey(intake, prefix) : undefined;
  for await (const cell of engine.list(begin, { from, atOnce: AT_ONCE })) {
    if (isUnnamed(cell, begin) || nameOfCell(cell, begin).startsWith(prefix)) {
      const state = listedOf(engine, begin, cell);
      if (state) yield state;
    } else if (isOrdered) return;
  }
}

/** Finds the intakes that have states, each with one read. */
async function* intakesOf(engine: Engine): AsyncGenerator<string> {
  let from: CellKey | undefined;
  while (true) {
    const first = await firstCell(engine, from);
    if (!first) return;
    const intake = String(first.key[1]);
    yield intake;
    // The first key behind all of that intake.
    from = [STATE, `${intake}\0`];
  }
}

/** Reads the first cell of a state from a key on, if its own key can be read; undefined if there is none. */
async function firstCell(engine: Engine, from: CellKey | undefined): Promise<Cell | undefined> {
  for await (const cell of engine.list([STATE], { from, atOnce: 1 })) {
    if (!isUnnamed(cell, [STATE])) return cell;
  }
  return undefined;
}

/** Reads a state that was listed; undefined if it has expired. */
function listedOf(engine: Engine, begin: CellKey, cell: Cell): ListedState | undefined {
  const entry = isEntry(cell.value) ? cell.value : undefined;
  if (entry && isOver(entry, engine.now())) return undefined;
  const intake = isUnnamed(cell, begin) ? undefined : String(cell.key.at(-2)) || undefined;
  const state = new CellState(engine, cell, undefined);
  return {
    ...{ intake, key: nameOfCell(cell, begin), version: cell.version! },
    ...{ value: entry?.value, expiresAt: entry?.until ?? undefined, isUnreadable: !entry },
    delete: () => state.delete(),
  };
}

class CellState<TValue> implements StoredState<TValue> {
  version: Version | null;
  value: TValue | undefined;
  readonly #engine: Engine;
  readonly #key: CellKey;
  /** Set if its entry was there and had expired: the engine forgets it at any moment. */
  readonly #hasExpired: boolean;

  constructor(
    engine: Engine,
    { key, version }: Cell,
    value: TValue | undefined,
    hasExpired = false,
  ) {
    this.#engine = engine;
    this.#key = key;
    this.version = version;
    this.value = value;
    this.#hasExpired = hasExpired;
  }

  async set(value: TValue, options?: SetStateOptions): Promise<boolean> {
    return await this.#change(entryOf(value, options, this.#engine.limits.room), value);
  }

  async delete(): Promise<boolean> {
    return await this.#change(null, undefined);
  }

  async #change(change: StateChange, value: TValue | undefined): Promise<boolean> {
    const apply = () => {
      const cell = stateChange(this.#key, this.version, change, this.#engine.now());
      return this.#engine.apply({ cells: [cell], urgency: "work" });
    };
    let result = await apply();
    if (!result.ok && await this.#isForgotten()) result = await apply();
    if (!result.ok) return false;
    this.version = change ? result.version : null;
    this.value = value;
    return true;
  }

  /** Checks whether an entry that had expired when it was read is gone by now: nobody has changed it. */
  async #isForgotten(): Promise<boolean> {
    if (!this.#hasExpired || this.value !== undefined || this.version === null) return false;
    const [cell] = await this.#engine.cells([this.#key]);
    if (cell!.version !== null) return false;
    this.version = null;
    return true;
  }
}

/** Takes the value from what is stored: undefined for none, or one that has expired. */
function valueOf(stored: unknown, now: number): unknown {
  if (stored === null) return undefined;
  if (!isEntry(stored)) {
    throw new Error(`Cannot ${READING}: another version wrote it, or it is damaged`);
  }
  return isOver(stored, now) ? undefined : stored.value;
}

/** Checks whether a state has expired. An engine may forget it only after a while. */
function isOver({ until }: StoredEntry, now: number): boolean {
  return until !== null && until <= now;
}

function checkSize(json: string, { stateBytes: max }: SettlementRoom): void {
  const size = Buffer.byteLength(json);
  if (size <= max) return;
  throw new RangeError(`Cannot ${SETTING}: 'value' must take up to ${max} bytes, takes ${size}`);
}
