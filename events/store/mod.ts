/**
 * The contract of an event store: the deliveries it accepts, the record it keeps of an event, and its
 * guarantees.
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
export type {
  EventOutcome,
  EventRecord,
  EventState,
  GroupPosition,
  LeaseTerm,
  PayloadRef,
  RecordedAttempt,
  RecordedOutcome,
  StoredEvent,
  UnreadableRecord,
} from "./event_record.ts";
export type {
  BulkOptions,
  BulkProgress,
  BulkResult,
  EventFilter,
  EventList,
  EventOperations,
  EventStats,
  ListOptions,
} from "./event_operations.ts";
export type {
  AcceptOptions,
  AcceptResult,
  ClaimOptions,
  CommitEffects,
  CompleteOptions,
  EventStore,
  EventStoreOptions,
  Lease,
  NotifierKind,
  ReleaseOptions,
  Reservation,
  Reserve,
  StoreListener,
} from "./event_store.ts";
