/** `standardwebhooks` as its README shows it, over the same queue as the baseline. */
import { Hono } from "@hono/hono";
import { Webhook } from "standardwebhooks";
import { countHandled } from "./_handled.ts";
import { endWithBenchmark } from "./_parent.ts";
import { readServerSettings } from "./_settings.ts";

const { port, hostname, kvUrl, secret } = readServerSettings();
const handled = countHandled();
endWithBenchmark();
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
