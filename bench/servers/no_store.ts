/**
 * The least that an intake in one process can cost on Deno: Hono, the proof by `node:crypto`, the parsed
 * document, and the answer. Nothing is stored, logged or handled.
 */
import { Hono } from "@hono/hono";
import { Buffer } from "node:buffer";
import { createHmac, timingSafeEqual } from "node:crypto";
import { countHandled } from "./_handled.ts";
import { endWithBenchmark } from "./_parent.ts";
import { readServerSettings } from "./_settings.ts";

const { port, hostname, secret } = readServerSettings();
countHandled();
endWithBenchmark();

const app = new Hono();
app.post("/webhook", async (c) => {
  const body = new Uint8Array(await c.req.arrayBuffer());
  const expected = createHmac("sha256", secret).update(body).digest();
  const given = Buffer.from(c.req.header("X-Hub-Signature-256")?.slice(7) ?? "", "hex");
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) {
    return c.json({ error: "Invalid signature" }, 401);
  }
  const payload: unknown = JSON.parse(new TextDecoder().decode(body));
  return payload ? c.text("OK") : c.json({ error: "Invalid body" }, 400);
});
Deno.serve({ port, hostname, onListen: () => {} }, app.fetch);
