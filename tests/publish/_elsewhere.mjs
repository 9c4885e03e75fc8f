// What of the package runs on Node and Bun, run there: imported as a user does, and served.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import {
  bindEnv,
  createBaseApp,
  createIntake,
  forge,
  isUserAuthorized,
  messenger,
} from "@org/edge-base";
import { healthRoutes } from "@org/edge-base/health";
import { clientIp, createAuth, createRateLimiter, HttpError } from "@org/edge-base/middleware";
import { createEventRouter } from "@org/edge-base/router";
import { openTelemetry } from "@org/edge-base/telemetry";
import { forgeDelivery, messengerUpdate, TEST_SECRETS } from "@org/edge-base/testing";
import { verifyForgeDelivery, verifySecretToken, verifySignature } from "@org/edge-base/webhook";
import { openEventStore } from "@org/edge-base/events";

/** Serves an app on a free port, as this runtime does, and calls `use` with its URL. */
async function served(app, use) {
  if (process.versions.bun) {
    const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: app.fetch });
    await use(`http://127.0.0.1:${server.port}`);
    return server.stop(true);
  }
  const { serve } = await import("@hono/node-server");
  const server = await new Promise((resolve) => {
    const listening = serve(
      { fetch: app.fetch, port: 0, hostname: "127.0.0.1" },
      () => resolve(listening),
    );
  });
  await use(`http://127.0.0.1:${server.address().port}`);
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}

/** What was accepted: a store of one's own, since the package's needs Deno KV. */
const accepted = [];
const store = {
  maxPayloadBytes: 50_000_000,
  accept: (delivery) => {
    accepted.push([delivery.source, delivery.type]);
    return Promise.resolve({ id: "e1", duplicate: false });
  },
};

// The middleware and the health routes, in process.
const records = [];
const app = createBaseApp({
  name: "elsewhere",
  version: "2.1.0",
  logger: { log: (record) => records.push(record) },
});
app.get("/boom", () => {
  throw new Error("connect ECONNREFUSED 10.0.0.7");
});
app.get("/teapot", () => {
  throw new HttpError(418, "Short and stout", { code: "TEAPOT" });
});
app.use("/admin/*", createAuth({ tokens: "token-of-ada" }));
app.get("/admin/me", (c) => c.json(c.var.principal ?? "ada"));
app.get("/ip", (c) => c.json({ ip: clientIp(c) ?? null }));
const limited = createRateLimiter({ limit: 2, window: 60_000 });
app.get("/limited", limited, (c) => c.text("yes"));
app.route("/forge", createIntake(forge({ secrets: [TEST_SECRETS.signing] }), { store }));
app.route("/messenger", createIntake(messenger({ secrets: [TEST_SECRETS.messenger] }), { store }));

assert.equal((await app.request("/boom")).status, 500);
assert.deepEqual(await (await app.request("/boom")).json(), { error: "Internal Server Error" });
assert.equal((await app.request("/teapot")).headers.get("X-Error-Code"), "TEAPOT");
assert.equal((await app.request("/admin/me")).status, 401);
const headers = { Authorization: "Bearer token-of-ada" };
assert.equal((await app.request("/admin/me", { headers })).status, 200);
assert.equal(healthRoutes("elsewhere").routes.length > 0, true);
const answered = await bindEnv(app, {})(new Request("http://localhost/health/live"), {});
assert.equal(answered.status, 200);
assert.equal(records.filter(({ message }) => message === "request").length, 6);

// The verification of signatures and tokens.
const hex = createHmac("sha256", "secret").update("text").digest("hex");
assert.equal(verifySignature("text", `sha256=${hex}`, "secret"), true);
assert.equal(verifySignature("text!", `sha256=${hex}`, "secret"), false);
assert.equal(verifySecretToken("token", "token"), true);
assert.equal(isUserAuthorized({ MESSENGER_ALLOWED_USERS: "7" }, 7), true);
assert.throws(() => verifyForgeDelivery(new Headers(), new Uint8Array(), ["secret"]), HttpError);

// Over connections: the address is the socket's, whatever a client claims.
await served(app, async (url) => {
  const health = await (await fetch(`${url}/health`)).json();
  assert.equal(health.version, "2.1.0");
  const claim = { headers: { "X-Forwarded-For": "198.51.100.7" } };
  assert.deepEqual(await (await fetch(`${url}/ip`, claim)).json(), { ip: "127.0.0.1" });
  const statuses = [];
  for (let i = 0; i < 3; i++) {
    const from = { headers: { "X-Forwarded-For": `198.51.100.${i}` } };
    statuses.push((await fetch(`${url}/limited`, from)).status);
  }
  assert.deepEqual(statuses, [200, 200, 429]);

  const delivery = forgeDelivery("issues", { action: "opened" });
  const post = (path, { headers, body }) => fetch(url + path, { method: "POST", headers, body });
  assert.equal(await (await post("/forge/webhook", delivery)).text(), "OK");
  const forged = { ...delivery, body: '{"action":"closed"}' };
  assert.equal((await post("/forge/webhook", forged)).headers.get("X-Error-Code"), "INVALID_SIG");
  const update = messengerUpdate({ message: { text: "hello", from: { id: 7 } } });
  assert.equal((await post("/messenger/webhook", update)).headers.get("X-Error-Code"), "AUTH_001");
});
assert.deepEqual(accepted, [["github", "issues"]]);

// A router is plain functions; telemetry without a provider is none; a store needs Deno KV.
assert.equal(typeof createEventRouter().onOther(() => {}).handle, "function");
assert.equal(await openTelemetry(), undefined);
assert.equal(typeof openEventStore, "function");
console.log("all of it runs");
