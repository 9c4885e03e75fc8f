import {
  assert,
  assertEquals,
  assertGreater,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { met } from "../../core/check_options.ts";
import { type Handler, Hono } from "@hono/hono";
import {
  createLogger,
  createRateLimiter,
  errorHandler,
  HttpError,
  MemoryRateLimitStore,
  type RateLimitOptions,
  type RateLimitStore,
} from "../../middleware/mod.ts";
import { MonotonicClock } from "../_monotonic_clock.ts";

const HEADERS = [
  "RateLimit-Policy",
  "RateLimit",
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "X-RateLimit-Reset",
  "Retry-After",
];

interface Sent {
  readonly from?: string;
  readonly path?: string;
  readonly method?: string;
  readonly headers?: Record<string, string>;
}

/** Sends requests to an app that allows two a minute; `/<status>` is answered with that status. */
function limited(options: Partial<RateLimitOptions> = {}, handler?: Handler) {
  const app = new Hono();
  app.onError(errorHandler);
  app.use(createLogger({ log: () => {} }));
  app.use(createRateLimiter({ limit: 2, window: 60_000, ...options }));
  app.on(
    ["GET", "OPTIONS"],
    "/:status",
    handler ?? ((c) => new Response(null, { status: Number(c.req.param("status")) })),
  );
  return ({ from, path = "/200", method = "GET", headers = {} }: Sent = {}) => {
    const remoteAddr = { transport: "tcp", hostname: from, port: 50_000 };
    return app.request(path, { method, headers }, from === undefined ? undefined : { remoteAddr });
  };
}

/** The statuses of requests that are sent one after the other. */
async function statusesOf(send: ReturnType<typeof limited>, ...requests: Sent[]) {
  const statuses: number[] = [];
  for (const request of requests) statuses.push((await send(request)).status);
  return statuses;
}

const from = (...ips: string[]): Sent[] => ips.map((ip) => ({ from: ip }));

const forwarded = (...values: string[]): Sent[] =>
  values.map((value) => ({ from: "192.0.2.1", headers: { "X-Forwarded-For": value } }));

/** A store that always counts the same. */
const storeAt = (count: number, resetMs: number): RateLimitStore => ({
  increment: () => ({ count, resetMs }),
  get: () => ({ count, resetMs }),
});

Deno.test("createRateLimiter() lets requests up to the limit pass", async () => {
  assertEquals(await statusesOf(limited(), {}, {}), [200, 200]);
});

Deno.test("createRateLimiter() answers 429 past the limit", async () => {
  assertEquals(await statusesOf(limited(), {}, {}, {}, {}), [200, 200, 429, 429]);
});

const PREFLIGHT: Sent = {
  method: "OPTIONS",
  headers: { Origin: "https://example.com", "Access-Control-Request-Method": "POST" },
};

const times = (count: number, sent: Sent): Sent[] => Array.from({ length: count }, () => sent);

Deno.test("createRateLimiter() does not count preflights, and says nothing of a count", async () => {
  for (const failedOnly of [false, true]) {
    const send = limited({ failedOnly });
    const { headers } = await send(PREFLIGHT);
    assertEquals(HEADERS.filter((name) => headers.has(name)), []);
    const failing = { ...PREFLIGHT, path: "/404" };
    assertEquals(await statusesOf(send, ...times(9, failing)), Array(9).fill(404));
    assertEquals(await statusesOf(send, ...times(3, { path: "/404" })), [404, 404, 429]);
  }
});

Deno.test("createRateLimiter() lets preflights pass past the limit", async () => {
  assertEquals(await statusesOf(limited(), ...times(3, {}), PREFLIGHT), [200, 200, 429, 200]);
});

Deno.test("createRateLimiter() limits what only looks like preflights to ten times as many", async () => {
  const statuses = await statusesOf(limited(), ...times(22, PREFLIGHT), {});
  assertEquals(statuses, [...Array(20).fill(200), 429, 429, 200]);
});

Deno.test("createRateLimiter() counts what is no preflight", async () => {
  const { headers: both } = PREFLIGHT;
  const others: Sent[] = [
    { method: "OPTIONS" },
    { method: "OPTIONS", headers: { Origin: both!["Origin"]! } },
    { headers: both! },
  ];
  for (const other of others) {
    assertEquals(await statusesOf(limited(), ...times(3, other)), [200, 200, 429]);
  }
});

Deno.test("createRateLimiter() answers 429 in the error shape", async () => {
  const response = await limited({ store: storeAt(3, 1000) })();
  assertEquals(response.headers.get("X-Error-Code"), "RATE_LIMITED");
  assertEquals(response.headers.get("Content-Type"), "application/json");
  assertEquals(await response.json(), { error: "Too Many Requests" });
});

Deno.test("createRateLimiter() does not call the handler past the limit", async () => {
  let calls = 0;
  const send = limited({}, (c) => {
    calls++;
    return c.text("hello");
  });
  await statusesOf(send, {}, {}, {}, {});
  assertEquals(calls, 2);
});

Deno.test("createRateLimiter() limits requests that are made at once", async () => {
  const send = limited({}, async (c) => {
    await Promise.resolve();
    return c.text("hello");
  });
  const responses = await Promise.all([send(), send(), send(), send()]);
  assertEquals(responses.map(({ status }) => status), [200, 200, 429, 429]);
});

Deno.test("createRateLimiter() allows the limit again in the next window", async () => {
  using clock = new MonotonicClock();
  const send = limited({ window: 30 });
  assertEquals(await statusesOf(send, {}, {}, {}), [200, 200, 429]);
  clock.advance(30);
  assertEquals(await statusesOf(send, {}, {}, {}), [200, 200, 429]);
});

Deno.test("createRateLimiter() takes the window in milliseconds", async () => {
  const { headers } = await limited({ window: 90_000 })();
  assertEquals(headers.get("RateLimit-Policy"), '"default";q=2;w=90');
  assertGreater(Number(headers.get("X-RateLimit-Reset")), 60);
});

Deno.test("createRateLimiter() says on each response how the client stands", async () => {
  const { headers } = await limited({ limit: 5, store: storeAt(2, 1001) })();
  const expected = ['"default";q=5;w=60', '"default";r=3;t=2', "5", "3", "2", null];
  assertEquals(HEADERS.map((name) => headers.get(name)), expected);
});

Deno.test("createRateLimiter() says on a 429 when to try again", async () => {
  const { headers } = await limited({ limit: 5, store: storeAt(9, 30_500) })();
  const expected = ['"default";q=5;w=60', '"default";r=0;t=31', "5", "0", "31", "31"];
  assertEquals(HEADERS.map((name) => headers.get(name)), expected);
});

Deno.test("createRateLimiter() never says to try again at once", async () => {
  const { headers } = await limited({ store: storeAt(3, 0.2) })();
  assertEquals(headers.get("Retry-After"), "1");
});

Deno.test("createRateLimiter() sets its headers on a response of any kind", async () => {
  const kinds: Handler[] = [
    () => new Response("own"),
    () => Response.redirect("http://localhost/elsewhere"),
    () => {
      throw new Error("boom");
    },
  ];
  for (const handler of kinds) {
    const { headers } = await limited({}, handler)();
    assertEquals(headers.get("X-RateLimit-Remaining"), "1");
  }
});

Deno.test("createRateLimiter() counts requests of every outcome", async () => {
  for (const path of ["/204", "/404", "/500", "/no/route"]) {
    assertEquals((await statusesOf(limited(), { path }, { path }, {}))[2], 429, path);
  }
});

Deno.test("createRateLimiter() with failedOnly counts responses of 4xx", async () => {
  for (const path of ["/400", "/401", "/413", "/499", "/no/route"]) {
    const send = limited({ failedOnly: true });
    assertEquals((await statusesOf(send, { path }, { path }, { path }, {})).slice(2), [429, 200]);
  }
});

Deno.test("createRateLimiter() with failedOnly counts no other responses", async () => {
  for (const path of ["/200", "/204", "/302", "/500", "/503"]) {
    const send = limited({ failedOnly: true });
    const sent = Array.from({ length: 5 }, () => ({ path }));
    assertEquals(await statusesOf(send, ...sent), sent.map(() => Number(path.slice(1))));
  }
});

Deno.test("createRateLimiter() with failedOnly counts a thrown error by its status", async () => {
  const throwing = (error: Error) =>
    limited({ failedOnly: true }, () => {
      throw error;
    });
  const refused = new HttpError(401, "Unauthorized", { code: "UNAUTHORIZED" });
  assertEquals(await statusesOf(throwing(refused), {}, {}, {}), [401, 401, 429]);
  assertEquals(await statusesOf(throwing(new Error("boom")), {}, {}, {}), [500, 500, 500]);
});

Deno.test("createRateLimiter() with failedOnly tells the count with this request", async () => {
  const send = limited({ failedOnly: true });
  const remaining: (string | null)[] = [];
  for (const path of ["/200", "/401", "/200"]) {
    remaining.push((await send({ path })).headers.get("X-RateLimit-Remaining"));
  }
  assertEquals(remaining, ["2", "1", "1"]);
});

Deno.test("createRateLimiter() with failedOnly does not prolong a limit by what it refuses", async () => {
  const store = new MemoryRateLimitStore();
  const send = limited({ failedOnly: true, store, key: () => "client" });
  await statusesOf(send, { path: "/401" }, { path: "/401" }, { path: "/401" }, { path: "/401" });
  assertEquals(store.get("client", 60_000).count, 2);
});

Deno.test("createRateLimiter() counts each address by itself", async () => {
  const requests = from("192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.2");
  assertEquals(await statusesOf(limited(), ...requests), [200, 200, 200, 429, 200]);
});

Deno.test("createRateLimiter() counts a /64 of IPv6 as one client", async () => {
  const requests = from("2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::3", "2001:db8:0:1::1");
  assertEquals(await statusesOf(limited(), ...requests), [200, 200, 429, 200]);
});

Deno.test("createRateLimiter() counts IPv6 by another prefix if asked", async () => {
  const ips = ["2001:db8::1", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"];
  assertEquals(await statusesOf(limited({ ipv6Prefix: 128 }), ...from(...ips)), [
    200,
    200,
    200,
    200,
  ]);
  assertEquals(await statusesOf(limited({ ipv6Prefix: 48 }), ...from(...ips)), [
    200,
    200,
    429,
    429,
  ]);
});

Deno.test("createRateLimiter() counts an IPv4-mapped address as the IPv4 one", async () => {
  const requests = from("192.0.2.1", "::ffff:192.0.2.1", "::ffff:c000:201", "::ffff:192.0.2.2");
  assertEquals(await statusesOf(limited(), ...requests), [200, 200, 429, 200]);
});

Deno.test("createRateLimiter() counts requests without an address together", async () => {
  const requests = [{}, ...from("not an address", ""), ...from("192.0.2.1")];
  assertEquals(await statusesOf(limited(), ...requests), [200, 200, 429, 200]);
});

Deno.test("createRateLimiter() counts by the socket whatever X-Forwarded-For claims", async () => {
  const requests = forwarded("198.51.100.1", "198.51.100.2", "198.51.100.3");
  assertEquals(await statusesOf(limited(), ...requests), [200, 200, 429]);
});

Deno.test("createRateLimiter() counts by what the trusted proxy has seen", async () => {
  const requests = forwarded("198.51.100.1", "198.51.100.1", "198.51.100.1", "198.51.100.2");
  const send = limited({ trustedProxyHops: 1 });
  assertEquals(await statusesOf(send, ...requests), [200, 200, 429, 200]);
});

Deno.test("createRateLimiter() trusts no entry left of the trusted hops", async () => {
  const requests = forwarded(
    "1.1.1.1, 198.51.100.1",
    "2.2.2.2, 198.51.100.1",
    "3.3.3.3, 198.51.100.1",
  );
  const send = limited({ trustedProxyHops: 1 });
  assertEquals(await statusesOf(send, ...requests), [200, 200, 429]);
});

Deno.test("createRateLimiter() counts by a key of the caller's", async () => {
  const send = limited({ key: (c) => c.req.header("X-Tenant") });
  const tenants = ["a", "a", "b", "a"].map((tenant) => ({ headers: { "X-Tenant": tenant } }));
  assertEquals(await statusesOf(send, ...tenants), [200, 200, 200, 429]);
  assertEquals(await statusesOf(send, {}, {}, {}), [200, 200, 429]);
});

Deno.test("createRateLimiter() counts in the store that it is given", async () => {
  const seen: [string, number][] = [];
  const increment = (key: string, windowMs: number) =>
    Promise.resolve({ count: seen.push([key, windowMs]), resetMs: 1 });
  const store = { ...storeAt(1, 1), increment };
  assertEquals(await statusesOf(limited({ store }), ...from("192.0.2.1", "::1", "::1")), [
    200,
    200,
    429,
  ]);
  assertEquals(seen.slice(0, 2), [["192.0.2.1", 60_000], ["0000:0000:0000:0000::/64", 60_000]]);
});

Deno.test("createRateLimiter() lets nothing pass when the store fails", async () => {
  const increment = () => Promise.reject(new Error("store at 10.0.0.7 is down"));
  const response = await limited({ store: { increment, get: increment } })();
  assertEquals([response.status, await response.json()], [500, { error: "Internal Server Error" }]);
});

Deno.test("createRateLimiter() with failedOnly lets good responses stand when the store fails", async () => {
  const fail = () => Promise.reject(new Error("store at 10.0.0.7 is down"));
  const send = limited({ failedOnly: true, store: { increment: fail, get: fail } });
  assertEquals(await statusesOf(send, { path: "/200" }, { path: "/503" }), [200, 503]);
  assertEquals((await send({ path: "/404" })).status, 500);
});

Deno.test("createRateLimiter() counts by itself without a store in common", async () => {
  const [one, other] = [limited(), limited()];
  await statusesOf(one, {}, {}, {});
  assertEquals(await statusesOf(other, {}), [200]);
});

Deno.test("createRateLimiter() keeps limiting whoever goes on while others fill the store", async () => {
  const send = limited({ store: new MemoryRateLimitStore({ maxKeys: 10 }) });
  await statusesOf(send, ...from("192.0.2.1", "192.0.2.1"));
  for (let i = 0; i < 30; i++) {
    assertEquals(await statusesOf(send, ...from("192.0.2.1", `198.51.100.${i}`)), [429, 200]);
  }
});

Deno.test("createRateLimiter() leaves its options as they are", async () => {
  const options = Object.freeze({ limit: 1, window: 1000, failedOnly: false, trustedProxyHops: 1 });
  assertEquals(await statusesOf(limited(options), {}, {}), [200, 429]);
});

Deno.test("createRateLimiter() refuses a limit that is no positive whole number", () => {
  for (const limit of [0, -1, 1.5, NaN, Infinity, "5" as unknown as number]) {
    const error = assertThrows(() => limited({ limit }), RangeError, "'limit'");
    assertStringIncludes(error.message, `got ${met(limit)}`);
  }
});

Deno.test("createRateLimiter() refuses a window that is no positive whole number", () => {
  for (const window of [0, -1, 1.5, NaN, Infinity, "60" as unknown as number]) {
    const error = assertThrows(() => limited({ window }), RangeError, "'window'");
    assertStringIncludes(error.message, `got ${met(window)}`);
  }
});

Deno.test("createRateLimiter() refuses hops and prefixes that make no sense", () => {
  for (const trustedProxyHops of [-1, 0.5, 101, NaN, Infinity]) {
    assertThrows(() => limited({ trustedProxyHops }), RangeError, "'trustedProxyHops'");
  }
  for (const ipv6Prefix of [0, -64, 60, 64.5, 144, NaN]) {
    assertThrows(() => limited({ ipv6Prefix }), RangeError, "'ipv6Prefix'");
  }
});

Deno.test("createRateLimiter() refuses missing options", () => {
  assertThrows(() => createRateLimiter({} as RateLimitOptions), RangeError, "'limit'");
  assertThrows(() => createRateLimiter({ limit: 1 } as RateLimitOptions), RangeError, "'window'");
});

Deno.test("createRateLimiter() holds no more clients than its store may", async () => {
  const store = new MemoryRateLimitStore({ maxKeys: 5 });
  const send = limited({ store });
  await statusesOf(send, ...from(...Array.from({ length: 50 }, (_, i) => `192.0.2.${i}`)));
  assertEquals(store.size, 5);
  assert((await send({ from: "192.0.2.200" })).ok);
});
