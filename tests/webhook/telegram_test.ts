import type { Chat, ChatMember, Message, Update, User } from "@grammyjs/types";
import { assertEquals } from "@std/assert";
import { messengerUpdate, TEST_SECRETS } from "../../testing/mod.ts";
import { createIntake, telegram } from "../../webhook/mod.ts";
import { messengerIntake, openIntake } from "./_intakes.ts";

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
  Deno.test(`messenger() takes a ${kind} as Telegram sends it, of an allowed user only`, async () => {
    using sut = await openIntake(
      (store) => messengerIntake({ secrets: [TEST_SECRETS.messenger], store }),
      { MESSENGER_ALLOWED_USERS: "42, 4711" },
    );
    for (const [update_id, [content, user]] of samples.entries()) {
      const { status } = await sut.post(messengerUpdate({ update_id, [kind]: content }));
      assertEquals(status, user === undefined ? 403 : 200);
      const record = await sut.store.get(`messenger:${update_id}`);
      const stored = record && [record.type, record.source, record.sender?.id];
      assertEquals(stored, user === undefined ? null : [kind, "telegram", user]);
    }
  });
}

Deno.test("telegram() does not fall back to a messenger's users: an empty list allows nobody", async () => {
  const update = messengerUpdate({ message: { from: { id: 42 }, text: "hi" } });
  const envs = [{ MESSENGER_ALLOWED_USERS: "*" }, { TELEGRAM_ALLOWED_USERS: "42" }];
  const statuses: number[] = [];
  for (const env of envs) {
    const platform = telegram({ secrets: [TEST_SECRETS.messenger] });
    using sut = await openIntake((store) => createIntake(platform, { store }), env);
    statuses.push((await sut.post(update)).status);
  }
  assertEquals(statuses, [403, 200]);
});
