import { type ApiCall, type StandIn, startStandIn } from "./_stand_in.ts";

/** The bot's token in tests. */
export const BOT_TOKEN = "4711:a-token-of-the-bot";

/** A stand-in for Telegram's API. */
export interface Telegram extends StandIn {
  /** The messages that were delivered to a chat. */
  saidIn(chat: number): readonly string[];
}

/** Answers as Telegram does when something is wrong. */
export function refusal(error_code: number, description: string, parameters?: object): Response {
  const refused = { ok: false, error_code, description, ...(parameters && { parameters }) };
  return Response.json(refused, { status: error_code });
}

/** Starts a stand-in that answers as Telegram's documentation says, or as `trouble` does. */
export function startTelegram(trouble?: (call: ApiCall) => Response | undefined): Telegram {
  const said: { readonly chat: number; readonly text: string }[] = [];
  const api = startStandIn((call) => {
    const { method, path, body } = call;
    const refused = trouble?.(call);
    if (refused) return refused;
    if (!path.startsWith(`/bot${BOT_TOKEN}/`)) return refusal(401, "Unauthorized");
    if (method !== "POST" || !path.endsWith("/sendMessage")) return refusal(404, "Not Found");
    const { chat_id: chat, text } = body;
    if (!text) return refusal(400, "Bad Request: message text is empty");
    said.push({ chat, text });
    const message = { message_id: said.length, date: 1, chat: { id: chat, type: "private" }, text };
    return Response.json({ ok: true, result: message });
  });
  const saidIn = (chat: number) =>
    said.filter((each) => each.chat === chat).map(({ text }) => text);
  return { ...api, saidIn };
}
