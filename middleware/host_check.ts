import type { Context, MiddlewareHandler } from "@hono/hono";
import { remoteOf } from "./client_ip.ts";
import { HttpError } from "../core/http_error.ts";

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
 */
export function createHostCheck(): MiddlewareHandler {
  return async function hostCheck(c, next) {
    const [, origin, authority, slash] = ORIGIN.exec(c.req.url) ?? [];
    const host = c.req.header("Host") ?? sentAs(c, authority);
    // The target of a request may name another host than the header. The URL has the target's.
    const isUrl = origin === undefined || URL.canParse(origin);
    if (!isUrl || slash === "" || (host !== undefined && !isHost(host, authority))) {
      throw new HttpError(400, "Invalid host", { code: "INVALID_HOST" });
    }
    await next();
  };
}

/** Tells whether a URL can have this host. The URL's own host needs no check. */
function isHost(host: string, authority: string | undefined): boolean {
  return HOST.test(host) && (host === authority || URL.canParse(`http://${host}`));
}

/** Finds the host of a request without a `Host` header: the authority of HTTP/2, or an empty text. */
function sentAs(c: Context, authority = ""): string | undefined {
  if (remoteOf(c) === undefined) return undefined;
  return HTTP1_HEADERS.some((name) => c.req.header(name) !== undefined) ? "" : authority;
}
