import type { StoreListener } from "../event_store.ts";

/** The workers of this process by KV and namespace. A KV that is not used any more takes them along. */
const listeners = new WeakMap<Deno.Kv, Map<string, Set<StoreListener>>>();

/**
 * Finds the workers of this process that work on one namespace of a KV, through whichever store: a handler may open
 * another store on the same KV, and an event that it cancels there is aborted at once.
 *
 * @param kv The KV itself, and no view of it.
 * @param namespace The namespace.
 * @returns The workers. The same set for all stores of the KV and the namespace.
 */
export function listenersOf(kv: Deno.Kv, namespace: string): Set<StoreListener> {
  const ofKv = listeners.get(kv) ?? new Map<string, Set<StoreListener>>();
  listeners.set(kv, ofKv);
  const found = ofKv.get(namespace) ?? new Set();
  ofKv.set(namespace, found);
  return found;
}
