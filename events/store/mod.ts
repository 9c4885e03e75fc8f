/**
 * The contract of an event store: the deliveries it accepts, the record it keeps of an event, and its
 * guarantees.
 *
 * @module
 */
export type { Delivery, EventChat, EventRepository, EventSender } from "./delivery.ts";
export type {
  Batch,
  EndedWait,
  EventOutcome,
  EventRecord,
  EventState,
  EventWait,
  GroupPosition,
  LeaseTerm,
  PayloadRef,
  PutOff,
  QuietRule,
  RecordedAttempt,
  RecordedOutcome,
  StoredEvent,
  UnreadableRecord,
} from "./event_record.ts";
export type { DeadEvent, Emission, Emit, EmitOptions, EmitResult, OwnEvents } from "./emission.ts";
export { NotKeptError } from "./event_record.ts";
export type {
  BulkOptions,
  BulkResult,
  EventFilter,
  EventList,
  EventOperations,
  EventStats,
  ListOptions,
  RestoreOutcome,
} from "./event_operations.ts";
export {
  type HandlerState,
  type ListedState,
  type SetStateOptions,
  StateConflictError,
  type StateListOptions,
  type StateOptions,
  type StoredState,
} from "./stored_state.ts";
export type {
  AcceptOptions,
  AcceptResult,
  BuryOptions,
  ClaimOptions,
  CommitEffects,
  CompleteOptions,
  EventStore,
  EventStoreOptions,
  KeepPayloads,
  Lease,
  NoteOptions,
  NotifierKind,
  ReleaseOptions,
  Reservation,
  Reserve,
  RetryOptions,
  StoreListener,
} from "./event_store.ts";
export type {
  CheckedPage,
  CheckOptions,
  CheckSummary,
  StoredKind,
  StoreFinding,
} from "./store_check.ts";
export { exportEvents } from "./event_export.ts";
export { importEvents, type ImportResult } from "./event_import.ts";
export type { PortableEntry, PortableEvent } from "./portable_event.ts";
export type { HandledEvents, ProcessNote, UnreadableProcess } from "./processes.ts";
export {
  type AnswerListOptions,
  type UntakenAnswer,
  type Wait,
  type WaitOptions,
  WaitRefusedError,
  type Wake,
  type WakeResult,
} from "./waits.ts";
