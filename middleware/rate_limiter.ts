import type { Context, MiddlewareHandler } from "@hono/hono";
import {
  checkBoolean,
  checkFunction,
  checkOptions,
  met,
  type OptionCheck,
  partWith,
  wholeNumber,
} from "../core/check_options.ts";
import { HttpError } from "../core/http_error.ts";
import { logSinkOf, writeLog } from "../core/log.ts";
import { clientIp, ipNetwork, proxyHops } from "./client_ip.ts";
import { setResponseHeader } from "./essentials.ts";
import type { LoggerOptions } from "./logger.ts";
import {
  MemoryRateLimitStore,
  type RateLimitCount,
  type RateLimitStore,
} from "./rate_limit_store.ts";

/** Key of all requests whose address is not known: they share one count. */
const NO_ADDRESS = "unknown";

/** Remedy for a limit that all clients share, for the log. */
const PASS_ADDRESS = "pass the connection to the app, as in Deno.serve(bindEnv(app, env)) or " +
  "app.fetch(request, { remoteAddr: info.remoteAddr })";

/** Preflights allowed per request of the limit. A browser sends at most one before a request. */
const PREFLIGHTS_PER_REQUEST = 10;

/** Prefix lengths that end at a group of an IPv6 address. */
const IPV6_PREFIXES: readonly number[] = [16, 32, 48, 64, 80, 96, 112, 128];

const checkIpv6Prefix: OptionCheck = (doing, name, value) => {
  if (IPV6_PREFIXES.includes(value as number)) return;
  const wanted = `one of ${IPV6_PREFIXES.join(", ")}`;
  throw new RangeError(`Cannot ${doing}: '${name}' must be ${wanted}, got ${met(value)}`);
};

const CHECKS = {
  limit: wholeNumber(),
  window: wholeNumber(),
  failedOnly: checkBoolean,
  store: partWith("increment", "a store of counts"),
  key: checkFunction,
  ipv6Prefix: checkIpv6Prefix,
  trustedProxyHops: proxyHops,
};

/**
 * Options of {@linkcode createRateLimiter}.
 *
 * @category Middleware
 */
export interface RateLimitOptions extends Pick<LoggerOptions, "trustedProxyHops"> {
  /** Number of requests that a client may make in a window. */
  readonly limit: number;
  /** Length of the window, in milliseconds. */
  readonly window: number;
  /**
   * Limits failed requests only: those answered with 4xx are counted, and refused past the limit. A good
   * request is never refused, even if it shares its address with others. A platform sends the requests
   * of all its customers from the same addresses.
   *
   * @default {false} All requests count.
   */
  readonly failedOnly?: boolean | undefined;
  /**
   * Store of the counts.
   *
   * @default {new MemoryRateLimitStore()} In the memory of this instance.
   */
  readonly store?: RateLimitStore | undefined;
  /**
   * Finds the key of the client that a request counts for.
   *
   * @default {clientIp} The client's IP address, or its network for IPv6.
   */
  readonly key?: ((c: Context) => string | undefined) | undefined;
  /**
   * Number of bits of an IPv6 address that tell clients apart: a multiple of 16, up to 128.
   *
   * @default {64}
   */
  readonly ipv6Prefix?: number | undefined;
}

/**
 * Creates middleware that answers 429 `Too Many Requests` to a client past its limit.
 *
 * Windows are fixed. In memory, a window starts with a client's first request. Every counted response has
 * the headers `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10), and the older
 * `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset` (seconds until the window ends). A
 * 429 has `Retry-After` as well.
 *
 * CORS preflights do not count as requests, and get none of these headers. They have a separate limit,
 * ten times as high, so that handlers of `OPTIONS` are protected too. Put middleware that must also
 * handle a 429, such as `cors()`, before this one.
 *
 * @param options The limit, and the store and the key that requests are counted by.
 * @returns The middleware.
 * @throws {TypeError} If an option has the wrong type.
 * @throws {RangeError} If `limit` or `window` is not a positive whole number, or `trustedProxyHops` or
 * `ipv6Prefix` is out of its range.
 *
 * @example
 * ```ts
 * import { Hono } from "@hono/hono";
 * import { createRateLimiter, errorHandler } from "@org/edge-base";
 * import { assertEquals } from "@std/assert";
 *
 * const app = new Hono();
 * app.onError(errorHandler);
 * app.use(createRateLimiter({ limit: 1, window: 60_000 }));
 * app.get("/", (c) => c.text("hello"));
 *
 * assertEquals((await app.request("/")).status, 200);
 * assertEquals((await app.request("/")).status, 429);
 * ```
 *
 * @category Middleware
 */
export function createRateLimiter(options: RateLimitOptions): MiddlewareHandler {
  checkOptions("create the rate limiter", options, CHECKS, ["limit", "window"]);
  const { limit, window, failedOnly = false, ipv6Prefix = 64, ...ipOptions } = options;
  const store = options.store ?? new MemoryRateLimitStore();
  const keyOf = options.key ?? ((c: Context) => {
    const ip = clientIp(c, ipOptions);
    return ip && ipNetwork(ip, ipv6Prefix);
  });
  const policy = `"default";q=${limit};w=${Math.ceil(window / 1000)}`;

  const refuseIf = (over: boolean, state: RateLimitCount) => {
    if (over) throw tooManyRequests(limit, policy, state);
  };

  // A key of the caller's may be shared on purpose.
  let isWarned = options.key !== undefined;
  const warnOfShared = (c: Context) => {
    if (isWarned) return;
    isWarned = true;
    writeLog(logSinkOf(c), "warn", "rate limit shared by all clients", { remedy: PASS_ADDRESS });
  };

  return async function rateLimiter(c, next) {
    const preflight = isPreflight(c);
    if (preflight && failedOnly) return await next();
    const key = keyOf(c) ?? NO_ADDRESS;
    let state: RateLimitCount;
    if (failedOnly) {
      await next();
      const failed = c.res.status >= 400 && c.res.status < 500;
      try {
        state = await store.get(key, window);
      } catch (error) {
        if (failed) throw error;
        return; // The request succeeded, and stays so without a count.
      }
      const isOver = failed && state.count >= limit;
      if (isOver && key === NO_ADDRESS) warnOfShared(c);
      refuseIf(isOver, state);
      if (failed) state = await store.increment(key, window);
    } else {
      const counted = store.increment(preflight ? `preflight ${key}` : key, window);
      state = counted instanceof Promise ? await counted : counted;
      const isOver = state.count > (preflight ? limit * PREFLIGHTS_PER_REQUEST : limit);
      if (isOver && key === NO_ADDRESS) warnOfShared(c);
      refuseIf(isOver, state);
      await next();
      if (preflight) return;
    }
    const headers = headersOf(limit, policy, state);
    for (const name in headers) setResponseHeader(c, name, headers[name]);
  };
}

/** Tells whether a request is a CORS preflight (Fetch, section 4.8). */
function isPreflight({ req }: Context): boolean {
  return req.method === "OPTIONS" && req.header("Origin") !== undefined &&
    req.header("Access-Control-Request-Method") !== undefined;
}

function tooManyRequests(limit: number, policy: string, state: RateLimitCount): HttpError {
  const counted = headersOf(limit, policy, state);
  const headers = { ...counted, "Retry-After": counted["X-RateLimit-Reset"]! };
  return new HttpError(429, "Too Many Requests", { code: "RATE_LIMITED", headers });
}

function headersOf(limit: number, policy: string, state: RateLimitCount): Record<string, string> {
  const remaining = Math.max(0, limit - state.count);
  const resetSeconds = Math.ceil(state.resetMs / 1000);
  return {
    "RateLimit-Policy": policy,
    "RateLimit": `"default";r=${remaining};t=${resetSeconds}`,
    "X-RateLimit-Limit": String(limit),
    "X-RateLimit-Remaining": String(remaining),
    "X-RateLimit-Reset": String(resetSeconds),
  };
}
