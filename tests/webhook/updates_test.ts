import { assertEquals, assertThrows } from "@std/assert";
import { HttpError } from "../../middleware/mod.ts";
import { parseMessengerUpdate } from "../../webhook/messenger.ts";

const JSON_HEADERS = new Headers({ "Content-Type": "application/json" });

const read = (update: string | object) =>
  parseMessengerUpdate(
    JSON_HEADERS,
    new TextEncoder().encode(typeof update === "string" ? update : JSON.stringify(update)),
  );
const userIdOf = (update: string | object) => read(update).sender?.id;

/** The kinds of updates, what they hold, and who sent them. */
const UPDATES: readonly (readonly [kind: string, content: unknown, sender: number | undefined])[] =
  [
    ["message", { from: { id: 42 }, text: "hi" }, 42],
    ["edited_message", { from: { id: 42 } }, 42],
    ["business_message", { from: { id: 42 } }, 42],
    ["edited_business_message", { from: { id: 42 } }, 42],
    ["callback_query", { id: "1", from: { id: 42 }, message: { from: { id: 7 } } }, 42],
    ["inline_query", { id: "1", from: { id: 42 }, query: "" }, 42],
    ["chosen_inline_result", { from: { id: 42 } }, 42],
    ["shipping_query", { from: { id: 42 } }, 42],
    ["pre_checkout_query", { from: { id: 42 } }, 42],
    ["purchased_paid_media", { from: { id: 42 } }, 42],
    ["my_chat_member", { from: { id: 42 }, new_chat_member: { user: { id: 7 } } }, 42],
    ["chat_member", { from: { id: 42 }, old_chat_member: { user: { id: 7 } } }, 42],
    ["chat_join_request", { from: { id: 42 }, user_chat_id: 7 }, 42],
    ["business_connection", { id: "1", user: { id: 42 }, user_chat_id: 7 }, 42],
    ["message_reaction", { user: { id: 42 }, chat: { id: 7 } }, 42],
    ["poll_answer", { poll_id: "1", user: { id: 42 } }, 42],
    ["message_reaction", { actor_chat: { id: 7 }, chat: { id: 7 } }, undefined],
    ["poll_answer", { voter_chat: { id: 7 } }, undefined],
    ["message_reaction_count", { chat: { id: 7 } }, undefined],
    ["channel_post", { chat: { id: 7 }, sender_chat: { id: 7 } }, undefined],
    ["edited_channel_post", { chat: { id: 7 }, author_signature: "42" }, undefined],
    ["deleted_business_messages", { chat: { id: 7 } }, undefined],
    ["poll", { id: "42" }, undefined],
    ["a_kind_of_tomorrow", { from: { id: 42 } }, 42],
  ];

for (const [kind, content, sender] of UPDATES) {
  Deno.test(`parseMessengerUpdate() finds ${sender} in ${kind} ${JSON.stringify(content)}`, () => {
    const { type, sender: found } = read({ update_id: 1, [kind]: content });
    assertEquals([type, found?.id], [kind, sender]);
  });
}

const NO_SENDERS: readonly unknown[] = [
  {},
  [],
  [{ from: { id: 42 } }],
  { from: null, user: null },
  { from: 42 },
  { from: "42" },
  { from: { id: "42" } },
  { from: { id: [42] } },
  { from: { id: { valueOf: 42 } } },
  { from: { id: true } },
  { from: { id: 42.5 } },
  { from: { id: null } },
  { from: { username: "42", first_name: "42" } },
  { from: [{ id: 42 }] },
  { sender_chat: { id: 42 } },
  { chat: { id: 42 } },
  { id: 42 },
  { text: "from 42", reply_to_message: { from: { id: 42 } }, forward_from: { id: 42 } },
];

for (const content of NO_SENDERS) {
  Deno.test(`parseMessengerUpdate() finds nobody in ${JSON.stringify(content)}`, () => {
    assertEquals(userIdOf({ update_id: 1, message: content }), undefined);
  });
}

Deno.test("parseMessengerUpdate() finds nobody by an id beyond 2^53, which was rounded to another's", () => {
  const update = '{"update_id":1,"message":{"from":{"id":9007199254740993}}}';
  assertEquals(userIdOf(update), undefined);
});

Deno.test("parseMessengerUpdate() finds nobody behind __proto__", () => {
  for (const content of ['{"__proto__":{"from":{"id":42}}}', '{"from":{"__proto__":{"id":42}}}']) {
    assertEquals(userIdOf(`{"update_id":1,"message":${content}}`), undefined);
  }
});

Deno.test("parseMessengerUpdate() refuses an update without content", () => {
  for (const update of [{}, { update_id: 1 }, { from: 42 }, { message: null }, { message: "x" }]) {
    assertThrows(() => read(update), HttpError, "Update has no content");
  }
});
