/**
 * The contract of an event store: what it takes, what it keeps of an event, and what it promises.
 *
 * @module
 */
export type {
  Delivery,
  EventChat,
  EventRepository,
  EventSender,
  PlatformName,
} from "./delivery.ts";
export type { NotifierKind } from "./kv/notifier.ts";
export type {
  AttemptError,
  EventRecord,
  EventState,
  GroupPosition,
  LeaseTerm,
  PayloadRef,
} from "./event_record.ts";
export type { EventStoreOptions } from "./event_store_options.ts";
export type { EventFilter, EventStats } from "./event_filter.ts";
export type { BulkOptions, BulkProgress, BulkResult } from "./bulk_options.ts";
export type { EventOperations } from "./event_operations.ts";
export type { StoredEvent, UnreadableRecord } from "./stored_event.ts";
export type {
  AcceptOptions,
  AcceptResult,
  ClaimOptions,
  CommitEffects,
  CompleteOptions,
  EventStore,
  Lease,
  Reservation,
  Reserve,
  StoreListener,
} from "./event_store.ts";
