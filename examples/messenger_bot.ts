/**
 * Bot for a messenger. It asks for a name, remembers it, and writes a report that takes over a minute.
 * Messages that come to the chat meanwhile are answered afterwards, in order.
 *
 * ```sh
 * MESSENGER_SECRET_TOKEN='...' MESSENGER_ALLOWED_USERS=42 MESSENGER_BOT_TOKEN='...' \
 *   deno run -A --unstable-kv examples/messenger_bot.ts
 * ```
 *
 * @module
 */
import {
  bindEnv,
  byChat,
  createBaseApp,
  createEventRouter,
  createMessengerIntake,
  type EventHandler,
  type HandlerContext,
  readAllowedUsers,
  readTokens,
  runApp,
} from "@org/edge-base";

const CHAPTERS = ["incidents", "costs", "plans"];

/** Time that a chapter takes to write. */
const CHAPTER_MS = Number(Deno.env.get("CHAPTER_MS") ?? 25_000);

/** Handles the bot's updates. */
export const handleEvent: EventHandler = createEventRouter()
  .on("message", async ({ payload: { message } }, context) => {
    const { kv, settleWith, signal } = context;
    const [chat, text] = [message.chat.id, message.text ?? ""];
    const { value: name } = await kv.get<string>(["name", chat]);
    if (name && text === "/report") return await report(chat, context);
    if (name) return await say(chat, `I can /report, ${name}.`, signal);
    await say(chat, name === null ? "What is your name?" : `I can /report, ${text}.`, signal);
    settleWith((commit) => commit.set(["name", chat], name === null ? "" : text));
  }).handle;

/** Writes a report. After a failure, it goes on with the chapter that failed. */
async function report(chat: number, { progress, checkpoint, signal }: HandlerContext) {
  for (const chapter of CHAPTERS.filter((each) => !progress.includes(each))) {
    await new Promise((resolve) => setTimeout(resolve, CHAPTER_MS));
    await say(chat, `On ${chapter}: nothing to worry about.`, signal);
    await checkpoint(chapter);
  }
}

async function say(chat: number, text: string, signal: AbortSignal): Promise<void> {
  const url = Deno.env.get("MESSENGER_API_URL") ?? "https://api.telegram.org";
  const response = await fetch(`${url}/bot${Deno.env.get("MESSENGER_BOT_TOKEN")}/sendMessage`, {
    ...{ method: "POST", body: JSON.stringify({ chat_id: chat, text }), signal },
    headers: { "Content-Type": "application/json" },
  });
  await response.body?.cancel();
  if (!response.ok) throw new Error(`The message was answered with ${response.status}`);
}

if (import.meta.main) {
  await runApp({
    name: "messenger-bot",
    handler: handleEvent,
    setup: (variables) => {
      const secrets = readTokens(variables, "MESSENGER_SECRET_TOKEN");
      const MESSENGER_ALLOWED_USERS = readAllowedUsers(variables, "MESSENGER_ALLOWED_USERS");
      return ({ store, ready, trustedProxyHops, log, telemetry }) => {
        const app = createBaseApp({
          ...{ name: "messenger-bot", ready, telemetry },
          logger: { log, trustedProxyHops },
          rateLimit: { limit: 100, window: 60_000, failedOnly: true, trustedProxyHops },
        });
        app.route("/", createMessengerIntake({ secrets, store, orderBy: byChat, telemetry }));
        return bindEnv(app, { MESSENGER_ALLOWED_USERS });
      };
    },
  });
}
