import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { Hono } from "@hono/hono";
import { healthRoutes } from "../../health/mod.ts";
import { createLogger, errorHandler, type LogRecord } from "../../middleware/mod.ts";

const PROBES = ["/health/live", "/health/ready"];

/** A bare app with the health routes and a recorded log. */
function healthApp(options?: Parameters<typeof healthRoutes>[2]) {
  const records: LogRecord[] = [];
  const app = new Hono();
  app.onError(errorHandler);
  app.use(createLogger({ log: (record) => records.push(record) }));
  app.route("/", healthRoutes("bot", "2.1.0", options));
  return { records, get: (path: string) => app.request(path) };
}

Deno.test("healthRoutes() reports status, name, version and time, and nothing else", async () => {
  using _time = new FakeTime("2026-01-02T03:04:05.678Z");
  const response = await healthRoutes("bot", "2.1.0").request("/health");
  assertEquals(response.status, 200);
  assertEquals(await response.json(), {
    status: "ok",
    name: "bot",
    version: "2.1.0",
    timestamp: "2026-01-02T03:04:05.678Z",
  });
});

Deno.test("healthRoutes() reports version 1.0.0 by default", async () => {
  const response = await healthRoutes("bot").request("/health");
  assertEquals((await response.json()).version, "1.0.0");
});

Deno.test("healthRoutes() takes the time anew for each request", async () => {
  using time = new FakeTime("2026-01-02T03:04:05.000Z");
  const { get } = healthApp();
  await get("/health");
  time.tick(1500);
  const { timestamp } = await (await get("/health")).json();
  assertEquals(timestamp, "2026-01-02T03:04:06.500Z");
});

Deno.test("healthRoutes() answers the probes with the status alone", async () => {
  for (const path of PROBES) {
    const response = await healthRoutes("bot").request(path);
    assertEquals(response.status, 200);
    assertEquals(await response.json(), { status: "ok" });
  }
});

Deno.test("healthRoutes() answers in JSON", async () => {
  for (const path of ["/health", ...PROBES]) {
    const response = await healthRoutes("bot").request(path);
    assertEquals(response.headers.get("Content-Type"), "application/json");
  }
});

Deno.test("healthRoutes() answers HEAD without a body", async () => {
  for (const path of ["/health", ...PROBES]) {
    const response = await healthRoutes("bot").request(path, { method: "HEAD" });
    assertEquals([response.status, await response.text()], [200, ""]);
  }
});

Deno.test("healthRoutes() takes one spelling of each path", async () => {
  for (const path of ["/health/", "/Health", "/health/live/", "/health//ready", "/healthz"]) {
    assertEquals((await healthRoutes("bot").request(path)).status, 404, path);
  }
});

Deno.test("healthRoutes() is ready when the check passes", async () => {
  for (const ready of [() => {}, () => Promise.resolve()]) {
    const response = await healthApp({ ready }).get("/health/ready");
    assertEquals([response.status, await response.json()], [200, { status: "ok" }]);
  }
});

Deno.test("healthRoutes() answers 503 in the error shape when the check fails", async () => {
  const checks: (() => void | Promise<void>)[] = [
    () => {
      throw new Error("kv://10.0.0.7 is down");
    },
    () => Promise.reject("kv://10.0.0.7 is down"),
    () => Promise.reject(undefined),
  ];
  for (const ready of checks) {
    const response = await healthApp({ ready }).get("/health/ready");
    assertEquals([response.status, response.headers.get("X-Error-Code")], [503, "NOT_READY"]);
    assertEquals(response.headers.get("Retry-After"), "10");
    assertEquals(await response.json(), { error: "Service Unavailable" });
  }
});

Deno.test("healthRoutes() has why it is not ready logged, once", async () => {
  const cause = new Error("kv is down");
  const { get, records } = healthApp({ ready: () => Promise.reject(cause) });
  await get("/health/ready");
  const logged = records.filter((record) => record.error !== undefined);
  assertEquals(logged.length, 1);
  assertStrictEquals((logged[0]?.error as Error).cause, cause);
});

Deno.test("healthRoutes() asks for readiness at each probe", async () => {
  let up = true;
  const ready = () => up ? undefined : Promise.reject(new Error("draining"));
  const { get } = healthApp({ ready });
  const statuses: number[] = [];
  for (up of [true, false, true]) statuses.push((await get("/health/ready")).status);
  assertEquals(statuses, [200, 503, 200]);
});

Deno.test("healthRoutes() does not ask for readiness elsewhere", async () => {
  let asked = false;
  const ready = () => {
    asked = true;
    throw new Error("draining");
  };
  const { get } = healthApp({ ready });
  assertEquals((await get("/health")).status, 200);
  assertEquals((await get("/health/live")).status, 200);
  assert(!asked);
});
