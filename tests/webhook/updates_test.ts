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
