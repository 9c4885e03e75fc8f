/**
 * The worker: it takes events from the store as they become due, hands each to its handler, and settles
 * it by how the handler ends.
 *
 * @module
 */
export {
  type EventHandler,
  GiveUpError,
  type HandlerContext,
  type HandlerStore,
  NewerEventError,
  ParkedError,
  RetryLaterError,
  type WaitResult,
  type WebhookEvent,
} from "./event.ts";
export type { RatedEvent, RateOptions } from "./rate_limit.ts";
export type { RetryPolicy } from "./retry_policy.ts";
export type { Answer, Ask, AskOptions } from "./questions.ts";
export {
  type FoundStep,
  NotDoneError,
  type StepContext,
  type StepOptions,
  type TakeStep,
} from "./step.ts";
export type { LaterOptions, Take, TakeOptions } from "./take.ts";
export { type EventWorker, startWorker, type WorkerOptions } from "./worker.ts";
