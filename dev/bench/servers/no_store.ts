/**
 * The least that an intake in one process can cost on Deno: Hono, the verification by `node:crypto`, the parsed
 * document, and the answer. Nothing is stored, logged or handled.
 */
import { Hono } from "@hono/hono";
import { verified } from "./_verified.ts";
import { startServer } from "./_server.ts";

const { port, hostname, secret } = startServer();

const app = new Hono();
app.post(
  "/webhook",
  async (c) => await verified(c, secret) ? c.text("OK") : c.json({ error: "Not genuine" }, 401),
);
Deno.serve({ port, hostname, onListen: () => {} }, app.fetch);
