/** The least that storing a genuine document can cost: as a bare write, once it is verified and parsed. */
import { Hono } from "@hono/hono";
import { bareWrite } from "./_bare_write.ts";
import { countHandled } from "./_handled.ts";
import { endWithBenchmark } from "./_parent.ts";
import { verified } from "./_verified.ts";
import { readServerSettings } from "./_settings.ts";

const { port, hostname, kvUrl, secret } = readServerSettings();
countHandled();
endWithBenchmark();
const kv = await Deno.openKv(kvUrl);

const app = new Hono();
app.post("/webhook", async (c) => {
  const delivery = await verified(c, secret);
  if (!delivery) return c.json({ error: "Not genuine" }, 401);
  await bareWrite(kv, delivery.body);
  return c.text("OK");
});
Deno.serve({ port, hostname, onListen: () => {} }, app.fetch);
