/**
 * Standard middleware: request log, rate limiter, authentication and error handler, with the log and the
 * errors that they use. `createBaseApp` puts them together. Use them one by one to compose an app by hand.
 *
 * @example
 * ```ts
 * import { Hono } from "@hono/hono";
 * import { createLogger, createRateLimiter, errorHandler } from "@org/edge-base/middleware";
 * import { assertEquals } from "@std/assert";
 *
 * const app = new Hono();
 * app.onError(errorHandler);
 * app.use(createLogger({ log: () => {} }));
 * app.use(createRateLimiter({ limit: 100, window: 60_000 }));
 * app.get("/", (c) => c.text("hello"));
 *
 * assertEquals((await app.request("/")).status, 200);
 * ```
 *
 * @module
 */
export { type AuthOptions, type AuthVariables, createAuth } from "./auth.ts";
export { clientIp, type ConnectionBindings, ipNetwork } from "./client_ip.ts";
export { errorHandler, methodNotAllowedHandler, notFoundHandler } from "./error_handler.ts";
export { catchNonErrors, createHostCheck, createResponseHeaders } from "./essentials.ts";
export { type ErrorCode, HttpError } from "../core/http_error.ts";
export { KvRateLimitStore } from "./kv_rate_limit_store.ts";
export {
  consoleSink,
  formatLogLine,
  type LogLevel,
  type LogRecord,
  type LogSink,
  logSinkOf,
  writeLog,
} from "../core/log.ts";
export { createLogSummary } from "../core/log_summary.ts";
export {
  BrokenBodyError,
  createLogger,
  type LoggerOptions,
  type LoggerVariables,
} from "./logger.ts";
export {
  MemoryRateLimitStore,
  type RateLimitCount,
  type RateLimitStore,
} from "./rate_limit_store.ts";
export { createRateLimiter, type RateLimitOptions } from "./rate_limiter.ts";
export { createStdoutLog } from "../core/stdout_log.ts";
