import { checkInteger, checkKeys, checkObject, met } from "../../core/check_options.ts";
import { isTime } from "./record_shape.ts";

/** Longest key of a state. A key of a KV takes 2,048 bytes, three of them for a character at most. */
const MAX_KEY_LENGTH = 256;

/** Longest value, in bytes of V8's serialization: a KV value holds 65,536. */
const MAX_VALUE_BYTES = 65_000;

/** Longest time until a state expires: KV takes a time up to the year 275760, and 100 years leave room. */
const MAX_EXPIRE_MS = 100 * 365 * 86_400_000;

/**
 * Options of reading a state.
 *
 * @category Flows
 */
export interface StateOptions {
  /**
   * The intake whose states are meant. Each intake has its own: two bots of a messenger have chats of the same
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
 * A state, as a handler gets it: what a conversation, or another course of events, has come to.
 *
 * @typeParam TValue The type of its value, which is not checked: it is what was set before.
 * @category Flows
 */
export interface HandlerState<TValue> {
  /** The value, with what this handler has set; undefined if there is none. To change it, set it. */
  readonly value: TValue | undefined;
  /**
   * Sets the value in the commit that settles the event. It is copied now: set it again after changing it.
   *
   * @param value The value: whatever structured cloning takes.
   * @param options The time after which it is forgotten.
   * @throws {TypeError} If it cannot be cloned or is undefined, or the handler has ended.
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
 * @typeParam TValue The type of its value, which is not checked: it is what was set before.
 * @category Flows
 */
export interface StoredState<TValue> {
  /** The key of its entry in the KV. */
  readonly kvKey: Deno.KvKey;
  /** The version of the entry; null if there is none. */
  readonly versionstamp: string | null;
  /** The value; undefined if there is none. */
  readonly value: TValue | undefined;
  /**
   * Sets the value now, unless somebody has changed it since it was read.
   *
   * @param value The value: whatever structured cloning takes.
   * @param options The time after which it is forgotten.
   * @returns False if it was changed meanwhile: read it again.
   * @throws {TypeError} If it cannot be cloned or is undefined.
   * @throws {RangeError} If it takes more than 65,000 bytes, or the time is out of range.
   */
  set(value: TValue, options?: SetStateOptions): Promise<boolean>;
  /**
   * Deletes the value now, unless somebody has changed it since it was read.
   *
   * @returns False if it was changed meanwhile: read it again.
   */
  delete(): Promise<boolean>;
}

/**
 * Options of listing states.
 *
 * @category Flows
 */
export interface StateListOptions {
  /**
   * The intake whose states are meant; an empty text for those of none.
   *
   * @default {undefined} Those of all intakes, and of none.
   */
  readonly intake?: string | undefined;
  /**
   * The beginning of their keys.
   *
   * @default {undefined} All keys.
   */
  readonly prefix?: string | undefined;
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
  /** The key of its entry in the KV. */
  readonly kvKey: Deno.KvKey;
  /** The version of the entry. */
  readonly versionstamp: string;
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
   * @param key The key of the state, which the message does not name: it may be that of a person.
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
  /** The entry's bytes. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The time after which the KV forgets it, in milliseconds. */
  readonly expireIn: number | undefined;
}

/** Writes values as a KV does, and says how many bytes they take. */
type Codec = Pick<typeof import("node:v8"), "serialize" | "deserialize">;

let codec: Codec | undefined;

/** Loads what reads and writes values: that takes 11 ms on Deno 2.9, so only where there is a state. */
export async function loadStateCodec(): Promise<void> {
  codec ??= await import("node:v8");
}

/** Checks the key of a state, and the options with which it is read. */
export function checkState(key: unknown, options: StateOptions): void {
  checkObject(READING, options);
  checkKeys(READING, options, ["intake"]);
  const { intake } = options;
  if (typeof key !== "string" || key === "") {
    throw new TypeError(
      `Cannot ${READING}: 'key' must be a text that is not empty, got ${met(key)}`,
    );
  }
  if (intake !== undefined && typeof intake !== "string") {
    throw new TypeError(`Cannot ${READING}: 'intake' must be a text, got ${met(intake)}`);
  }
  if (key.length <= MAX_KEY_LENGTH && (intake ?? "").length <= MAX_KEY_LENGTH) return;
  throw new RangeError(
    `Cannot ${READING}: 'key' and 'intake' must have up to ${MAX_KEY_LENGTH} characters`,
  );
}

/** Checks the options with which states are listed. */
export function checkStateList(options: StateListOptions): void {
  checkObject(LISTING, options);
  checkKeys(LISTING, options, ["intake", "prefix"]);
  for (const name of ["intake", "prefix"] as const) {
    const value: unknown = options[name];
    if (value === undefined || typeof value === "string") continue;
    throw new TypeError(`Cannot ${LISTING}: '${name}' must be a text, got ${met(value)}`);
  }
}

/** Makes the new entry of a state, once the codec is loaded. */
export function entryOf(value: unknown, options: SetStateOptions = {}): StateEntry {
  checkObject(SETTING, options);
  checkKeys(SETTING, options, ["expireAfterMs"]);
  const { expireAfterMs } = options;
  if (value === undefined) {
    throw new TypeError(`Cannot ${SETTING}: 'value' must not be undefined: delete the state`);
  }
  if (expireAfterMs !== undefined) {
    checkInteger(SETTING, "expireAfterMs", expireAfterMs, { max: MAX_EXPIRE_MS });
  }
  // The KV deletes what has expired only after a while.
  const until = expireAfterMs === undefined ? null : Date.now() + expireAfterMs;
  checkSize(value);
  const bytes = Uint8Array.from(serialized([VERSION, until, value]));
  return { bytes, expireIn: expireAfterMs };
}

/** Makes the bytes of an entry whose time begins now: it was made when a handler has set the state. */
export function bytesFromNow({ bytes, expireIn }: StateEntry): Uint8Array<ArrayBuffer> {
  if (expireIn === undefined) return bytes;
  const { value } = readEntry(bytes)!;
  return Uint8Array.from(serialized([VERSION, Date.now() + expireIn, value]));
}

/** Makes the entry of a state that comes from another store, once the codec is loaded. */
export function entryUntil(value: unknown, until: number | undefined, now: number): StateEntry {
  checkSize(value);
  const bytes = Uint8Array.from(serialized([VERSION, until ?? null, value]));
  return {
    bytes,
    expireIn: until === undefined ? undefined : Math.min(until - now, MAX_EXPIRE_MS),
  };
}

function checkSize(value: unknown): void {
  const size = serialized(value).byteLength;
  if (size <= MAX_VALUE_BYTES) return;
  throw new RangeError(
    `Cannot ${SETTING}: 'value' must take up to ${MAX_VALUE_BYTES} bytes, takes ${size}`,
  );
}

/** Writes a value as a KV does, once the codec is loaded. */
export function bytesOfValue(value: unknown): Uint8Array {
  return serialized(value);
}

/** Reads a value that {@linkcode bytesOfValue} wrote. Throws if it cannot be read. */
export function valueOfBytes(bytes: Uint8Array): unknown {
  return codec!.deserialize(bytes);
}

/** Reads the entry of a state, once the codec is loaded; undefined for none, or one that has expired. */
export function valueOf(stored: unknown): unknown {
  if (stored === null) return undefined;
  const entry = readEntry(stored);
  if (!entry) throw new Error(`Cannot ${READING}: another version wrote it, or it is damaged`);
  return isOver(entry) ? undefined : entry.value;
}

/** The content of an entry. */
export interface ReadEntry {
  /** The time at which the state is forgotten; null if it stays. */
  readonly until: number | null;
  /** The value. */
  readonly value: unknown;
}

/** Reads the entry of a state, once the codec is loaded; undefined if this version cannot. */
export function readEntry(stored: unknown): ReadEntry | undefined {
  let entry: unknown;
  try {
    entry = stored instanceof Uint8Array ? codec!.deserialize(stored) : undefined;
  } catch {
    // As for any other that another version wrote.
  }
  if (!isEntry(entry)) return undefined;
  const [, until, value] = entry;
  return { until, value };
}

/** Checks whether a state has expired. The KV deletes it only after a while. */
export function isOver({ until }: ReadEntry): boolean {
  return until !== null && until <= Date.now();
}

/** The version of the layout of an entry. */
const VERSION = 1;

const [READING, SETTING] = ["read the state", "set the state"] as const;

const LISTING = "list the states";

function serialized(value: unknown): Uint8Array {
  try {
    return codec!.serialize(value);
  } catch (error) {
    throw new TypeError(`Cannot ${SETTING}: 'value' cannot be cloned`, { cause: error });
  }
}

function isEntry(entry: unknown): entry is [v: 1, until: number | null, value: unknown] {
  if (!Array.isArray(entry) || entry.length !== 3 || entry[0] !== VERSION) return false;
  return entry[1] === null || isTime(entry[1]);
}
