import { assert, assertEquals, assertMatch } from "@std/assert";
import { runToEnd, startApp } from "../../dev/harness/start_app.ts";
import { bot } from "../../examples/telegram_bot.ts";
import { messengerUpdate, startTestBot, TEST_SECRETS, type TestBot } from "../../testing/mod.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { optionsOf, startExample } from "./_run_bot.ts";
import type { ApiCall } from "./_stand_in.ts";
import { BOT_TOKEN, refusal, startTelegram, type Telegram } from "./_telegram.ts";

const [ASK, KNOWN] = ["What is your name?", "I can /report, Ada."];

const REPORT = ["incidents", "costs", "plans"].map((each) => `On ${each}: nothing to worry about.`);

const message = (text?: string, chat = 1) =>
  messengerUpdate({
    message: { message_id: 1, from: { id: 42 }, chat: { id: chat, type: "private" }, text },
  });

const envOf = (api: { readonly url: string }) => ({
  ...{ TELEGRAM_BOT_TOKEN: BOT_TOKEN, TELEGRAM_API_URL: api.url, CHAPTER_MS: "1" },
});

/** Tests the bot in this process, against a stand-in for Telegram's API. */
function testBot(
  name: string,
  trouble: (call: ApiCall, count: number) => Response | undefined,
  fn: (test: TestBot, api: Telegram) => Promise<void>,
): void {
  testWith(["net"], `examples/telegram_bot.ts ${name}`, async () => {
    let count = 0;
    await using api = startTelegram((call) => trouble(call, ++count));
    await using test = await startTestBot(bot, { env: envOf(api) });
    await fn(test, api);
  });
}

const fine = () => undefined;

testBot("asks for a name, remembers it, and reports", fine, async (test, api) => {
  for (const text of ["/start", "Ada", "/report", "thanks"]) await test.deliver(message(text));
  assertEquals(api.saidIn(1), [ASK, KNOWN, ...REPORT, KNOWN]);
});

testBot("asks again where the answer has no text", fine, async (test, api) => {
  for (const text of ["/start", undefined, "Ada"]) await test.deliver(message(text));
  assertEquals(api.saidIn(1), [ASK, ASK, KNOWN]);
});

testBot("remembers a name for each chat", fine, async (test, api) => {
  for (const chat of [1, 2]) await test.deliver(message("hello", chat));
  for (const [chat, name] of [[1, "Ada"], [2, "Grace"]] as const) {
    await test.deliver(message(name, chat));
  }
  assertEquals([api.saidIn(1)[1], api.saidIn(2)[1]], [
    KNOWN,
    "I can /report, Grace.",
  ]);
});

const breaksAt4 = (_: ApiCall, count: number) =>
  count === 4 ? new Response("<html>", { status: 502 }) : undefined;

testBot("goes on with the chapter that failed", breaksAt4, async (test, api) => {
  for (const text of ["/start", "Ada"]) await test.deliver(message(text));
  const { event } = await test.deliver(message("/report"), { expectFailure: true });
  assertEquals([event?.state, api.saidIn(1).length], ["queued", 3]);
  await test.advance(2_000);
  assertEquals(api.saidIn(1), [ASK, KNOWN, ...REPORT]);
});

const limited = (_: ApiCall, count: number) =>
  count === 1 ? refusal(429, "Too Many Requests: retry after 60", { retry_after: 60 }) : undefined;

testBot("puts a message off for as long as Telegram asks for", limited, async (test, api) => {
  const { event } = await test.deliver(message("/start"));
  assertEquals([event?.state, event?.attempt, event?.delayMs], ["queued", 0, 60_000]);
  await test.advance(50_000);
  assertEquals(api.calls.length, 1);
  await test.advance(10_000);
  assertEquals(api.saidIn(1), [ASK]);
});

const REFUSALS = {
  403: "Forbidden: bot was blocked by the user",
  400: "Bad Request: chat not found",
} as const;

for (const [code, text] of Object.entries(REFUSALS)) {
  testBot(
    `gives up a chat that is closed: ${code}`,
    ({ body }) => body.chat_id === 1 ? refusal(Number(code), text) : undefined,
    async (test, api) => {
      const { event } = await test.deliver(message("/start"), { expectFailure: true });
      assertEquals([event?.state, event?.attempt, api.calls.length], ["dead", 1, 1]);
      assertMatch(event?.attempts.at(-1)?.error ?? "", new RegExp(text));
      await test.deliver(message("/start", 2));
      assertEquals(api.saidIn(2), [ASK]);
    },
  );
}

testWith(["net"], "examples/telegram_bot.ts keeps its token out of the log", async () => {
  const api = startTelegram();
  await api[Symbol.asyncDispose]();
  await using test = await startTestBot(bot, { env: envOf(api) });
  const { event } = await test.deliver(message("/start"), { expectFailure: true });
  assertEquals(event?.state, "queued");
  assert(test.logs.some(({ error }) => error !== undefined));
  assertEquals(JSON.stringify([test.logs, event]).includes(BOT_TOKEN), false);
});

const NEEDS = ["net", "read", "write", "run", "env"] as const;

const SECRETS = { TELEGRAM_SECRET_TOKEN: TEST_SECRETS.messenger, TELEGRAM_ALLOWED_USERS: "42" };

testWith(NEEDS, "examples/telegram_bot.ts runs as its header says, behind a proxy", async () => {
  await using api = startTelegram();
  const env = { ...envOf(api), ...SECRETS, CHAPTER_MS: "100", TRUSTED_PROXY_HOPS: "1" };
  await using app = await startExample("telegram_bot.ts", env);
  const url = `${await app.url}/webhook`;
  for (const text of ["hello", "Ada", "/report", "thanks"]) {
    const update = message(text);
    update.headers.set("X-Forwarded-For", "203.0.113.9, 198.51.100.7");
    assertEquals(await (await fetch(url, update)).text(), "OK");
  }
  assertEquals((await app.line(({ message }) => message === "request")).ip, "198.51.100.7");
  await api.until(3);
  await (await fetch(url, message("hello", 2))).text();
  await api.until(7);
  assertEquals(api.saidIn(1), [ASK, KNOWN, ...REPORT, KNOWN]);
  assertEquals(api.saidIn(2), [ASK]);
  const texts = api.calls.map(({ body }) => body.text);
  assert(texts.lastIndexOf(ASK) < texts.indexOf(REPORT[2]), "chats waited");
  assertEquals(await app.stop(), 0);
});

const stopsAt4 = (count: number) =>
  count === 4 ? refusal(429, "Too Many Requests", { retry_after: 1 }) : undefined;

testWith(NEEDS, "examples/telegram_bot.ts goes on with a report after a restart", async () => {
  let count = 0;
  await using api = startTelegram(() => stopsAt4(++count));
  await withFolder(async (folder) => {
    const env = { ...envOf(api), ...SECRETS, SQLITE_FILE: "data/bot.db" };
    await Deno.mkdir(`${folder}/data`);
    const started = { ...await optionsOf("telegram_bot.ts", env), cwd: folder };
    {
      await using app = startApp(started);
      const url = `${await app.url}/webhook`;
      for (const text of ["hello", "Ada", "/report"]) {
        await (await fetch(url, message(text))).text();
      }
      await api.until(4);
      const start = performance.now();
      assertEquals(await app.stop(), 0);
      assert(performance.now() - start < 3_500, "the grace of 4 s has passed");
    }
    await using app = startApp(started);
    await api.until(6);
    assertEquals(await app.stop(), 0);
  });
  assertEquals(api.saidIn(1), [ASK, KNOWN, ...REPORT]);
});

testWith(NEEDS, "examples/telegram_bot.ts names all variables that are missing", async () => {
  const { code, stderr } = await runToEnd(await optionsOf("telegram_bot.ts", {}));
  assertEquals([code, stderr.split("\n").at(-1)], [
    1,
    "Cannot start telegram-bot: TELEGRAM_SECRET_TOKEN is not set; TELEGRAM_BOT_TOKEN is not set",
  ]);
});
