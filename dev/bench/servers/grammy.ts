/** A server with grammY as its guide shows it for Deno, over the same queue as the baseline. */
import { Bot, webhookCallback } from "grammy";
import { startServer } from "./_server.ts";

const { port, hostname, kvUrl, secret, handled } = startServer();
const kv = await Deno.openKv(kvUrl);

const botInfo = {
  id: 1,
  is_bot: true,
  first_name: "bench",
  username: "bench_bot",
  can_join_groups: true,
  can_read_all_group_messages: false,
  can_manage_bots: false,
  supports_inline_queries: false,
  can_connect_to_business: false,
  has_main_web_app: false,
  has_topics_enabled: false,
  allows_users_to_create_topics: false,
  supports_join_request_queries: false,
} as const;
const bot = new Bot("1:token", { botInfo });
bot.use(async ({ update }) => {
  await kv.enqueue({ ...update, receivedAt: Date.now() });
});

kv.listenQueue(({ receivedAt }) => handled(receivedAt));
const handleUpdate = webhookCallback(bot, "std/http", { secretToken: encodeURIComponent(secret) });
Deno.serve({ port, hostname, onListen: () => {} }, async (request) => {
  const { pathname } = new URL(request.url);
  if (request.method !== "POST" || pathname !== "/webhook") return new Response();
  return await handleUpdate(request);
});
