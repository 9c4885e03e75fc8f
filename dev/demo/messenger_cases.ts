import type { DemoCase, DemoRequest } from "./report.ts";

const CHAT = { id: 7, type: "private" };

/** Requests that the demo sends to the messenger app. */
export function messengerCases(token: string, otherToken: string, user: number): DemoCase[] {
  let updateId = 1_000;
  const update = (content: object, secret = token): DemoRequest => {
    const id = String(updateId++);
    const body = JSON.stringify({ update_id: Number(id), ...content });
    return { id, body, headers: headers(secret) };
  };
  const kinds = contentsOf({ id: user, is_bot: false, first_name: "Ada" });
  const text = kinds[0]!;
  const updates = kinds.map((content) => update(content));
  const stranger = contentsOf({ id: user + 1, is_bot: false, first_name: "Eve" })[0]!;
  return [
    { name: "updates of several kinds", requests: updates, status: 200, handled: true },
    { name: "all of them again", requests: updates, status: 200, handled: true },
    { name: "wrong secret token", requests: [update(text, otherToken)], status: 401 },
    { name: "no secret token", requests: [update(text, "")], status: 401 },
    { name: "user not allowed", requests: [update(stranger)], status: 403 },
    {
      name: "channel post, no user",
      requests: [update({ channel_post: { chat: CHAT } })],
      status: 403,
    },
    { name: "not JSON", requests: [{ ...update(text), body: "update" }], status: 400 },
  ];
}

function headers(token: string): Record<string, string> {
  return { "Content-Type": "application/json", "X-Messenger-Bot-Api-Secret-Token": token };
}

function contentsOf(from: object): object[] {
  const message = { message_id: 1, date: 1_700_000_000, chat: CHAT, from, text: "Hello 🙂" };
  return [
    { message },
    { edited_message: { ...message, edit_date: 1_700_000_060 } },
    { callback_query: { id: "1", from, message, chat_instance: "1", data: "yes" } },
    { inline_query: { id: "2", from, query: "cats", offset: "" } },
    {
      message_reaction: {
        chat: CHAT,
        message_id: 1,
        user: from,
        old_reaction: [],
        new_reaction: [],
      },
    },
    { poll_answer: { poll_id: "3", user: from, option_ids: [1] } },
    { my_chat_member: { chat: CHAT, from, date: 1_700_000_000 } },
  ];
}
