import type { Context } from "@hono/hono";
import type { ContentfulStatusCode } from "@hono/hono/utils/http-status";
import { HttpError, StoppingError } from "../core/http_error.ts";
import { logSinkOf, writeLog } from "../core/log.ts";
import { pathOf } from "./logger.ts";

/** Code and message of each status, for errors without. */
const DEFAULTS: Readonly<Record<number, readonly [code: string, message: string]>> = {
  400: ["BAD_REQUEST", "Bad Request"],
  401: ["UNAUTHORIZED", "Unauthorized"],
  403: ["FORBIDDEN", "Forbidden"],
  404: ["NOT_FOUND", "Not Found"],
  405: ["METHOD_NOT_ALLOWED", "Method Not Allowed"],
  408: ["REQUEST_TIMEOUT", "Request Timeout"],
  409: ["CONFLICT", "Conflict"],
  413: ["BODY_TOO_LARGE", "Payload Too Large"],
  415: ["UNSUPPORTED_MEDIA_TYPE", "Unsupported Media Type"],
  422: ["UNPROCESSABLE", "Unprocessable Content"],
  429: ["RATE_LIMITED", "Too Many Requests"],
  500: ["INTERNAL", "Internal Server Error"],
  501: ["NOT_IMPLEMENTED", "Not Implemented"],
  502: ["BAD_GATEWAY", "Bad Gateway"],
  503: ["UNAVAILABLE", "Service Unavailable"],
  504: ["GATEWAY_TIMEOUT", "Gateway Timeout"],
};

/** Longest message of an error that was not written for the sender of the request. */
const MAX_MESSAGE_LENGTH = 200;

/** Headers that describe the response which an error replaces. */
const REPLACED_HEADERS = [
  "cache-control",
  "content-disposition",
  "content-encoding",
  "content-language",
  "content-length",
  "content-range",
  "content-type",
  "etag",
  "expires",
  "last-modified",
  "transfer-encoding",
  "x-error-code",
];

interface ExceptionLike extends Error {
  readonly status: number;
  readonly res?: Response;
  getResponse(): Response;
}

/** Answer to a failed request. */
interface Answer {
  readonly status: number;
  readonly code: string;
  readonly message: string;
  readonly headers: Headers;
}

/**
 * Answers a request that failed, in the one error shape. Set it as the app's error handler.
 *
 * - An {@linkcode HttpError} is answered with its status, message, code and headers.
 * - A Hono `HTTPException` keeps its status and headers (`WWW-Authenticate`, `Retry-After`); its body
 *   is replaced by the error shape. One below 400, such as a redirect, is answered as it is.
 * - Anything else is 500 `Internal Server Error`.
 *
 * A 5xx does not reveal its cause. The cause is logged once, with the request id: to the log of
 * {@linkcode createLogger} if the app uses it, or else to the console.
 *
 * Hono passes only `Error` objects to an error handler. {@linkcode catchNonErrors} takes care of other
 * values.
 *
 * @param error The error.
 * @param c The request's context.
 * @returns The response.
 *
 * @example
 * ```ts
 * import { Hono } from "@hono/hono";
 * import { errorHandler } from "@org/edge-base";
 * import { assertEquals } from "@std/assert";
 *
 * const app = new Hono();
 * app.onError(errorHandler);
 * app.get("/", () => {
 *   throw new Error("connect ECONNREFUSED 10.0.0.7");
 * });
 *
 * const response = await app.request("/");
 * assertEquals(response.status, 500);
 * assertEquals(await response.json(), { error: "Internal Server Error" });
 * ```
 *
 * @category Errors
 */
export function errorHandler(error: Error, c: Context): Response {
  const own = error instanceof HttpError || !isException(error) ? undefined : responseOf(error);
  if (own && own.status < 400) return c.newResponse(own.body, own);
  const answer = own ? answerOf(own, error.message) : answerTo(error);
  if (answer.status >= 500) logCause(error, answer, c);
  return errorResponse(c, answer);
}

/**
 * Answers a request that matches no route: 404 in the error shape.
 *
 * @param c The request's context.
 * @returns The response.
 * @category Errors
 */
export function notFoundHandler(c: Context): Response {
  return errorResponse(c, defaultAnswer(404));
}

/**
 * Answers a request whose path exists only for other methods: 405 in the error shape, with `Allow`.
 *
 * @param c The request's context.
 * @param methods The methods of the path.
 * @returns The response.
 * @category Errors
 */
export function methodNotAllowedHandler(c: Context, methods: string[]): Response {
  return errorResponse(c, defaultAnswer(405, new Headers({ Allow: methods.join(", ") })));
}

function answerTo(error: Error): Answer {
  if (!(error instanceof HttpError)) return defaultAnswer(500);
  const { status, code, message } = error;
  return { status, code, message, headers: new Headers(error.headers) };
}

/** Replaces the body of an exception's response by the error shape. */
function answerOf(response: Response, errorMessage: string): Answer {
  response.body?.cancel().catch(() => {});
  const headers = new Headers(response.headers);
  for (const name of REPLACED_HEADERS) headers.delete(name);
  const answer = defaultAnswer(response.status, headers);
  if (answer.status >= 500 || !errorMessage) return answer;
  return { ...answer, message: errorMessage.slice(0, MAX_MESSAGE_LENGTH) };
}

function defaultAnswer(status: number, headers: Headers = new Headers()): Answer {
  const [code, message] = DEFAULTS[status] ?? DEFAULTS[status < 500 ? 400 : 500]!;
  return { status, code, message, headers };
}

function errorResponse(c: Context, { status, code, message, headers }: Answer): Response {
  dropReplacedHeaders(c);
  headers.set("Content-Type", "application/json");
  headers.set("X-Error-Code", code);
  const body = JSON.stringify({ error: message });
  return c.newResponse(body, { status: status as ContentfulStatusCode, headers });
}

/** Tells an `HTTPException` by its shape: another copy of Hono has another class. */
function isException(error: Error): error is ExceptionLike {
  const { status, getResponse } = error as Partial<ExceptionLike>;
  return typeof getResponse === "function" && Number.isInteger(status) && status! >= 200 &&
    status! <= 599;
}

/** Makes the response. Deno 2.5 cannot use its body again if the exception was thrown before. */
function responseOf(error: ExceptionLike): Response {
  const { status, res } = error;
  return res?.bodyUsed ? new Response(null, { status, headers: res.headers }) : error.getResponse();
}

/** Drops headers that Hono would merge into the error's response. Others, such as CORS headers, stay. */
function dropReplacedHeaders(c: Context): void {
  if (!c.finalized) {
    for (const name of REPLACED_HEADERS) c.header(name, undefined);
    return;
  }
  const { body, headers } = c.res;
  body?.cancel().catch(() => {});
  // Hono would copy the response with its body, which fails if the body was read.
  c.res = undefined;
  c.res = new Response(null, { headers });
  for (const name of REPLACED_HEADERS) c.res.headers.delete(name);
}

function logCause(error: Error, { status, code }: Answer, c: Context): void {
  const requestId: string | undefined = c.get("requestId");
  const level = error.cause instanceof StoppingError ? "info" : "error";
  const request = { requestId, method: c.req.method, path: pathOf(c) };
  writeLog(logSinkOf(c), level, "request failed", { ...request, status, code, error });
}
