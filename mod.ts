/**
 * A base for bots and agents on the edge: a Hono app with the standard middleware and health probes,
 * and a webhook intake. The intake verifies a platform's deliveries, stores them durably in Deno KV,
 * answers within milliseconds, and hands them to your handler.
 *
 * This module exports everything that most apps need. The separate steps of an intake are in
 * `@org/edge-base/webhook`, the event store's contract is in `@org/edge-base/events`, the types of events
 * are in `@org/edge-base/router`, and more middleware is in `@org/edge-base/middleware`.
 *
 * @example
 * ```ts
 * import { createBaseApp, createForgeIntake, openEventStore, startWorker } from "@org/edge-base";
 * import { assertEquals } from "@std/assert";
 *
 * using kv = await Deno.openKv(":memory:");
 * const store = await openEventStore(kv);
 *
 * const app = createBaseApp({ name: "my-bot", logger: false });
 * app.route("/", createForgeIntake({ secrets: ["It's a Secret to Everybody"], store }));
 *
 * const worker = startWorker(store, (event) => console.log(event.type, event.payload));
 * // Deno.serve(bindEnv(app, {}));
 *
 * assertEquals((await app.request("/health/ready")).status, 200);
 * await worker.stop();
 * ```
 *
 * @module
 */
// The app: made by hand, or run with everything it needs.
export {
  type AppOptions,
  type BaseEnv,
  type BindableApp,
  bindEnv,
  createBaseApp,
} from "./app/base_app.ts";
export type { AppContext, AppHandler, RunAppOptions } from "./app/app_options.ts";
export { runApp } from "./app/run_app.ts";

// Its variables.
export {
  type AppVariables,
  type ForgeSecrets,
  readAllowedUsers,
  readForgeSecrets,
  readInteger,
  readSecrets,
  readTokens,
  VariableError,
} from "./app/app_variables.ts";

// Webhook intakes.
export {
  type AllowedUsersEnv,
  byChat,
  byRepository,
  createForgeIntake,
  createMessengerIntake,
  type ForgeIntakeOptions,
  isUserAuthorized,
  type JsonObject,
  type MessengerIntakeOptions,
  type OrderBy,
  verifySignature,
  verifySignatureBytes,
} from "./webhook/mod.ts";

// Events: where they are stored, and what handles them.
export {
  type CommitEffects,
  createEventRouter,
  type Delivery,
  type EventChat,
  type EventHandler,
  type EventHandlerFor,
  type EventName,
  type EventPayload,
  type EventRecord,
  type EventRepository,
  type EventRouter,
  type EventSender,
  type EventStore,
  type EventStoreOptions,
  type EventWorker,
  GiveUpError,
  type HandlerContext,
  type HandlerOptions,
  openEventStore,
  type PlatformEvents,
  type RetryPolicy,
  startWorker,
  type WebhookEvent,
  type WorkerOptions,
} from "./events/mod.ts";

// Middleware, for apps that are composed by hand, and the error that every part throws.
export {
  type AuthOptions,
  type AuthVariables,
  catchNonErrors,
  type ConnectionBindings,
  createAuth,
  createLogger,
  createRateLimiter,
  type ErrorCode,
  errorHandler,
  HttpError,
  type HttpErrorOptions,
  KvRateLimitStore,
  type LoggerOptions,
  type LoggerVariables,
  notFoundHandler,
  type RateLimitOptions,
  type RateLimitStore,
} from "./middleware/mod.ts";
export { type HealthOptions, healthRoutes } from "./health/mod.ts";

// The log.
export {
  consoleSink,
  type LogLevel,
  type LogRecord,
  type LogSink,
  writeLog,
} from "./middleware/mod.ts";

// Traces and metrics.
export { openTelemetry, type Telemetry } from "./telemetry/mod.ts";
