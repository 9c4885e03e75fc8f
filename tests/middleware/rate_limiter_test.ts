import { assert, assertEquals, assertGreater } from "@std/assert";
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
import type { LogRecord } from "../../core/mod.ts";
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

Deno.test("createRateLimiter() lets preflights pass past the limit, up to ten times as many", async () => {
  const statuses = await statusesOf(limited(), {}, {}, {}, ...times(22, PREFLIGHT), {});
  assertEquals(statuses, [200, 200, 429, ...Array(20).fill(200), 429, 429, 429]);
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

/** Counts of a store, and the headers that tell of them. */
const TOLD: readonly [count: number, resetMs: number, (string | null)[]][] = [
  [2, 1001, ['"default";q=5;w=60', '"default";r=3;t=2', "5", "3", "2", null]],
  [9, 30_500, ['"default";q=5;w=60', '"default";r=0;t=31', "5", "0", "31", "31"]],
  [9, 0.2, ['"default";q=5;w=60', '"default";r=0;t=1', "5", "0", "1", "1"]],
];

Deno.test("createRateLimiter() says on each response how the client stands, and on a 429 when to try again", async () => {
  for (const [count, resetMs, expected] of TOLD) {
    const { headers } = await limited({ limit: 5, store: storeAt(count, resetMs) })();
    assertEquals(HEADERS.map((name) => headers.get(name)), expected);
  }
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

Deno.test("createRateLimiter() with failedOnly counts responses of 4xx alone", async () => {
  for (const path of ["/400", "/401", "/413", "/499", "/no/route"]) {
    const send = limited({ failedOnly: true });
    assertEquals((await statusesOf(send, { path }, { path }, { path }, {})).slice(2), [429, 200]);
  }
  for (const status of [200, 204, 302, 500, 503]) {
    const sent = times(5, { path: `/${status}` });
    assertEquals(await statusesOf(limited({ failedOnly: true }), ...sent), Array(5).fill(status));
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

const V6 = from("2001:db8::1", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1");

/** Requests, in the order in which they come, with their statuses, and the options of the limiter. */
const CLIENTS: Readonly<Record<string, [Sent[], number[], Partial<RateLimitOptions>?]>> = {
  "each address by itself": [
    from("192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.2"),
    [200, 200, 200, 429, 200],
  ],
  "a /64 of IPv6 as one client": [
    from("2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::3", "2001:db8:0:1::1"),
    [200, 200, 429, 200],
  ],
  "each IPv6 address by itself if asked": [V6, [200, 200, 200, 200], { ipv6Prefix: 128 }],
  "a /48 of IPv6 as one client if asked": [V6, [200, 200, 429, 429], { ipv6Prefix: 48 }],
  "an IPv4-mapped address as the IPv4 one": [
    from("192.0.2.1", "::ffff:192.0.2.1", "::ffff:c000:201", "::ffff:192.0.2.2"),
    [200, 200, 429, 200],
  ],
  "requests without an address together": [
    [{}, ...from("not an address", ""), ...from("192.0.2.1")],
    [200, 200, 429, 200],
  ],
  "by the socket whatever X-Forwarded-For claims": [
    forwarded("198.51.100.1", "198.51.100.2", "198.51.100.3"),
    [200, 200, 429],
  ],
  "by what the trusted proxy has seen, and nothing left of it": [
    forwarded("198.51.100.1", "1.1.1.1, 198.51.100.1", "2.2.2.2, 198.51.100.1", "198.51.100.2"),
    [200, 200, 429, 200],
    { trustedProxyHops: 1 },
  ],
  "by a key of the caller's": [
    ["a", "a", "b", "a"].map((tenant) => ({ headers: { "X-Tenant": tenant } })),
    [200, 200, 200, 429],
    { key: (c) => c.req.header("X-Tenant") },
  ],
  "requests without that key together": [
    [{}, {}, {}],
    [200, 200, 429],
    { key: (c) => c.req.header("X-Tenant") },
  ],
};

for (const failedOnly of [false, true]) {
  const what = failedOnly ? "a failed request of a client" : "a client";
  Deno.test(`createRateLimiter() warns once if it refuses ${what} whose address it does not get`, async () => {
    const records: LogRecord[] = [];
    for (const key of [undefined, () => undefined]) {
      const app = new Hono();
      app.onError(errorHandler);
      app.use(createLogger({ log: (record) => records.push(record) }));
      app.use(createRateLimiter({ limit: 1, window: 60_000, key, failedOnly }));
      const statuses = async (env?: object) => (await app.request("/", {}, env)).status;
      const remoteAddr = { transport: "tcp", hostname: "192.0.2.1", port: 1 };
      if (!key) {
        for (const status of [404, 429]) assertEquals(await statuses({ remoteAddr }), status);
      }
      for (const status of [404, 429, 429]) assertEquals(await statuses(), status);
    }
    const others = records.filter(({ message }) => message !== "request");
    assertEquals(others.map(({ level, message }) => [level, message]), [
      ["warn", "rate limit shared by all clients"],
    ]);
  });
}

for (const [what, [requests, statuses, options]] of Object.entries(CLIENTS)) {
  Deno.test(`createRateLimiter() counts ${what}`, async () => {
    assertEquals(await statusesOf(limited(options), ...requests), statuses);
  });
}

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

Deno.test("createRateLimiter() keeps limiting whoever goes on while others fill the store", async () => {
  const send = limited({ store: new MemoryRateLimitStore({ maxKeys: 10 }) });
  await statusesOf(send, ...from("192.0.2.1", "192.0.2.1"));
  for (let i = 0; i < 30; i++) {
    assertEquals(await statusesOf(send, ...from("192.0.2.1", `198.51.100.${i}`)), [429, 200]);
  }
});

Deno.test("createRateLimiter() holds no more clients than its store may", async () => {
  const store = new MemoryRateLimitStore({ maxKeys: 5 });
  const send = limited({ store });
  await statusesOf(send, ...from(...Array.from({ length: 50 }, (_, i) => `192.0.2.${i}`)));
  assertEquals(store.size, 5);
  assert((await send({ from: "192.0.2.200" })).ok);
});
