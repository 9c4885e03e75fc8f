import type { Context, MiddlewareHandler } from "@hono/hono";
import { checkFunction, checkOptions } from "../core/check_options.ts";
import {
  consoleSink,
  type LogLevel,
  type LogRecord,
  type LogSink,
  writeLog,
  writeRecord,
} from "../core/log.ts";
import { clientIp, proxyHops } from "./client_ip.ts";
import { mayStream, setResponseHeader } from "./essentials.ts";

/** Form of an inbound `X-Request-Id` that is kept: a UUID has 36 characters, a trace header 55. */
const REQUEST_ID = /^[\w=-]{1,128}$/;

/** Time after which a client may have given up: a slower response is watched until it is sent. */
const SLOW_MS = 200;

/** Turns of the event loop for which the end of a slow response waits. One was too few on a busy machine. */
const TURNS = 3;

/** Real timers, also in a test that fakes them: a slow response would wait for a fake turn forever. */
const { setTimeout, clearTimeout } = globalThis;

/**
 * Options of {@linkcode createLogger}.
 *
 * @category Middleware
 */
export interface LoggerOptions {
  /**
   * Log that the records go to.
   *
   * @default {consoleSink} One line of JSON on the console.
   */
  readonly log?: LogSink | undefined;
  /**
   * Tells whether to leave a request out. It is called once the response is ready.
   *
   * @default {undefined} Every request is logged.
   */
  readonly skip?: ((c: Context) => boolean) | undefined;
  /**
   * Number of reverse proxies in front of the app. Each one appends the address of its caller to
   * `X-Forwarded-For`. The client's address is then the entry at this position from the right; anything
   * further left is claimed by the client itself.
   *
   * @default {0} The header is ignored.
   */
  readonly trustedProxyHops?: number | undefined;
}

/**
 * Context variables that {@linkcode createLogger} sets.
 *
 * @category Middleware
 */
export interface LoggerVariables {
  /** Id of the request, as in the response's `X-Request-Id`. */
  requestId: string;
  /** Log, for the records of handlers. */
  log: LogSink;
  /** Further fields for the request's record. Handlers set them. */
  logFields?: Readonly<Record<string, unknown>>;
}

/**
 * Response that broke off after its headers were sent. `createLogger` has logged it already when Deno 2.9
 * calls the `onError` of `Deno.serve` with it.
 *
 * @category Errors
 */
export class BrokenBodyError extends Error {
  /** Name of the class. */
  override readonly name = "BrokenBodyError";
}

/**
 * Creates middleware that gives each request an id and writes one log record for it.
 *
 * An inbound `X-Request-Id` is kept if it has at most 128 characters, all of them from
 * `A-Z a-z 0-9 _ - =`. Otherwise a UUID takes its place. The query string is not logged: it may hold
 * secrets.
 *
 * The record describes the response at the moment it is ready. There is a second record if a stream breaks
 * midway, `response broke off` with the error, or if the client goes away while it receives a stream or
 * after it waited over 0.2 s, `client gone`. A stream that is sent as JSON, text or HTML without a
 * `Transfer-Encoding` is taken for a whole text, and is not watched.
 *
 * @param options The log, and the requests that are left out.
 * @returns The middleware. Put it first.
 * @throws {TypeError} If `log` or `skip` is not a function.
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
 *
 * @category Middleware
 */
export function createLogger(
  options: LoggerOptions = {},
): MiddlewareHandler<{ Variables: LoggerVariables }> {
  const checks = { log: checkFunction, skip: checkFunction, trustedProxyHops: proxyHops };
  checkOptions("create the logger", options, checks);
  const { log = consoleSink, skip, ...ipOptions } = options;

  return async function logger(c, next) {
    const start = performance.now();
    const requestId = requestIdOf(c);
    c.set("requestId", requestId);
    c.set("log", log);
    let threw = true;
    try {
      await next();
      // If it were set earlier, Hono would take 2.5 µs longer, and drop it from a `Response` that a handler makes.
      setResponseHeader(c, "X-Request-Id", requestId);
      threw = false;
    } finally {
      const durationMs = performance.now() - start;
      if (!skip?.(c)) {
        const record = recordOf(c, threw, durationMs, clientIp(c, ipOptions));
        writeRecord(log, record);
        if (!threw && (durationMs > SLOW_MS || mayStream(c))) {
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
): LogRecord {
  const status = threw ? 500 : c.res.status;
  const isError = status >= 400 && !threw;
  const code = isError ? c.res.headers.get("X-Error-Code") ?? undefined : undefined;
  return {
    ...c.get("logFields"),
    level: levelOf(status, code),
    time: new Date().toISOString(),
    message: "request",
    requestId: c.get("requestId"),
    method: c.req.method,
    path: pathOf(c),
    status,
    durationMs: roundMs(durationMs),
    ip,
    code,
  };
}

/** An instance that is not ready has not failed: each probe of one that stops would be an error. */
function levelOf(status: number, code: string | undefined): LogLevel {
  if (status >= 500) return code === "NOT_READY" ? "warn" : "error";
  return status >= 400 ? "warn" : "info";
}

/**
 * Watches a response on its way to the client. Deno does not report failures: its `completed` resolves for
 * streams that broke (2.9) and for texts that were not read, and `request.signal` costs 13 µs per request.
 *
 * @param c The context of the request, whose response is ready.
 * @param onEnd A function that is called once if the response is not sent to its end: with the error of
 * the stream, or with nothing if the client has gone.
 */
function watchBody(c: Context, onEnd: (error?: unknown) => void): void {
  const { res } = c;
  if (res.body === null) return;
  const { status, statusText, headers } = res;
  const reader = res.body.getReader();
  let gone = false;
  let ending: ReturnType<typeof setTimeout> | undefined;
  const watched = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (!done) return controller.enqueue(value);
        // Deno 2.9 reports only in a later turn that the client has gone: mostly in the next one.
        for (let turn = 0; turn < TURNS && !gone; turn++) {
          await new Promise((resolve) => ending = setTimeout(resolve, 0));
        }
        if (!gone) controller.close();
      } catch (cause) {
        if (gone) return;
        onEnd(cause ?? new Error("The stream gave no reason"));
        controller.error(new BrokenBodyError("The response broke off", { cause }));
      }
    },
    cancel(reason) {
      gone = true;
      clearTimeout(ending);
      onEnd();
      return reader.cancel(reason);
    },
  }, { highWaterMark: 0 });
  c.res = undefined; // Hono would merge the headers with themselves.
  c.res = new Response(watched, { status, statusText, headers });
}

/** Writes the second record of a request whose response was not sent to its end. */
function writeUnsent(
  log: LogSink,
  { requestId, method, path, status }: LogRecord,
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
 * Finds the path of a request, for the log. A target such as `http://x?token=a/b` gives a URL without a
 * path, where Hono would take a part of the query for it. That request is logged as `/`.
 */
export function pathOf({ req }: Context): string {
  const { url } = req;
  const slash = url.indexOf("/", url.indexOf("://") + 3);
  const end = url.search(/[?#]/);
  const hasNoPath = slash < 0 || (end >= 0 && end < slash);
  return hasNoPath ? "/" : req.path;
}
