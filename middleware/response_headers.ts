import type { Context, MiddlewareHandler } from "@hono/hono";

/** Headers of an error response, which mean nothing on another one. */
const ERROR_HEADERS = ["X-Error-Code", "WWW-Authenticate", "Retry-After", "Allow"];

/**
 * Creates middleware that sets the headers every response of an API should have:
 * `X-Content-Type-Options: nosniff`, and `Cache-Control: no-store` unless a handler has set another value.
 *
 * It also removes an error's headers from a response below 400 that replaced the error, such as a redirect
 * or a page: Hono copies the headers of the first response to the second.
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
 * Sets or removes a header of the finished response. Hono drops headers that were set before a handler
 * returned a `Response` of its own, so headers for every response are set afterwards.
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
