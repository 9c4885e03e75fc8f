import type { Context, MiddlewareHandler } from "@hono/hono";
import type { ConnectionBindings } from "./client_ip.ts";
import { HttpError } from "./http_error.ts";

/** A registered name, an IPv4 address or a bracketed IPv6 one, with or without a port (RFC 3986, 3.2). */
const HOST = /^(?:[\w.~!$&'()*+,;=%-]+|\[[0-9a-f:.]+\])(?::\d{0,5})?$/i;

/** What Deno makes up where a request over HTTP/1 names no host. On port 80 it cannot be told. */
const MADE_UP = /^https?:\/\/localhost:\d+\//;

/**
 * Creates middleware that answers 400 to a request whose `Host` header is not a host, or missing.
 *
 * Deno builds a request's URL from that header, so `Host: x/webhook?` on `POST /public` would reach
 * `/webhook`, past whatever stands in front and judges by the path. HTTP/2 names the host elsewhere, and
 * a request that is made in the process needs none.
 *
 * @returns The middleware. Put it before the routes.
 */
export function createHostCheck(): MiddlewareHandler {
  return async function hostCheck(c, next) {
    const host = c.req.header("Host");
    if (host === undefined ? isMissing(c) : !HOST.test(host)) {
      throw new HttpError(400, "Invalid host", { code: "INVALID_HOST" });
    }
    await next();
  };
}

function isMissing(c: Context): boolean {
  const bindings = c.env as ConnectionBindings | undefined;
  return bindings?.remoteAddr !== undefined && MADE_UP.test(c.req.url);
}
