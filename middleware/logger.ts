import type { Context, MiddlewareHandler } from "@hono/hono";
import { checkFunctions } from "../core/check_options.ts";
import { consoleSink, type LogRecord, type LogSink, writeLog, writeRecord } from "../core/log.ts";
import { mayStream, watchBody } from "./_watched_body.ts";
import { checkClientIpOptions, clientIp, type ClientIpOptions } from "./client_ip.ts";
import { setResponseHeader } from "./response_headers.ts";

/** What an inbound `X-Request-Id` must be to be kept: a UUID has 36 characters, a trace header 55. */
const REQUEST_ID = /^[\w=-]{1,128}$/;

/** After this a client may have given up: a response that took longer is watched until it is sent. */
const SLOW_MS = 200;

/** A URL up to its path. */
const TO_PATH = /^[^:/?#]*:\/\/[^/?#]*\//;

/** The record of one request. */
export interface RequestRecord extends LogRecord {
  /** The request's id, as in the response's `X-Request-Id`. */
  readonly requestId: string;
  /** The method. */
  readonly method: string;
  /** The path, without the query string. */
  readonly path: string;
  /** The status of the response. */
  readonly status: number;
  /** From the middleware's start until the response was ready, in milliseconds. */
  readonly durationMs: number;
  /** The client's address, where it is known. */
  readonly ip?: string | undefined;
  /** The code of the error response, where it is one: from status 400 on. */
  readonly code?: string | undefined;
}

/** Options of {@linkcode createLogger}. */
export interface LoggerOptions extends ClientIpOptions {
  /**
   * Where records go.
   *
   * @default {consoleSink} One line of JSON on the console.
   */
  readonly log?: LogSink | undefined;
  /**
   * Whether to leave a request out, asked once its response is ready.
   *
   * @default {undefined} Every request is logged.
   */
  readonly skip?: ((c: Context) => boolean) | undefined;
}

/** The context variables that {@linkcode createLogger} sets. */
export interface LoggerVariables {
  /** The request's id, as in the response's `X-Request-Id`. */
  requestId: string;
  /** Where the log's records go, for records of a handler's own. */
  log: LogSink;
  /** Further fields for the request's record, as a handler has set them. */
  logFields?: Readonly<Record<string, unknown>>;
}

/**
 * Creates middleware that gives each request an id and writes one record of it.
 *
 * An inbound `X-Request-Id` is kept if it has at most 128 characters out of `A-Z a-z 0-9 _ - =`, else
 * a UUID takes its place. The query string is not logged: it may hold secrets.
 *
 * The record tells of the response as it was ready. A stream that breaks midway gets a second one,
 * `response broke off` with the error; so does a stream, or a response that took over 0.2 s, which the
 * client did not wait for: `client gone`.
 * A stream that is sent as JSON, text or HTML without a `Transfer-Encoding` is taken for a whole text, and
 * not watched.
 *
 * @param options Where records go and which requests are left out.
 * @returns The middleware. Put it first.
 * @throws {TypeError} If `log` or `skip` is no function.
 * @throws {RangeError} If `trustedProxyHops` is not a whole number from 0 to 100.
 *
 * @example
 * ```ts
 * import { Hono } from "@hono/hono";
 * import { createLogger, type LogRecord } from "@org/edge-base";
 * import { assertEquals } from "@std/assert";
 *
 * const records: LogRecord[] = [];
 * const app = new Hono();
 * app.use(createLogger({ log: (record) => records.push(record) }));
 * app.get("/", (c) => c.text("hello"));
 *
 * const response = await app.request("/?token=secret");
 * assertEquals(records[0]?.status, 200);
 * assertEquals(records[0]?.path, "/");
 * assertEquals(records[0]?.requestId, response.headers.get("X-Request-Id"));
 * ```
 */
export function createLogger(
  options: LoggerOptions = {},
): MiddlewareHandler<{ Variables: LoggerVariables }> {
  const { log = consoleSink, skip, ...ipOptions } = options;
  checkFunctions("create the logger", { log, skip });
  checkClientIpOptions("create the logger", ipOptions);

  return async function logger(c, next) {
    const start = performance.now();
    const requestId = requestIdOf(c);
    c.set("requestId", requestId);
    c.set("log", log);
    let threw = true;
    try {
      await next();
      // Set before, Hono makes responses the slow way (2.5 µs), and drops it from a handler's own one.
      setResponseHeader(c, "X-Request-Id", requestId);
      threw = false;
    } finally {
      const durationMs = performance.now() - start;
      if (!skip?.(c)) {
        const record = recordOf(c, threw, durationMs, clientIp(c, ipOptions));
        writeRecord(log, record);
        if (!threw && (durationMs > SLOW_MS || mayStream(c.res))) {
          watchBody(c, (error) => writeUnsent(log, record, performance.now() - start, error));
        }
      }
    }
  };
}

function requestIdOf(c: Context): string {
  const inbound = c.req.header("X-Request-Id");
  return inbound !== undefined && REQUEST_ID.test(inbound) ? inbound : crypto.randomUUID();
}

function recordOf(
  c: Context,
  threw: boolean,
  durationMs: number,
  ip: string | undefined,
): RequestRecord {
  const status = threw ? 500 : c.res.status;
  const isError = status >= 400 && !threw;
  return {
    ...c.get("logFields"),
    level: status >= 500 ? "error" : status >= 400 ? "warn" : "info",
    time: new Date().toISOString(),
    message: "request",
    requestId: c.get("requestId"),
    method: c.req.method,
    path: pathOf(c),
    status,
    durationMs: roundMs(durationMs),
    ip,
    code: isError ? c.res.headers.get("X-Error-Code") ?? undefined : undefined,
  };
}

/** The second record of a request: its response was not sent to the end. */
function writeUnsent(
  log: LogSink,
  { requestId, method, path, status }: RequestRecord,
  durationMs: number,
  error: unknown,
): void {
  const fields = { requestId, method, path, status, durationMs: roundMs(durationMs) };
  if (error === undefined) writeLog(log, "warn", "client gone", fields);
  else writeLog(log, "error", "response broke off", { ...fields, error });
}

function roundMs(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}

/**
 * The path of a request, for the log. A target such as `http://x?token=a/b` leaves a URL without one, and
 * Hono takes a part of its query for it: such a request is for `/`.
 */
export function pathOf({ req }: Context): string {
  return TO_PATH.test(req.url) ? req.path : "/";
}
