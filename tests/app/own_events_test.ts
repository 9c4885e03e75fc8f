import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { type EventHandler, kv, openEventStore } from "../../events/mod.ts";
import { defineApp, events, openApp } from "../../app/mod.ts";
import { definePlatform, github } from "../../webhook/mod.ts";
import { forgeDelivery, startTestBot, TEST_SECRETS } from "../../testing/mod.ts";

type JobEvents = {
  "report.due": { readonly team: string };
  triage: { readonly action: "opened" | "closed"; readonly number: number };
};

const HOUR_MS = 3_600_000;

const push = (id?: string) => forgeDelivery("push", {}, id === undefined ? {} : { id });

/** An app with a source of its own. */
function sut() {
  const jobs = events<JobEvents>("jobs");
  return { jobs, bot: defineApp({ name: "bot", platform: github() }) };
}

Deno.test("from() registers handlers for the events that others emit", async () => {
  const { bot, jobs } = sut();
  const seen: unknown[] = [];
  bot.on("push", (_event, { emit }) => {
    emit(jobs, "report.due", { team: "a" });
    emit(jobs, "triage", { action: "opened", number: 7 });
    emit("jobs", "anything", { any: 1 });
  });
  bot.from(jobs)
    .on("report.due", ({ payload, intake, platform }) => {
      const team: string = payload.team;
      seen.push(team, intake, platform);
    })
    .on("triage.opened", ({ payload, action }) => void seen.push(payload.number, action))
    .onOther(({ type }) => void seen.push(type));
  await using test = await startTestBot(bot);
  await test.deliver(push());
  assertEquals(seen, ["a", "jobs", "events", 7, "opened", "anything"]);
});

Deno.test("emit() checks the payloads of a source when it is compiled", () => {
  const { bot, jobs } = sut();
  bot.on("push", (_event, { emit }) => {
    // @ts-expect-error: the source has no such type.
    emit(jobs, "report", { team: "a" });
    // @ts-expect-error: a team is a text.
    emit(jobs, "report.due", { team: 1 });
  });
  // @ts-expect-error: the source has no such type.
  bot.from(jobs).on("report", () => {});
  assertEquals(jobs.name, "jobs");
});

Deno.test("emit() refuses the names of the app's own platforms, in handlers and in the store", async () => {
  const refused = 'Cannot emit the event: the source must not be "work", which is a platform';
  const bot = defineApp({ name: "bot", platform: github({ name: "work" }) });
  const errors: string[] = [];
  const emitting: EventHandler = (_event, { emit }) => {
    try {
      emit("work", "push", {}, { id: "1" });
    } catch (error) {
      errors.push((error as Error).message);
    }
  };
  bot.on("push", emitting as never).on("push", emitting as never, { id: "second" });
  await using test = await startTestBot(bot);
  await test.deliver(forgeDelivery("push", {}, { path: "/webhook" } as never));
  assertEquals(errors.map((each) => each.slice(0, refused.length)), [refused, refused]);
  await assertRejects(() => test.store.emit("work", "push", {}), TypeError, refused);
  assertEquals((await test.store.emit("jobs", "push", {})).duplicate, false);
});

Deno.test("events of handlers, routes and transactions are handled together", async () => {
  const jobs = events<JobEvents>("jobs");
  const rule = { group: "team", quietMs: 60_000 };
  const bot = defineApp({
    name: "bot",
    platform: github(),
    store: kv(),
    routes: (app, { store }) =>
      app.post("/emit", async (c) => {
        await store.emit(jobs, "report.due", { team: "route" }, rule);
        await store.transact((_tx, { emit }) =>
          emit(jobs, "report.due", { team: "transaction" }, rule)
        );
        return c.text("ok");
      }),
  });
  const seen: string[][] = [];
  bot.on("push", (_event, { emit }) => emit(jobs, "report.due", { team: "handler" }, rule));
  bot.from(jobs).on("report.due", ({ batch }) => {
    seen.push(batch.map(({ payload }) => payload.team));
  });
  await using test = await startTestBot(bot);
  await test.deliver(push());
  await test.advance(1_000);
  await test.fetch("/emit", { method: "POST" });
  await test.advance(58_000);
  assertEquals(seen, []);
  await test.advance(2_000);
  assertEquals(seen.map((each) => each.toSorted()), [["handler", "route", "transaction"]]);
});

Deno.test("advance() by the quiet time handles what a route has emitted", async () => {
  const rule = { group: "team", quietMs: 60_000 };
  const bot = defineApp({
    name: "bot",
    platform: github(),
    routes: (app, { store }) =>
      app.post("/emit", async (c) => c.json(await store.emit("jobs", "due", {}, rule))),
  });
  const seen: number[] = [];
  bot.from(events("jobs")).onAny(({ batch }) => void seen.push(batch.length));
  await using test = await startTestBot(bot);
  for (let i = 0; i < 3; i++) await (await test.fetch("/emit", { method: "POST" })).json();
  await test.advance(60_000);
  assertEquals(seen, [3]);
});

Deno.test("advance() runs delayed events, those of a group among them", async () => {
  const { bot, jobs } = sut();
  const seen: string[] = [];
  bot.on("push", (_event, { emit }) => {
    emit(jobs, "report.due", { team: "day" }, { delayMs: 24 * HOUR_MS, group: "g" });
    emit(jobs, "report.due", { team: "month" }, { delayMs: 30 * 24 * HOUR_MS, group: "g" });
    emit(jobs, "report.due", { team: "now" }, { group: "g" });
  });
  bot.from(jobs).on("report.due", ({ payload: { team } }, { emit }) => {
    seen.push(team);
    if (team === "day") emit(jobs, "report.due", { team: "hour later" }, { delayMs: HOUR_MS });
  });
  await using test = await startTestBot(bot);
  await test.deliver(push());
  assertEquals(seen, ["now"]);
  await test.advance(24 * HOUR_MS);
  assertEquals(seen, ["now", "day"]);
  await test.advance(30 * 24 * HOUR_MS);
  assertEquals(seen, ["now", "day", "hour later", "month"]);
});

Deno.test("an event of a source that the app does not know waits for a version that does", async () => {
  const { bot } = sut();
  bot.on("push", (_event, { emit }) => emit("others", "due", {}, { id: "x" }));
  await using test = await startTestBot(bot);
  await test.deliver(push(), { expectFailure: true });
  const record = await test.store.get("others:x");
  assertEquals([record?.state, record?.attempt], ["queued", 1]);
  assertEquals(
    record?.attempts[0]?.error,
    "Error: The app has no source 'others' of its own, which has emitted this event",
  );
});

Deno.test("an event of the name of a platform fails, and says what to do", async () => {
  const bot = defineApp({ name: "bot", platform: github({ name: "mirror" }) });
  using opened = await Deno.openKv(":memory:");
  const env = { MIRROR_WEBHOOK_SECRET: TEST_SECRETS.signing };
  await using app = await openApp(bot, { store: kv(opened), env, log: () => {} });
  // The tool does not know the app's platforms.
  const tool = await openEventStore(opened, { namespace: "bot", notifier: "watch" });
  await tool.emit("mirror", "push", {}, { id: "x" });
  let error: string | undefined;
  while (error === undefined) {
    await app.worker.poll();
    error = (await tool.get("mirror:x"))?.attempts[0]?.error;
  }
  assertEquals(
    error,
    'TypeError: Cannot handle the event: the source must not be "mirror", which is a platform: only deliveries ' +
      'make its events. Give events of your own another source, such as "jobs"',
  );
});

Deno.test("the name of a source is used once, and by no platform", () => {
  const { bot, jobs } = sut();
  const handlers = bot.from(jobs);
  assert(bot.from(jobs) === handlers);
  const other = definePlatform({
    ...{ name: "jobs", path: "/jobs", createVerifier: () => () => () => {} },
    parse: () => new Response(),
  });
  assertThrows(() => bot.from(events("jobs")), TypeError, "a source of this app has the name");
  assertThrows(() => bot.from(other), TypeError, "a source of this app has the name");
  const mirrored = defineApp({ name: "bot", platform: github({ name: "mirror" }) });
  const mirror = events("mirror");
  assertThrows(() => mirrored.from(mirror), TypeError, "a platform of this app has the name");
  assertThrows(
    () => bot.from({ name: "a b", kind: "events" }),
    TypeError,
    "Cannot add the source: the source must be",
  );
  for (const name of ["", "a b", "dead", "schedule", "forge", "github", "telegram", 5, undefined]) {
    assertThrows(
      () => events(name as string),
      TypeError,
      "Cannot name the source: the source must",
    );
  }
});

Deno.test("onDead() is told of events that die, not of those that are cancelled", async () => {
  const { bot } = sut();
  const deaths: unknown[] = [];
  bot.on("push", async ({ id }, { db: _ }) => {
    if (id === "github:cancelled") await test.store.cancel(id);
    throw new Error("No use");
  });
  assertEquals(bot.reportsDead, false);
  bot.onDead(({ payload: { id, type, attempts } }, { emit }) => {
    deaths.push(id, type, attempts.at(-1)?.error);
    emit("jobs", "alert", {}, { delayMs: HOUR_MS });
  });
  assertEquals(bot.reportsDead, true);
  await using test = await startTestBot(bot);
  await test.deliver(push("cancelled"), { expectFailure: true });
  await test.deliver(push("d1"), { expectFailure: true });
  await test.advance(100 * HOUR_MS, { expectFailure: true });
  assertEquals(deaths, ["github:d1", "push", "Error: No use"]);
});

Deno.test("onDead() takes several handlers, with ids", async () => {
  const { bot } = sut();
  const told: string[] = [];
  bot.on("push", () => {
    throw new Error("No use");
  });
  bot.onDead(() => void told.push("a")).onDead(() => void told.push("b"), { id: "b" });
  assertThrows(() => bot.onDead(() => {}), TypeError, "there is one for on(dead) already");
  await using test = await startTestBot(bot);
  await test.deliver(push(), { expectFailure: true });
  await test.advance(100 * HOUR_MS, { expectFailure: true });
  assertEquals(told.toSorted(), ["a", "b"]);
});

Deno.test("an app that is open takes no more sources and handlers", async () => {
  const { bot, jobs } = sut();
  const added = bot.from(events("added"));
  using opened = await Deno.openKv(":memory:");
  const env = { GITHUB_WEBHOOK_SECRET: TEST_SECRETS.signing };
  await using _app = await openApp(bot, { store: kv(opened), env, log: () => {} });
  assertThrows(() => bot.from(jobs), TypeError, "the app is open already");
  const refused = "Cannot register the handler: the app is open already";
  assertThrows(() => bot.onDead(() => {}), TypeError, refused);
  assertThrows(() => bot.on("push", () => {}), TypeError, refused);
  assertThrows(() => bot.onAny(() => {}), TypeError, refused);
  assertThrows(() => bot.onOther(() => {}), TypeError, refused);
  assertThrows(() => added.onAny(() => {}), TypeError, refused);
});
