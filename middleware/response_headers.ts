import type { Context, MiddlewareHandler } from "@hono/hono";

/** Headers that the error shape brings, and that mean nothing on another response. */
const ERROR_HEADERS = ["X-Error-Code", "WWW-Authenticate", "Retry-After", "Allow"];

/**
 * Creates middleware that puts on every response what an API's responses should carry:
 * `X-Content-Type-Options: nosniff`, and `Cache-Control: no-store` unless a handler has set another.
 *
 * A response below 400 that took the place of an error, such as a redirect or a page, loses the error's
 * headers: Hono hands the headers of the response before on to the one that replaces it.
 *
 * @returns The middleware. Put it after the logger.
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
 * Sets a header on the response that is ready, or drops it. Hono drops what was set before a handler
 * returned a `Response` of its own, so headers for every response are set afterwards, and here.
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
