/**
 * The event store: events in a Deno KV, and the bell that wakes their workers.
 *
 * @example
 * ```ts
 * import { openEventStore } from "@org/edge-base/webhook/store";
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
export type { BellKind } from "./doorbell.ts";
export type {
  AttemptError,
  EventRecord,
  EventState,
  LanePlace,
  LeaseTerm,
  PayloadRef,
} from "./event_record.ts";
export type { EventStoreOptions } from "./event_store_options.ts";
export type { EventFilter, EventStats } from "./event_filter.ts";
export type { BulkOptions, BulkProgress, BulkResult } from "./bulk_options.ts";
export type { EventOperations } from "./event_operations.ts";
export type { StoredEvent, UnreadableRecord } from "./stored_event.ts";
export type {
  AcceptResult,
  ClaimOptions,
  CommitEffects,
  CompleteOptions,
  EventStore,
  Lease,
  Reservation,
  Reserve,
} from "./event_store.ts";
export { openEventStore } from "./open_event_store.ts";
