import { assert, assertEquals, assertRejects } from "@std/assert";
import {
  type App,
  defineApp,
  github,
  GiveUpError,
  kv,
  type LogRecord,
  openApp,
  openEventStore,
  RetryLaterError,
} from "../../mod.ts";
import { events, runSchedule, type ScheduleOptions, type SlotPayload } from "../../app/mod.ts";
import { forgeDelivery, startTestBot } from "../../testing/mod.ts";
import { until } from "../../dev/harness/until.ts";
import { valueAt } from "../events/store/kv/_values.ts";

const ENV = { GITHUB_WEBHOOK_SECRET: "It's a Secret to Everybody" };

const DAY_MS = 86_400_000;

const bare = (strict = false): App => defineApp({ name: "bot", platform: github(), strict });

/** An app with a schedule that notes its slots. */
function scheduled(expression = "0 7 * * *", options?: ScheduleOptions) {
  const slots: SlotPayload[] = [];
  const bot = bare();
  bot.schedule("digest", expression, ({ payload }) => void slots.push(payload), options);
  return { bot, slots };
}

/** Opens an app on a KV until an event has ended, and gives its record. */
async function handledBy(app: App, own: Deno.Kv, id: string) {
  const opened = await openApp(app, { env: ENV, store: kv(own), log: () => {} });
  try {
    const settled = async () => {
      await opened.worker.poll();
      const { state, attempts } = (await opened.store.get(id))!;
      return state === "done" || state === "dead" || attempts.length > 0;
    };
    await until(settled, 20_000);
    return (await opened.store.get(id))!;
  } finally {
    await opened.stop();
  }
}

Deno.test("schedule() hands slots to its handler, with the app's parts and within its middleware", async () => {
  const seen: unknown[] = [];
  const bot = defineApp({
    name: "bot",
    platform: github(),
    resources: () => ({ greeting: "hi" }),
  });
  bot.use(async ({ type, platform }, _, next) => {
    seen.push(`${platform} ${type}`);
    await next();
  });
  bot.onAny(() => seen.push("platform's"));
  bot.schedule("digest", "0 7 * * *", ({ payload, id }, { resources, settleWith }) => {
    const { name, madeUp } = payload;
    seen.push(name, madeUp, id, resources.greeting);
    settleWith((commit) => commit.set(["sent", payload.at], true));
  });
  await using test = await startTestBot(bot);
  await test.advance(DAY_MS);
  const [entry] = await Array.fromAsync(test.db.list({ prefix: ["sent"] }));
  const slot = String(entry?.key[1]);
  assertEquals(slot.slice(10), "T07:00:00Z");
  const id = `schedule:digest:${slot}`;
  assertEquals(seen, ["schedule digest", "digest", false, id, "hi"]);
  const { bot: other } = scheduled();
  assertEquals(other.schedules, [{
    ...{ name: "digest", expression: "0 7 * * *", timeZone: "UTC", missed: "last" },
  }]);
});

Deno.test("a slot that fails is tried again, and the next one waits for it", async () => {
  const seen: string[] = [];
  const bot = bare();
  bot.schedule("digest", "*/10 * * * *", ({ payload, attempt }) => {
    seen.push(`${payload.at.slice(15, 16)} ${attempt}`);
    if (seen.length === 1) throw new Error("no");
    if (seen.length === 2) throw new RetryLaterError("later", { afterMs: 15 * 60_000 });
  });
  await using test = await startTestBot(bot);
  await test.advance(40 * 60_000, { expectFailure: true });
  assertEquals(seen.slice(0, 3), ["0 1", "0 2", "0 2"]);
  assertEquals(seen.length, 6);
  const ids = await Array.fromAsync(test.store.list({ state: "done" }), ({ id }) => id);
  assertEquals(ids.length, 4);
});

Deno.test("a schedule's handler emits events, and its dead events are reported", async () => {
  const jobs = events<{ send: { at: string } }>("jobs");
  const seen: string[] = [];
  const bot = bare();
  bot.from(jobs).on("send", ({ payload }) => void seen.push(`job ${typeof payload.at}`));
  bot.onDead(({ payload }) => void seen.push(`dead ${payload.type}`));
  bot.schedule("digest", "@daily", ({ payload }, { emit }) => {
    emit(jobs, "send", { at: payload.at });
  });
  bot.schedule("broken", "@daily", () => {
    throw new GiveUpError("no");
  });
  await using test = await startTestBot(bot);
  await test.run("digest");
  await test.run("broken", { expectFailure: true });
  assertEquals(seen, ["job string", "dead broken"]);
});

Deno.test("an event of a schedule that is gone is ignored, like others without a handler", async () => {
  for (const [strict, outcome] of [[false, "ignored"], [true, "failed"]] as const) {
    using kv = await Deno.openKv(":memory:");
    const store = await openEventStore(kv, { namespace: "bot" });
    const id = await runSchedule(store, "digest");
    assertEquals((await handledBy(bare(strict), kv, id)).outcome, outcome);
  }
});

Deno.test("an event that a schedule had begun with dies when the schedule is gone", async () => {
  using kv = await Deno.openKv(":memory:");
  const id = await runSchedule(await openEventStore(kv, { namespace: "bot" }), "digest");
  const failing = bare();
  failing.schedule("digest", "@daily", () => {
    throw new Error("no");
  }, { id: "send" });
  assertEquals((await handledBy(failing, kv, id)).state, "queued");
  const store = await openEventStore(kv, { namespace: "bot" });
  await store.cancel(id);
  await store.replay(id);
  const { state, outcome } = await handledBy(bare(), kv, id);
  assertEquals([state, outcome], ["dead", "failed"]);
});

Deno.test("openApp() reads expressions before it opens anything, and the library only if there are any", async () => {
  let opened = 0;
  const bot = defineApp({ name: "bot", platform: github(), resources: () => ++opened });
  bot.schedule("digest", "0 25 * * *", () => {});
  await assertRejects(
    () => openApp(bot, { env: { ...ENV, KV_URL: "/nowhere/kv.db" }, log: () => {} }),
    SyntaxError,
    "Cannot open the schedule 'digest': the cron expression is not valid (Invalid value for hour: 25), got " +
      '"0 25 * * *"',
  );
  assertEquals(opened, 0);
});

Deno.test("openApp() begins a schedule, and leaves no timer when it stops", async () => {
  const logs: LogRecord[] = [];
  const { bot } = scheduled("0 7 * * 1-5", { timeZone: "Europe/Berlin" });
  const env = { ...ENV, KV_URL: ":memory:" };
  const opened = await openApp(bot, { env, log: (record) => void logs.push(record) });
  const begun = () => logs.find(({ message }) => message === "cron schedule begins");
  await until(() => begun() !== undefined, 20_000);
  assertEquals([begun()!.schedule, begun()!.timeZone], ["digest", "Europe/Berlin"]);
  const { plan } = await valueAt<{ plan: string }>(opened.db as Deno.Kv, ["bot", "cron", "digest"]);
  assertEquals(plan, "0 7 * * 1-5 Europe/Berlin");
  await opened.stop();
});

Deno.test("openApp() that is stopped at once logs nothing of schedules", async () => {
  const logs: LogRecord[] = [];
  const { bot } = scheduled();
  const env = { ...ENV, KV_URL: ":memory:" };
  await (await openApp(bot, { env, log: (record) => void logs.push(record) })).stop();
  assertEquals(logs.filter(({ level }) => level === "error"), []);
});

Deno.test("the events of a platform and of schedules do not mix", async () => {
  const seen: string[] = [];
  const bot = bare();
  bot.on("digest", ({ intake }) => void seen.push(`on ${intake}`));
  bot.schedule("digest", "@daily", ({ intake }) => void seen.push(`schedule ${intake}`));
  await using test = await startTestBot(bot);
  await test.deliver(forgeDelivery("digest", {}));
  await test.run("digest");
  assertEquals(seen, ["on github", "schedule schedule"]);
  assert(bot.platforms.length === 1);
});
