/**
 * The event store: events in a Deno KV, and the notifier that wakes their workers.
 *
 * @example
 * ```ts
 * import { openEventStore } from "@org/edge-base/events";
 * import { assertEquals } from "@std/assert";
 *
 * using kv = await Deno.openKv(":memory:");
 * const store = await openEventStore(kv);
 *
 * const payload = { action: "opened" };
 * const { id } = await store.accept({
 *   platform: "forge",
 *   source: "github",
 *   type: "issues",
 *   deliveryId: "72d3162e-cc78-11e3-81ab-4c9367dc0958",
 *   body: new TextEncoder().encode(JSON.stringify(payload)),
 *   payload,
 * });
 * assertEquals((await store.get(id))?.state, "queued");
 *
 * // What a worker does: lease the event, handle it, settle it.
 * const [lease] = await store.claim({ limit: 1, owner: "me", leaseMs: 60_000 });
 * await store.complete(lease!);
 * assertEquals((await store.get(id))?.state, "done");
 * ```
 *
 * @module
 */
export type { KvCommit } from "./_kv_guard.ts";
export { kv } from "./kv_store.ts";
export type { KvStoreOptions } from "./_parts.ts";
export { listNamespaces, openEventStore } from "./kv_database.ts";
