import type { Context } from "@hono/hono";
import { distinctRemoteAddr, expandIPv6 } from "@hono/hono/utils/ipaddr";
import { type OptionCheck, wholeNumber } from "../core/check_options.ts";

/** Most reverse proxies that an app can trust. */
export const MAX_PROXY_HOPS = 100;

/**
 * Bindings that the connection adds, see {@linkcode bindEnv}.
 *
 * @category Composing by hand
 */
export interface ConnectionBindings {
  /** Address of the other end of the connection. */
  readonly remoteAddr?: Deno.Addr | undefined;
}

/**
 * Finds the client's IP address: the socket's, or the one that a trusted proxy has seen. It knows the sockets
 * of `Deno.serve` with {@linkcode bindEnv}, of `@hono/node-server`, and of `Bun.serve`.
 *
 * @param c The request's context.
 * @param options The number of trusted proxies, as {@linkcode LoggerOptions} describes it: 0 by default.
 * @returns The address without port, brackets or zone, an IPv4-mapped one as IPv4; undefined if there is
 * none: over a Unix socket, or where the server's second argument is not handed on, as in
 * `Deno.serve((request) => app.fetch(request))`.
 * @category Middleware
 */
export function clientIp(
  c: Context,
  options: { readonly trustedProxyHops?: number | undefined } = {},
): string | undefined {
  const { trustedProxyHops = 0 } = options;
  const address = remoteOf(c)?.address;
  const socket = address === undefined ? undefined : normalizeIp(address);
  if (!(trustedProxyHops > 0)) return socket;
  const seen = c.req.header("X-Forwarded-For")?.split(",").at(-trustedProxyHops);
  return (seen === undefined ? undefined : normalizeIp(seen.trim())) ?? socket;
}

/** Checks the number of trusted proxies. */
export const proxyHops: OptionCheck = wholeNumber({ min: 0, max: MAX_PROXY_HOPS });

/**
 * Widens an IPv6 address to its network: one customer often holds a whole /64 (RFC 6177).
 *
 * @param ip An address as {@linkcode clientIp} returns it.
 * @param prefixLength The number of bits of the network: 16, 32, 48, 64, 80, 96, 112 or 128.
 * @returns The network of an IPv6 address; an IPv4 address unchanged.
 * @category Middleware
 */
export function ipNetwork(ip: string, prefixLength = 64): string {
  if (!ip.includes(":")) return ip;
  return `${expandIPv6(ip).split(":").slice(0, prefixLength / 16).join(":")}::/${prefixLength}`;
}

/**
 * Finds the other end of the connection, whose address may be unknown; undefined without one. On other
 * runtimes `@hono/node-server` binds `incoming`, and `Bun.serve` itself.
 */
export function remoteOf(c: Context): { readonly address: string | undefined } | undefined {
  const { remoteAddr, incoming, requestIP } = (c.env ?? {}) as ConnectionBindings & {
    readonly incoming?: { readonly socket?: { readonly remoteAddress?: string } };
    readonly requestIP?: (request: Request) => { readonly address: string } | null;
  };
  if (remoteAddr) return { address: "hostname" in remoteAddr ? remoteAddr.hostname : undefined };
  if (incoming?.socket) return { address: incoming.socket.remoteAddress };
  if (typeof requestIP !== "function") return undefined;
  return { address: requestIP.call(c.env, c.req.raw)?.address };
}

function normalizeIp(text: string): string | undefined {
  if (distinctRemoteAddr(text) === "IPv4") return text;
  const [, v4] = /^([\d.]{7,15}):\d{1,5}$/.exec(text) ?? [];
  if (v4 !== undefined) return distinctRemoteAddr(v4) === "IPv4" ? v4 : undefined;
  const bare = text.replace(/^\[(.*)\](:\d+)?$/, "$1").replace(/%.*$/, "");
  if (!/^[0-9a-f:.]{2,45}$/i.test(bare)) return undefined;
  // The URL parser checks and shortens an IPv6 address (RFC 5952).
  const canonical = URL.parse(`http://[${bare}]/`)?.hostname.slice(1, -1);
  const mapped = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(canonical ?? "");
  if (!mapped) return canonical;
  const [high, low] = [parseInt(mapped[1]!, 16), parseInt(mapped[2]!, 16)];
  return [high >> 8, high & 255, low >> 8, low & 255].join(".");
}
