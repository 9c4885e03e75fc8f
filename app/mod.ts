/**
 * Defines apps ({@linkcode defineApp}), and runs them ({@linkcode runApp}), serves them ({@linkcode startApp})
 * or opens them for a server of your own ({@linkcode openApp}).
 *
 * The root exports these as well. You need this entry point for the rest: events that handlers emit
 * ({@linkcode events}), running a schedule by hand ({@linkcode runSchedule}), and the types of all parts.
 *
 * @example
 * ```ts
 * import { defineApp, startApp } from "@org/edge-base/app";
 * import { sqlite } from "@org/edge-base/events";
 * import { writeLog } from "@org/edge-base/middleware";
 * import { github } from "@org/edge-base/webhook";
 * import { assertEquals } from "@std/assert";
 *
 * const bot = defineApp({ name: "my-bot", platform: github(), store: sqlite() });
 * bot.on("issues.opened", ({ payload: { issue } }, { log }) => {
 *   writeLog(log, "info", "opened", { title: issue.title });
 * });
 *
 * const secret = { GITHUB_WEBHOOK_SECRET: "It's a Secret to Everybody" };
 * const env = { ...secret, SQLITE_FILE: ":memory:", HOST: "127.0.0.1", PORT: "0" };
 * await using app = await startApp(bot, { env, log: () => {} });
 * const response = await fetch(`${app.url}/health`);
 * assertEquals((await response.json()).name, "my-bot");
 * ```
 *
 * @module
 */
export { type AppOptions, type BaseEnv, bindEnv, createBaseApp } from "./base_app.ts";
export { type App, type ContextOf, defineApp } from "./define_app.ts";
export type { AppDefinition, FailingOptions, RouteParts, ScheduleOptions } from "./definition.ts";
export type { AppContext, EventHandlers } from "./event_handlers.ts";
export type { AppParts, EventMiddleware } from "./event_middleware.ts";
export { openApp, type OpenAppOptions, type OpenedApp } from "./open_app.ts";
export type { Mount, MountParts, OpenedMount } from "./mounts.ts";
export { events } from "./own_events.ts";
export { runApp } from "./run_app.ts";
export { startApp, type StartAppOptions, type StartedApp } from "./start_app.ts";

// Variables, from another folder.
export {
  type EnvOf,
  type EnvSpec,
  type EnvVariable,
  optional,
  required,
  secrets,
  VariableError,
  type Variables,
} from "../core/env.ts";

// Types from other folders that appear in the exports above.
export type {
  AcceptResult,
  BatchOptions,
  DeadEvent,
  Emit,
  EmitOptions,
  EventHandler,
  EventName,
  EventPayload,
  EventStore,
  EventWorker,
  FailingEvent,
  FailingRule,
  HandlerContext,
  HandlerOptions,
  HandlerState,
  HandlerStore,
  InterruptRule,
  NewerOptions,
  OwnEvents,
  PlacesOptions,
  SetStateOptions,
  StateOptions,
  StoreDefinition,
  StoredState,
  StoreEmitOptions,
  WaitOptions,
  WaitResult,
  WebhookEvent,
  WorkerOptions,
} from "../events/mod.ts";
export {
  type MissedSlots,
  runSchedule,
  type Schedule,
  type SlotPayload,
} from "../events/schedules/mod.ts";
export type { LogSink } from "../core/mod.ts";
export type {
  ConnectionBindings,
  LoggerOptions,
  LoggerVariables,
  RateLimitOptions,
} from "../middleware/mod.ts";
export type { Telemetry } from "../telemetry/mod.ts";
export type { Alert } from "../watch/alert.ts";
export type { JsonObject, Platform } from "../webhook/mod.ts";
