import { storeKeys } from "./_layout.ts";
import { FIRST, LAST } from "./_reads.ts";

/**
 * Lists the namespaces of the event stores in a KV, for a tool that is not told which one is meant.
 *
 * @param kv The KV.
 * @returns The namespaces under which there are events, sorted.
 *
 * @example
 * ```ts
 * import { listNamespaces } from "@org/edge-base/events";
 * import { assertEquals } from "@std/assert";
 *
 * using kv = await Deno.openKv(":memory:");
 * assertEquals(await listNamespaces(kv), []);
 * ```
 */
export async function listNamespaces(kv: Deno.Kv): Promise<string[]> {
  const found: string[] = [];
  let start: Deno.KvKey = [""];
  for (;;) {
    // Strings sort before numbers, so the range ends after the last string.
    const [entry] = await Array.fromAsync(kv.list({ start, end: [-Infinity] }, { limit: 1 }));
    if (!entry) return found;
    const namespace = String(entry.key[0]);
    if (await hasEvents(kv, namespace)) found.push(namespace);
    start = [`${namespace}\0`];
  }
}

async function hasEvents(kv: Deno.Kv, namespace: string): Promise<boolean> {
  const events = kv.list(storeKeys(namespace).eventsBetween(FIRST, LAST), { limit: 1 });
  return (await Array.fromAsync(events)).length > 0;
}
