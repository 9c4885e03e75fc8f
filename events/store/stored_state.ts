import { Buffer } from "node:buffer";
import {
  checkFilled,
  checkOptions,
  checkWellFormed,
  MAX_KEPT_MS,
  wholeNumber,
} from "../../core/check_options.ts";
import { nonJsonPartOf } from "../../core/json_value.ts";
import { isTime, orNull, shape } from "./record_shape.ts";

/** Longest key of a state. A key of a KV takes 2,048 bytes, three of them for a character at most. */
const MAX_KEY_LENGTH = 256;

/** Longest value, in bytes of its JSON: a KV value holds 65,536. */
const MAX_VALUE_BYTES = 65_000;

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
   * @throws {RangeError} If it takes more than 65,000 bytes, or the time is out of range.
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
   * @throws {RangeError} If it takes more than 65,000 bytes, or the time is out of range.
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
export interface StateEntry {
  /** A copy of the value. */
  readonly value: unknown;
  /** The time after which it is forgotten, in milliseconds; undefined if it stays. */
  readonly forMs: number | undefined;
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

/** Checks the options with which states are listed. */
export function checkStateList(
  options: { readonly intake?: string | undefined; readonly prefix?: string | undefined },
): void {
  checkOptions("list the states", options, { intake: checkWellFormed, prefix: checkWellFormed });
}

/** Makes the new entry of a state. */
export function entryOf(value: unknown, options: SetStateOptions = {}): StateEntry {
  checkOptions(SETTING, options, { expireAfterMs: wholeNumber({ max: MAX_KEPT_MS }) });
  const { expireAfterMs } = options;
  if (value === undefined) {
    throw new TypeError(`Cannot ${SETTING}: 'value' must not be undefined: delete the state`);
  }
  const wrong = nonJsonPartOf(value);
  if (wrong) throw new TypeError(`Cannot ${SETTING}: it must be JSON, and ${wrong}`);
  const json = JSON.stringify(value);
  checkSize(json);
  return { value: JSON.parse(json), forMs: expireAfterMs };
}

/** Makes the entry of a state that comes from another store. */
export function entryUntil(value: unknown, until: number | undefined, now: number): StateEntry {
  checkSize(JSON.stringify(value));
  return {
    value,
    forMs: until === undefined ? undefined : Math.min(until - now, MAX_KEPT_MS),
  };
}

function checkSize(json: string): void {
  const size = Buffer.byteLength(json);
  if (size <= MAX_VALUE_BYTES) return;
  throw new RangeError(
    `Cannot ${SETTING}: 'value' must take up to ${MAX_VALUE_BYTES} bytes, takes ${size}`,
  );
}

/** Takes the value from what is stored: undefined for none, or one that has expired. */
export function valueOf(stored: unknown, now: number): unknown {
  if (stored === null) return undefined;
  const entry = readEntry(stored);
  if (!entry) throw new Error(`Cannot ${READING}: another version wrote it, or it is damaged`);
  return isOver(entry, now) ? undefined : entry.value;
}

/** The content of an entry. */
export interface ReadEntry {
  /** The time at which the state is forgotten; null if it stays. */
  readonly until: number | null;
  /** The value. */
  readonly value: unknown;
}

/** Reads the entry of a state from what is stored; undefined if this version cannot. */
export function readEntry(stored: unknown): ReadEntry | undefined {
  return isEntry(stored) ? stored : undefined;
}

/** Checks whether a state has expired. An engine may forget it only after a while. */
export function isOver({ until }: ReadEntry, now: number): boolean {
  return until !== null && until <= now;
}

const isEntry = shape<ReadEntry>({ until: orNull(isTime), value: (value) => value !== undefined });

const [READING, SETTING] = ["read the state", "set the state"] as const;
