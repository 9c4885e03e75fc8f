/** The baseline: the server that a careful developer writes by hand. */
import { Hono } from "@hono/hono";
import { verify } from "@octokit/webhooks-methods";
import { startServer } from "./_server.ts";

const { port, hostname, kvUrl, secret, worker, handled } = startServer();
const kv = await Deno.openKv(kvUrl);

const app = new Hono();
app.post("/webhook", async (c) => {
  const body = await c.req.text();
  const signature = c.req.header("X-Hub-Signature-256");
  if (!signature) return c.json({ error: "Missing signature" }, 401);
  if (!(await verify(secret, body, signature))) return c.json({ error: "Invalid signature" }, 401);
  await kv.enqueue({ ...JSON.parse(body), receivedAt: Date.now() });
  return c.text("OK");
});

if (worker) kv.listenQueue(({ receivedAt }) => handled(receivedAt));
Deno.serve({ port, hostname, onListen: () => {} }, app.fetch);
