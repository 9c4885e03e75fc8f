import { assertEquals } from "@std/assert";
import { Hono } from "@hono/hono";
import { createBaseApp } from "../../app/base_app.ts";
import { createRequestSpans } from "../../telemetry/mod.ts";
import { recordTelemetry } from "./_recording.ts";

/** Names of requests in an app that has all kinds of routes. */
async function namesOf(...requests: readonly (readonly [string, string])[]): Promise<string[]> {
  const telemetry = recordTelemetry();
  const app = new Hono();
  app.use(createRequestSpans(telemetry));
  app.use("/admin/*", (_, next) => next());
  app.get("/users/:id", (c) => c.text("user"));
  app.get("/admin/me", (c) => c.text("me"));
  app.get("/files/*", (c) => c.text("file"));
  app.all("/any", (c) => c.text("any"));
  app.get("/fails", () => Promise.reject(new Error("no")));
  app.onError((_, c) => c.text("failed", 500));
  app.route("/sub", new Hono().post("/:a/:b", (c) => c.text("sub")));
  for (const [method, path] of requests) await app.request(path, { method });
  return telemetry.routes;
}

Deno.test("createRequestSpans() names requests by their route", async () => {
  const named = await namesOf(
    ["GET", "/users/4711?secret"],
    ["GET", "/admin/me"],
    ["GET", "/files/a/b"],
    ["DELETE", "/any"],
    ["POST", "/sub/1/2"],
    ["GET", "/fails"],
  );
  assertEquals(named, [
    ...["GET /users/:id", "GET /admin/me", "GET /files/*", "DELETE /any", "POST /sub/:a/:b"],
    "GET /fails",
  ]);
});

Deno.test("createRequestSpans() gives no route to what no route takes", async () => {
  const named = await namesOf(["GET", "/no"], ["GET", "/admin/no"], ["DELETE", "/users/4711"]);
  assertEquals(named, ["GET", "GET", "DELETE"]);
});

Deno.test("createBaseApp() gives probes their route, and none to what is no route", async () => {
  const telemetry = recordTelemetry();
  const app = createBaseApp({ name: "bot", logger: false, telemetry });
  for (const path of ["/health/ready", "/nothing", "/"]) await app.request(path);
  await app.request("/health", { method: "POST" });
  assertEquals(telemetry.routes, ["GET /health/ready", "GET", "GET", "POST"]);
});
