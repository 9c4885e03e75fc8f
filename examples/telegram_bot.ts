/**
 * Telegram bot. It asks for a name and remembers it, and writes a report that takes over a minute.
 *
 * ```sh
 * TELEGRAM_SECRET_TOKEN='...' TELEGRAM_ALLOWED_USERS=42 TELEGRAM_BOT_TOKEN='...' deno run \
 *   --allow-env --allow-net=0.0.0.0:8000,api.telegram.org --allow-read=data --allow-write=data \
 *   examples/telegram_bot.ts
 * ```
 */
import { setTimeout as wait } from "node:timers/promises";
import { byChat, defineApp, GiveUpError, optional, required } from "@org/edge-base";
import { RetryLaterError, runApp, sqlite, telegram } from "@org/edge-base";
// Without the variables and files that the module for Node.js wants to read.
import { Api, GrammyError } from "grammy/web";

const CHAPTERS = ["incidents", "costs", "plans"];
const NAMES = "create table if not exists name (chat integer primary key, name text not null)";

/** Telegram bot. Its resource sends a message. `CHAPTER_MS` is how long a chapter takes to write. */
export const bot = defineApp({
  name: "telegram-bot",
  platform: telegram({ groupBy: byChat }),
  store: sqlite({ setup: (db) => db.exec(NAMES) }),
  env: {
    TELEGRAM_BOT_TOKEN: required,
    TELEGRAM_API_URL: optional("https://api.telegram.org"),
    CHAPTER_MS: optional("25000"),
  },
  resources: ({ env: { TELEGRAM_BOT_TOKEN, TELEGRAM_API_URL } }) => {
    const api = new Api(TELEGRAM_BOT_TOKEN, { apiRoot: TELEGRAM_API_URL, timeoutSeconds: 60 });
    return async (chat: number, text: string, signal: AbortSignal) => {
      try {
        await api.sendMessage(chat, text, {}, signal as Parameters<Api["getMe"]>[0]);
      } catch (error) {
        if (!(error instanceof GrammyError)) throw error;
        const { error_code, description, parameters: { retry_after: seconds } } = error;
        // The user has blocked the bot, or the chat is gone.
        if ([400, 403].includes(error_code)) throw new GiveUpError(description);
        throw seconds ? new RetryLaterError(description, { afterMs: 1_000 * seconds }) : error;
      }
    };
  },
});

bot.on("message", async ({ payload: { message: { chat: { id }, text = "" } } }, context) => {
  const { env, db, settleWith, step, resources: say, signal } = context;
  const name = db.prepare("select name from name where chat = ?").get(id)?.name;
  if (!name) {
    const given = name === undefined ? "" : text;
    await say(id, given ? `I can /report, ${given}.` : "What is your name?", signal);
    const set = "insert or replace into name values (?, ?)";
    return settleWith((db) => db.prepare(set).run(id, given));
  }
  if (text !== "/report") return await say(id, `I can /report, ${name}.`, signal);
  // After a crash it goes on with the chapter that is not stored: at most that one is sent twice.
  for (const chapter of CHAPTERS) {
    await step(chapter, async () => {
      await wait(Number(env.CHAPTER_MS), undefined, { signal });
      await say(id, `On ${chapter}: nothing to worry about.`, signal);
    });
  }
}, { id: "answer", timeoutMs: 600_000 });

if (import.meta.main) await runApp(bot);
