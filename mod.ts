/**
 * Bots for GitHub, Telegram and other senders of webhooks. You define an app, with its platform and its
 * handlers. It verifies each delivery, stores it durably, answers within milliseconds, and hands it
 * to your handler, again if that fails.
 *
 * This module exports what most apps need. The names are in groups: begin with {@linkcode defineApp} and
 * {@linkcode runApp}, a platform such as {@linkcode github} or {@linkcode telegram}, and the
 * {@linkcode HandlerContext} that a handler gets. `@org/edge-base/testing` runs an app in a test. The other
 * entry points have more: `/console` a web page of what came, `/app` events that handlers emit and types,
 * `/router` the types of payloads, `/webhook` the parts of a platform, `/events` the event store, `/catch-up`
 * what GitHub could not deliver, `/middleware`, `/health` and `/telemetry` parts to compose by hand.
 *
 * @example
 * ```ts
 * import { defineApp, github, sqlite } from "@org/edge-base";
 * import { forgeDelivery, startTestBot } from "@org/edge-base/testing";
 * import { assertEquals } from "@std/assert";
 *
 * const opened: string[] = [];
 * const bot = defineApp({ name: "my-bot", platform: github(), store: sqlite() });
 * bot.on("issues.opened", ({ payload }) => opened.push(payload.issue.title));
 * // if (import.meta.main) await runApp(bot);
 *
 * await using test = await startTestBot(bot);
 * await test.deliver(forgeDelivery("issues", { action: "opened", issue: { title: "Help" } }));
 * assertEquals(opened, ["Help"]);
 * ```
 *
 * @module
 */
// The app: defined once, then run, served, opened or tested.
export {
  type App,
  type AppDefinition,
  type ContextOf,
  defineApp,
  type EventMiddleware,
  openApp,
  type OpenedApp,
  runApp,
  startApp,
  type StartAppOptions,
  type StartedApp,
} from "./app/mod.ts";

// Its variables.
export { type EnvVariable, optional, required, secrets, VariableError } from "./core/env.ts";

// Platforms, which send deliveries.
export {
  byChannel,
  byChat,
  byObject,
  byRepository,
  byThread,
  definePlatform,
  forge,
  gitea,
  github,
  gitlab,
  type GroupBy,
  isUserAuthorized,
  type JsonObject,
  messenger,
  type Platform,
  slack,
  standard,
  stripe,
  telegram,
  verifySignature,
  verifySignatureBytes,
} from "./webhook/mod.ts";

// An app that is composed by hand.
export { type AppOptions, type BaseEnv, bindEnv, createBaseApp } from "./app/mod.ts";
export { createIntake } from "./webhook/mod.ts";

// Events: where they are stored, and what handles them.
export {
  type CommitEffects,
  createEventRouter,
  type Delivery,
  type EventHandler,
  type EventName,
  type EventPayload,
  type EventRecord,
  type EventRouter,
  type EventStore,
  type EventStoreOptions,
  type EventWorker,
  GiveUpError,
  type HandlerContext,
  type HandlerOptions,
  kv,
  type KvCommit,
  NotDoneError,
  openEventStore,
  RetryLaterError,
  type RetryPolicy,
  sqlite,
  startWorker,
  type StoreDefinition,
  type WebhookEvent,
  type WorkerOptions,
} from "./events/mod.ts";

// Middleware, for apps that are composed by hand, and the error that every part throws.
export {
  type AuthOptions,
  type AuthVariables,
  type ConnectionBindings,
  createAuth,
  createLogger,
  createRateLimiter,
  type ErrorCode,
  errorHandler,
  HttpError,
  notFoundHandler,
} from "./middleware/mod.ts";
export { healthRoutes } from "./health/mod.ts";

// The log.
export { consoleSink, type LogRecord, type LogSink, writeLog } from "./middleware/mod.ts";

// Traces and metrics.
export { openTelemetry, type Telemetry } from "./telemetry/mod.ts";
