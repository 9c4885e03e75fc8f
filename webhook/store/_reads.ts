/** How many keys `getMany` takes. */
const MAX_KEYS = 10;

/** Reads any number of keys. */
export async function readAll(
  kv: Deno.Kv,
  keys: readonly Deno.KvKey[],
): Promise<Deno.KvEntryMaybe<unknown>[]> {
  const reads: Promise<Deno.KvEntryMaybe<unknown>[]>[] = [];
  for (let i = 0; i < keys.length; i += MAX_KEYS) {
    reads.push(kv.getMany<unknown[]>(keys.slice(i, i + MAX_KEYS)));
  }
  return (await Promise.all(reads)).flat();
}
