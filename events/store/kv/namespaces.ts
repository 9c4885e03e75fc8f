import { storeKeys } from "./_layout.ts";
import { leap, readFirst } from "./_reads.ts";

/** Number of first key parts that are looked at in a start: the keys of a user may begin with ids. */
const MAX_LOOKED_AT = 50;

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
 *
 * @category Event store and worker
 */
export async function listNamespaces(kv: Deno.Kv): Promise<string[]> {
  const found: string[] = [];
  for await (const namespace of firstParts(kv)) {
    if (await hasEvents(kv, namespace)) found.push(namespace);
  }
  return found;
}

/**
 * Finds the namespaces whose events an app may have left behind when it got another name. Each of the first 50
 * first parts of keys takes up to four reads.
 *
 * @param kv The KV.
 * @param own The app's namespace.
 * @returns The other namespaces with events that are not done, sorted, and whether the app's namespace holds any
 * event.
 */
export async function findLeftNamespaces(
  kv: Deno.Kv,
  own: string,
): Promise<{ readonly others: readonly string[]; readonly hasOwn: boolean }> {
  const others: string[] = [];
  const hasOwn = await hasEvents(kv, own);
  let lookedAt = 0;
  for await (const namespace of firstParts(kv)) {
    const isOther = namespace !== own;
    if (isOther && await hasEvents(kv, namespace) && await hasOpenEvents(kv, namespace)) {
      others.push(namespace);
    }
    if (++lookedAt === MAX_LOOKED_AT) break;
  }
  return { others, hasOwn };
}

/** Lists the texts that keys begin with, each once and with one read. */
async function* firstParts(kv: Deno.Kv): AsyncGenerator<string> {
  // Texts sort before numbers, so the range ends after the last text.
  const all = { start: [""], end: [-Infinity] };
  for await (const [part] of leap(kv, all, ([part]) => [`${String(part)}\0`])) yield String(part);
}

function hasEvents(kv: Deno.Kv, namespace: string): Promise<boolean> {
  return hasAny(kv, storeKeys(namespace).eventsBetween(0, Infinity));
}

/** Checks for events that wait or run, so that there is a schedule entry, and for dead ones. */
async function hasOpenEvents(kv: Deno.Kv, namespace: string): Promise<boolean> {
  const { schedule, deadIndex } = storeKeys(namespace);
  return await hasAny(kv, schedule) || await hasAny(kv, deadIndex);
}

async function hasAny(kv: Deno.Kv, selector: Deno.KvListSelector): Promise<boolean> {
  return await readFirst(kv, selector) !== undefined;
}
