import type { Context } from "@hono/hono";

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
