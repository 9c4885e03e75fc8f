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
export {
  type AcceptResult,
  type ClaimOptions,
  type CommitEffects,
  type EventFilter,
  type EventStats,
  type EventStore,
  type EventStoreOptions,
  type Lease,
} from "./event_store.ts";
export { openEventStore } from "./kv_event_store.ts";
