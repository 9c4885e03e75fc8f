/** A messenger's app as grammY's and Deno KV's pages show it, see `forge.ts`. */
import { Bot, webhookCallback } from "grammy";
import type { UserFromGetMe } from "grammy/types";
import { Hono } from "hono";
import { handle, SETTINGS } from "./_settings.ts";

const { token: secretToken, kvUrl, serve } = SETTINGS;
const kv = await Deno.openKv(kvUrl);

// Given, so that grammY does not ask Telegram for it.
const botInfo = { id: 1, is_bot: true, first_name: "bot", username: "a_bot" } as UserFromGetMe;
const bot = new Bot("1:token", { botInfo });
bot.on("message", async ({ update }) => {
  await kv.enqueue({ ...update, id: update.update_id });
});

const app = new Hono();
app.post("/webhook", webhookCallback(bot, "hono", { secretToken }));

kv.listenQueue(handle);
Deno.serve(serve, app.fetch);
