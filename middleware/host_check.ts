import type { MiddlewareHandler } from "@hono/hono";
import { HttpError } from "./http_error.ts";

/** A registered name, an IPv4 address or a bracketed IPv6 one, with or without a port (RFC 3986, 3.2). */
const HOST = /^(?:[\w.~!$&'()*+,;=%-]+|\[[0-9a-f:.]+\])(?::\d{0,5})?$/i;

/**
 * Creates middleware that answers 400 to a request whose `Host` header is not a host.
 *
 * Deno builds a request's URL from that header, so `Host: x/webhook?` on `POST /public` would reach
 * `/webhook`, past whatever stands in front and judges by the path.
 *
 * @returns The middleware. Put it before the routes.
 */
export function createHostCheck(): MiddlewareHandler {
  return async function hostCheck(c, next) {
    const host = c.req.header("Host");
    if (host !== undefined && !HOST.test(host)) {
      throw new HttpError(400, "Invalid host", { code: "INVALID_HOST" });
    }
    await next();
  };
}
