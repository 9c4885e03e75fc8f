import { createHmac } from "node:crypto";
import { assertEquals, assertRejects } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { slack } from "../../examples/slack.ts";
import { bot } from "../../examples/slack_bot.ts";
import { variablesIn } from "../../core/env.ts";
import { defineApp, HttpError } from "../../mod.ts";
import { checkContentTypes, startTestBot, type TestBot } from "../../testing/mod.ts";
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
  assertEquals(await verify(), "secret 1");
  const rotated = { SLACK_SIGNING_SECRET: "a new secret", SLACK_SIGNING_SECRET_PREVIOUS: SECRET };
  assertEquals(await verify({}, rotated), "secret 2");
});

const CHANGES: Readonly<Record<string, Change>> = {
  "another body": { body: `${BODY}&a=1` },
  "an empty body": { body: "" },
  "another time": { time: "1531420619" },
  "a time that is no number": { time: "now" },
  "a time with a part of the body": { time: `${TIME}:token=x` },
  "no time": { time: "" },
  "no signature": { signature: "" },
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

Deno.test("slack() takes no part of a signed body as the end of the time", async () => {
  using _time = new FakeTime(Number(TIME) * 1_000);
  const digest = createHmac("sha256", SECRET).update(`v0:${TIME}:{"a":1}`).digest("hex");
  const signature = `v0=${digest}`;
  assertEquals(await verify({ signature, body: '{"a":1}' }), "secret 1");
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
    assertEquals(await verify(), "secret 1");
  }
});

interface Sent {
  readonly type?: string;
  readonly secret?: string;
  readonly sentAt?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Makes a request as Slack sends it. */
function requestOf(content: object | string, options: Sent = {}) {
  const { type = JSON_TYPE, secret = SECRET, sentAt = Date.now(), headers: more } = options;
  const body = typeof content === "string" ? content : JSON.stringify(content);
  const time = String(Math.floor(sentAt / 1_000));
  const digest = createHmac("sha256", secret).update(`v0:${time}:${body}`).digest("hex");
  const headers = new Headers({ "Content-Type": type, ...more });
  headers.set("X-Slack-Request-Timestamp", time);
  headers.set("X-Slack-Signature", `v0=${digest}`);
  return { platform: "slack", method: "POST", headers, body } as const;
}

/** Sends a request as Slack does. */
async function send(test: TestBot, content: object | string, options: Sent = {}) {
  return await test.deliver(requestOf(content, options));
}

/** Starts a bot, and notes what it handles. */
async function startBot(): Promise<{ test: TestBot; handled: unknown[] } & AsyncDisposable> {
  const handled: unknown[] = [];
  const bot = defineApp({ name: "my-bot", platform: slack() });
  bot.on("app_mention", ({ payload }) => handled.push(payload.event.text));
  bot.on("slash_command", ({ payload }) => handled.push(payload.command));
  bot.on("block_actions", ({ payload }) => handled.push(payload.actions[0]?.action_id));
  bot.onOther(({ type }) => handled.push(type));
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

Deno.test("slack() stores no check of the certificate, and types that nobody has listed", async () => {
  await using sut = await startBot();
  const check = await send(sut.test, "ssl_check=1&token=a", { type: FORM_TYPE });
  assertEquals([check.status, check.text, check.event], [200, "", undefined]);
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
  const unsigned = await sut.test.fetch("/slack", { method: "POST", body: "{}" });
  assertEquals(unsigned.status, 401);
  await unsigned.body?.cancel();
  assertEquals(sut.handled, []);
});

/** Stands in for Slack: it loses its first answer to a message if `arrives` says so, and shows the messages it has. */
function standIn(arrives: boolean) {
  const messages: { readonly ts: string; readonly metadata: unknown }[] = [];
  const called: string[] = [];
  const call = (method: string, fields: Record<string, string>) => {
    called.push(method);
    if (method === "conversations.replies") return Promise.resolve({ messages });
    const isFirst = called.length === 1;
    if (arrives || !isFirst) {
      messages.push({ ts: String(messages.length), metadata: JSON.parse(fields["metadata"]!) });
    }
    return isFirst ? Promise.reject(new Error("no answer")) : Promise.resolve({ ts: "0" });
  };
  return { messages, called, call };
}

for (const arrives of [true, false]) {
  const what = arrives ? "lost its answer" : "never had its message";
  Deno.test(`the bot of Slack answers a mention once if Slack ${what}`, async () => {
    const { messages, called, call } = standIn(arrives);
    const env = { SLACK_SIGNING_SECRET: SECRET, SLACK_BOT_TOKEN: "a token" };
    await using test = await startTestBot(bot, { env, resources: call });
    const event = { type: "app_mention", text: "help", channel: "C1", ts: "1.2" };
    const sent = requestOf({ type: "event_callback", event_id: "Ev1", event });
    await test.deliver(sent, { expectFailure: true });
    await test.advance(5_000);
    const posts = called.filter((method) => method === "chat.postMessage").length;
    assertEquals([messages.length, posts], [1, arrives ? 1 : 2]);
    assertEquals((await test.store.get("slack:Ev1"))?.outcome, "handled");
  });
}
