import { assert, assertEquals, assertThrows } from "@std/assert";
import type { LogRecord } from "../../middleware/mod.ts";

import { parseJsonObject } from "../../core/parse_json.ts";
import type { Delivery } from "../../events/mod.ts";
import { FORGE_SECRET, forgeDelivery, MESSENGER_SECRET, messengerUpdate } from "../_deliveries.ts";
import {
  acceptedBy,
  assertRefusedBy,
  messengerIntake,
  type MessengerIntakeOptions,
  openIntake,
  type Refusal,
  type Sent,
} from "./_intakes.ts";

const TOKEN = "X-Messenger-Bot-Api-Secret-Token";
const TELEGRAM_TOKEN = "X-Telegram-Bot-Api-Secret-Token";

type Options = Partial<MessengerIntakeOptions>;

const NO_TOKEN: Refusal = [401, "MISSING_TOKEN", "Missing secret token"];
const BAD_TOKEN: Refusal = [401, "INVALID_TOKEN", "Invalid secret token"];
const NOT_ALLOWED: Refusal = [403, "AUTH_001", "User not authorized"];

/** A fresh app with its store, for user 42. `using` closes the KV. */
const createMessenger = (options: Options = {}, users: string | undefined = "42") =>
  openIntake(
    (store) => messengerIntake({ secrets: [MESSENGER_SECRET], store, ...options }),
    { MESSENGER_ALLOWED_USERS: users },
  );

const assertRefused = (sent: Sent, refusal: Refusal, options?: Options, users?: string) =>
  assertRefusedBy(createMessenger(options, users), sent, refusal);

const accepted = (sent: Sent, options?: Options, users?: string) =>
  acceptedBy(createMessenger(options, users), sent);

/** A message of a user, user 42 where none is named. */
const message = (from: unknown = { id: 42 }, more: object = {}) => ({
  update_id: 1,
  message: { message_id: 1, from, chat: { id: 7 }, text: "hi", ...more },
});

Deno.test("messenger() answers 200 OK, in plain text, to an allowed user", async () => {
  using messenger = await createMessenger();
  const response = await messenger.post(messengerUpdate(message()));
  assertEquals(response.status, 200);
  assertEquals(response.headers.get("Content-Type"), "text/plain; charset=UTF-8");
  assertEquals(await response.text(), "OK");
  assertEquals(await messenger.count("events", "event"), 1);
});

Deno.test("messenger() stores an update byte for byte, with its kind and id", async () => {
  const text = ' { "update_id" : 7,\n"message":{"from":{"id":42},"text":"\u{1f600}\\u00e9"}}';
  const event = await accepted(messengerUpdate(text));
  assertEquals(new TextDecoder().decode(event.body), text);
  assertEquals([event.platform, event.source], ["messenger", "messenger"]);
  assertEquals([event.type, event.id, event.deliveryId], ["message", "messenger:7", "7"]);
});

Deno.test("messenger() takes the token in Telegram's header", async () => {
  const headers = { [TOKEN]: null, [TELEGRAM_TOKEN]: MESSENGER_SECRET };
  assertEquals((await accepted(messengerUpdate(message(), headers))).source, "telegram");
});

Deno.test("messenger() answers 401 to a missing token, or an empty one", async () => {
  for (const token of [null, ""]) {
    await assertRefused(messengerUpdate(message(), { [TOKEN]: token }), NO_TOKEN);
  }
});

Deno.test("messenger() logs which of several secret tokens has verified an update", async () => {
  const secrets = ["the-new-token-of-the-two", MESSENGER_SECRET];
  using messenger = await createMessenger({ secrets });
  await messenger.post(messengerUpdate(message()));
  await messenger.post(messengerUpdate(message({ id: 43 }), { [TOKEN]: secrets[0]! }));
  const requests = messenger.records.filter((record) => record.message === "request");
  assertEquals(requests.map(({ verifiedBy }) => verifiedBy), ["secret 2", "secret 1"]);
  for (const secret of secrets) assert(!JSON.stringify(messenger.records).includes(secret));
});

const WRONG_TOKENS: Record<string, string> = {
  "another": "another-secret-token-here",
  "a shorter": MESSENGER_SECRET.slice(0, -1),
  "a longer": `${MESSENGER_SECRET}s`,
  "a doubled": `${MESSENGER_SECRET}, ${MESSENGER_SECRET}`,
  "the other app's": FORGE_SECRET,
  "a capital": MESSENGER_SECRET.toUpperCase(),
  "a non-ASCII": "\u00e9".repeat(MESSENGER_SECRET.length),
  "a very long": MESSENGER_SECRET.repeat(500),
};

for (const [what, token] of Object.entries(WRONG_TOKENS)) {
  Deno.test(`messenger() answers 401 to ${what} token`, async () => {
    await assertRefused(messengerUpdate(message(), { [TOKEN]: token }), BAD_TOKEN);
    const telegram = { [TOKEN]: null, [TELEGRAM_TOKEN]: token };
    await assertRefused(messengerUpdate(message(), telegram), BAD_TOKEN);
  });
}

Deno.test("messenger() answers 401 to two token headers, even if both are right", async () => {
  const update = messengerUpdate(message());
  update.headers.append(TOKEN, MESSENGER_SECRET);
  await assertRefused(update, BAD_TOKEN);
});

Deno.test("messenger() answers 401 to a wrong token beside a right one", async () => {
  const update = messengerUpdate(message(), { [TOKEN]: "x", [TELEGRAM_TOKEN]: MESSENGER_SECRET });
  await assertRefused(update, BAD_TOKEN);
});

Deno.test("messenger() does not take the other platform's signature for its own", async () => {
  await assertRefused(await forgeDelivery("{}"), NO_TOKEN, { secrets: [FORGE_SECRET] });
});

Deno.test("messenger() ignores the other platform's headers on a verified update", async () => {
  const forge = { "X-Hub-Signature-256": "sha256=00", "X-Forge-Event": "push" };
  const event = await accepted(messengerUpdate(message(), { ...forge, "X-Forge-Delivery": "a" }));
  assertEquals([event.platform, event.type, event.id], ["messenger", "message", "messenger:1"]);
});

Deno.test("messenger() accepts the old and the new token during a rotation", async () => {
  for (const token of ["new token", "old token"]) {
    const secrets = ["new token", "old token"];
    await accepted(messengerUpdate(message(), { [TOKEN]: token }), { secrets });
  }
});

Deno.test("messenger() answers 401 to the old token after a rotation", async () => {
  const update = messengerUpdate(message(), { [TOKEN]: "old token" });
  await assertRefused(update, BAD_TOKEN, { secrets: ["new token"] });
});

for (const secrets of [[], [""], [" \t\n"], ["good", ""], [undefined], "a text"]) {
  Deno.test(`messenger() refuses ${JSON.stringify(secrets)} for its secrets`, async () => {
    using messenger = await createMessenger();
    const options = { secrets: secrets as string[], store: messenger.store };
    assertThrows(() => messengerIntake(options), TypeError, "the platform 'messenger': ");
  });
}

for (const limits of [{ maxBodyBytes: NaN }, { maxBodyBytes: -1 }, { bodyTimeoutMs: NaN }]) {
  const [[name, value]] = Object.entries(limits) as [[string, number]];
  Deno.test(`messenger() refuses ${value} for ${name}`, async () => {
    using messenger = await createMessenger();
    const options = { secrets: [MESSENGER_SECRET], store: messenger.store, ...limits };
    assertThrows(() => messengerIntake(options), RangeError);
  });
}

Deno.test("messenger() does not read the body of an unverified request", async () => {
  using messenger = await createMessenger();
  let pulled = 0;
  const body = new ReadableStream({ pull: () => void pulled++ }, { highWaterMark: 0 });
  const headers = { [TOKEN]: "wrong" };
  assertEquals((await messenger.post({ method: "POST", headers, body })).status, 401);
  assertEquals(pulled, 0);
});

Deno.test("messenger() answers 401 to an unverified request, whatever else is wrong", async () => {
  for (const update of ["", "{", "null", "{}", message({ id: 43 })]) {
    await assertRefused(messengerUpdate(update, { [TOKEN]: "wrong" }), BAD_TOKEN);
    const html = { [TOKEN]: null, "Content-Type": "text/html" };
    await assertRefused(messengerUpdate(update, html), NO_TOKEN);
  }
});

Deno.test("messenger() answers 413 or 415 to an unverified request only for what is declared", async () => {
  const tooLarge: Refusal = [413, "BODY_TOO_LARGE", "Body larger than 1048576 bytes"];
  const encoded: Refusal = [415, "UNSUPPORTED_MEDIA_TYPE", "Unsupported content encoding"];
  for (const token of [MESSENGER_SECRET, "wrong", null]) {
    const big = { [TOKEN]: token, "Content-Length": "1048577" };
    await assertRefused(messengerUpdate(message(), big), tooLarge);
    const zipped = { [TOKEN]: token, "Content-Encoding": "gzip" };
    await assertRefused(messengerUpdate(message(), zipped), encoded);
  }
});

Deno.test("messenger() answers 415 to another media type", async () => {
  const json: Refusal = [415, "UNSUPPORTED_MEDIA_TYPE", "Content type must be application/json"];
  for (const type of ["text/plain", "application/x-www-form-urlencoded", ""]) {
    await assertRefused(messengerUpdate(message(), { "Content-Type": type }), json);
  }
});

const BAD_BODIES: readonly (readonly [body: string, message: string])[] = [
  ["", "Body is not JSON"],
  ["{", "Body is not JSON"],
  ["null", "Body must be a JSON object"],
  ["42", "Body must be a JSON object"],
  ["[]", "Body must be a JSON object"],
  [`{"message":${"[".repeat(9_999)}${"]".repeat(9_999)}}`, "Body is nested too deeply"],
  ["{}", "Update has no content"],
  ['{"update_id":1}', "Update has no content"],
  ['{"update_id":1,"message":null}', "Update has no content"],
  ['{"update_id":1,"message":"from 42"}', "Update has no content"],
  ['{"update_id":1,"__proto__":{"from":{"id":42}}}', "Update has no content"],
  ['{"update_id":1,"two words":{"from":{"id":42}}}', "Update has no content"],
  ['{"update_id":1,"1":{"from":{"id":42}}}', "Update has no content"],
  ['{"update_id":"1","message":{"from":{"id":42}}}', "Update id must be an integer"],
  ['{"update_id":1.5,"message":{"from":{"id":42}}}', "Update id must be an integer"],
  ['{"update_id":null,"message":{"from":{"id":42}}}', "Update id must be an integer"],
  ['{"message":{"from":{"id":42}},"update_id":{}}', "Update id must be an integer"],
  ['{"update_id":9007199254740993,"message":{"from":{"id":42}}}', "Update id must be an integer"],
];

for (const [body, error] of BAD_BODIES) {
  Deno.test(`messenger() answers 400 to ${body.slice(0, 60)}`, async () => {
    await assertRefused(messengerUpdate(body), [400, "INVALID_BODY", error], {}, "*");
  });
}

Deno.test("messenger() judges the same document that a handler gets", async () => {
  const twice = '{"update_id":1,"message":{"from":{"id":43}},"message":{"from":{"id":42}}}';
  const { body } = await accepted(messengerUpdate(twice));
  assertEquals(parseJsonObject(body).message, { from: { id: 42 } });
  const other = '{"update_id":1,"message":{"from":{"id":42}},"message":{"from":{"id":43}}}';
  await assertRefused(messengerUpdate(other), NOT_ALLOWED);
});

Deno.test("messenger() judges the body before the user", async () => {
  await assertRefused(messengerUpdate("{"), [400, "INVALID_BODY", "Body is not JSON"], {}, "");
});

const STRANGERS: Record<string, object> = {
  "another user": message({ id: 43 }),
  "a user whose name is a listed id": message({ id: 43, username: "42", first_name: "42" }),
  "a user whose id is a text": message({ id: "42" }),
  "a user whose id is beyond 2^53": JSON.parse('{"message":{"from":{"id":9007199254740993}}}'),
  "a negative id": message({ id: -42 }),
  "no user": message(null),
  "a listed chat as the sender": message(null, { sender_chat: { id: 42 } }),
  "a listed chat": message({ id: 43 }, { chat: { id: 42 } }),
  "a message that quotes a listed user": message({ id: 43 }, {
    reply_to_message: message().message,
  }),
  "a message forwarded from a listed user": message({ id: 43 }, { forward_from: { id: 42 } }),
  "a button under a listed user's message": {
    callback_query: { from: { id: 43 }, message: message().message },
  },
  "a channel post": { channel_post: { chat: { id: 42 }, sender_chat: { id: 42 } } },
  "a reaction of another user": { message_reaction: { user: { id: 43 }, chat: { id: 42 } } },
  "a poll": { poll: { id: "42" } },
  "an array": { message: [{ from: { id: 42 } }] },
};

for (const [what, update] of Object.entries(STRANGERS)) {
  Deno.test(`messenger() answers 403 to ${what}`, async () => {
    const users = "42,9007199254740992,9007199254740993";
    await assertRefused(messengerUpdate({ update_id: 1, ...update }), NOT_ALLOWED, {}, users);
  });
}

Deno.test("messenger() answers 403 without bindings", async () => {
  using messenger = await createMessenger();
  const response = await messenger.app.request("/webhook", messengerUpdate(message()));
  assertEquals(response.status, 403);
});

Deno.test("messenger() takes everybody's updates by *, and a channel's", async () => {
  await accepted(messengerUpdate(message({ id: 43 })), {}, "*");
  await accepted(messengerUpdate({ update_id: 1, channel_post: { chat: { id: 7 } } }), {}, "*");
});

Deno.test("messenger() asks the given check, with the bindings and the user", async () => {
  const asked: unknown[] = [];
  const isAuthorized = (...args: unknown[]) => Promise.resolve(asked.push(...args) === 0);
  await assertRefused(messengerUpdate(message()), NOT_ALLOWED, { isAuthorized });
  const [env, userId, ...rest] = asked;
  assertEquals([env, userId, rest.length], [{ MESSENGER_ALLOWED_USERS: "42" }, 42, 1]);
});

Deno.test("messenger() shows the given check the parsed update", async () => {
  const asked: Delivery[] = [];
  const isAuthorized = (_env: object, _userId: number | undefined, update: Delivery) =>
    asked.push(update) > 0;
  const update = message({ id: 42, username: "ada" }, { chat: { id: -7, type: "group" } });
  await accepted(messengerUpdate(update), { isAuthorized });
  const [{ type, deliveryId, chat, sender, payload }] = asked as [Delivery];
  assertEquals([type, deliveryId, chat], ["message", "1", { id: -7, type: "group" }]);
  assertEquals([sender, payload], [{ id: 42, name: "ada", isBot: false }, update]);
});

Deno.test("messenger() can serve one chat only", async () => {
  const isAuthorized: MessengerIntakeOptions["isAuthorized"] = (_env, _userId, { chat }) =>
    chat?.id === -7;
  const inChat = (id: number) => messengerUpdate(message({ id: 43 }, { chat: { id } }));
  assertEquals((await accepted(inChat(-7), { isAuthorized })).chat?.id, -7);
  await assertRefused(inChat(7), NOT_ALLOWED, { isAuthorized });
  await assertRefused(messengerUpdate({ poll: {} }), NOT_ALLOWED, { isAuthorized });
});

Deno.test("messenger() answers 500 when the given check fails, whatever it throws", async () => {
  for (const thrown of [new Error("connect 10.0.0.7"), "a text", null, { a: 1 }]) {
    const isAuthorized = () => Promise.reject(thrown);
    const internal: Refusal = [500, "INTERNAL", "Internal Server Error"];
    await assertRefused(messengerUpdate(message()), internal, { isAuthorized });
  }
});

const warningsOf = (records: readonly LogRecord[]) =>
  records.filter(({ level, message }) => level === "warn" && message !== "request");

Deno.test("messenger() logs a warning for a token that is not right", async () => {
  using messenger = await createMessenger();
  const response = await messenger.post(messengerUpdate(message(), { [TOKEN]: "wrong-token" }));
  const [warning, ...others] = warningsOf(messenger.records);
  assertEquals(others, []);
  assertEquals(warning?.message, "delivery refused: Invalid secret token");
  assertEquals([warning?.["platform"], warning?.["code"]], ["messenger", "INVALID_TOKEN"]);
  assertEquals(warning?.requestId, response.headers.get("X-Request-Id"));
});

for (const unauthorized of ["reject", "ignore"] as const) {
  Deno.test(`messenger() logs the ids of a user and a chat that it is to ${unauthorized}`, async () => {
    using messenger = await createMessenger({ unauthorized });
    const from = { id: 43, username: "mallory", first_name: "Mal" };
    const chat = { id: -1007, type: "group", title: "Secret plans" };
    await messenger.post(messengerUpdate(message(from, { chat })));
    await messenger.post(messengerUpdate({ channel_post: { chat: { id: -8 }, text: "hi" } }));
    await messenger.post(messengerUpdate({ poll: { id: "9" } }));
    const warnings = warningsOf(messenger.records);
    const ids = warnings.map(({ userId, chatId }) => [userId, chatId]);
    assertEquals(ids, [[43, -1007], [undefined, -8], [undefined, undefined]]);
    for (const text of ["mallory", "Mal", "Secret", "group"]) {
      assert(!JSON.stringify(warnings).includes(text));
    }
  });
}

Deno.test("messenger() logs no ids of what it has not verified", async () => {
  using messenger = await createMessenger();
  await messenger.post(messengerUpdate(message({ id: 43 }), { [TOKEN]: "wrong-token" }));
  const [{ userId, chatId }] = warningsOf(messenger.records) as [LogRecord];
  assertEquals([userId, chatId], [undefined, undefined]);
});

Deno.test("messenger() logs no token and nothing of an update", async () => {
  using messenger = await createMessenger();
  await messenger.post(messengerUpdate(message(), { [TOKEN]: "wrong-token" }));
  await messenger.post(messengerUpdate(message({ id: 43 }, { text: "hunter2" })));
  await messenger.post(messengerUpdate("hunter2"));
  await messenger.post(messengerUpdate(message()));
  const log = JSON.stringify(messenger.records);
  for (const secret of [MESSENGER_SECRET, "wrong-token", "hunter2"]) assert(!log.includes(secret));
});

const IGNORE = { unauthorized: "ignore" } as const;

Deno.test("messenger() can answer 200 to a user who is not allowed, and drop it", async () => {
  using messenger = await createMessenger(IGNORE);
  const response = await messenger.post(messengerUpdate(message({ id: 43 })));
  assertEquals([response.status, await response.text()], [200, "OK"]);
  assertEquals(await messenger.count("events"), 0);
  const [warning, ...others] = warningsOf(messenger.records);
  assertEquals(others, []);
  assertEquals(warning?.message, "update ignored: User not authorized");
  assertEquals(warning?.["code"], "AUTH_001");
  assertEquals(warning?.requestId, response.headers.get("X-Request-Id"));
});

Deno.test("messenger() answers 401 and 400 where users are ignored", async () => {
  await assertRefused(messengerUpdate(message(), { [TOKEN]: "wrong" }), BAD_TOKEN, IGNORE);
  await assertRefused(messengerUpdate("{"), [400, "INVALID_BODY", "Body is not JSON"], IGNORE);
});

Deno.test("messenger() takes updates out of order and repeated once each", async () => {
  using messenger = await createMessenger();
  for (const update_id of [3, 1, 2, 1, 3, 3]) {
    const response = await messenger.post(messengerUpdate({ ...message(), update_id }));
    assertEquals(response.status, 200);
  }
  const ids = (await messenger.events()).map(({ deliveryId }) => deliveryId).sort();
  assertEquals(ids, ["1", "2", "3"]);
});

Deno.test("messenger() takes 1 MiB by default, and not a byte more", async () => {
  const sized = (size: number) => {
    const update = JSON.stringify(message({ id: 42 }, { text: "" }));
    return update.replace('"text":""', `"text":"${"x".repeat(size - update.length)}"`);
  };
  assertEquals((await accepted(messengerUpdate(sized(1_048_576)))).body.byteLength, 1_048_576);
  const tooLarge: Refusal = [413, "BODY_TOO_LARGE", "Body larger than 1048576 bytes"];
  await assertRefused(messengerUpdate(sized(1_048_577)), tooLarge);
});
