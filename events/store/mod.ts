/**
 * The event store, whatever its engine: the deliveries it accepts, the record it keeps of an event, and its guarantees.
 *
 * @module
 */
export type { Delivery, EventChat, EventRepository, EventSender } from "./event_record.ts";
export type { EventFilter, EventRecord, EventState, StoredEvent } from "./event_record.ts";
export type { BatchOptions, InterruptRule, NewerOptions, PlacesOptions } from "./batch_options.ts";
export type { FailingEvent, FailingRule } from "./failing.ts";
export type { DeadEvent, Emission, Emit, EmitOptions, OwnEvents } from "./emission.ts";
export { NotKeptError } from "./event_record.ts";
export type {
  BulkOptions,
  BulkResult,
  EventList,
  EventOperations,
  EventStats,
  ListOptions,
} from "./event_store.ts";
export type {
  AcceptResult,
  EventStoreOptions,
  Lease,
  ReleaseOptions,
  Reservation,
  StoreListener,
} from "./store_core.ts";
export {
  type HandlerState,
  type ListedState,
  type SetStateOptions,
  StateConflictError,
  type StateOptions,
  type StoredState,
} from "./stored_state.ts";
export type {
  CommitEffects,
  EffectsResult,
  EventStore,
  HandledPart,
  Intervening,
  ListedStep,
  NoteOptions,
  NotPromise,
  StoreEmitOptions,
  TransactionActions,
} from "./event_store.ts";
export type { ListedLimit } from "./limits.ts";
export type { StoreDefinition } from "./store_definition.ts";
export type { AnswerResult, Question } from "./questions.ts";
export type { BoundedCount, CheckedPage, Counts, SettlementRoom } from "./engine.ts";
export type { StoreInspector } from "./event_store.ts";
export type { Problem, ProblemList, ProblemOptions } from "./_problems.ts";
export { exportEvents } from "./event_export.ts";
export { importEvents, type ImportResult } from "./event_import.ts";
export type { PortableEntry, PortableEvent } from "./portable_event.ts";
export type { HandledEvents, HungHandler, ProcessNote } from "./processes.ts";
export { type UntakenAnswer, type WaitOptions, WaitRefusedError } from "./waits.ts";
