/**
 * Answers that appear while they are made, in Telegram for every message, and on GitHub for comments like `/ask why`.
 * ```sh
 * deno run --allow-env --allow-net --allow-read=data --allow-write=data examples/live_text.ts
 * ```
 */
import { setTimeout as wait } from "node:timers/promises";
import { Octokit } from "@octokit/core";
import { byChat, defineApp, github, required, runApp, sqlite, telegram } from "@org/edge-base";
import { retryAtOf } from "@org/edge-base/events";
import { Api } from "grammy/web";

/** Collects a text while it is made. `show` gets it as it is by then, one call at a time; the whole is returned. */
async function liveText(parts: AsyncIterable<string>, show: (text: string) => Promise<void>) {
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
async function* model(question: string, signal: AbortSignal): AsyncGenerator<string> {
  for (const word of `You have asked: ${question}`.split(/(?= )/)) {
    yield word;
    await wait(300, undefined, { signal });
  }
}

/** Bot. Its resources are the clients of Telegram and GitHub, and the model. */
export const bot = defineApp({
  name: "live-text",
  platform: telegram({ path: "/telegram", groupBy: byChat }),
  store: sqlite(),
  env: { TELEGRAM_BOT_TOKEN: required, GITHUB_TOKEN: required },
  resources: ({ env }) => ({
    api: new Api(env.TELEGRAM_BOT_TOKEN),
    octokit: new Octokit({ auth: env.GITHUB_TOKEN }),
    model,
  }),
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

/** GitHub takes 80 in a minute and 500 in an hour: 80 in any ten minutes are at most 480 in an hour. Edits count. */
const COMMENTS = { limit: 80, perMs: 600_000 };

bot.from(github({ path: "/github" })).on("issue_comment.created", async (event, context) => {
  const { step, take, signal, resources: { octokit, model } } = context;
  const { comment: { body: question, created_at: since }, issue, repository } = event.payload;
  if (event.sender?.isBot || !question.startsWith("/ask ")) return;
  const call = (route: string, parameters: object) =>
    octokit.request(route, { ...parameters, request: { signal } }).catch(async (error) => {
      // A 403 may also say that the bot has no right to do that.
      const untilMs = /rate limit/i.test(error.message) ? Date.now() + 60_000 : undefined;
      await take.later("github", { untilMs: retryAtOf(error) ?? untilMs });
      throw error;
    });
  const issues = `/repos/${repository.full_name}/issues`;
  const comments = `${issues}/${issue.number}/comments`;
  const mark = `<!-- ${event.idempotencyKey()} -->`; // GitHub does not show it
  const id = await step("first", async (): Promise<number> => {
    await take("github", COMMENTS);
    return (await call(`POST ${comments}`, { body: `…\n${mark}` })).data.id;
  }, {
    unknown: async () => {
      const { data } = await call(`GET ${comments}`, { since, per_page: 100 });
      return data.find(({ body }: { body: string }) => body.includes(mark))?.id;
    },
  });
  const edit = async (text: string) =>
    void await call(`PATCH ${issues}/comments/${id}`, { body: `${text}\n${mark}` });
  const pace = { key: id, limit: 1, perMs: 5_000 };
  const half = { ...COMMENTS, limit: 40 }; // the rest is for what must be said
  const answer = await step("answer", () =>
    liveText(model(question, signal), async (soFar) => {
      if (await take.now("comment", pace) && await take.now("github", half)) await edit(soFar);
    }));
  await take("github", COMMENTS);
  await edit(answer);
});

if (import.meta.main) await runApp(bot);
