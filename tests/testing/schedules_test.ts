import { assert, assertEquals, assertRejects } from "@std/assert";
import { defineApp, github } from "../../mod.ts";
import { startTestBot } from "../../testing/mod.ts";

const HOUR_MS = 3_600_000;

const newBot = () => defineApp({ name: "bot", platform: github() });

/** The hours and minutes of slots. */
const timesIn = (slots: readonly string[]) => slots.map((at) => at.slice(11, 16));

Deno.test("advance() makes each slot on the way at its time, in their order, with the retries between", async () => {
  const slots: string[] = [];
  const lateMs: number[] = [];
  const bot = newBot();
  bot.schedule("hourly", "0 * * * *", ({ payload, attempt }) => {
    slots.push(`${payload.at} ${attempt}`);
    if (attempt === 1) throw new Error("once");
  });
  bot.schedule("quarter", "*/15 * * * *", ({ payload }) => {
    slots.push(payload.at);
    lateMs.push(Date.now() - Date.parse(payload.at));
  });
  await using test = await startTestBot(bot);
  await test.advance(3 * HOUR_MS, { expectFailure: true });
  assertEquals(slots.filter((each) => each.endsWith("1")).length, 3);
  // The last one may come so late that its retry does not.
  assert(slots.filter((each) => each.endsWith("2")).length >= 2);
  const quarters = slots.filter((each) => each.endsWith("Z"));
  assertEquals([quarters.length, quarters], [12, quarters.toSorted()]);
  assertEquals(lateMs.filter((ms) => ms < 0 || ms > 5_000), []);
});

Deno.test("advance() makes as many slots whatever time a test itself takes", async () => {
  const slots: string[] = [];
  const bot = newBot();
  bot.schedule("minute", "* * * * *", async ({ payload }) => {
    slots.push(payload.at);
    await new Promise((resolve) => setTimeout(resolve, 5));
  });
  await using test = await startTestBot(bot);
  for (let i = 0; i < 10; i++) await test.advance(6_000);
  assertEquals(slots.length, 1);
  for (let i = 0; i < 10; i++) await test.advance(60_000);
  assertEquals([slots.length, new Set(slots).size], [11, 11]);
});

Deno.test("startTestBot() makes no slot by itself, and run() fires one at once", async () => {
  const bot = newBot();
  const seen: string[] = [];
  bot.schedule("digest", "* * * * *", ({ payload }) => void seen.push(payload.name));
  bot.schedule("broken", "@yearly", () => {
    throw new Error("no");
  });
  await using test = await startTestBot(bot);
  const first = await test.run("digest");
  assertEquals([first.state, first.type, first.intake], ["done", "digest", "schedule"]);
  assertEquals((await test.run("digest")).id === first.id, false);
  assertEquals(seen, ["digest", "digest"]);
  await assertRejects(() => test.run("broken"), Error, "{ expectFailure: true })");
  const failed = await test.run("broken", { expectFailure: true });
  assertEquals(failed.state, "queued");
  await assertRejects(
    () => test.run("weekly"),
    TypeError,
    'Cannot run the schedule: the app has no schedule "weekly". It has digest, broken',
  );
});

Deno.test("startTestBot() sets no timer for schedules", async () => {
  const bot = newBot();
  bot.schedule("digest", "@yearly", () => {});
  const { setTimeout } = globalThis;
  const delays: unknown[] = [];
  globalThis.setTimeout = ((...args: Parameters<typeof setTimeout>) => {
    delays.push(args[1]);
    return setTimeout(...args);
  }) as typeof setTimeout;
  try {
    await using test = await startTestBot(bot);
    await test.advance(1_000);
  } finally {
    globalThis.setTimeout = setTimeout;
  }
  // A minute is the time until the next look at a schedule that is not due; and the limit of a look itself.
  assertEquals(delays.filter((ms) => ms === 60_000).length, 1);
});

Deno.test("advance() follows a time zone", async () => {
  const slots: string[] = [];
  const bot = newBot();
  bot.schedule("morning", "0 7 * * *", ({ payload }) => void slots.push(payload.at), {
    timeZone: "Asia/Kolkata",
  });
  await using test = await startTestBot(bot);
  await test.advance(48 * HOUR_MS);
  assertEquals(timesIn(slots), ["01:30", "01:30"]);
});
