/**
 * The worker: it takes events from the store as they become due, hands each to its handler, and settles
 * it by how the handler ends.
 *
 * @module
 */
export type { EventHandler, HandlerContext, WebhookEvent } from "./event.ts";
export { createEventLogger } from "./event_logger.ts";
export { GiveUpError } from "./give_up_error.ts";
export { retryDelay, type RetryPolicy } from "./retry_policy.ts";
export { type EventWorker, startWorker } from "./worker.ts";
export type { WorkerOptions } from "./worker_options.ts";
