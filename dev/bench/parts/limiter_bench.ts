/** The limiter on 1,000 requests: with one client, with many, and with more than are remembered. */
import { rateLimiter } from "hono-rate-limiter";
import { createRateLimiter } from "../../../mod.ts";
import { type App, appWith, ask, type Connection, connectionOf } from "./_app.ts";

const CLIENTS = [1, 10_000, 250_000];

const limit = { limit: 1_000_000_000, window: 3_600_000 };

for (const count of CLIENTS) {
  const connections = Array.from({ length: count }, (_, client) => connectionOf(client));
  let next = 0;
  const connection = () => connections[next++ % count]!;
  const group = count === 1 ? "1 client" : `${count.toLocaleString("en")} clients`;
  const bench = async (name: string, app: App, baseline: boolean) => {
    await ask(app, connection, count);
    const options = { name: `${name}, ${group}`, group, baseline };
    Deno.bench(options, async () => await ask(app, connection));
  };
  const theirs = rateLimiter<{ Bindings: Connection }>({
    windowMs: limit.window,
    limit: limit.limit,
    keyGenerator: (c) => c.env.remoteAddr.hostname,
  });
  await bench("bare Hono", appWith(), true);
  await bench("createRateLimiter", appWith(createRateLimiter(limit)), false);
  await bench("hono-rate-limiter", appWith(theirs), false);
}
