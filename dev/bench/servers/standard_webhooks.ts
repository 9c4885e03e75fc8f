/** `standardwebhooks` as its README shows it, over the same queue as the baseline. */
import { Hono } from "@hono/hono";
import { Webhook } from "standardwebhooks";
import { startServer } from "./_server.ts";

const { port, hostname, kvUrl, secret, handled } = startServer();
const kv = await Deno.openKv(kvUrl);
const webhook = new Webhook(btoa(secret));

const app = new Hono();
app.post("/webhook", async (c) => {
  let payload: object;
  try {
    payload = webhook.verify(await c.req.text(), c.req.header()) as object;
  } catch {
    return c.json({ error: "Invalid signature" }, 401);
  }
  await kv.enqueue({ ...payload, receivedAt: Date.now() });
  return c.text("OK");
});

kv.listenQueue(({ receivedAt }) => handled(receivedAt));
Deno.serve({ port, hostname, onListen: () => {} }, app.fetch);
