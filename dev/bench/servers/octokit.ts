/** `@octokit/webhooks` as its README shows it for Deno, over the same queue as the baseline. */
import { createWebMiddleware, Webhooks } from "@octokit/webhooks";
import { startServer } from "./_server.ts";

const { port, hostname, kvUrl, secret, handled } = startServer();
const kv = await Deno.openKv(kvUrl);

const webhooks = new Webhooks({ secret });
webhooks.onAny(async ({ payload }) => {
  await kv.enqueue({ ...payload, receivedAt: Date.now() });
});

kv.listenQueue(({ receivedAt }) => handled(receivedAt));
const middleware = createWebMiddleware(webhooks, { path: "/webhook" });
Deno.serve({ port, hostname, onListen: () => {} }, middleware);
