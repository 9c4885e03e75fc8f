import type { MiddlewareHandler } from "@hono/hono";
import { setResponseHeader } from "./_response_header.ts";

/**
 * Creates middleware that puts on every response what an API's responses should carry:
 * `X-Content-Type-Options: nosniff`, and `Cache-Control: no-store` unless a handler has set another.
 *
 * @returns The middleware. Put it after the logger.
 */
export function createResponseHeaders(): MiddlewareHandler {
  return async function responseHeaders(c, next) {
    await next();
    setResponseHeader(c, "X-Content-Type-Options", "nosniff");
    if (!c.res.headers.has("Cache-Control")) setResponseHeader(c, "Cache-Control", "no-store");
  };
}
