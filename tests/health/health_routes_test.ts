import { assertEquals, assertStrictEquals } from "@std/assert";
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

Deno.test("healthRoutes() reports status, name, version and the time of each request, and nothing else", async () => {
  using time = new FakeTime("2026-01-02T03:04:04.178Z");
  const { get } = healthApp();
  await get("/health");
  time.tick(1500);
  assertEquals(await (await get("/health")).json(), {
    status: "ok",
    name: "bot",
    version: "2.1.0",
    timestamp: "2026-01-02T03:04:05.678Z",
  });
  assertEquals((await (await healthRoutes("bot").request("/health")).json()).version, "1.0.0");
});

Deno.test("healthRoutes() answers in JSON, the probes with the status alone, and HEAD without a body", async () => {
  for (const path of ["/health", ...PROBES]) {
    const response = await healthRoutes("bot").request(path);
    assertEquals([response.status, response.headers.get("Content-Type")], [
      200,
      "application/json",
    ]);
    const text = await response.text();
    if (path !== "/health") assertEquals(JSON.parse(text), { status: "ok" });
    const head = await healthRoutes("bot").request(path, { method: "HEAD" });
    assertEquals([head.status, await head.text()], [200, ""]);
  }
});

Deno.test("healthRoutes() takes one spelling of each path", async () => {
  for (const path of ["/health/", "/Health", "/health/live/", "/health//ready", "/healthz"]) {
    assertEquals((await healthRoutes("bot").request(path)).status, 404, path);
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

Deno.test("healthRoutes() asks for readiness at each readiness probe alone", async () => {
  let up = true;
  let asked = 0;
  const ready = () => {
    asked++;
    return up ? undefined : Promise.reject(new Error("draining"));
  };
  const { get } = healthApp({ ready });
  const statuses: number[] = [];
  for (up of [true, false, true]) {
    for (const path of ["/health", ...PROBES]) statuses.push((await get(path)).status);
  }
  assertEquals([statuses, asked], [[200, 200, 200, 200, 200, 503, 200, 200, 200], 3]);
});
