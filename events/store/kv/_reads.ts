import { ClosedError, UNNAMED } from "../engine.ts";
import { decodeValue } from "./value_codec.ts";

/** The number of keys that `getMany` takes, and reads at once. */
export const MAX_KEYS = 10;

/** The number of values that are read at most for each one wanted: others may lie between. */
const MAX_READ = 2;

/** Version of a value that not even the KV can decode: no check of it holds, so nothing changes it. */
const UNKNOWN_VERSION = "f".repeat(20);

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

/** Options of a list. */
export type ListOptions = Pick<Deno.KvListOptions, "reverse" | "batchSize">;

/** A range of keys. */
interface Range {
  readonly start: Deno.KvKey;
  readonly end: Deno.KvKey;
}

/** Reads keys, in their order: {@linkcode readAll} or {@linkcode readNear}. */
export type ReadKeys = (kv: Deno.Kv, keys: readonly Deno.KvKey[]) => Promise<Entry[]>;

/** Checks whether there is a value that cannot be decoded. What depends on it must stop, and not replace it. */
export function isUndecodable({ value }: Pick<Entry, "value">): boolean {
  return value === undefined;
}

/** Checks for the entry of a list that stands for a value whose key is not known. */
export function isGap({ versionstamp }: ListedEntry): boolean {
  return versionstamp === UNKNOWN_VERSION;
}

/** Names an entry that was listed by the last part of its key; a gap by who can have written it. */
export function nameIn(entry: ListedEntry): string {
  return isGap(entry) ? UNNAMED : String(entry.key.at(-1));
}

/** Reads a key. */
export async function read(kv: Deno.Kv, key: Deno.KvKey): Promise<Entry> {
  return decoded(await readStored(kv, key));
}

/** Reads any number of keys. */
export async function readAll(kv: Deno.Kv, keys: readonly Deno.KvKey[]): Promise<Entry[]> {
  return (await readAllStored(kv, keys)).map(decoded);
}

/**
 * Lists entries in their order: the way in which a store walks its indexes.
 *
 * A store writes bytes, and every version of Deno reads these. A value that another program has written below the
 * namespace is in V8's format: an older Deno cannot read it, nor anything that is read together with it, and does not
 * tell its key. So this finds what is behind it from the other end, and puts an entry without a value in its place,
 * with the prefix of the list as its key. Of several such values, what lies between the first and the last is left out.
 */
export async function* list(
  kv: Deno.Kv,
  selector: Deno.KvListSelector,
  options: ListOptions = {},
): AsyncGenerator<ListedEntry> {
  const rest = yield* listReadable(kv, selector, options);
  if (!rest) return;
  const prefix = "prefix" in selector ? selector.prefix : selector.start.slice(0, -1);
  yield { key: prefix, value: undefined, versionstamp: UNKNOWN_VERSION };
  const { reverse = false } = options;
  let next: Deno.KvKey | undefined;
  for await (const { key } of listReadable(kv, rest, { ...options, reverse: !reverse })) next = key;
  if (!next) return;
  const behind = reverse ? { ...rest, end: after(next) } : { ...rest, start: next };
  yield* listReadable(kv, behind, options);
}

/** Reads the first entry; undefined if there is none. */
export async function readFirst(
  kv: Deno.Kv,
  selector: Deno.KvListSelector,
): Promise<ListedEntry | undefined> {
  return (await list(kv, selector, { batchSize: 1 }).next()).value ?? undefined;
}

/**
 * Reads some of the keys in a range, each with one read.
 *
 * @param nextOf Makes the start of the next read from a key that was read.
 */
export async function* leap(
  kv: Deno.Kv,
  { start, end }: Range,
  nextOf: (key: Deno.KvKey) => Deno.KvKey,
): AsyncGenerator<Deno.KvKey> {
  for (let entry; (entry = await readFirst(kv, { start, end })); start = nextOf(entry.key)) {
    if (isGap(entry)) return;
    yield entry.key;
  }
}

/** Lists entries up to a value that cannot be read. Returns the range that is left; undefined if there is none. */
async function* listReadable(
  kv: Deno.Kv,
  selector: Deno.KvListSelector,
  options: ListOptions,
): AsyncGenerator<ListedEntry, Range | undefined> {
  let rest = selector;
  let range = rangeOf(selector);
  // The last ones before it one by one.
  for (const each of [options, { ...options, batchSize: 1 }]) {
    let last: Deno.KvKey | undefined;
    try {
      for await (const entry of kv.list(rest, each)) {
        yield decoded(entry);
        last = entry.key;
      }
      return undefined;
    } catch (error) {
      if (!isForeign(error)) throw asEngineError(error);
    }
    if (last) range = options.reverse ? { ...range, end: last } : { ...range, start: after(last) };
    rest = range;
  }
  return range;
}

function rangeOf(
  selector: Partial<Range> & { readonly prefix?: Deno.KvKey },
): Range {
  const { prefix = [], start = prefix, end = [...prefix, true] } = selector;
  return { start, end };
}

function after(key: Deno.KvKey): Deno.KvKey {
  return [...key, ""];
}

/** Decodes the value of an entry. Numbers of the KV are left as they are. */
export function decoded<T extends Entry>({ key, value, versionstamp }: T): T {
  if (value === null || value instanceof Deno.KvU64) return { key, value, versionstamp } as T;
  const { value: own, body } = decodeValue(value) ?? {};
  return { key, value: own, versionstamp, body } as T;
}

async function readStored(kv: Deno.Kv, key: Deno.KvKey): Promise<Entry> {
  try {
    return await kv.get(key);
  } catch (error) {
    if (!isForeign(error)) throw asEngineError(error);
    return { key, value: undefined, versionstamp: UNKNOWN_VERSION };
  }
}

/** Reads values as they are stored: parts of payloads have no encoding. */
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
  const selector = { start: sorted[0]!, end: after(sorted.at(-1)!) };
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

/** Makes an error of a KV one that every engine throws, if it says that the KV is closed. */
export function asEngineError(error: unknown): unknown {
  return error instanceof Deno.errors.BadResource ? new ClosedError(error) : error;
}

async function readSome(kv: Deno.Kv, keys: readonly Deno.KvKey[]): Promise<Entry[]> {
  try {
    return await kv.getMany<unknown[]>(keys);
  } catch (error) {
    if (!isForeign(error)) throw asEngineError(error);
    // One such value makes the whole read fail.
    return await Promise.all(keys.map((key) => readStored(kv, key)));
  }
}
