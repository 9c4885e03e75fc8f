import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { variablesIn } from "../../core/env.ts";
import { signSlack } from "../../dev/harness/sign.ts";
import type { Delivery } from "../../events/mod.ts";
import { byChannel, byThread, defineApp, HttpError, slack, VariableError } from "../../mod.ts";
import { checkContentTypes, slackDelivery, startTestBot, type TestBot } from "../../testing/mod.ts";
import { SLACK_EXAMPLES } from "../../testing/slack_delivery.ts";
import { preparePlatform } from "../../webhook/platform.ts";

/** Secret, time, body and signature that Slack's documentation publishes. */
const SECRET = "8f742231b10e8888abcd99yyyzzz85a5";
const TIME = "1531420618";
const BODY = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&" +
  "channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&" +
  "command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2F" +
  "T1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=" +
  "398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
const SIGNATURE = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";

const JSON_TYPE = "application/json";
const FORM_TYPE = "application/x-www-form-urlencoded";

const encoder = new TextEncoder();

interface Change {
  readonly signature?: string;
  readonly time?: string;
  readonly body?: string;
}

/** Reads the fields of a form. */
const fieldsOf = (form: string) => Object.fromEntries(new URLSearchParams(form));

/** Verifies the published request, with changes. */
async function verify({ signature = SIGNATURE, time = TIME, body = BODY }: Change = {}, env = {}) {
  const variables = variablesIn({ SLACK_SIGNING_SECRET: SECRET, ...env }, () => {});
  const { verifyHead } = preparePlatform(slack(), variables);
  const headers = new Headers({ "X-Slack-Signature": signature });
  headers.set("X-Slack-Request-Timestamp", time);
  return await verifyHead(headers)({ bytes: encoder.encode(body) });
}

Deno.test("slack() verifies the request that Slack publishes", async () => {
  using _time = new FakeTime(Number(TIME) * 1_000);
  assertEquals(await verify(), undefined);
  assertEquals(signSlack(BODY, TIME, SECRET), SIGNATURE);
  const rotated = { SLACK_SIGNING_SECRET: "a new secret", SLACK_SIGNING_SECRET_PREVIOUS: SECRET };
  assertEquals(await verify({}, rotated), "secret 2");
  const sentAt = Number(TIME) * 1_000;
  assertEquals(slackDelivery(fieldsOf(BODY), { secret: SECRET, sentAt }).body, BODY);
});

const CHANGES: Readonly<Record<string, Change>> = {
  "another body": { body: `${BODY}&a=1` },
  "an empty body": { body: "" },
  "another time": { time: "1531420619" },
  "a time that overflows": { time: "9".repeat(400) },
  "a time below zero": { time: `-${TIME}` },
  "a time with a sign": { time: `+${TIME}` },
  "a time in another notation": { time: "1.531420618e9" },
  "a time with a fraction": { time: `${TIME}.0` },
  "two times": { time: `${TIME}, ${TIME}` },
  "a time that is no number": { time: "now" },
  "a time with a part of the body": { time: `${TIME}:token=x` },
  "no time": { time: "" },
  "another signature": { signature: SIGNATURE.replace("a2", "a3") },
  "a signature in capitals": { signature: SIGNATURE.toUpperCase() },
  "a signature of another version": { signature: SIGNATURE.replace("v0", "v1") },
  "a part of the signature": { signature: SIGNATURE.slice(0, -2) },
  "two signatures": { signature: `${SIGNATURE}, ${SIGNATURE}` },
};

for (const [what, change] of Object.entries(CHANGES)) {
  Deno.test(`slack() refuses the published request with ${what}`, async () => {
    using _time = new FakeTime(Number(TIME) * 1_000);
    const { status, code } = await assertRejects(() => verify(change), HttpError);
    assertEquals([status, code], [401, "INVALID_SIG"]);
  });
}

Deno.test("slack() refuses a request without a signature, or with nothing of it", async () => {
  using _time = new FakeTime(Number(TIME) * 1_000);
  const { code } = await assertRejects(() => verify({ signature: "" }), HttpError);
  assertEquals(code, "MISSING_SIG");
  for (const signature of ["v0=", "v0", "=", "v0=" + "g".repeat(64), "v0=" + "\u00e9".repeat(64)]) {
    const { status, code } = await assertRejects(() => verify({ signature }), HttpError);
    assertEquals([status, code], [401, "INVALID_SIG"], signature);
  }
});

Deno.test("slack() takes no part of a signed body as the end of the time", async () => {
  using _time = new FakeTime(Number(TIME) * 1_000);
  const signature = signSlack('{"a":1}', TIME, SECRET);
  assertEquals(await verify({ signature, body: '{"a":1}' }), undefined);
  const split = { signature, time: `${TIME}:{"a"`, body: "1}" };
  assertEquals((await assertRejects(() => verify(split), HttpError)).code, "INVALID_SIG");
});

Deno.test("slack() refuses a request that is over 5 minutes old, or of the future", async () => {
  for (const [ms, code] of [[-300_001, "STALE_SIG"], [300_001, "STALE_SIG"]] as const) {
    using _time = new FakeTime(Number(TIME) * 1_000 + ms);
    assertEquals((await assertRejects(() => verify(), HttpError)).code, code);
  }
  for (const ms of [-300_000, 300_000]) {
    using _time = new FakeTime(Number(TIME) * 1_000 + ms);
    assertEquals(await verify(), undefined);
  }
});

interface Sent {
  readonly type?: string;
  readonly secret?: string;
  readonly sentAt?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Makes a request as Slack sends it. */
function requestOf(content: object | string | Uint8Array<ArrayBuffer>, options: Sent = {}) {
  const { type = JSON_TYPE, secret = SECRET, sentAt = Date.now(), headers: more } = options;
  const isText = typeof content === "string" || content instanceof Uint8Array;
  const body = isText ? content : JSON.stringify(content);
  const time = String(Math.floor(sentAt / 1_000));
  const headers = new Headers({ "Content-Type": type, ...more });
  headers.set("X-Slack-Request-Timestamp", time);
  headers.set("X-Slack-Signature", signSlack(body, time, secret));
  return { platform: "slack", method: "POST", headers, body } as const;
}

/** Sends a request as Slack does. */
async function send(
  test: TestBot,
  content: object | string | Uint8Array<ArrayBuffer>,
  options: Sent = {},
) {
  return await test.deliver(requestOf(content, options));
}

/** Starts a bot, and notes what it handles. */
async function startBot(): Promise<{ test: TestBot; handled: unknown[] } & AsyncDisposable> {
  const handled: unknown[] = [];
  const bot = defineApp({ name: "my-bot", platform: slack() });
  bot.on("app_mention", ({ payload }) => handled.push(payload.event.text satisfies string));
  bot.on("slash_command", ({ payload }) => handled.push(payload.command));
  bot.on("block_actions", ({ payload }) => handled.push(payload.actions[0]?.action_id));
  bot.onOther(({ type, action }) => handled.push(action ? `${type}.${action}` : type));
  const test = await startTestBot(bot, { env: { SLACK_SIGNING_SECRET: SECRET } });
  return { test, handled, [Symbol.asyncDispose]: () => test[Symbol.asyncDispose]() };
}

const mention = (text: string, id = "Ev1") => ({
  type: "event_callback",
  event_id: id,
  event: { type: "app_mention", text },
});

Deno.test("slack() hands an event to the bot once, however often Slack sends it", async () => {
  await using sut = await startBot();
  const first = await send(sut.test, mention("hello"));
  assertEquals([first.status, first.text, first.event?.id], [200, "", "slack:Ev1"]);
  const headers = { "X-Slack-Retry-Num": "1", "X-Slack-Retry-Reason": "http_timeout" };
  const again = await send(sut.test, mention("hello"), { headers, sentAt: Date.now() + 60_000 });
  assertEquals([again.status, again.event?.id], [200, "slack:Ev1"]);
  await send(sut.test, mention("hello again", "Ev2"));
  assertEquals(sut.handled, ["hello", "hello again"]);
});

Deno.test("slack() answers the challenge itself, if it is signed", async () => {
  await using sut = await startBot();
  const challenge = { type: "url_verification", challenge: "3eZbrw1a" };
  const { status, text, event } = await send(sut.test, challenge);
  assertEquals([status, text, event], [200, '{"challenge":"3eZbrw1a"}', undefined]);
  const forged = await send(sut.test, challenge, { secret: "another" });
  assertEquals([forged.status, forged.code, forged.text.includes("3eZbrw1a")], [
    401,
    "INVALID_SIG",
    false,
  ]);
  assertEquals(sut.handled, []);
});

Deno.test("slack() reads slash commands and interactions out of forms", async () => {
  await using sut = await startBot();
  const command = await send(sut.test, BODY, { type: FORM_TYPE });
  const trigger = "398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
  assertEquals([command.text, command.event?.id], ["", `slack:${trigger}`]);
  assertEquals(command.event?.type, "slash_command");
  const document = JSON.stringify({
    type: "block_actions",
    trigger_id: "1.2.c",
    actions: [{ action_id: "é+&=" }],
  });
  const form = new URLSearchParams({ payload: document }).toString();
  const { event } = await send(sut.test, form, { type: `${FORM_TYPE}; charset=utf-8` });
  assertEquals([event?.id, event?.type], ["slack:1.2.c", "block_actions"]);
  assertEquals(sut.handled, ["/webhook-collect", "é+&="]);
});

Deno.test("slack() takes no text of a captured event for an interaction", async () => {
  const forged = { type: "block_actions", trigger_id: "1", actions: [{ action_id: "forged" }] };
  const text = `&payload=${encodeURIComponent(JSON.stringify(forged))}&a=`;
  await using sut = await startBot();
  for (const type of [FORM_TYPE, `${FORM_TYPE}; charset=utf-8`, "text/plain", JSON_TYPE]) {
    const { event } = await send(sut.test, mention(text), { type });
    assertEquals([event?.id, event?.type], ["slack:Ev1", "app_mention"], type);
    for (const before of [" ", "\n", "\ufeff"]) {
      const answer = await send(sut.test, before + JSON.stringify(mention(text)), { type });
      assertEquals([answer.status, answer.event?.id], [200, "slack:Ev1"]);
    }
  }
  assertEquals(sut.handled, [text]);
});

Deno.test("slack() reads its deliveries by the body, whatever their content type", async () => {
  const env = { SLACK_SIGNING_SECRET: SECRET };
  await checkContentTypes(slack(), (text) => requestOf(mention(text)), { env });
  const document = (text: string) =>
    JSON.stringify({ type: "block_actions", trigger_id: "1.2.c", actions: [], text });
  const forms = [
    (text: string) => `${BODY.replace("text=", `text=${encodeURIComponent(text)}`)}`,
    (text: string) => new URLSearchParams({ payload: document(text) }).toString(),
  ];
  for (const form of forms) {
    await checkContentTypes(slack(), (text) => requestOf(form(text), { type: FORM_TYPE }), { env });
  }
});

Deno.test("slack() verifies a large form, which is hashed beside the others", async () => {
  await using sut = await startBot();
  const form = (id: string) =>
    formOf({ type: "view_submission", trigger_id: id, padding: "x".repeat(600_000) });
  const taken = await send(sut.test, form("1.1"), { type: FORM_TYPE });
  assertEquals(taken.event?.id, "slack:1.1");
  const forged = await send(sut.test, form("1.2"), { type: FORM_TYPE, secret: "another" });
  assertEquals(forged.code, "INVALID_SIG");
  assertEquals(sut.handled, ["view_submission"]);
});

Deno.test("slack() stores no check of the certificate, and types that nobody has listed", async () => {
  await using sut = await startBot();
  const check = await send(sut.test, "ssl_check=1&token=a", { type: FORM_TYPE });
  assertEquals([check.status, check.text, check.event], [200, "", undefined]);
  const unsigned = await sut.test.fetch("/webhook", {
    ...{ method: "POST", body: "ssl_check=1&token=a", headers: { "Content-Type": FORM_TYPE } },
  });
  assertEquals([unsigned.status, unsigned.headers.get("X-Error-Code")], [401, "MISSING_SIG"]);
  await unsigned.body?.cancel();
  const limited = await send(sut.test, { type: "app_rate_limited", minute_rate_limited: 1 });
  assertEquals(limited.event?.type, "app_rate_limited");
  assertEquals(sut.handled, ["app_rate_limited"]);
});

Deno.test("slack() refuses what is forged or stale, end to end", async () => {
  await using sut = await startBot();
  const forged = await send(sut.test, mention("hello"), { secret: `${SECRET} ` });
  assertEquals([forged.status, forged.code], [401, "INVALID_SIG"]);
  const stale = await send(sut.test, mention("hello"), { sentAt: Date.now() - 302_000 });
  assertEquals([stale.status, stale.code], [401, "STALE_SIG"]);
  const unsigned = await sut.test.fetch("/webhook", { method: "POST", body: "{}" });
  assertEquals(unsigned.status, 401);
  await unsigned.body?.cancel();
  assertEquals(sut.handled, []);
});

/** Makes the form of an interaction. */
const formOf = (interaction: object) =>
  new URLSearchParams({ payload: JSON.stringify(interaction) }).toString();

Deno.test("slack() names events by type and subtype, and interactions by what the app calls them", async () => {
  const view = { callback_id: "order" };
  const names: readonly (readonly [string, object | string])[] = [
    ["message.channel_join", { event: { type: "message", subtype: "channel_join" } }],
    ["message", { event: { type: "message" } }],
    ["slash_command.deploy", "command=%2Fdeploy&text="],
    [
      "block_actions.approve",
      formOf({ type: "block_actions", actions: [{ action_id: "approve" }] }),
    ],
    [
      "block_actions.pick",
      formOf({ type: "block_actions", view, actions: [{ action_id: "pick" }] }),
    ],
    ["block_actions", formOf({ type: "block_actions", actions: 7 })],
    ["interactive_message.ok", formOf({ type: "interactive_message", actions: [{ name: "ok" }] })],
    ["view_submission.order", formOf({ type: "view_submission", view })],
    ["view_closed.order", formOf({ type: "view_closed", view })],
    ["shortcut.help", formOf({ type: "shortcut", callback_id: "help" })],
    ["message_action.save", formOf({ type: "message_action", callback_id: "save" })],
  ];
  const heard: unknown[] = [];
  const bot = defineApp({ name: "my-bot", platform: slack() });
  bot.onAny(({ type, action }) => heard.push(action ? `${type}.${action}` : type));
  await using test = await startTestBot(bot, { env: { SLACK_SIGNING_SECRET: SECRET } });
  for (const [name, content] of names) {
    const isForm = typeof content === "string";
    const sent = isForm ? content : { type: "event_callback", event_id: name, ...content };
    assertEquals((await send(test, sent, { type: isForm ? FORM_TYPE : JSON_TYPE })).status, 200);
  }
  assertEquals(heard, names.map(([name]) => name));
});

Deno.test("slack() has handlers for ids with dots, as for others", async () => {
  const view = { callback_id: "order.new" };
  const handled: string[] = [];
  const bot = defineApp({ name: "my-bot", platform: slack() });
  bot.on("block_actions.order.approve", () => handled.push("approve"));
  bot.on("view_submission.order.new", () => handled.push("new"));
  await using test = await startTestBot(bot, { env: { SLACK_SIGNING_SECRET: SECRET } });
  const forms = [
    formOf({ type: "block_actions", actions: [{ action_id: "order.approve" }] }),
    formOf({ type: "view_submission", view }),
  ];
  for (const form of forms) {
    assertEquals((await send(test, form, { type: FORM_TYPE })).event?.outcome, "handled");
  }
  assertEquals(handled, ["approve", "new"]);
});

Deno.test("slack() types what Slack publishes, and the app's own names", () => {
  const bot = defineApp({ name: "my-bot", platform: slack() });
  bot.on("message.channel_join", ({ payload }) => payload.event.inviter satisfies string);
  bot.on("message", ({ payload: { event } }) => {
    if (event.subtype === undefined) event.channel_type satisfies string;
  });
  bot.on("reaction_added", ({ payload }) => payload.event.reaction satisfies string);
  bot.on("slash_command.deploy", ({ payload }) => payload.text satisfies string);
  bot.on("block_actions.approve", ({ payload }) => payload.user.id satisfies string);
  bot.on("view_submission.order", ({ payload }) => payload.view.state.values);
  bot.on("shortcut.help", ({ payload }) => payload.type satisfies "shortcut");
  bot.on("app_rate_limited", ({ payload }) => payload.minute_rate_limited satisfies number);
  // @ts-expect-error Slack has no such event.
  bot.on("app_mentioned", () => {});
});

Deno.test("slack() answers questions for options with none, and stores nothing", async () => {
  await using sut = await startBot();
  for (const type of ["block_suggestion", "dialog_suggestion"]) {
    const { status, text, event } = await send(sut.test, formOf({ type }), { type: FORM_TYPE });
    assertEquals([status, text, event], [200, '{"options":[]}', undefined]);
  }
});

Deno.test("slack() takes what has no id once", async () => {
  await using sut = await startBot();
  const closed = formOf({ type: "view_closed", view: { id: "V1", hash: "1.a" } });
  const other = formOf({ type: "view_closed", view: { id: "V2", hash: "1.a" } });
  for (const form of [closed, closed, other]) await send(sut.test, form, { type: FORM_TYPE });
  for (const minute of [1, 1, 2]) {
    await send(sut.test, { type: "app_rate_limited", minute_rate_limited: minute });
  }
  assertEquals(sut.handled, [
    ...["view_closed", "view_closed", "app_rate_limited", "app_rate_limited"],
  ]);
});

const UNREADABLE: Readonly<
  Record<string, [code: string, body: object | string | Uint8Array<ArrayBuffer>]>
> = {
  "no body": ["INVALID_BODY", ""],
  "broken JSON": ["INVALID_BODY", "{"],
  "JSON that is no object": ["INVALID_BODY", '[{"type":"event_callback"}]'],
  "JSON that is nested too deeply": ["INVALID_BODY", `{"a":${"[".repeat(99)}${"]".repeat(99)}}`],
  "JSON that is not UTF-8": ["INVALID_BODY", Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x7d)],
  "a form that is not UTF-8": ["INVALID_BODY", Uint8Array.of(0x61, 0x3d, 0xff)],
  "a payload that is not UTF-8": ["INVALID_BODY", "payload=%ff"],
  "a payload that is no JSON": ["INVALID_BODY", "payload=hello"],
  "two payloads": ["INVALID_BODY", "payload=%7B%7D&payload=%7B%7D"],
  "neither payload nor command": ["INVALID_BODY", "text=hello"],
  "a command without its slash": ["INVALID_BODY", "command=deploy"],
  "no type": ["MISSING_EVENT", { event_id: "Ev1" }],
  "no event": ["MISSING_EVENT", { type: "event_callback", event_id: "Ev1" }],
  "an event that is a text": ["MISSING_EVENT", { type: "event_callback", event: "app_mention" }],
  "an event that is a list": ["MISSING_EVENT", { type: "event_callback", event: ["type"] }],
  "an event in a prototype": [
    "MISSING_EVENT",
    '{"type":"event_callback","event_id":"Ev1","event":{"__proto__":{"type":"app_mention"}}}',
  ],
  "a type that is an object": ["INVALID_EVENT", { type: "event_callback", event: { type: {} } }],
  "a type with a slash": ["INVALID_EVENT", { type: "event_callback", event: { type: "a/b" } }],
  "an id that is an object": ["INVALID_DELIVERY", { ...mention("hello"), event_id: {} }],
  "an id with a slash": ["INVALID_DELIVERY", mention("hello", "a/b")],
  "a challenge that is an object": ["INVALID_BODY", { type: "url_verification", challenge: {} }],
  "a challenge that is too long": [
    "INVALID_BODY",
    { type: "url_verification", challenge: "x".repeat(501) },
  ],
};

for (const [what, [code, content]] of Object.entries(UNREADABLE)) {
  Deno.test(`slack() answers 400 to a signed request with ${what}`, async () => {
    await using sut = await startBot();
    for (const type of [JSON_TYPE, FORM_TYPE]) {
      const answer = await send(sut.test, content, { type });
      assertEquals([answer.status, answer.code, answer.event], [400, code, undefined], type);
    }
    assertEquals(sut.handled, []);
  });
}

Deno.test("slack() keeps fields of a command that are named like prototypes as they are", async () => {
  const payloads: unknown[] = [];
  const bot = defineApp({ name: "my-bot", platform: slack() });
  bot.on("slash_command", ({ payload }) => payloads.push(payload));
  await using test = await startTestBot(bot, { env: { SLACK_SIGNING_SECRET: SECRET } });
  await send(test, "command=%2Fa&__proto__=b&constructor=c&type=app_mention", { type: FORM_TYPE });
  const [payload] = payloads as [object];
  assertEquals(Object.getPrototypeOf(payload), Object.prototype);
  assertEquals(
    JSON.stringify(payload),
    JSON.stringify({
      ...{ command: "/a", ["__proto__"]: "b", constructor: "c", type: "slash_command" },
    }),
  );
});

Deno.test("slack() reads its secret from the variable of its name, and takes no token for it", () => {
  assertEquals(slack({ name: "second" }).variables, ["SECOND_SIGNING_SECRET"]);
  const prepare = (secret: string) =>
    preparePlatform(slack(), variablesIn({ SLACK_SIGNING_SECRET: secret }, () => {}));
  assert(prepare(SECRET));
  const tokens = ["xoxb-1-2-a", "xapp-1-A-1-a", "xoxe.xoxp-1-a", "xoxp-1-a"];
  for (const token of tokens) {
    const message = "SLACK_SIGNING_SECRET is a token of Slack's API, and not the signing secret";
    assertThrows(() => prepare(token), VariableError, message);
    assertThrows(
      () => slack({ secrets: [token] }),
      TypeError,
      "secret 1 is a token of Slack's API",
    );
  }
  assertThrows(() => prepare(`${SECRET}\n`), VariableError, "ends with white space");
});

/** Makes a delivery with a payload. */
const deliveryOf = (payload: object) => ({ payload }) as Delivery;

const PLACES: Readonly<
  Record<string, [channel: string | undefined, thread: string | undefined, payload: object]>
> = {
  "a message": ["C1", "C1:1.0", { event: { type: "message", channel: "C1", ts: "1.0" } }],
  "a reply": ["C1", "C1:1.0", { event: { channel: "C1", ts: "2.0", thread_ts: "1.0" } }],
  "a change of a reply": ["C1", "C1:1.0", {
    event: { channel: "C1", ts: "3.0", message: { ts: "2.0", thread_ts: "1.0" } },
  }],
  "a removal of a message": ["C1", "C1:1.0", {
    event: { channel: "C1", ts: "3.0", previous_message: { ts: "1.0" } },
  }],
  "a reaction": ["C1", "C1:1.0", { event: { item: { channel: "C1", ts: "1.0" } } }],
  "a file": ["C1", "C1", { event: { channel_id: "C1", file_id: "F1" } }],
  "a new channel": ["C1", "C1", { event: { channel: { id: "C1" } } }],
  "a click in a thread": ["C1", "C1:1.0", {
    ...{ channel: { id: "C1" }, message: { ts: "2.0", thread_ts: "1.0" } },
  }],
  "a click in an ephemeral message": ["C1", "C1:1.0", {
    ...{ type: "block_actions", channel: { id: "C1" } },
    container: { type: "message", message_ts: "1.0", channel_id: "C1", is_ephemeral: true },
  }],
  "a click in an ephemeral message of a thread": ["C1", "C1:1.0", {
    container: { message_ts: "2.0", thread_ts: "1.0", channel_id: "C1", is_ephemeral: true },
  }],
  "a link": ["C1", "C1:1.0", { event: { type: "link_shared", channel: "C1", message_ts: "1.0" } }],
  "a link in a reply": ["C1", "C1:1.0", {
    event: { type: "link_shared", channel: "C1", message_ts: "2.0", thread_ts: "1.0" },
  }],
  "a thread with an assistant": ["D1", "D1:1.0", {
    event: { assistant_thread: { user_id: "U1", channel_id: "D1", thread_ts: "1.0" } },
  }],
  "a command": ["C1", "C1", { command: "/deploy", channel_id: "C1" }],
  "a modal": [undefined, undefined, { type: "view_submission", view: {} }],
  "a new member": [undefined, undefined, { event: { type: "team_join" } }],
};

for (const [what, [channel, thread, payload]] of Object.entries(PLACES)) {
  Deno.test(`byChannel() and byThread() find the place of ${what}`, () => {
    assertEquals(byChannel(deliveryOf(payload)), channel);
    assertEquals(byThread(deliveryOf(payload)), thread);
  });
}

Deno.test("slackDelivery() sends each example as Slack does, and slack() takes it", async () => {
  const heard: unknown[] = [];
  const bot = defineApp({ name: "my-bot", platform: slack() });
  bot.onAny(({ type, deliveryId }) => heard.push([type, typeof deliveryId]));
  await using test = await startTestBot(bot);
  for (const [type, example] of Object.entries(SLACK_EXAMPLES)) {
    const { status, event } = await test.deliver(slackDelivery(example));
    assertEquals([status, event?.type, event?.platform], [200, type, "slack"]);
  }
  assertEquals(heard, Object.keys(SLACK_EXAMPLES).map((type) => [type, "string"]));
  const wrong = slackDelivery(SLACK_EXAMPLES.message!, { secret: "another" });
  assertEquals((await test.deliver(wrong)).code, "INVALID_SIG");
});
