import type { Context, MiddlewareHandler } from "@hono/hono";
import { HttpError } from "../core/http_error.ts";
import { remoteOf } from "./client_ip.ts";

// Middleware without options, which every app has.

/** Registered name, IPv4 address or IPv6 address in brackets, with or without a port (RFC 3986, 3.2). */
const HOST = /^(?:[\w.~!$&'()*+,;=%-]+|\[[0-9a-f:.]+\])(?::\d{0,5})?$/i;

/** Part of a URL before its path, and the slash that the path begins with, if any. */
const ORIGIN = /^([^:/?#]*:\/\/([^/?#]*))(\/?)/;

/** Headers that only HTTP/1 has: an HTTP/2 request with one is malformed (RFC 9113, section 8.2.2). */
const HTTP1_HEADERS = [
  "Connection",
  "Transfer-Encoding",
  "Upgrade",
  "Keep-Alive",
  "Proxy-Connection",
] as const;

/** Headers of an error response, which mean nothing on another one. */
const ERROR_HEADERS = ["X-Error-Code", "WWW-Authenticate", "Retry-After", "Allow"];

/** Types of responses that are sent whole, as `c.text()` and the like make them. */
const WHOLE = /^(?:text\/(?:plain|html)|application\/json)\b/;

/** Place, in the context of a request, of a response that is known to be whole: it is asked for three times. */
const WHOLE_RESPONSE = Symbol("whole response");

/** Headers of a response that comes from `fetch`, or is written piece by piece. */
const FROM_ELSEWHERE = ["Transfer-Encoding", "Content-Length", "Date"];

/**
 * Creates middleware that sets the headers every response of an API should have:
 * `X-Content-Type-Options: nosniff`, and `Cache-Control: no-store` unless a handler has set another value.
 *
 * It also removes an error's headers from a response below 400 that replaced the error, such as a redirect
 * or a page: Hono copies the headers of the first response to the second.
 *
 * @returns The middleware. Put it after the logger.
 * @category Middleware
 */
export function createResponseHeaders(): MiddlewareHandler {
  return async function responseHeaders(c, next) {
    await next();
    if (c.res.status < 400 && c.res.headers.has("X-Error-Code")) {
      for (const name of ERROR_HEADERS) setResponseHeader(c, name, undefined);
    }
    setResponseHeader(c, "X-Content-Type-Options", "nosniff");
    if (!c.res.headers.has("Cache-Control")) setResponseHeader(c, "Cache-Control", "no-store");
  };
}

/**
 * Creates middleware that turns a thrown value that is not an `Error` (a string, `null`, an object) into
 * one, so that it reaches the error handler. Hono would throw that value out of the app. A handler that
 * returns no response fails as well, and so does one that returns a response that cannot be sent:
 * `Response.error()`, or one whose body was read.
 *
 * @returns The middleware. Put it before the routes, after the logger.
 * @category Errors
 */
export function catchNonErrors(): MiddlewareHandler {
  return async function catchNonErrors(c, next) {
    try {
      await next();
    } catch (thrown) {
      throw thrown instanceof Error
        ? thrown
        : new Error("A non-error was thrown", { cause: thrown });
    }
    if (!c.finalized) throw new Error("A handler returned no response");
    const flaw = flawOf(c);
    if (flaw) throw new Error(`A handler returned a response that cannot be sent: ${flaw}`);
  };
}

/**
 * Creates middleware that answers 400 to a request whose `Host` header is missing or not a host.
 *
 * Deno builds a request's URL from that header. `Host: x/webhook?` on `POST /public` would reach
 * `/webhook`, and bypass a proxy that decides by the path. `Host: 256.256.256.256` makes a URL that
 * `new URL()` throws at. HTTP/2 has `:authority` instead.
 *
 * A target without a path is refused as well: Hono would take the path of `http://x?/webhook` from the
 * query.
 *
 * If a request has neither `Host` nor `:authority`, Deno uses the address that it listens on, and the
 * request looks like one over HTTP/2 for that address. It is refused only if a header such as `Connection`
 * shows that it came over HTTP/1. Requests that are made within the process need neither.
 *
 * @returns The middleware. Put it before the routes.
 * @category Middleware
 */
export function createHostCheck(): MiddlewareHandler {
  // Most requests name the same host as the one before, which need not be parsed again.
  let [validOrigin, validHost]: (string | undefined)[] = [];
  return async function hostCheck(c, next) {
    const header = c.req.header("Host");
    const isKnown = validOrigin !== undefined && header === validHost && header !== undefined &&
      c.req.url.startsWith(validOrigin);
    if (!isKnown) {
      const [start, origin, authority, slash] = ORIGIN.exec(c.req.url) ?? [];
      const host = header ?? sentAs(c, authority);
      // The target of a request may name another host than the header. The URL has the target's.
      const isUrl = origin === undefined || URL.canParse(origin);
      if (slash === "" || !isUrl || (host !== undefined && !isHost(host, authority))) {
        throw invalidHost();
      }
      [validOrigin, validHost] = [start, header];
    }
    await next();
  };
}

/**
 * Sets or removes a header of the finished response. Hono drops headers that were set before a handler
 * returned a `Response`, so headers for every response are set afterwards.
 */
export function setResponseHeader(c: Context, name: string, value: string | undefined): void {
  try {
    if (value === undefined) c.res.headers.delete(name);
    else c.res.headers.set(name, value);
  } catch {
    // The headers of a response from `fetch` or `Response.redirect` are immutable: Hono copies it.
    c.header(name, value);
  }
}

/**
 * Tells whether the body of the response may be a stream. Reading `body` would not tell, and would turn
 * every text into a stream, which takes Deno 3 µs longer to send.
 */
export function mayStream(c: Context): boolean {
  const { res } = c;
  if (c.get(WHOLE_RESPONSE) === res) return false;
  const { headers } = res;
  if (!WHOLE.test(headers.get("Content-Type") ?? "")) return true;
  if (FROM_ELSEWHERE.some((name) => headers.has(name))) return true;
  c.set(WHOLE_RESPONSE, res);
  return false;
}

/** Creates the error for a request that names no valid host. */
export function invalidHost(): HttpError {
  return new HttpError(400, "Invalid host", { code: "INVALID_HOST" });
}

/** Tells whether a URL can have this host. The host that the URL has needs no check. */
function isHost(host: string, authority: string | undefined): boolean {
  return HOST.test(host) && (host === authority || URL.canParse(`http://${host}`));
}

/** Finds the host of a request without a `Host` header: the authority of HTTP/2, or an empty text. */
function sentAs(c: Context, authority = ""): string | undefined {
  if (remoteOf(c) === undefined) return undefined;
  return HTTP1_HEADERS.some((name) => c.req.header(name) !== undefined) ? "" : authority;
}

/** Finds a reason why the server could not send a response. */
function flawOf(c: Context): string | undefined {
  const { res } = c;
  if (res.status === 0) return "it is Response.error()";
  if (res.bodyUsed) return "its body was read";
  return mayStream(c) && res.body?.locked ? "its body has a reader" : undefined;
}
