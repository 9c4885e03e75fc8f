/**
 * Prints by how many MiB a limiter grows for requests of 300,000 addresses; the argument says whose:
 * `baseline` or `edge-base`.
 */
import { Hono } from "hono";
import { rateLimiter } from "hono-rate-limiter";
import { createRateLimiter } from "../../../middleware/mod.ts";

const ADDRESSES = 300_000;

const [subject] = Deno.args;
const app = new Hono();
if (subject === "baseline") {
  const keyGenerator = (c: { req: { header(name: string): string | undefined } }) =>
    c.req.header("x-forwarded-for") ?? "";
  app.use(rateLimiter({ windowMs: 60_000, limit: 100, keyGenerator }));
} else {
  app.use(createRateLimiter({ window: 60_000, limit: 100, trustedProxyHops: 1 }));
}
app.get("/", (c) => c.text("hello"));

const collect = (globalThis as unknown as { gc(): void }).gc;
const heapMib = () => {
  collect();
  return Deno.memoryUsage().heapUsed / 1024 / 1024;
};
const ask = (address: number) => {
  const bytes = [24, 16, 8, 0].map((shift) => (address >>> shift) & 255);
  return app.request("/", { headers: { "X-Forwarded-For": bytes.join(".") } });
};

for (let i = 0; i < 1_000; i++) await ask(i);
const before = heapMib();
for (let i = 0; i < ADDRESSES; i++) await ask(0x0a_00_00_00 + i);
console.log(Math.round(heapMib() - before));
Deno.exit(0);
