/**
 * A forge's app as the pages of Hono, `hono-rate-limiter`, `@octokit/webhooks-methods` and Deno KV show
 * it, each part as it is recommended there. `tests/baseline/` sends it what the package has an answer to.
 */
import { verify } from "@octokit/webhooks-methods";
import { Hono } from "hono";
import { getConnInfo } from "hono/deno";
import { HTTPException } from "hono/http-exception";
import { logger } from "hono/logger";
import { requestId } from "hono/request-id";
import { rateLimiter } from "hono-rate-limiter";
import { handle, SETTINGS } from "./_settings.ts";

const { secret, kvUrl, serve } = SETTINGS;
const kv = await Deno.openKv(kvUrl);
const app = new Hono();

app.use(requestId());
app.use(logger());
app.use(rateLimiter({
  windowMs: 60_000,
  limit: 100,
  keyGenerator: (c) => c.req.header("x-forwarded-for") ?? "",
}));

app.get("/health", (c) => c.json({ status: "ok" }));

app.post("/webhook", async (c) => {
  const body = await c.req.text();
  const signature = c.req.header("X-Hub-Signature-256") ?? "";
  if (!(await verify(secret, body, signature))) return c.json({ error: "Invalid signature" }, 401);
  await kv.enqueue(JSON.parse(body));
  return c.text("OK");
});

app.get("/address", (c) => c.text(getConnInfo(c).remote.address ?? ""));

app.get("/fails/error", () => {
  throw new Error("a cause");
});
app.get("/fails/text", () => {
  throw "a cause";
});
app.get("/fails/response", () => {
  throw new HTTPException(403, { res: new Response("<h1>a cause</h1>", { status: 403 }) });
});

kv.listenQueue(handle);
Deno.serve(serve, app.fetch);
