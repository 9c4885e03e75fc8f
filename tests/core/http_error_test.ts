import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import { Hono } from "@hono/hono";
import { HTTPException } from "@hono/hono/http-exception";
import { HttpError } from "../../middleware/mod.ts";

Deno.test("HttpError has what it was made with", () => {
  const cause = new Error("why");
  const headers = { "Retry-After": "5" };
  const error = new HttpError(503, "Try later", { code: "BUSY", headers, cause });
  assertEquals([error.status, error.message, error.code], [503, "Try later", "BUSY"]);
  assertEquals(error.headers, { "Retry-After": "5" });
  assertStrictEquals(error.cause, cause);
  assertEquals(String(error), "HttpError: Try later");
});

Deno.test("HttpError has no headers by default", () => {
  assertEquals(new HttpError(400, "Bad Request", { code: "BAD_REQUEST" }).headers, {});
});

Deno.test("HttpError is an HTTPException", () => {
  const error: Error = new HttpError(400, "Bad Request", { code: "BAD_REQUEST" });
  assert(error instanceof HTTPException);
});

Deno.test("HttpError renders itself in the error shape", async () => {
  const headers = { "Retry-After": "5" };
  const response = new HttpError(409, "Deployed", { code: "DEPLOYED", headers }).getResponse();
  assertEquals(response.status, 409);
  assertEquals(response.headers.get("Content-Type"), "application/json");
  assertEquals(response.headers.get("X-Error-Code"), "DEPLOYED");
  assertEquals(response.headers.get("Retry-After"), "5");
  assertEquals(await response.json(), { error: "Deployed" });
});

Deno.test("HttpError shows nothing of its cause", async () => {
  const cause = new Error("connect ECONNREFUSED 10.0.0.7");
  const response = new HttpError(502, "Bad Gateway", { code: "UPSTREAM", cause }).getResponse();
  assertEquals(await response.text(), '{"error":"Bad Gateway"}');
});

Deno.test("HttpError is answered by an app without the error handler", async () => {
  const app = new Hono().get("/", () => {
    throw new HttpError(409, "Deployed", { code: "DEPLOYED" });
  });
  const response = await app.request("/");
  assertEquals([response.status, await response.json()], [409, { error: "Deployed" }]);
});
