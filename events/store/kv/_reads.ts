/** How many keys `getMany` takes. */
const MAX_KEYS = 10;

/** How many values are read, at most, for each one that is wanted: others may lie between. */
const MAX_READ = 2;

/** Stands for the version of a value that cannot be decoded. No check of it ever holds. */
export const UNKNOWN_VERSION = "f".repeat(20);

type Entry = Deno.KvEntryMaybe<unknown>;

/** Reads keys, in their order: {@linkcode readAll} or {@linkcode readNear}. */
export type ReadKeys = (kv: Deno.Kv, keys: readonly Deno.KvKey[]) => Promise<Entry[]>;

/** Reads a key. A value whose bytes cannot be decoded is `undefined`, and its version not known. */
export async function read(kv: Deno.Kv, key: Deno.KvKey): Promise<Entry> {
  try {
    return await kv.get(key);
  } catch (error) {
    if (!isUndecodable(error)) throw error;
    return { key, value: undefined, versionstamp: UNKNOWN_VERSION };
  }
}

/** Reads any number of keys. */
export async function readAll(kv: Deno.Kv, keys: readonly Deno.KvKey[]): Promise<Entry[]> {
  const reads: Promise<Entry[]>[] = [];
  for (let i = 0; i < keys.length; i += MAX_KEYS) {
    reads.push(readSome(kv, keys.slice(i, i + MAX_KEYS)));
  }
  return (await Promise.all(reads)).flat();
}

/**
 * Reads keys of which most follow each other: at once what lies from the first to the last, and on its
 * own what is not among that. A page of 100 takes SQLite half of the time so, in one reading and not ten.
 */
export async function readNear(kv: Deno.Kv, keys: readonly Deno.KvKey[]): Promise<Entry[]> {
  if (keys.length <= MAX_KEYS) return await readAll(kv, keys);
  const found = await readBetween(kv, keys);
  const entries = keys.map((key) => found.get(nameOf(key)));
  const missing = await readAll(kv, keys.filter((_, i) => !entries[i]));
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

/** What tells keys apart of which only the last two parts differ. */
function nameOf(key: Deno.KvKey): string {
  return `${String(key.at(-2))}/${String(key.at(-1))}`;
}

function compare(a: Deno.KvKey, b: Deno.KvKey): number {
  const at = a.findIndex((part, i) => part !== b[i]);
  if (at < 0) return 0;
  return (a[at] as string | number) < (b[at] as string | number) ? -1 : 1;
}

/** Tells whether an error is what V8 says of bytes that it has not written, or that a newer one has. */
export function isUndecodable(error: unknown): boolean {
  return error instanceof RangeError && error.message.includes("could not deserialize");
}

/**
 * Lists what has a prefix, around what cannot be decoded: up to the first of that, and the rest from the
 * end. What lies between two of those is missing.
 */
export async function* listAround(
  kv: Deno.Kv,
  { prefix }: { readonly prefix: Deno.KvKey },
  batchSize = 100,
): AsyncGenerator<Deno.KvEntry<unknown>> {
  const isWhole = yield* listUpTo(kv, prefix, batchSize, false);
  if (!isWhole) yield* listUpTo(kv, prefix, batchSize, true);
}

/** Lists up to what cannot be decoded. Returns whether there is nothing of that kind. */
async function* listUpTo(
  kv: Deno.Kv,
  prefix: Deno.KvKey,
  batchSize: number,
  reverse: boolean,
): AsyncGenerator<Deno.KvEntry<unknown>, boolean> {
  let selector: Deno.KvListSelector = { prefix };
  // The last ones before it one by one: it fails the reading of all that are read with it.
  for (const size of [batchSize, 1]) {
    try {
      for await (const entry of kv.list(selector, { batchSize: size, reverse })) {
        yield entry;
        selector = reverse ? { prefix, end: entry.key } : { prefix, start: [...entry.key, ""] };
      }
      return true;
    } catch (error) {
      if (!isUndecodable(error)) throw error;
    }
  }
  return false;
}

async function readSome(kv: Deno.Kv, keys: readonly Deno.KvKey[]): Promise<Entry[]> {
  try {
    return await kv.getMany<unknown[]>(keys);
  } catch (error) {
    if (!isUndecodable(error)) throw error;
    // One of them fails the reading of all.
    return await Promise.all(keys.map((key) => read(kv, key)));
  }
}
