import {
  assert,
  assertEquals,
  assertGreaterOrEqual,
  assertLess,
  assertRejects,
  assertStrictEquals,
} from "@std/assert";
import {
  byChat,
  createEventRouter,
  defineApp,
  type EventHandler,
  github,
  GiveUpError,
  RetryLaterError,
  sqlite,
  telegram,
} from "../../mod.ts";
import { events } from "../../app/mod.ts";
import { forgeDelivery, messengerUpdate, startTestBot } from "../../testing/mod.ts";
import type { ForgeOptions } from "../../webhook/mod.ts";
import { botOf, type BotOptions } from "./_bots.ts";

const HOUR_MS = 3_600_000;

const later = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

Deno.test("startTestBot() delivers, and waits until the handler is through", async () => {
  const handled: string[] = [];
  await using bot = await startTestBot(botOf(async ({ id, payload }) => {
    await later(20);
    handled.push(`${id}: ${payload.ref}`);
  }));
  const { status, text, code, event } = await bot.deliver(
    forgeDelivery("push", { ref: "main" }, { id: "d1" }),
  );
  assertEquals([status, text, code], [200, "OK", null]);
  assertEquals([event?.state, event?.id], ["done", "forge:d1"]);
  assertEquals(handled, ["forge:d1: main"]);
});

Deno.test("startTestBot() reports a duplicate by the first one's event", async () => {
  let calls = 0;
  await using bot = await startTestBot(botOf(() => calls++));
  const delivery = () => forgeDelivery("push", {}, { id: "d1" });
  await bot.deliver(delivery());
  assertEquals((await bot.deliver(delivery())).event?.state, "done");
  assertEquals(calls, 1);
});

Deno.test("startTestBot() has a clock that is moved on from retry to retry", async () => {
  const times: number[] = [];
  const fail: EventHandler = () => {
    times.push(Date.now());
    throw new Error("never");
  };
  await using bot = await startTestBot(botOf(fail));
  const { event } = await bot.deliver(forgeDelivery("push", {}), { expectFailure: true });
  assertEquals([event?.state, event?.attempt], ["queued", 1]);
  for (let i = 0; i < 40; i++) await bot.advance(1.25 * HOUR_MS, { expectFailure: true });
  const { state, attempt } = (await bot.store.get(event!.id))!;
  assertEquals([state, attempt], ["dead", 36]);
  assertGreaterOrEqual(times.at(-1)! - times[0]!, 24 * HOUR_MS);
  assert(bot.logs.some(({ message }) => message === "event failed for the last time, now dead"));
});

Deno.test("advance() runs all retries that are due on the way", async () => {
  const options = { worker: { retry: { minDelayMs: 1_000, maxAttempts: 4 } } };
  let attempts = 0;
  const app = botOf(() => {
    attempts++;
    throw new Error("never");
  }, options);
  await using bot = await startTestBot(app);
  const { event } = await bot.deliver(forgeDelivery("push", {}), { expectFailure: true });
  const start = Date.now();
  await bot.advance(60_000, { expectFailure: true });
  assertEquals([(await bot.store.get(event!.id))?.state, attempts], ["dead", 4]);
  assertLess(Math.abs(Date.now() - start - 60_000), 5_000);
  for (const ms of [-1, NaN, Infinity, 1e17, "1s" as never]) {
    await assertRejects(() => bot.advance(ms), RangeError, "Cannot advance the time");
  }
});

Deno.test("startTestBot() takes an event that is put off for no failure", async () => {
  let calls = 0;
  await using bot = await startTestBot(botOf(() => {
    if (++calls === 1) throw new RetryLaterError("Rate limit", { afterMs: HOUR_MS });
  }));
  const { event } = await bot.deliver(forgeDelivery("push", {}));
  assertEquals([event?.state, event?.attempt, event?.delayMs], ["queued", 0, HOUR_MS]);
  await bot.advance(HOUR_MS);
  assertEquals((await bot.store.get(event!.id))?.state, "done");
});

Deno.test("startTestBot() keeps a running handler while the clock is moved", async () => {
  const released = Promise.withResolvers<void>();
  let starts = 0;
  await using bot = await startTestBot(botOf(async () => {
    starts++;
    await released.promise;
  }));
  const delivering = bot.deliver(forgeDelivery("push", {}));
  await later(20);
  const advancing = bot.advance(HOUR_MS);
  await later(50);
  released.resolve();
  await advancing;
  assertEquals([(await delivering).event?.state, starts], ["done", 1]);
});

Deno.test("startTestBot() gives the time back", async () => {
  const before = globalThis.Date;
  {
    await using bot = await startTestBot(botOf(() => {}));
    await bot.advance(HOUR_MS);
    await bot.advance(HOUR_MS);
    const real = new before().getTime();
    for (const now of [Date.now(), new Date().getTime(), Date.parse(Date())]) {
      assertLess(Math.abs(now - real - 2 * HOUR_MS), 5_000);
    }
    assertEquals(new Date(0).toISOString(), "1970-01-01T00:00:00.000Z");
    assert(new Date() instanceof Date && new Date() instanceof before);
    assertEquals(Date.UTC(1970, 0), 0);
  }
  assertEquals(globalThis.Date, before);
});

Deno.test("startTestBot() says which event is not handled in time", async () => {
  const released = Promise.withResolvers<void>();
  await using bot = await startTestBot(botOf(() => released.promise), { timeoutMs: 20 });
  const message = "were not handled within 20 ms: the handlers of forge:d1 (push) still run";
  await assertRejects(
    () => bot.deliver(forgeDelivery("push", {}, { id: "d1" })),
    Error,
    message,
  );
  released.resolve();
});

Deno.test("startTestBot() runs the platforms and the worker as they are defined", async () => {
  const messenger = { groupBy: byChat, unauthorized: "ignore" } as const;
  const options = { messenger, worker: { retry: { maxAttempts: 1 } } };
  const app = botOf(() => Promise.reject(new Error("no")), options);
  await using bot = await startTestBot(app, { env: { MESSENGER_ALLOWED_USERS: "42" } });
  const from = (id: number) => messengerUpdate({ message: { from: { id }, chat: { id: 7 } } });
  const { event } = await bot.deliver(from(42), { expectFailure: true });
  assertEquals([event?.state, event?.orderingKey], ["dead", "7"]);
  assertEquals((await bot.deliver(from(43))).status, 200);
  assertEquals((await bot.deliver(from(43))).event, undefined);
});

const TO_EXPECT = "If the test expects this, call deliver(delivery, { expectFailure: true })";

Deno.test("deliver() rejects with the error that the handler threw", async () => {
  const thrown = new TypeError("undefined is not a number");
  await using bot = await startTestBot(botOf(() => Promise.reject(thrown)));
  const deliver = () => bot.deliver(forgeDelivery("push", {}, { id: "d1" }));
  const { message, cause } = await assertRejects(deliver, Error);
  const what = "The handler of event forge:d1 (push) failed in attempt 1: see the cause. ";
  assertEquals(message, what + TO_EXPECT);
  assertStrictEquals(cause, thrown);
});

const dead: [string, unknown, BotOptions][] = [
  ["gives an event up", new GiveUpError("no use"), {}],
  ["fails for the last time", new Error("no"), { worker: { retry: { maxAttempts: 1 } } }],
  ["throws a text", "no", {}],
  ["throws nothing", undefined, {}],
];

for (const [what, thrown, options] of dead) {
  Deno.test(`deliver() rejects when the handler ${what}`, async () => {
    await using bot = await startTestBot(botOf(() => Promise.reject(thrown), options));
    const { cause } = await assertRejects(() => bot.deliver(forgeDelivery("push", {})), Error);
    assertStrictEquals(cause, thrown);
  });
}

const UNGROUPED: [string, (thrown: Error) => NonNullable<ForgeOptions["groupBy"]>, string][] = [
  ["throws", (thrown) => () => {
    throw thrown;
  }, "no group"],
  ["lacks 'interrupt'", () => () => ({ key: "k", newer: "interrupt" } as never), "'interrupt'"],
];

for (const [what, groupByOf, reason] of UNGROUPED) {
  Deno.test(`deliver() rejects when groupBy ${what}`, async () => {
    const groupBy = groupByOf(new TypeError("no group"));
    await using bot = await startTestBot(botOf(() => {}, { forge: { groupBy } }));
    const push = (id: string) => forgeDelivery("push", {}, { id });
    const { message, cause } = await assertRejects(() => bot.deliver(push("d1")), Error);
    const failed =
      "'groupBy' failed for the delivery d1 (push), whose event has no group: see the cause";
    assertEquals(message, `${failed}. ${TO_EXPECT}`);
    assert(cause instanceof TypeError && cause.message.includes(reason), String(cause));
    const { event } = await bot.deliver(push("d2"), { expectFailure: true });
    assertEquals([event?.outcome, event?.orderingKey], ["handled", null]);
  });
}

Deno.test("deliver() leaves the failure of groupBy to the call whose delivery it is", async () => {
  const groupBy: ForgeOptions["groupBy"] = ({ payload }) => {
    if (payload.ref === "wrong") throw new Error("no group");
    return undefined;
  };
  const [begun, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const handler = async ({ payload }: { readonly payload: { readonly ref?: unknown } }) => {
    if (payload.ref !== "wrong") return;
    begun.resolve();
    await ended.promise;
  };
  await using bot = await startTestBot(botOf(handler, { forge: { groupBy } }));
  const failing = assertRejects(() => bot.deliver(forgeDelivery("push", { ref: "wrong" })), Error);
  await begun.promise;
  const right = bot.deliver(forgeDelivery("push", { ref: "right" }));
  ended.resolve();
  assertEquals((await right).event?.outcome, "handled");
  await failing;
});

Deno.test("deliver() rejects when effects cannot be committed", async () => {
  await using bot = await startTestBot(botOf((_, { settleWith }) => {
    settleWith((commit) => commit.set(["key"], Symbol("no value")));
  }));
  await assertRejects(() => bot.deliver(forgeDelivery("push", {})), Error, TO_EXPECT);
});

Deno.test("deliver() resolves for an event that has no handler, or a handler that succeeds", async () => {
  await using bot = await startTestBot(botOf(createEventRouter().on("push", () => {}).handle));
  for (const type of ["push", "ping"]) {
    assertEquals((await bot.deliver(forgeDelivery(type, {}))).event?.state, "done");
  }
});

Deno.test("deliver() rejects for its own event only", async () => {
  const thrown = new Error("no");
  await using bot = await startTestBot(botOf(async ({ type }) => {
    await later(20);
    if (type === "push") throw thrown;
  }));
  const failing = assertRejects(() => bot.deliver(forgeDelivery("push", {})), Error);
  const { event } = await bot.deliver(forgeDelivery("issues", { action: "opened" }));
  assertEquals(event?.state, "done");
  assertStrictEquals((await failing).cause, thrown);
  await bot.advance(0);
});

Deno.test("advance() rejects with the error that a handler threw", async () => {
  const thrown = new Error("still not");
  await using bot = await startTestBot(botOf(() => Promise.reject(thrown)));
  const ids = ["d1", "d2"];
  for (const id of ids) {
    await bot.deliver(forgeDelivery("push", {}, { id }), { expectFailure: true });
  }
  const { message, cause } = await assertRejects(() => bot.advance(2_000), Error);
  assertEquals(
    message.replace(/d[12]/, "ID"),
    "The handler of event forge:ID (push) failed in attempt 2, the first of 2 failures: " +
      "see the cause. If the test expects this, call advance(ms, { expectFailure: true })",
  );
  assertStrictEquals(cause, thrown);
  await bot.advance(0);
});

/** Defines an app in which each push has a job emitted, whose handler fails in its first attempts. */
function emittingBot(failures: number, thrown = new Error("the job fails")) {
  const jobs = events<{ tidy: { ref: string } }>("jobs");
  const app = defineApp({ name: "emitting", platform: github() });
  app.on("push", ({ payload: { ref } }, { emit }) => void emit(jobs, "tidy", { ref }));
  app.from(jobs).on("tidy", ({ attempt, payload }) => {
    if (attempt <= failures && payload.ref !== "good") throw thrown;
  });
  return app;
}

Deno.test("deliver() rejects when the handler of an event fails that its own has emitted", async () => {
  const thrown = new TypeError("undefined is not a number");
  await using bot = await startTestBot(emittingBot(1, thrown));
  const deliver = () => bot.deliver(forgeDelivery("push", { ref: "main" }));
  const { message, cause } = await assertRejects(deliver, Error, TO_EXPECT);
  assert(/^The handler of event jobs:\S+ \(tidy\) failed in attempt 1: see/.test(message), message);
  assertStrictEquals(cause, thrown);
  await bot.advance(2_000);
});

Deno.test("advance() does not report a failure that deliver() has expected", async () => {
  await using bot = await startTestBot(emittingBot(1));
  await bot.deliver(forgeDelivery("push", { ref: "main" }), { expectFailure: true });
  await bot.advance(5_000);
  const states = await Array.fromAsync(bot.store.list(), ({ state }) => state);
  assertEquals(states, ["done", "done"]);
});

Deno.test("advance() reports what fails again after deliver() has expected a failure", async () => {
  await using bot = await startTestBot(emittingBot(2));
  await bot.deliver(forgeDelivery("push", { ref: "main" }), { expectFailure: true });
  await assertRejects(() => bot.advance(2_000), Error, "failed in attempt 2: see the cause");
  await bot.advance(5_000);
});

Deno.test("deliver() leaves a failure to the call whose event has emitted the one that failed", async () => {
  await using bot = await startTestBot(emittingBot(1));
  const deliver = (ref: string, expectFailure: boolean) =>
    bot.deliver(forgeDelivery("push", { ref }), { expectFailure });
  // The first one that is delivered is also the first one that ends.
  const [good, bad] = await Promise.allSettled([deliver("good", false), deliver("bad", false)]);
  assertEquals([good.status, bad.status], ["fulfilled", "rejected"]);
  const both = await Promise.all([deliver("good", false), deliver("bad", true)]);
  assertEquals(both.map(({ event }) => event?.outcome), ["handled", "handled"]);
  await bot.advance(0);
});

Deno.test("deliver() rejects when an event fails that its handler has woken", async () => {
  const app = defineApp({ name: "waiting", platform: github() });
  app.on("push", async (_event, { waitFor }) => {
    await waitFor("answer", { timeoutMs: HOUR_MS });
    throw new Error("woken, and failed");
  });
  app.on("ping", (_event, { wake }) => wake("answer", "yes"));
  await using bot = await startTestBot(app);
  assertEquals((await bot.deliver(forgeDelivery("push", {}))).event?.state, "parked");
  await assertRejects(() => bot.deliver(forgeDelivery("ping", {})), Error, "(push) failed");
});

Deno.test("deliver() leaves the retry of an earlier event to advance()", async () => {
  const retried = Promise.withResolvers<void>();
  const app = botOf(async ({ type, attempt }) => {
    if (type !== "push") return await retried.promise;
    if (attempt === 2) retried.resolve();
    if (attempt < 3) throw new Error("not yet");
  }, { worker: { pollMs: 20, retry: { minDelayMs: 1_000 } } });
  await using bot = await startTestBot(app);
  await bot.deliver(forgeDelivery("push", {}), { expectFailure: true });
  await bot.deliver(forgeDelivery("ping", {}));
  await assertRejects(() => bot.advance(1_000), Error, "failed in attempt 2: see the cause");
});

Deno.test("run() rejects when the handler of an event fails that its own has emitted", async () => {
  const app = emittingBot(1);
  const jobs = events<{ tidy: { ref: string } }>("jobs");
  app.schedule("digest", "@yearly", (_event, { emit }) => void emit(jobs, "tidy", { ref: "main" }));
  await using bot = await startTestBot(app);
  await assertRejects(() => bot.run("digest"), Error, 'call run("digest", { expectFailure');
  await bot.run("digest", { expectFailure: true });
  await bot.advance(5_000);
});

Deno.test("advance() reports once what has failed between calls", async () => {
  const app = defineApp({
    name: "routes",
    platform: github(),
    routes: (routes, { store }) =>
      routes.post("/emit", async (c) => c.text((await store.emit("jobs", "tidy", {})).id)),
  });
  app.from(events<{ tidy: object }>("jobs")).on("tidy", ({ attempt }) => {
    if (attempt === 1) throw new Error("no");
  });
  await using bot = await startTestBot(app);
  assertEquals((await bot.fetch("/emit", { method: "POST" })).status, 200);
  await assertRejects(() => bot.advance(0), Error, "(tidy) failed in attempt 1");
  await bot.advance(5_000);
});

Deno.test("advance() handles events together once it is quiet", async () => {
  const seen: string[][] = [];
  const platform = telegram({
    groupBy: ({ chat }) => chat && { key: String(chat.id), quietMs: 5_000, maxWaitMs: 12_000 },
  });
  const app = defineApp({ name: "bot", platform });
  app.on("message", ({ batch }) => {
    seen.push(batch.map(({ payload }) => payload.message.text ?? ""));
  });
  await using bot = await startTestBot(app);
  const send = (text: string) =>
    bot.deliver(messengerUpdate({ message: { chat: { id: 7 }, from: { id: 1 }, text } }));
  assertEquals((await send("1")).event?.state, "queued");
  await bot.advance(4_000);
  await send("2");
  await bot.advance(4_000);
  assertEquals(seen, []);
  await bot.advance(1_000);
  assertEquals(seen, [["1", "2"]]);
  // At most so long from the first one.
  for (const text of ["3", "4", "5", "6"]) {
    await send(text);
    await bot.advance(4_000);
  }
  assertEquals(seen.slice(1), [["3", "4", "5"]]);
  await bot.advance(5_000);
  assertEquals(seen.slice(2), [["6"]]);
});

Deno.test("advance() handles what is due now before the time passes", async () => {
  const app = defineApp({ name: "waiting", platform: github() });
  const runs: string[] = [];
  app.on("ping", async ({ receivedAt }, { waitFor }) => {
    const { value } = await waitFor<string>("answer", { timeoutMs: 5 * HOUR_MS });
    runs.push(`${value} after ${Date.now() - receivedAt < HOUR_MS ? "no" : "much"} time`);
  });
  await using test = await startTestBot(app);
  await test.deliver(forgeDelivery("ping", { zen: "", hook_id: 1 }));
  await test.store.wake("answer", "yes");
  await test.advance(2 * HOUR_MS);
  assertEquals(runs, ["yes after no time"]);
});

Deno.test("advance() runs each event at its own time, however far it goes", async () => {
  const bot = defineApp({ name: "bot", platform: github() });
  const jobs = bot.from(events<{ answer: Record<never, never> }>("jobs"));
  const seen: string[] = [];
  const start = Date.now();
  const hours = () => Math.round((Date.now() - start) / 3_600_000);
  bot.on("push", async (_event, { step, waitFor }) => {
    await step("ask", ({ emit }) => emit("jobs", "answer", {}, { delayMs: 3_600_000 }));
    const { timedOut } = await waitFor("answer", { timeoutMs: 7_200_000 });
    seen.push(`${timedOut ? "timed out" : "answered"} after ${hours()} h`);
  });
  jobs.on("answer", (_event, { wake }) => {
    seen.push(`answers after ${hours()} h`);
    wake("answer");
  });
  await using test = await startTestBot(bot);
  await test.deliver(forgeDelivery("push", {}));
  await test.advance(30 * 86_400_000);
  assertEquals(seen, ["answers after 1 h", "answered after 1 h"]);
});

Deno.test("advance() lets a group be quiet anew once a newer message has interrupted its handler", async () => {
  const bot = defineApp({
    name: "chat-bot",
    platform: telegram({
      groupBy: ({ chat }) =>
        chat && {
          ...{ key: String(chat.id), quietMs: 60_000 },
          ...{ newer: "interrupt", interrupt: { steps: "drop" } },
        },
    }),
    store: sqlite(),
  });
  const started = Promise.withResolvers<void>();
  const runs: number[] = [];
  bot.on("message", async ({ batch }, { signal }) => {
    if (runs.push(batch.length) > 1) return;
    started.resolve();
    await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  });
  await using test = await startTestBot(bot);
  const message = { chat: { id: 7, type: "private" }, from: { id: 1 }, text: "Hi" };
  await test.deliver(messengerUpdate({ message }));
  const advancing = test.advance(60_000);
  await started.promise;
  await test.deliver(messengerUpdate({ message }));
  await advancing;
  await test.advance(50_000);
  assertEquals(runs, [1]);
  await test.advance(10_000);
  assertEquals(runs, [1, 2]);
});
