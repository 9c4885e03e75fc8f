/**
 * Discord publishes no signature. The key pair is that of RFC 8032, section 7.1, test 1, and the signature
 * over an interaction was made by OpenSSL 3.0.19; all others are made here, by Web Crypto, and held against
 * Discord's own library.
 */
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { verifyKey } from "discord-interactions";
import { discord } from "../../examples/discord.ts";
import { variablesIn } from "../../core/env.ts";
import { defineApp, HttpError, VariableError } from "../../mod.ts";
import { checkContentTypes, startTestBot, type TestBot } from "../../testing/mod.ts";
import { preparePlatform } from "../../webhook/platform.ts";

const PUBLIC_KEY = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
const PRIVATE_KEY = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";

const TIME = "1700000000";
const BODY = '{"id":"1180000000000000001","type":1}';
const SIGNATURE =
  "aa077450c437518a42b416ad0451dbe6ee09827e4a0f195e4bafe6b422bf9d8490618d8a3dd3bc02f5faba53f713e9e6fe76348fde2f5957a0c21d94c9589600";

const encoder = new TextEncoder();

interface Change {
  readonly signature?: string;
  readonly time?: string;
  readonly body?: string;
}

/** Verifies that request, with changes. */
async function verify({ signature = SIGNATURE, time = TIME, body = BODY }: Change = {}) {
  const { verifyHead } = preparePlatform(
    discord(),
    variablesIn({ DISCORD_PUBLIC_KEY: PUBLIC_KEY }, () => {}),
  );
  const headers = new Headers({ "X-Signature-Ed25519": signature, "X-Signature-Timestamp": time });
  return await verifyHead(headers)({ bytes: encoder.encode(body) });
}

Deno.test("discord() verifies a signature of OpenSSL", async () => {
  using _time = new FakeTime(Number(TIME) * 1_000);
  await verify();
});

const CHANGES: Readonly<Record<string, Change>> = {
  "another body": { body: `${BODY} ` },
  "an empty body": { body: "" },
  "another time": { time: "1700000001" },
  "a digit moved from the body to the time": { time: `${TIME}{`, body: BODY.slice(1) },
  "a digit moved from the time to the body": { time: TIME.slice(0, -1), body: `0${BODY}` },
  "no time": { time: "" },
  "no signature": { signature: "" },
  "another signature": { signature: "00".repeat(64) },
  "a part of the signature": { signature: SIGNATURE.slice(0, -2) },
  "two signatures": { signature: `${SIGNATURE}, ${SIGNATURE}` },
};

for (const [what, change] of Object.entries(CHANGES)) {
  Deno.test(`discord() refuses that request with ${what}`, async () => {
    using _time = new FakeTime(Number(TIME) * 1_000);
    const isMoved = what === "a digit moved from the time to the body";
    const { status, code } = await assertRejects(() => verify(change), HttpError);
    assertEquals([status, code], [401, isMoved ? "STALE_SIG" : "INVALID_SIG"]);
  });
}

Deno.test("discord() refuses a request that is over 5 minutes old, or of the future", async () => {
  for (const ms of [-300_001, 300_001]) {
    using _time = new FakeTime(Number(TIME) * 1_000 + ms);
    assertEquals((await assertRejects(() => verify(), HttpError)).code, "STALE_SIG");
  }
});

Deno.test("discord() refuses a key that is none, and does not quote it", () => {
  for (const key of ["", "abc", `${PUBLIC_KEY}00`, PUBLIC_KEY.replace("d", "x")]) {
    const prepare = () =>
      preparePlatform(discord(), variablesIn({ DISCORD_PUBLIC_KEY: key }, () => {}));
    assertThrows(prepare, VariableError, "DISCORD_PUBLIC_KEY");
  }
});

Deno.test("discord() refuses a key that anybody can sign for", () => {
  const zeros = "00".repeat(32);
  const weak = [zeros, `${zeros.slice(0, -2)}80`, `01${"00".repeat(31)}`, `ec${"ff".repeat(30)}7f`];
  for (const key of weak) {
    const prepare = () =>
      preparePlatform(discord(), variablesIn({ DISCORD_PUBLIC_KEY: key }, () => {}));
    assertThrows(
      prepare,
      VariableError,
      "DISCORD_PUBLIC_KEY is a public key that anybody can sign",
    );
  }
});

/** The private key in the frame that PKCS #8 has for such keys. */
const signingKey = await crypto.subtle.importKey(
  "pkcs8",
  Uint8Array.fromHex(`302e020100300506032b657004220420${PRIVATE_KEY}`),
  "Ed25519",
  false,
  ["sign"],
);

/** Makes a request as Discord sends it. */
async function requestOf(
  interaction: object | string,
  { sentAt = Date.now(), change = "" } = {},
) {
  const body = typeof interaction === "string" ? interaction : JSON.stringify(interaction);
  const time = String(Math.floor(sentAt / 1_000));
  const signature = await crypto.subtle.sign("Ed25519", signingKey, encoder.encode(time + body));
  const headers = new Headers({
    "Content-Type": "application/json",
    "X-Signature-Ed25519": new Uint8Array(signature).toHex(),
    "X-Signature-Timestamp": time,
  });
  return { platform: "discord", method: "POST", headers, body: body + change } as const;
}

/** Sends an interaction as Discord does. */
async function send(
  test: TestBot,
  interaction: object | string,
  options?: { sentAt?: number; change?: string },
) {
  return await test.deliver(await requestOf(interaction, options));
}

/** Starts a bot, and notes what it handles. */
async function startBot(): Promise<{ test: TestBot; handled: unknown[] } & AsyncDisposable> {
  const handled: unknown[] = [];
  const bot = defineApp({ name: "my-bot", platform: discord() });
  bot.on("command.deploy", ({ payload }) => handled.push(`deploy: ${payload.data.name}`));
  bot.on("command", ({ payload }) => handled.push(`command: ${payload.data.name}`));
  bot.on("component", ({ payload }) => handled.push(payload.data.custom_id));
  bot.onOther(({ type }) => handled.push(type));
  const test = await startTestBot(bot, { env: { DISCORD_PUBLIC_KEY: PUBLIC_KEY } });
  return { test, handled, [Symbol.asyncDispose]: () => test[Symbol.asyncDispose]() };
}

const command = (name: string, id = "1180000000000000001") => ({ id, type: 2, data: { name } });

Deno.test("discord() answers a ping itself, if it is signed", async () => {
  await using sut = await startBot();
  const { status, text, event } = await send(sut.test, { id: "1", type: 1 });
  assertEquals([status, text, event], [200, '{"type":1}', undefined]);
  const changed = await send(sut.test, { id: "1", type: 1 }, { change: " " });
  assertEquals([changed.status, changed.code], [401, "INVALID_SIG"]);
});

Deno.test("discord() defers the answer to a command, and hands it to the bot once", async () => {
  await using sut = await startBot();
  for (const sentAt of [Date.now(), Date.now() + 60_000]) {
    const { status, text, event } = await send(sut.test, command("deploy"), { sentAt });
    assertEquals([status, text], [200, '{"type":5}']);
    assertEquals(event?.id, "discord:1180000000000000001");
  }
  assertEquals(sut.handled, ["deploy: deploy", "command: deploy"]);
});

Deno.test("discord() takes commands of any name, buttons, and kinds that are new", async () => {
  await using sut = await startBot();
  const answers = [
    await send(sut.test, command("Report message \u{1f600}", "1")),
    await send(sut.test, { id: "2", type: 3, data: { custom_id: "ok" } }),
    await send(sut.test, { id: "3", type: 99 }),
  ];
  assertEquals(answers.map(({ text }) => text), ['{"type":5}', '{"type":6}', '{"type":5}']);
  assertEquals(sut.handled, ["command: Report message \u{1f600}", "ok", "interaction"]);
});

Deno.test("discord() answers autocompletion with no choices, and stores nothing", async () => {
  await using sut = await startBot();
  const { text, event } = await send(sut.test, { ...command("deploy"), type: 4 });
  assertEquals([text, event], ['{"type":8,"data":{"choices":[]}}', undefined]);
});

Deno.test("discord() refuses what is changed, stale or unsigned, end to end", async () => {
  await using sut = await startBot();
  const changed = await send(sut.test, command("deploy"), { change: " " });
  assertEquals([changed.status, changed.code], [401, "INVALID_SIG"]);
  const stale = await send(sut.test, command("deploy"), { sentAt: Date.now() - 302_000 });
  assertEquals([stale.status, stale.code], [401, "STALE_SIG"]);
  const unsigned = await sut.test.fetch("/discord", { method: "POST", body: BODY });
  assertEquals(unsigned.status, 401);
  await unsigned.body?.cancel();
  assertEquals(sut.handled, []);
});

Deno.test("discord() reads its deliveries by the body, whatever their content type", async () => {
  const env = { DISCORD_PUBLIC_KEY: PUBLIC_KEY };
  await checkContentTypes(discord(), (text) => requestOf({ ...command("deploy"), text }), { env });
});

Deno.test("discord() takes what Discord's library takes, and refuses what that refuses", async () => {
  await using sut = await startBot();
  for (const change of ["", " ", "{}"]) {
    const sent = await requestOf(command("deploy", `1${change.length}`), { change });
    const [signature, time] = ["X-Signature-Ed25519", "X-Signature-Timestamp"]
      .map((name) => sent.headers.get(name)!) as [string, string];
    const isTaken = await verifyKey(sent.body, signature, time, PUBLIC_KEY);
    assertEquals(isTaken, change === "");
    assertEquals((await sut.test.deliver(sent)).status, isTaken ? 200 : 401);
  }
  assertEquals(await verifyKey(BODY, SIGNATURE, TIME, PUBLIC_KEY), true);
});
