/**
 * Cost of the middleware for 1,000 requests, in process: the difference to bare Hono. Logs go to a
 * sink that throws them away, for all alike.
 */
import { honoLogger } from "@logtape/hono";
import { configure } from "@logtape/logtape";
import { logger } from "hono/logger";
import { rateLimiter } from "hono-rate-limiter";
import { createBaseApp, createLogger, createRateLimiter } from "../../../mod.ts";
import { appWith, ask, connectionOf } from "./_app.ts";

const group = "middleware";

const client = connectionOf(1);
const connection = () => client;

const limit = { limit: 1_000_000_000, window: 60_000 };

const quiet = { log: () => {} };

await configure({
  sinks: { none: () => {} },
  loggers: [
    { category: ["hono"], sinks: ["none"], lowestLevel: "info" },
    { category: ["logtape", "meta"], sinks: ["none"], lowestLevel: "fatal" },
  ],
});

const bare = appWith();
Deno.bench("bare Hono", { group, baseline: true }, async () => await ask(bare, connection));

const all = createBaseApp({ name: "bench", logger: quiet, rateLimit: limit });
all.get("/hello", (c) => c.text("hello"));
Deno.bench("edge-base: all, log and limiter on", { group }, async () => await ask(all, connection));

const ownLogger = appWith(createLogger(quiet));
Deno.bench("edge-base: createLogger", { group }, async () => await ask(ownLogger, connection));

const ownLimiter = appWith(createRateLimiter(limit));
Deno.bench(
  "edge-base: createRateLimiter",
  { group },
  async () => await ask(ownLimiter, connection),
);

const theirLimiter = appWith(rateLimiter({
  windowMs: limit.window,
  limit: limit.limit,
  keyGenerator: (c) => c.env.remoteAddr.hostname,
}));
Deno.bench("hono-rate-limiter", { group }, async () => await ask(theirLimiter, connection));

const honoLog = appWith(logger(() => {}));
Deno.bench("hono/logger", { group }, async () => await ask(honoLog, connection));

const logtape = appWith(honoLogger());
Deno.bench("@logtape/hono", { group }, async () => await ask(logtape, connection));
