import { decodeValue } from "../value_codec.ts";

/** The number of keys that `getMany` takes, and reads at once. */
export const MAX_KEYS = 10;

/** The number of values that are read at most for each one wanted: others may lie between. */
const MAX_READ = 2;

/**
 * Version of a value that not even the KV can decode. No check of it ever holds, so nothing changes it but the purge
 * of an event that is unreadable.
 */
export const UNKNOWN_VERSION = "f".repeat(20);

/**
 * An entry as it was read, with its value decoded: `null` if there is none, and `undefined` if the value cannot be
 * decoded, because another version has encoded it or it is damaged.
 */
export interface Entry {
  /** The key. */
  readonly key: Deno.KvKey;
  /** The value. */
  readonly value: unknown;
  /** The version of the value; null if there is none. */
  readonly versionstamp: string | null;
  /** The bytes that belong to the value. */
  readonly body?: Uint8Array<ArrayBuffer> | undefined;
}

/** An entry that was listed, so that there is one. */
export interface ListedEntry extends Entry {
  readonly versionstamp: string;
}

/** Reads keys, in their order: {@linkcode readAll} or {@linkcode readNear}. */
export type ReadKeys = (kv: Deno.Kv, keys: readonly Deno.KvKey[]) => Promise<Entry[]>;

/** Checks whether there is a value that cannot be decoded. What depends on it must stop, and not replace it. */
export function isUndecodable({ value }: Pick<Entry, "value">): boolean {
  return value === undefined;
}

/** Reads a key. */
export async function read(kv: Deno.Kv, key: Deno.KvKey): Promise<Entry> {
  return decoded(await readStored(kv, key));
}

/** Reads any number of keys. */
export async function readAll(kv: Deno.Kv, keys: readonly Deno.KvKey[]): Promise<Entry[]> {
  return (await readAllStored(kv, keys)).map(decoded);
}

/** Lists entries as the KV does. A value that not even the KV can decode fails the list. */
export async function* list(
  kv: Deno.Kv,
  selector: Deno.KvListSelector,
  options: Deno.KvListOptions,
): AsyncGenerator<ListedEntry> {
  for await (const entry of kv.list(selector, options)) yield decoded(entry);
}

/** Decodes the value of an entry. Numbers of the KV are left as they are. */
function decoded<T extends Entry>({ key, value, versionstamp }: T): T {
  if (value === null || value instanceof Deno.KvU64) return { key, value, versionstamp } as T;
  const { value: own, body } = decodeValue(value) ?? {};
  return { key, value: own, versionstamp, body } as T;
}

async function readStored(kv: Deno.Kv, key: Deno.KvKey): Promise<Entry> {
  try {
    return await kv.get(key);
  } catch (error) {
    if (!isForeign(error)) throw error;
    return { key, value: undefined, versionstamp: UNKNOWN_VERSION };
  }
}

/** Reads values as they are stored: bytes that were written without an encoding, such as parts of payloads. */
export async function readAllStored(
  kv: Deno.Kv,
  keys: readonly Deno.KvKey[],
): Promise<Entry[]> {
  const reads: Promise<Entry[]>[] = [];
  for (let i = 0; i < keys.length; i += MAX_KEYS) {
    reads.push(readSome(kv, keys.slice(i, i + MAX_KEYS)));
  }
  return (await Promise.all(reads)).flat();
}

/**
 * Reads keys of which most follow each other: all from the first to the last at once, and on their own
 * those that are not among them. A page of 100 takes SQLite half of the time so, in one reading and not ten.
 */
export async function readNear(kv: Deno.Kv, keys: readonly Deno.KvKey[]): Promise<Entry[]> {
  return (await readNearStored(kv, keys)).map(decoded);
}

/** Reads values as they are stored, like {@linkcode readNear}. */
export async function readNearStored(
  kv: Deno.Kv,
  keys: readonly Deno.KvKey[],
): Promise<Entry[]> {
  if (keys.length <= MAX_KEYS) return await readAllStored(kv, keys);
  const found = await readBetween(kv, keys);
  const entries = keys.map((key) => found.get(nameOf(key)));
  const missing = await readAllStored(kv, keys.filter((_, i) => !entries[i]));
  const others = missing.values();
  return entries.map((entry) => entry ?? others.next().value!);
}

async function readBetween(
  kv: Deno.Kv,
  keys: readonly Deno.KvKey[],
): Promise<Map<string, Entry>> {
  const found = new Map<string, Entry>();
  const sorted = keys.toSorted(compare);
  const selector = { start: sorted[0]!, end: [...sorted.at(-1)!, ""] };
  const limit = MAX_READ * keys.length;
  try {
    for await (const entry of kv.list(selector, { limit, batchSize: limit })) {
      found.set(nameOf(entry.key), entry);
    }
  } catch {
    // Bytes that cannot be decoded, or ids in another order than the KV has. All else fails below, too.
  }
  return found;
}

/** Makes a name of the last two parts of a key, in which all of these keys differ. */
function nameOf(key: Deno.KvKey): string {
  return `${String(key.at(-2))}/${String(key.at(-1))}`;
}

function compare(a: Deno.KvKey, b: Deno.KvKey): number {
  const at = a.findIndex((part, i) => part !== b[i]);
  if (at < 0) return 0;
  return (a[at] as string | number) < (b[at] as string | number) ? -1 : 1;
}

/** Checks for the error of a KV about a value that another program has written, on a newer version of Deno. */
export function isForeign(error: unknown): boolean {
  return error instanceof RangeError && error.message.includes("could not deserialize");
}

/**
 * Lists the entries with a prefix, or those of them from a key on, around values that cannot be decoded: up to the
 * first of those, and the rest from the end. Entries between two of those are missing.
 *
 * @param onGap Called if there is such a value, which has no entry.
 */
export async function* listAround(
  kv: Deno.Kv,
  all: { readonly prefix: Deno.KvKey; readonly start?: Deno.KvKey },
  batchSize = 100,
  onGap?: () => void,
): AsyncGenerator<ListedEntry> {
  if (yield* listUpTo(kv, all, batchSize, false)) return;
  onGap?.();
  yield* listUpTo(kv, all, batchSize, true);
}

/** Lists up to a value that cannot be decoded. Returns true if there is none. */
async function* listUpTo(
  kv: Deno.Kv,
  all: { readonly prefix: Deno.KvKey; readonly start?: Deno.KvKey },
  batchSize: number,
  reverse: boolean,
): AsyncGenerator<ListedEntry, boolean> {
  const { prefix, start } = all;
  let selector: Deno.KvListSelector = start ? { prefix, start } : { prefix };
  // The last ones before it one by one: it fails the reading of all that are read with it.
  for (const size of [batchSize, 1]) {
    try {
      for await (const entry of list(kv, selector, { batchSize: size, reverse })) {
        yield entry;
        if (!reverse) selector = { prefix, start: [...entry.key, ""] };
        else selector = start ? { start, end: entry.key } : { prefix, end: entry.key };
      }
      return true;
    } catch (error) {
      if (!isForeign(error)) throw error;
    }
  }
  return false;
}

async function readSome(kv: Deno.Kv, keys: readonly Deno.KvKey[]): Promise<Entry[]> {
  try {
    return await kv.getMany<unknown[]>(keys);
  } catch (error) {
    if (!isForeign(error)) throw error;
    // One such value makes the whole read fail.
    return await Promise.all(keys.map((key) => readStored(kv, key)));
  }
}

/** A bound before all numbers that are listed, and with them before keys of another shape. */
export const FIRST = -1;

/** A bound after all of them: the farthest that a date can be from the epoch, in milliseconds, and one. */
export const LAST = 8.64e15 + 1;

/**
 * The entries whose keys have a number after a prefix. One undecodable value makes the whole read fail,
 * and not even its key is known. So its number is found by bisection, some 80 reads, and remembered.
 */
export class NumberedEntries {
  readonly #kv: Deno.Kv;
  readonly #prefix: Deno.KvKey;
  /** The whole numbers with values that cannot be decoded. */
  readonly #holes = new Set<number>();

  constructor(kv: Deno.Kv, prefix: Deno.KvKey) {
    this.#kv = kv;
    this.#prefix = prefix;
  }

  /**
   * Lists entries in their order. An undecodable value yields an entry whose key is only its number, with
   * no value and {@linkcode UNKNOWN_VERSION}. Other entries of that number may be missing.
   *
   * @param from The first number, a whole one.
   * @param to The number after the last, a whole one.
   * @param batchSize The number of entries read at a time.
   */
  async *list(from: number, to: number, batchSize: number): AsyncGenerator<ListedEntry> {
    let next = from;
    for (const hole of [...this.#holes].sort((a, b) => a - b)) {
      if (hole < next || hole >= to) continue;
      if (hole > next) yield* this.#range(next, hole, batchSize);
      yield* this.#range(hole, hole + 1, batchSize);
      next = hole + 1;
    }
    if (next < to) yield* this.#range(next, to, batchSize);
  }

  async *#range(
    from: number,
    to: number,
    batchSize: number,
    start = this.#keyOf(from),
  ): AsyncGenerator<ListedEntry> {
    const isOne = to - from <= 1;
    const options = { batchSize: isOne ? 1 : batchSize };
    let last: Deno.KvKey | undefined;
    try {
      for await (const entry of list(this.#kv, this.#between(start, to), options)) {
        yield entry;
        last = entry.key;
      }
      if (isOne) this.#holes.delete(from);
      return;
    } catch (error) {
      if (!isForeign(error)) throw error;
    }
    const next = last ? [...last, ""] : start;
    if (isOne) return yield* this.#behind(from, this.#between(next, to));
    const number = last?.[this.#prefix.length];
    const reached = typeof number === "number" ? Math.max(from, Math.floor(number)) : from;
    const middle = Math.floor((reached + to) / 2);
    if (middle > reached) yield* this.#range(reached, middle, batchSize, next);
    yield* this.#range(middle, to, batchSize, middle > reached ? undefined : next);
  }

  /** Yields an entry for a value that cannot be decoded, and those behind it, read from the end. */
  async *#behind(
    number: number,
    selector: Deno.KvListSelector,
  ): AsyncGenerator<ListedEntry> {
    this.#holes.add(number);
    yield { key: this.#keyOf(number), value: undefined, versionstamp: UNKNOWN_VERSION };
    const behind: ListedEntry[] = [];
    try {
      const options = { reverse: true, batchSize: 1 };
      for await (const entry of list(this.#kv, selector, options)) behind.push(entry);
    } catch (error) {
      if (!isForeign(error)) throw error;
    }
    yield* behind.reverse();
  }

  #keyOf(number: number): Deno.KvKey {
    return number === FIRST ? this.#prefix : [...this.#prefix, number];
  }

  #between(start: Deno.KvKey, to: number): Deno.KvListSelector {
    if (to !== LAST) return { start, end: this.#keyOf(to) };
    // A KV refuses a start that is the prefix itself.
    return start.length > this.#prefix.length
      ? { prefix: this.#prefix, start }
      : { prefix: this.#prefix };
  }
}
