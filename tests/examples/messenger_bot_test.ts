import { assertEquals } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { startApp } from "../../dev/harness/start_app.ts";
import { messengerUpdate, startTestBot, TEST_SECRETS } from "../../testing/mod.ts";
import type { EventRecord, EventStore } from "../../events/mod.ts";
import { byChat } from "../../webhook/mod.ts";
import { testWith } from "../_permissions.ts";
import { type StandIn, startStandIn } from "./_stand_in.ts";

const NEEDS = ["net", "read", "write", "run", "env"] as const;

const REPORT = ["incidents", "costs", "plans"].map((each) => `On ${each}: nothing to worry about.`);

const realTimeout = setTimeout;

const message = (chat: number, text: string) =>
  messengerUpdate({
    message: { message_id: 1, from: { id: 42 }, chat: { id: chat, type: "private" }, text },
  });

/** Messages to a chat. */
const saidIn = (api: StandIn, chat: number): string[] =>
  api.calls.filter(({ body }) => body.chat_id === chat).map(({ body }) => body.text);

testWith(NEEDS, "examples/messenger_bot.ts answers each chat in its order", async () => {
  await using api = startStandIn(() => undefined);
  await using bot = startApp({
    script: new URL("../../examples/messenger_bot.ts", import.meta.url),
    env: {
      MESSENGER_SECRET_TOKEN: TEST_SECRETS.messenger,
      MESSENGER_ALLOWED_USERS: "42",
      MESSENGER_API_URL: api.url,
      MESSENGER_BOT_TOKEN: "1234:token",
      CHAPTER_MS: "100",
      KV_URL: ":memory:",
    },
    text: true,
  });
  const url = `${await bot.url}/webhook`;
  for (const text of ["hello", "Ada", "/report", "thanks"]) {
    assertEquals(await (await fetch(url, message(1, text))).text(), "OK");
  }
  await api.until(3);
  await (await fetch(url, message(2, "hello"))).text();
  await api.until(7);
  assertEquals(api.calls[0]?.path, "/bot1234:token/sendMessage");
  const greeting = ["What is your name?", "I can /report, Ada."];
  assertEquals(saidIn(api, 1), [...greeting, ...REPORT, "I can /report, Ada."]);
  assertEquals(saidIn(api, 2), ["What is your name?"]);
  const texts = api.calls.map(({ body }) => body.text);
  assertEquals(texts.lastIndexOf("What is your name?") < texts.indexOf(REPORT[2]), true);
  assertEquals(await bot.stop(), 0);
});

/** The event that runs. */
async function runningIn(store: EventStore): Promise<EventRecord | undefined> {
  const [record] = await Array.fromAsync(store.list({ state: "running" }));
  return record;
}

testWith(
  ["net", "env"],
  "examples/messenger_bot.ts writes for longer than a minute, once",
  async () => {
    await using api = startStandIn(() => undefined);
    Deno.env.set("MESSENGER_API_URL", api.url);
    const { handleEvent } = await import("../../examples/messenger_bot.ts");
    using time = new FakeTime();
    const options = { messenger: { orderBy: byChat }, timeoutMs: 600_000 };
    await using bot = await startTestBot(handleEvent, options);
    for (const text of ["hello", "Ada"]) await bot.deliver(message(1, text));
    const start = Date.now();
    const reporting = bot.deliver(message(1, "/report"));
    for (let seconds = 0; seconds < 300 && api.calls.length < 5; seconds++) {
      time.tick(1_000);
      // The lease is renewed each 10 s, in real time: the clock waits for that.
      do await new Promise((resolve) => realTimeout(resolve, 1)); while (
        ((await runningIn(bot.store))?.lease?.until ?? Infinity) - Date.now() < 18_000
      );
    }
    const { event } = await reporting;
    assertEquals([event?.state, event?.attempt], ["done", 1]);
    assertEquals(saidIn(api, 1).slice(2), REPORT);
    assertEquals(Date.now() - start >= 75_000, true);
    Deno.env.delete("MESSENGER_API_URL");
  },
);
