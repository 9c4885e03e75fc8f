/**
 * Answers that appear while they are made, in Telegram. `live_comment.ts` does the same on GitHub. If a crash falls between
 * sending the first text and noting that, a second message gets the answer, since nobody can ask Telegram. In private
 * chats, `sendMessageDraft` shows a text for 30 s without a message: send only the whole then.
 *
 * ```sh
 * deno run --allow-env --allow-net --allow-read=data --allow-write=data examples/live_text.ts
 * ```
 */
import { setTimeout as wait } from "node:timers/promises";
import { byChat, defineApp, required, runApp, sqlite, telegram } from "@org/edge-base";
import { retryAtOf } from "@org/edge-base/events";
import { Api } from "grammy/web";

/** Collects a text while it is made. `show` gets it as it is by then, one call at a time; the whole is returned. */
export async function liveText(
  parts: AsyncIterable<string>,
  show: (text: string) => Promise<void>,
) {
  let text = "";
  let showing: Promise<void> | undefined;
  try {
    for await (const part of parts) {
      text += part;
      // What comes meanwhile goes with the next call. One that fails is made good by the last edit.
      showing ??= show(text).catch(() => {}).finally(() => showing = undefined);
    }
  } finally {
    await showing;
  }
  return text;
}

/** Makes an answer. Call your model here. */
export async function* model(question: string, signal: AbortSignal): AsyncGenerator<string> {
  for (const word of `You have asked: ${question}`.split(/(?= )/)) {
    yield word;
    await wait(300, undefined, { signal });
  }
}

/** Bot. Its resources are the client of Telegram, and the model. */
export const bot = defineApp({
  name: "live-text",
  platform: telegram({ groupBy: byChat }),
  store: sqlite(),
  env: { TELEGRAM_BOT_TOKEN: required },
  resources: ({ env }) => ({ api: new Api(env.TELEGRAM_BOT_TOKEN), model }),
});

bot.on("message", async ({ payload: { message: { chat, text = "" } } }, context) => {
  const { step, take, signal, resources: { api, model } } = context;
  // A message a second, in a group 20 a minute. Edits count.
  const perMs = chat.type === "private" ? 1_000 : 3_000;
  const limit = { key: chat.id, limit: 1, perMs, waitMs: 4_000 };
  const abort = signal as Parameters<Api["getMe"]>[0];
  const fail = async (error: object) => {
    await take.later("telegram", { key: chat.id, untilMs: retryAtOf(error) });
    throw error;
  };
  const id = await step("first", async () => {
    await take("telegram", limit);
    return (await api.sendMessage(chat.id, "…", {}, abort).catch(fail)).message_id;
  });
  const edit = async (text: string) => {
    const body = text.slice(0, 4_096).toWellFormed() || "…"; // Telegram takes no more, and not nothing
    await api.editMessageText(chat.id, id, body, {}, abort).catch(async (error) => {
      if (!String(error).includes("message is not modified")) await fail(error);
    });
  };
  const answer = await step("answer", () =>
    liveText(model(text, signal), async (soFar) => {
      if (await take.now("telegram", limit)) await edit(soFar);
    }));
  await take("telegram", limit);
  await edit(answer);
});

if (import.meta.main) await runApp(bot);
