/**
 * The event store: events in a Deno KV, and the bell that wakes their workers.
 *
 * @module
 */
export { type BellKind } from "./doorbell.ts";
export {
  type AttemptError,
  type EventRecord,
  type EventState,
  type LanePlace,
  type LeaseTerm,
  type PayloadRef,
} from "./event_record.ts";
export { type EventStoreOptions } from "./event_store_options.ts";
export { type EventFilter, type EventStats } from "./event_filter.ts";
export { type BulkOptions, type BulkProgress, type BulkResult } from "./bulk_options.ts";
export { type EventOperations } from "./event_operations.ts";
export { type StoredEvent, type UnreadableRecord } from "./stored_event.ts";
export {
  type AcceptResult,
  type ClaimOptions,
  type CommitEffects,
  type CompleteOptions,
  type EventStore,
  type Lease,
  type Reservation,
  type Reserve,
} from "./event_store.ts";
export { openEventStore } from "./kv_event_store.ts";
