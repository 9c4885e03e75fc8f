import type { Context, MiddlewareHandler } from "@hono/hono";
import { remoteOf } from "./client_ip.ts";
import { HttpError } from "./http_error.ts";

/** A registered name, an IPv4 address or a bracketed IPv6 one, with or without a port (RFC 3986, 3.2). */
const HOST = /^(?:[\w.~!$&'()*+,;=%-]+|\[[0-9a-f:.]+\])(?::\d{0,5})?$/i;

/** Where a URL names the host. */
const AUTHORITY = /^[^:]*:\/\/([^/?#]*)/;

/** What Deno makes up where a request over HTTP/1 names no host. On port 80 it cannot be told. */
const MADE_UP = /^localhost:\d+$/;

/**
 * Creates middleware that answers 400 to a request whose `Host` header is not a host, or missing.
 *
 * Deno builds a request's URL from that header, so `Host: x/webhook?` on `POST /public` would reach
 * `/webhook`, past whatever stands in front and judges by the path. HTTP/2 has `:authority` in its place.
 * A request that is made in the process needs neither.
 *
 * @returns The middleware. Put it before the routes.
 */
export function createHostCheck(): MiddlewareHandler {
  return async function hostCheck(c, next) {
    const host = c.req.header("Host") ?? authorityOf(c);
    if (host !== undefined && !HOST.test(host)) {
      throw new HttpError(400, "Invalid host", { code: "INVALID_HOST" });
    }
    await next();
  };
}

/** Without a `Host` header, and over a connection: the authority of HTTP/2, or nothing at all. */
function authorityOf(c: Context): string | undefined {
  if (remoteOf(c) === undefined) return undefined;
  const authority = AUTHORITY.exec(c.req.url)?.[1] ?? "";
  return MADE_UP.test(authority) ? "" : authority;
}
