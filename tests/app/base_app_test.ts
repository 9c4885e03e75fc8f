import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { Hono } from "@hono/hono";
import { cors } from "@hono/hono/cors";
import { HTTPException } from "@hono/hono/http-exception";
import { type AppOptions, bindEnv, createBaseApp } from "../../app/base_app.ts";
import {
  type ConnectionBindings,
  createAuth,
  HttpError,
  type LogRecord,
} from "../../middleware/mod.ts";
import { testWith } from "../_permissions.ts";
import type { RequestOptions } from "../_request_options.ts";

const HEALTH_PATHS = ["/health", "/health/live", "/health/ready"];

/** Texts that no response and no request record may show. */
const CAUSE = "connect ECONNREFUSED 10.0.0.7";

/** A base app whose log is recorded; `/` answers 200, and each other route its way of failing. */
function recorded(options: Partial<AppOptions> = {}) {
  const records: LogRecord[] = [];
  const log = (record: LogRecord) => records.push(record);
  const app = createBaseApp({ name: "bot", logger: { log }, ...options });
  app.get("/", (c) => c.text("hello"));
  app.post("/", (c) => c.text("posted"));
  app.get("/error", () => Promise.reject(new Error(CAUSE)));
  app.get("/text", () => Promise.reject(CAUSE));
  app.get("/nothing", () => Promise.reject(undefined));
  app.get("/aggregate", () => Promise.reject(new AggregateError([new Error(CAUSE), CAUSE])));
  app.get("/conflict", () => Promise.reject(new HttpError(409, "Deployed", { code: "DEPLOYED" })));
  const res = new Response(CAUSE, { status: 403 });
  app.get("/forbidden", () => Promise.reject(new HTTPException(403, { res })));
  app.route("/sub", new Hono().get("/", () => Promise.reject(new Error(CAUSE))));
  return { app, records, requests: () => records.filter(({ message }) => message === "request") };
}

/** Requests that end in each way an app can answer, with status and code. */
const WAYS: readonly [path: string, init: RequestOptions, status: number, code: string | null][] = [
  ["/", {}, 200, null],
  ["/health", {}, 200, null],
  ["/health/live", {}, 200, null],
  ["/health/ready", {}, 200, null],
  ["/no/route", {}, 404, "NOT_FOUND"],
  ["/health/", {}, 404, "NOT_FOUND"],
  ["/HEALTH", {}, 404, "NOT_FOUND"],
  ["/health%2Flive", {}, 404, "NOT_FOUND"],
  ["/", { method: "HEAD" }, 200, null],
  ["/", { method: "PUT" }, 405, "METHOD_NOT_ALLOWED"],
  ["/health", { method: "POST" }, 405, "METHOD_NOT_ALLOWED"],
  ["/", { headers: { Host: "x/health?" } }, 400, "INVALID_HOST"],
  ["/conflict", {}, 409, "DEPLOYED"],
  ["/forbidden", {}, 403, "FORBIDDEN"],
  ["/error", {}, 500, "INTERNAL"],
  ["/text", {}, 500, "INTERNAL"],
  ["/nothing", {}, 500, "INTERNAL"],
  ["/aggregate", {}, 500, "INTERNAL"],
  ["/sub", {}, 500, "INTERNAL"],
];

/** The lines that an app writes to the console while these paths are requested. */
async function consoleLines(options: AppOptions, ...paths: string[]): Promise<string[]> {
  const lines: string[] = [];
  const { log } = console;
  console.log = (line) => lines.push(line);
  try {
    const app = createBaseApp(options).get("/error", () => Promise.reject(new Error(CAUSE)));
    for (const path of paths) await app.request(path);
  } finally {
    console.log = log;
  }
  return lines;
}

/** Runs `use` against an app that is served on loopback. */
async function serving<TEnv extends object>(
  app: Parameters<typeof bindEnv<TEnv>>[0],
  env: TEnv,
  use: (base: string, port: number) => Promise<void>,
): Promise<void> {
  const options = { port: 0, hostname: "127.0.0.1", onListen: () => {} };
  const server = Deno.serve(options, bindEnv(app, env));
  try {
    await use(`http://127.0.0.1:${server.addr.port}`, server.addr.port);
  } finally {
    await server.shutdown();
  }
}

/** Sends these lines as they are, and returns the response as it came. */
async function exchange(port: number, ...lines: string[]): Promise<string> {
  const connection = await Deno.connect({ hostname: "127.0.0.1", port });
  const head = [...lines, "Connection: close", "", ""].join("\r\n");
  await connection.write(new TextEncoder().encode(head));
  return await new Response(connection.readable).text();
}

Deno.test("createBaseApp() reports its name and version on /health", async () => {
  using _time = new FakeTime("2026-01-02T03:04:05.678Z");
  const { app } = recorded({ version: "2.1.0" });
  assertEquals(await (await app.request("/health")).json(), {
    status: "ok",
    name: "bot",
    version: "2.1.0",
    timestamp: "2026-01-02T03:04:05.678Z",
  });
});

Deno.test("createBaseApp() leaves the health routes out if asked", async () => {
  for (const path of HEALTH_PATHS) {
    assertEquals((await recorded({ health: false }).app.request(path)).status, 404);
    assertEquals((await recorded({ health: true }).app.request(path)).status, 200);
  }
});

Deno.test("createBaseApp() answers 503 on the readiness probe while it is not ready", async () => {
  const { app } = recorded({ ready: () => Promise.reject(new Error(CAUSE)) });
  const statuses: number[] = [];
  for (const path of HEALTH_PATHS) statuses.push((await app.request(path)).status);
  assertEquals(statuses, [200, 200, 503]);
  const body = await (await app.request("/health/ready")).json();
  assertEquals(body, { error: "Service Unavailable" });
});

Deno.test("createBaseApp() has no rate limit by default", async () => {
  const { app } = recorded();
  for (let i = 0; i < 300; i++) assertEquals((await app.request("/")).status, 200);
  const { headers } = await app.request("/");
  assertEquals([headers.get("RateLimit"), headers.get("X-RateLimit-Limit")], [null, null]);
});

Deno.test("createBaseApp() answers 429 past the rate limit", async () => {
  const { app } = recorded({ rateLimit: { limit: 2, window: 60_000 } });
  for (const status of [200, 200, 429]) assertEquals((await app.request("/")).status, status);
  const response = await app.request("/");
  assertEquals(response.headers.get("X-Error-Code"), "RATE_LIMITED");
  assertMatch(response.headers.get("Retry-After")!, /^[1-9]\d*$/);
  assertEquals(await response.json(), { error: "Too Many Requests" });
});

Deno.test("createBaseApp() hands all of the rate limiter's options on", async () => {
  const { app } = recorded({ rateLimit: { limit: 1, window: 60_000, failedOnly: true } });
  const paths = ["/", "/conflict", "/conflict", "/"];
  const statuses: number[] = [];
  for (const path of paths) statuses.push((await app.request(path)).status);
  assertEquals(statuses, [200, 409, 429, 200]);
});

Deno.test("createBaseApp() counts requests without a route", async () => {
  for (const init of [{}, { method: "PUT" }]) {
    const { app } = recorded({ rateLimit: { limit: 1, window: 60_000 } });
    await app.request(init.method ? "/" : "/no/route", init);
    assertEquals((await app.request("/")).status, 429);
  }
});

Deno.test("createBaseApp() lets a 429 pass the middleware that stands before the limiter", async () => {
  const origin = "https://example.com";
  const { app } = recorded({
    rateLimit: { limit: 1, window: 60_000 },
    before: [cors({ origin, exposeHeaders: ["Retry-After"] })],
  });
  const headers = { Origin: origin };
  for (const [path, status] of [["/", 200], ["/", 429], ["/no/route", 429]] as const) {
    const response = await app.request(path, { headers });
    assertEquals([response.status, response.headers.get("Access-Control-Allow-Origin")], [
      status,
      origin,
    ]);
    assertEquals(response.headers.get("Access-Control-Expose-Headers"), "Retry-After");
  }
});

Deno.test("createBaseApp() answers preflights wherever cors() stands, and counts none", async () => {
  const headers = { Origin: "https://example.com", "Access-Control-Request-Method": "POST" };
  for (const before of [[cors()], []]) {
    const { app } = recorded({ rateLimit: { limit: 1, window: 60_000 }, before });
    if (before.length === 0) app.use("/api", cors());
    app.get("/api", (c) => c.text("hello"));
    for (let i = 0; i < 5; i++) {
      const preflight = await app.request("/api", { method: "OPTIONS", headers });
      assertEquals([preflight.status, preflight.headers.get("RateLimit")], [204, null]);
    }
    for (const status of [200, 429]) assertEquals((await app.request("/api")).status, status);
  }
});

Deno.test("createBaseApp() answers health checks past the rate limit, and does not count them", async () => {
  const { app } = recorded({ rateLimit: { limit: 1, window: 60_000 } });
  for (const path of HEALTH_PATHS) {
    assertEquals((await app.request(path)).headers.get("X-RateLimit-Limit"), null);
  }
  for (const status of [200, 429]) assertEquals((await app.request("/")).status, status);
  for (const path of HEALTH_PATHS) assertEquals((await app.request(path)).status, 200);
});

Deno.test("createBaseApp() limits a handler that throws what is no error", async () => {
  const { app } = recorded({ rateLimit: { limit: 2, window: 60_000 } });
  const { status, headers } = await app.request("/text");
  assertEquals([status, headers.get("X-RateLimit-Remaining")], [500, "1"]);
});

Deno.test("createBaseApp() asks for no authentication on the health routes", async () => {
  const app = createBaseApp({ name: "bot", logger: { log: () => {} } });
  app.use(createAuth({ tokens: "token" }));
  app.get("/", (c) => c.text("hello"));
  for (const path of HEALTH_PATHS) assertEquals((await app.request(path)).status, 200);
  assertEquals((await app.request("/")).status, 401);
});

Deno.test("createBaseApp() answers each request in the same shape, and logs it once", async () => {
  for (const [path, init, status, code] of WAYS) {
    const { app, records, requests } = recorded();
    const response = await app.request(`${path}?token=query-secret`, init);
    const { headers } = response;
    assertEquals([path, response.status, headers.get("X-Error-Code")], [path, status, code]);
    assertEquals(headers.get("X-Content-Type-Options"), "nosniff", path);
    assertEquals(headers.get("Cache-Control"), "no-store", path);
    const requestId = headers.get("X-Request-Id")!;
    assertMatch(requestId, /^[0-9a-f-]{36}$/);
    const text = await response.text();
    assert(![text, ...headers.values()].some((value) => value.includes(CAUSE)), path);
    if (status >= 400) {
      assertEquals(headers.get("Content-Type"), "application/json");
      const { error, ...others } = JSON.parse(text);
      assertEquals([typeof error, others], ["string", {}]);
      if (status === 500) assertEquals(error, "Internal Server Error");
    }
    const logged = requests().map((record) => [record.requestId, record.status, record.code]);
    assertEquals(logged, [[requestId, status, code ?? undefined]]);
    const causes = records.filter((record) => record.error !== undefined);
    assertEquals(causes.map((record) => record.requestId), status >= 500 ? [requestId] : []);
    assert(!records.some((record) => JSON.stringify(record).includes("query-secret")));
  }
});

Deno.test("createBaseApp() answers 405 with the methods that the path takes", async () => {
  const { app } = recorded();
  for (const method of ["PUT", "DELETE", "PATCH", "OPTIONS", "BREW"]) {
    const response = await app.request("/", { method });
    assertEquals([response.status, response.headers.get("Allow")], [405, "GET, HEAD, POST"]);
  }
  const response = await app.request("/health", { method: "POST" });
  assertEquals([response.status, response.headers.get("Allow")], [405, "GET, HEAD"]);
});

Deno.test("createBaseApp() takes no heed of headers that override the method", async () => {
  const { app } = recorded();
  for (const name of ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"]) {
    const response = await app.request("/", { headers: { [name]: "POST" } });
    assertEquals(await response.text(), "hello");
  }
});

/** Responses that no server can send. */
const UNSENDABLE: Record<string, () => Response | Promise<Response>> = {
  "Response.error()": () => Response.error(),
  "a body that was read": async () => {
    const response = new Response("text");
    await response.text();
    return response;
  },
  "a body that has a reader": () => {
    const response = new Response(new ReadableStream());
    response.body!.getReader();
    return response;
  },
};

for (const [name, handler] of Object.entries(UNSENDABLE)) {
  Deno.test(`createBaseApp() answers 500 in the error shape for ${name}, logged once`, async () => {
    for (const rateLimit of [undefined, { limit: 9, window: 60_000 }]) {
      const { app, records } = recorded({ rateLimit });
      app.get("/unsendable", handler);
      const response = await app.request("/unsendable");
      assertEquals([response.status, await response.json()], [
        500,
        { error: "Internal Server Error" },
      ]);
      const requestId = response.headers.get("X-Request-Id");
      const logged = records.map((record) => [record.message, record.status, record.requestId]);
      assertEquals(logged, [["request failed", 500, requestId], ["request", 500, requestId]]);
    }
  });
}

Deno.test("createBaseApp() answers 500 when middleware fails at what cannot be sent", async () => {
  for (const handler of Object.values(UNSENDABLE)) {
    const { app } = recorded();
    app.use("/unsendable", async (c, next) => {
      await next();
      c.header("X-Own", "text"); // Hono copies the response for it.
    });
    app.get("/unsendable", handler);
    const response = await app.request("/unsendable");
    assertEquals([response.status, response.headers.get("X-Error-Code")], [500, "INTERNAL"]);
  }
});

Deno.test("createBaseApp() refuses a host before it reaches a route", async () => {
  let reached = false;
  const app = createBaseApp({ name: "bot", logger: { log: () => {} } });
  app.get("/", (c) => {
    reached = true;
    return c.text("hello");
  });
  const response = await app.request("/", { headers: { Host: "x/webhook?" } });
  assertEquals([response.status, await response.json()], [400, { error: "Invalid host" }]);
  assert(!reached);
});

Deno.test("createBaseApp() logs to the console by default, or only the cause of a 500 if asked", async () => {
  const pathsWith = async (logger: boolean | undefined) =>
    (await consoleLines({ name: "bot", logger }, "/health", "/no/route", "/error"))
      .map((line) => JSON.parse(line)).map(({ path, error }) => [path, error?.message]);
  const cause = ["/error", CAUSE];
  for (const logger of [undefined, true]) {
    const requests = [["/health", undefined], ["/no/route", undefined], cause, [
      "/error",
      undefined,
    ]];
    assertEquals(await pathsWith(logger), requests);
  }
  assertEquals(await pathsWith(false), [cause]);
});

Deno.test("createBaseApp() gives requests an id even if it logs none", async () => {
  const app = createBaseApp({ name: "bot", logger: false });
  assertMatch((await app.request("/health")).headers.get("X-Request-Id")!, /^[0-9a-f-]{36}$/);
});

Deno.test("createBaseApp() gives handlers the env and the logger's variables", async () => {
  const app = createBaseApp<{ GREETING: string }>({ name: "bot", logger: { log: () => {} } });
  app.get("/", (c) => c.json([c.env.GREETING, c.var.requestId, typeof c.var.log]));
  const init = { headers: { "X-Request-Id": "request-1" } };
  const response = await app.request("/", init, { GREETING: "hi" });
  assertEquals(await response.json(), ["hi", "request-1", "function"]);
});

Deno.test("createBaseApp() makes apps that share nothing", async () => {
  const rateLimit = Object.freeze({ limit: 1, window: 60_000 });
  const options = Object.freeze({ name: "bot", logger: false, rateLimit });
  const [one, other] = [createBaseApp(options), createBaseApp(options)];
  for (const status of [404, 429]) assertEquals((await one.request("/")).status, status);
  assertEquals((await other.request("/")).status, 404);
});

Deno.test("bindEnv() joins the env with the connection's address", async () => {
  const app = createBaseApp<{ GREETING: string } & ConnectionBindings>({
    name: "b",
    logger: false,
  });
  app.get("/", (c) => c.json(c.env));
  const remoteAddr = { transport: "tcp", hostname: "192.0.2.1", port: 50_000 } as const;
  const handler = bindEnv(app, Object.freeze({ GREETING: "hi" }));
  const response = await handler(new Request("http://localhost/"), { remoteAddr });
  assertEquals(await response.json(), { GREETING: "hi", remoteAddr });
});

Deno.test("bindEnv() does not let the env stand in for the connection's address", async () => {
  const app = createBaseApp<ConnectionBindings>({ name: "bot", logger: false });
  app.get("/", (c) => c.json(c.env));
  const address = (hostname: string) => ({ transport: "tcp", hostname, port: 1 }) as const;
  const handler = bindEnv(app, { remoteAddr: address("192.0.2.9") });
  const request = new Request("http://localhost/");
  const response = await handler(request, { remoteAddr: address("192.0.2.1") });
  assertEquals((await response.json()).remoteAddr.hostname, "192.0.2.1");
});

testWith(["net"], "bindEnv() brings env and address to a handler over HTTP", async () => {
  const app = createBaseApp<{ GREETING: string } & ConnectionBindings>({
    name: "b",
    logger: false,
  });
  app.get("/", (c) => c.json(c.env));
  await serving(app, { GREETING: "hi" }, async (base) => {
    const { GREETING, remoteAddr } = await (await fetch(base)).json();
    assertEquals(GREETING, "hi");
    assertEquals([remoteAddr.transport, remoteAddr.hostname], ["tcp", "127.0.0.1"]);
  });
});

testWith(
  ["net"],
  "createBaseApp() counts by the socket over HTTP, whatever is claimed",
  async () => {
    const { app, requests } = recorded({ rateLimit: { limit: 2, window: 60_000 } });
    await serving(app, {}, async (base) => {
      for (
        const [claim, status] of [["1.1.1.1", 200], ["2.2.2.2", 200], ["3.3.3.3", 429]] as const
      ) {
        const response = await fetch(base, { headers: { "X-Forwarded-For": claim } });
        await response.body?.cancel();
        assertEquals(response.status, status);
      }
    });
    assertEquals(requests().map(({ ip }) => ip), ["127.0.0.1", "127.0.0.1", "127.0.0.1"]);
  },
);

testWith(
  ["net"],
  "createBaseApp() believes no forwarded address where the connection's is not handed on",
  async () => {
    const { app, requests } = recorded({ rateLimit: { limit: 2, window: 60_000 } });
    const options = { hostname: "127.0.0.1", port: 0, onListen: () => {} };
    await using server = Deno.serve(options, (request) => app.fetch(request));
    const statuses: number[] = [];
    for (const claim of ["1.1.1.1", "2.2.2.2", "3.3.3.3"]) {
      const headers = { "X-Forwarded-For": claim };
      const response = await fetch(`http://127.0.0.1:${server.addr.port}/`, { headers });
      await response.body?.cancel();
      statuses.push(response.status);
    }
    assertEquals(statuses, [200, 200, 429]);
    assertEquals(requests().map(({ ip }) => ip), [undefined, undefined, undefined]);
  },
);

testWith(
  ["net"],
  "createBaseApp() answers an error that a client can read, over HTTP",
  async () => {
    const { app } = recorded();
    app.get("/zipped", (c) => {
      c.header("Content-Encoding", "gzip");
      throw new Error(CAUSE);
    });
    await serving(app, {}, async (base) => {
      const response = await fetch(`${base}/zipped`);
      assertEquals(await response.json(), { error: "Internal Server Error" });
    });
  },
);

testWith(["net"], "createBaseApp() does not let a host name another path over HTTP", async () => {
  const { app } = recorded();
  await serving(app, {}, async (_base, port) => {
    for (const host of ["x/health?", "x/health#", "x\\health?", "", "a b", "a@b"]) {
      const response = await exchange(port, "GET /no/route HTTP/1.1", `Host: ${host}`);
      assertStringIncludes(response, "HTTP/1.1 400 ");
    }
    const response = await exchange(port, "GET /health HTTP/1.1", "Host: example.com");
    assertStringIncludes(response, "HTTP/1.1 200 ");
  });
});
