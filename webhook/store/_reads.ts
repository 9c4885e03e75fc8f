/** How many keys `getMany` takes. */
const MAX_KEYS = 10;

/** Stands for the version of a value that cannot be decoded. No check of it ever holds. */
export const UNKNOWN_VERSION = "f".repeat(20);

type Entry = Deno.KvEntryMaybe<unknown>;

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

/** Tells whether an error is what V8 says of bytes that it has not written, or that a newer one has. */
export function isUndecodable(error: unknown): boolean {
  return error instanceof RangeError && error.message.includes("could not deserialize");
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
