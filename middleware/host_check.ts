import type { Context, MiddlewareHandler } from "@hono/hono";
import { remoteOf } from "./client_ip.ts";
import { HttpError } from "../core/http_error.ts";

/** A registered name, an IPv4 address or a bracketed IPv6 one, with or without a port (RFC 3986, 3.2). */
const HOST = /^(?:[\w.~!$&'()*+,;=%-]+|\[[0-9a-f:.]+\])(?::\d{0,5})?$/i;

/** The part of a URL before its path, and how that begins, if there is one. */
const ORIGIN = /^([^:/?#]*:\/\/([^/?#]*))(\/?)/;

/** Only HTTP/1 has these: a stream of HTTP/2 that brings one is malformed (RFC 9113, section 8.2.2). */
const HTTP1_HEADERS = [
  "Connection",
  "Transfer-Encoding",
  "Upgrade",
  "Keep-Alive",
  "Proxy-Connection",
] as const;

/**
 * Creates middleware that answers 400 to a request whose `Host` header is not a host, or missing.
 *
 * Deno builds a request's URL from that header, so `Host: x/webhook?` on `POST /public` would reach
 * `/webhook`, past whatever stands in front and judges by the path. And `Host: 256.256.256.256` makes a
 * URL that `new URL()` throws at. HTTP/2 has `:authority` in its place.
 *
 * A target without a path is refused as well: in `http://x?/webhook` Hono would take that of the query.
 *
 * Where neither is there, Deno makes up the address that it listens at, and nothing tells such a request
 * from one over HTTP/2 for that address. So it is refused only if a header shows that it came over
 * HTTP/1, such as `Connection`. A request that is made in the process needs neither.
 *
 * @returns The middleware. Put it before the routes.
 */
export function createHostCheck(): MiddlewareHandler {
  return async function hostCheck(c, next) {
    const [, origin, authority, slash] = ORIGIN.exec(c.req.url) ?? [];
    const host = c.req.header("Host") ?? sentAs(c, authority);
    // The target of a request may name another host than the header, and the URL has that one then.
    const isUrl = origin === undefined || URL.canParse(origin);
    if (!isUrl || slash === "" || (host !== undefined && !isHost(host, authority))) {
      throw new HttpError(400, "Invalid host", { code: "INVALID_HOST" });
    }
    await next();
  };
}

/** Whether it is a host that a URL can have, which is known of the URL's own. */
function isHost(host: string, authority: string | undefined): boolean {
  return HOST.test(host) && (host === authority || URL.canParse(`http://${host}`));
}

/** Without a `Host` header, and over a connection: the authority of HTTP/2, or nothing at all. */
function sentAs(c: Context, authority = ""): string | undefined {
  if (remoteOf(c) === undefined) return undefined;
  return HTTP1_HEADERS.some((name) => c.req.header(name) !== undefined) ? "" : authority;
}
