import type { Chat, ChatMember, Message, Update, User } from "@grammyjs/types";
import { assertEquals } from "@std/assert";
import { createBaseApp } from "../../app/base_app.ts";
import { openEventStore } from "../../events/mod.ts";
import { messengerUpdate, TEST_SECRETS } from "../../testing/mod.ts";
import { createIntake, parseMessengerUpdate, telegram } from "../../webhook/mod.ts";
import { messengerIntake } from "./_intakes.ts";

const SECRET = "a-secret-token-for-tests";

type Kind = Exclude<keyof Update, "update_id">;

/** Contents of a kind of update as the published schema has them, and the user each is from. */
type Samples<K extends Kind> = readonly (readonly [NonNullable<Update[K]>, number | undefined])[];

const user = (id: number): User => ({ id, is_bot: false, first_name: "Ada" });
const [ada, other] = [user(42), user(7)];

const person: Chat.PrivateChat = { id: 42, type: "private", first_name: "Ada" };
const group: Chat.SupergroupChat = { id: -100, type: "supergroup", title: "Group" };
const channel: Chat.ChannelChat = { id: -200, type: "channel", title: "Channel" };

const base = { message_id: 1, date: 1_700_000_000 };
const message = { ...base, chat: group, from: ada, text: "hi" };
const edited = { ...message, edit_date: 1_700_000_001 };
const post: Message & { chat: Chat.ChannelChat } = { ...base, chat: channel, sender_chat: channel };
const member: ChatMember = { status: "member", user: other };
const change = {
  chat: group,
  from: ada,
  date: 1,
  old_chat_member: member,
  new_chat_member: member,
};
const business = { ...base, chat: person, from: ada, business_connection_id: "b", text: "hi" };
const boost = { boost_id: "1", add_date: 1, expiration_date: 2 };
const query = { id: "1", from: ada, invoice_payload: "p" };
const address = { country_code: "GB", state: "", city: "", street_line1: "", street_line2: "" };

/** A kind that the schema adds makes this incomplete, which the type check reports. */
const SAMPLES: { readonly [K in Kind]: Samples<K> } = {
  message: [
    [message, 42],
    [{ ...message, chat: person }, 42],
    [{ ...message, reply_to_message: { ...base, chat: group, from: other } } as typeof message, 42],
    // An anonymous administrator, and a post forwarded from the linked channel: stand-ins.
    [{ ...message, from: user(1_087_968_824), sender_chat: group }, undefined],
    [{ ...message, from: user(777_000), sender_chat: channel }, undefined],
  ],
  edited_message: [[edited, 42]],
  channel_post: [[post, undefined]],
  edited_channel_post: [[{ ...post, edit_date: 2, author_signature: "42" }, undefined]],
  business_connection: [
    [{ id: "1", user: ada, user_chat_id: 7, date: 1, is_enabled: true }, 42],
  ],
  business_message: [[business, 42]],
  edited_business_message: [[{ ...business, edit_date: 2 }, 42]],
  deleted_business_messages: [
    [{ business_connection_id: "b", chat: person, message_ids: [1] }, undefined],
  ],
  guest_message: [[message, 42]],
  stopped_message_generation: [[{ chat: person, draft_id: 1 }, 42]],
  message_reaction: [
    [{ chat: group, message_id: 1, user: ada, date: 1, old_reaction: [], new_reaction: [] }, 42],
    [
      {
        ...{ chat: group, message_id: 1, actor_chat: channel, date: 1 },
        ...{ old_reaction: [], new_reaction: [] },
      },
      undefined,
    ],
  ],
  message_reaction_count: [[{ chat: group, message_id: 1, date: 1, reactions: [] }, undefined]],
  inline_query: [[{ id: "1", from: ada, query: "q", offset: "" }, 42]],
  chosen_inline_result: [[{ result_id: "1", from: ada, query: "q" }, 42]],
  callback_query: [
    [{ id: "1", from: ada, chat_instance: "1", data: "d" }, 42],
    [{ id: "1", from: ada, chat_instance: "1", message: { ...post, from: other } as Message }, 42],
  ],
  shipping_query: [[{ ...query, shipping_address: { ...address, post_code: "1" } }, 42]],
  pre_checkout_query: [[{ ...query, currency: "EUR", total_amount: 1 }, 42]],
  purchased_paid_media: [[{ from: ada, paid_media_payload: "p" }, 42]],
  poll: [[
    {
      ...{ id: "42", question: "?", options: [], total_voter_count: 1, is_closed: true },
      ...{ is_anonymous: false, type: "regular", allows_multiple_answers: false },
      ...{ allows_revoting: true, members_only: false },
    },
    undefined,
  ]],
  poll_answer: [
    [{ poll_id: "1", user: ada, option_ids: [0], option_persistent_ids: ["a"] }, 42],
    [
      { poll_id: "1", voter_chat: channel, option_ids: [0], option_persistent_ids: ["a"] },
      undefined,
    ],
  ],
  my_chat_member: [[change, 42]],
  chat_member: [[change, 42]],
  chat_join_request: [[{ chat: group, from: ada, user_chat_id: 7, date: 1 }, 42]],
  chat_boost: [
    [{ chat: group, boost: { ...boost, source: { source: "premium", user: ada } } }, 42],
    [{ chat: group, boost: { ...boost, source: { source: "gift_code", user: ada } } }, 42],
    [
      { chat: group, boost: { ...boost, source: { source: "giveaway", giveaway_message_id: 1 } } },
      undefined,
    ],
  ],
  removed_chat_boost: [
    [
      { chat: group, boost_id: "1", remove_date: 1, source: { source: "premium", user: ada } },
      42,
    ],
  ],
  managed_bot: [[{ user: ada, bot: { ...other, is_bot: true } }, 42]],
  subscription: [[{ user: ada, invoice_payload: "p", state: "active" }, 42]],
};

for (const [kind, samples] of Object.entries(SAMPLES)) {
  Deno.test(`parseMessengerUpdate() finds the user of each ${kind}, or none`, () => {
    for (const [content, expected] of samples) {
      const { headers, body } = messengerUpdate({ [kind]: content });
      const update = parseMessengerUpdate(headers, new TextEncoder().encode(String(body)));
      assertEquals(update.sender?.id, expected);
    }
  });

  Deno.test(`messenger() takes a ${kind} as Telegram sends it, of an allowed user`, async () => {
    using kv = await Deno.openKv(":memory:");
    const store = await openEventStore(kv);
    const app = createBaseApp({ name: "messenger", logger: false });
    app.route("/", messengerIntake({ secrets: [SECRET], store }));
    const headers = {
      "Content-Type": "application/json",
      "X-Telegram-Bot-Api-Secret-Token": SECRET,
    };
    for (const [index, [content, expected]] of samples.entries()) {
      const body = JSON.stringify({ update_id: index, [kind]: content });
      const sent = { method: "POST", headers, body };
      const env = { MESSENGER_ALLOWED_USERS: "42, 4711" };
      const { status } = await app.request("/webhook", sent, env);
      assertEquals(status, expected === undefined ? 403 : 200);
      const record = await store.get(`messenger:${index}`);
      assertEquals(
        [record?.type, record?.source],
        expected === undefined ? [undefined, undefined] : [kind, "telegram"],
      );
    }
  });
}

Deno.test("telegram() does not fall back to a messenger's users: an empty list allows nobody", async () => {
  using kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv);
  const app = createBaseApp({ name: "bot", logger: false });
  app.route("/", createIntake(telegram({ secrets: [TEST_SECRETS.messenger] }), { store }));
  const update = messengerUpdate({ message: { from: { id: 42 }, text: "hi" } });
  const status = async (env: object) => (await app.request("/webhook", update, env)).status;
  assertEquals(await status({ MESSENGER_ALLOWED_USERS: "*" }), 403);
  assertEquals(await status({ TELEGRAM_ALLOWED_USERS: "42" }), 200);
});
