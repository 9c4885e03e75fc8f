import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStrictEquals,
  assertStringIncludes,
} from "@std/assert";
import type { Variables } from "../../core/env.ts";
import {
  type App,
  createIntake,
  defineApp,
  forge,
  github,
  gitlab,
  type HandlerContext,
  type JsonObject,
  kv,
  openApp,
  openEventStore,
  optional,
  required,
  standard,
  telegram,
  type WebhookEvent,
} from "../../mod.ts";
import {
  forgeDelivery,
  messengerUpdate,
  standardDelivery,
  startTestBot,
  TEST_SECRETS,
} from "../../testing/mod.ts";
import { until } from "../events/worker/_worker.ts";

const push = (id?: string) =>
  forgeDelivery("push", { ref: "main" }, id === undefined ? {} : { id });

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** An app for GitHub whose handlers note what they see. */
function noting() {
  const seen: string[] = [];
  return { seen, bot: defineApp({ name: "bot", platform: github() }) };
}

Deno.test("defineApp() gives handlers the app's variables and resources, with their types", async () => {
  const bot = defineApp({
    name: "bot",
    platform: github(),
    env: { TOKEN: required, MODEL: optional("small") },
    resources: ({ env }) => ({ key: `${env.TOKEN}/${env.MODEL}` }),
  });
  const seen: string[] = [];
  bot.on("push", ({ payload }, { env, resources, signal, log, db }) => {
    const ref: string = payload.ref;
    seen.push(env.TOKEN, resources.key, ref, typeof signal.aborted, typeof log, typeof db.get);
    // @ts-expect-error: the app has no such variable.
    assertEquals(env.OTHER, undefined);
  }, { id: "labels" });
  await using test = await startTestBot(bot, { env: { TOKEN: "t" } });
  await test.deliver(push());
  assertEquals(seen, ["t", "t/small", "main", "boolean", "function", "function"]);
});

Deno.test("defineApp() names everything that is missing at once, and opens nothing", async () => {
  const bot = defineApp({
    name: "bot",
    platform: github(),
    env: { API_TOKEN: required },
    resources: () => {
      throw new Error("opened");
    },
  });
  bot.from(telegram({ path: "/telegram" }));
  bot.from(gitlab({ path: "/gitlab" }));
  const env = {
    GITHUB_WEBHOOK_SECRET: " ",
    TELEGRAM_SECRET_TOKEN: undefined,
    GITLAB_WEBHOOK_SECRET: "x",
  };
  const { message } = await assertRejects(() => startTestBot(bot, { env }), Error);
  assertEquals(
    message,
    "GITHUB_WEBHOOK_SECRET is blank; TELEGRAM_SECRET_TOKEN is not set; GITLAB_WEBHOOK_SECRET does not " +
      "begin with whsec_, as GitLab's signing tokens do: a secret token belongs into the tokens; " +
      "API_TOKEN is not set",
  );
});

Deno.test("use() runs around the handlers, the first one outermost", async () => {
  const { bot, seen } = noting();
  for (const name of ["outer", "inner"]) {
    bot.use(async ({ type }, { signal }, next) => {
      seen.push(`${name} ${type} ${signal.aborted}`);
      await next();
      seen.push(`${name} ends`);
    });
  }
  bot.on("push", () => seen.push("push")).onAny(() => seen.push("any"));
  await using test = await startTestBot(bot);
  await test.deliver(push());
  assertEquals(seen, [
    "outer push false",
    "inner push false",
    "push",
    "any",
    "inner ends",
    "outer ends",
  ]);
});

Deno.test("use() sees a handler's error, and passes it on to the worker", async () => {
  const { bot, seen } = noting();
  const thrown = new TypeError("no");
  bot.use(async (_event, _context, next) => {
    try {
      await next();
    } catch (error) {
      assertStrictEquals(error, thrown);
      seen.push("reported");
      throw error;
    }
  });
  bot.on("push", () => Promise.reject(thrown));
  await using test = await startTestBot(bot);
  const { event } = await test.deliver(push(), { expectFailure: true });
  assertEquals([event?.state, event?.attempt, seen], ["queued", 1, ["reported"]]);
});

Deno.test("use() can swallow an error, and leave the handlers out", async () => {
  const { bot, seen } = noting();
  bot.use(async ({ deliveryId }, _context, next) => {
    if (deliveryId === "d1") await next().catch(() => seen.push("swallowed"));
  });
  bot.on("push", ({ id }) => {
    seen.push(id);
    throw new Error("no");
  });
  await using test = await startTestBot(bot);
  for (const id of ["d1", "d2"]) {
    assertEquals((await test.deliver(push(id))).event?.state, "done");
  }
  assertEquals(seen, ["github:d1", "swallowed"]);
});

Deno.test("use() is not told that an event has no handler, which stays ignored", async () => {
  const { bot, seen } = noting();
  bot.use(async (_event, _context, next) => {
    await next();
    seen.push("through");
  });
  bot.on("push", () => {});
  await using test = await startTestBot(bot);
  const { event } = await test.deliver(forgeDelivery("ping", {}));
  assertEquals([event?.state, seen], ["done", ["through"]]);
  assert(test.logs.some(({ message }) => message === "event ignored"));
});

Deno.test("use() that does not wait for the handlers does not have the event settled before", async () => {
  const { bot, seen } = noting();
  bot.use((_event, _context, next) => void next());
  bot.on("push", async () => {
    await wait(30);
    seen.push("push");
  });
  await using test = await startTestBot(bot);
  assertEquals((await test.deliver(push())).event?.state, "done");
  assertEquals(seen, ["push"]);
});

Deno.test("routes that would never be reached are refused", async () => {
  for (const path of ["/webhook", "/health", "/health/ready"]) {
    const bot = defineApp({
      ...{ name: "bot", platform: github() },
      routes: (app) => app.on(path === "/webhook" ? "POST" : "GET", path, (c) => c.text("mine")),
    });
    await assertRejects(() => startTestBot(bot), TypeError, `${path}, which is answered by`);
  }
  const bot = defineApp({
    ...{ name: "bot", platform: github() },
    routes(app) {
      app.use("/webhook", (_c, next) => next());
      app.get("/hooks", (c) => c.text("mine"));
      app.get("/hooks", (c) => c.text("never"));
    },
  });
  await using test = await startTestBot(bot);
  assertEquals(await (await test.fetch("/hooks")).text(), "mine");
});

Deno.test("use() that does not call next() leaves the event out, and says so", async () => {
  const seen: string[] = [];
  const bot = defineApp({ name: "bot", platform: github() });
  bot.use((event, _context, next) => event.type === "push" ? undefined : next());
  bot.on("push", () => void seen.push("push")).on("issues", () => void seen.push("issues"));
  await using test = await startTestBot(bot);
  for (const [type, outcome] of [["push", "ignored"], ["issues", "handled"]] as const) {
    const { event } = await test.deliver(forgeDelivery(type, { action: "opened" }));
    assertEquals([event?.state, event?.outcome], ["done", outcome]);
  }
  assertEquals(seen, ["issues"]);
  const said = test.logs.filter(({ message }) => message === "event not handed on");
  assertEquals(said.map(({ level }) => level), ["info"]);
});

Deno.test("use() that does not call next() has a failed event die, and each one where that is strict", async () => {
  const bot = defineApp({ name: "bot", platform: github(), strict: true });
  bot.use(() => {});
  bot.on("push", () => {});
  await using test = await startTestBot(bot);
  const { event: strict } = await test.deliver(forgeDelivery("push", {}), { expectFailure: true });
  assertEquals(strict?.state, "dead");
  assertMatch(
    strict?.attempts[0]?.error ?? "",
    /^.*No handler for push: a middleware has not called/,
  );
  const other = defineApp({ name: "other", platform: github() });
  other.use(({ attempt }, _context, next) => attempt === 1 ? next() : undefined);
  other.on("push", () => Promise.reject(new Error("once")));
  await using failing = await startTestBot(other);
  await failing.deliver(forgeDelivery("push", {}), { expectFailure: true });
  await failing.advance(60_000, { expectFailure: true });
  const [event] = await Array.fromAsync(failing.store.list());
  assertEquals(event?.state, "dead");
});

Deno.test("use() that calls next() too late, or twice, fails the event or is reported, and runs no handler twice", async () => {
  const misuses: [string, (next: () => Promise<void>) => unknown][] = [
    ["after it had returned", (next) => void setTimeout(next, 5)],
    ["twice", async (next) => {
      await next();
      next();
    }],
    ["twice", async (next) => {
      await next();
      await next();
    }],
  ];
  for (const [how, misuse] of misuses) {
    const { bot, seen } = noting();
    bot.use((_event, _context, next) => misuse(next));
    bot.on("push", () => seen.push("push"));
    await using test = await startTestBot(bot);
    const { event } = await test.deliver(push(), { expectFailure: true });
    await wait(20);
    const late = test.logs.find(({ message }) => message === "next() called too late");
    const told = [String(late?.error), event?.attempts[0]?.error].join();
    assertStringIncludes(told, `The middleware has called next() ${how}`);
    assertEquals(seen, how === "twice" ? ["push"] : []);
    if (late) assertEquals([late.level, late.eventId], ["error", event?.id]);
  }
});

const FORGETFUL: Readonly<Record<string, (next: () => Promise<void>) => unknown>> = {
  "calls next() and goes on": (next) => void next(),
  "is done later than the handlers": (next) => {
    next();
    return wait(40);
  },
  "is done before the handlers": (next) => {
    next();
    return wait(1);
  },
  "attaches finally()": (next) => void next().finally(() => {}),
  "attaches then()": (next) => void next().then(() => {}),
  "waits in a function of its own": (next) => void (async () => await next())().catch(() => {}),
  "waits for all that settle, elsewhere": (next) => void Promise.allSettled([next()]),
  "loses a race": async (next) => void await Promise.race([next(), wait(1)]),
  "attaches then(), and ends later": async (next) => {
    next().then(() => {});
    await wait(30);
  },
};

for (const [how, middleware] of Object.entries(FORGETFUL)) {
  Deno.test(`use() that ${how} does not hide that a handler has failed`, async () => {
    const { bot } = noting();
    const thrown = new Error("no");
    bot.use((_event, _context, next) => middleware(next));
    bot.use(async (_event, _context, next) => await next());
    bot.on("push", async () => {
      await wait(10);
      throw thrown;
    });
    await using test = await startTestBot(bot);
    const { cause } = await assertRejects(() => test.deliver(push()), Error);
    assertStrictEquals(cause, thrown);
    const [event] = await Array.fromAsync(test.store.list());
    assertEquals(event?.state, "queued");
  });
}

Deno.test("use() cannot hide that strict keeps an event", async () => {
  const bot = defineApp({ name: "bot", platform: github(), strict: true });
  bot.use((_event, _context, next) => next().catch(() => {}));
  await using test = await startTestBot(bot);
  const { event } = await test.deliver(push(), { expectFailure: true });
  assertEquals(event?.state, "dead");
});

Deno.test("an app refuses a variable of its own that is a platform's", async () => {
  const env = { TELEGRAM_ALLOWED_USERS: optional("*") };
  const bot = defineApp({ name: "bot", platform: telegram(), env });
  const { message } = await assertRejects(() => startTestBot(bot), TypeError);
  assertEquals(
    message,
    "Cannot open the app: the platform 'telegram' and 'env' both read the variable " +
      "'TELEGRAM_ALLOWED_USERS'. Give one of them another name",
  );
});

Deno.test("an app refuses a variable of its own that each app reads, or its store", async () => {
  const own = ["PORT", "HOST", "TRUSTED_PROXY_HOPS", "LOG_FORMAT"].map((name) =>
    [name, "the app itself"] as const
  );
  const ofStore = ["KV_URL", "NOTIFIER"].map((name) => [name, "the store 'kv'"] as const);
  for (const [name, reader] of [...own, ...ofStore]) {
    const bot = defineApp({ name: "bot", platform: github(), env: { [name]: optional("1") } });
    await assertRejects(
      () => startTestBot(bot),
      TypeError,
      `Cannot open the app: ${reader} and 'env' both read the variable '${name}'`,
    );
  }
});

Deno.test("an app is what it was when it was defined", () => {
  const definition = { name: "one", platform: github() };
  const bot = defineApp(definition);
  definition.name = "two";
  assertEquals(bot.definition.name, "one");
});

Deno.test("a variable's reader that throws something else is named, without the value", async () => {
  const env = { DB: { read: (name: string, from: Variables) => JSON.parse(from.get(name)!) } };
  const bot = defineApp({ name: "bot", platform: github(), env: { ...env, TOKEN: required } });
  const { message } = await assertRejects(
    () => startTestBot(bot, { env: { DB: "hunter2" } }),
    Error,
  );
  assertEquals(message, "DB cannot be read: its reader has thrown a SyntaxError; TOKEN is not set");
});

Deno.test("next() can be used as any promise", async () => {
  const { bot, seen } = noting();
  bot.use((_event, _context, next) => next().finally(() => seen.push("finally")));
  bot.use((_event, _context, next) => next().then(() => seen.push("then")));
  bot.use((_event, _context, next) => Promise.all([next(), seen.push("all")]));
  bot.on("push", () => seen.push("push"));
  await using test = await startTestBot(bot);
  await test.deliver(push());
  assertEquals(seen.toSorted(), ["all", "finally", "push", "then"]);
});

Deno.test("from() takes a second platform in, each with its own handlers and ids", async () => {
  const { bot, seen } = noting();
  bot.onAny(({ id, platform }) => seen.push(`any ${platform} ${id}`));
  bot.from(telegram({ path: "/telegram" })).on("message", ({ id, payload }) => {
    seen.push(`${payload.message.text} ${id}`);
  });
  await using test = await startTestBot(bot);
  await test.deliver(push("7"));
  const message = { text: "hi", from: { id: 42 }, chat: { id: 42 } };
  const { status } = await test.deliver(messengerUpdate({ update_id: 7, message }));
  assertEquals([status, seen], [200, ["any forge github:7", "hi telegram:7"]]);
});

Deno.test("from() takes two platforms of one kind, whose names make their variables", async () => {
  const { bot, seen } = noting();
  bot.onAny(({ id }) => seen.push(id));
  bot.from(github({ name: "second-one", path: "/second" })).onAny(({ id }) => seen.push(id));
  assertEquals(bot.platforms.map(({ variables }) => variables), [
    ["GITHUB_WEBHOOK_SECRET"],
    ["SECOND_ONE_WEBHOOK_SECRET"],
  ]);
  await using test = await startTestBot(bot, {
    env: { SECOND_ONE_WEBHOOK_SECRET: "another secret" },
  });
  const second = (secret: string) =>
    forgeDelivery("push", {}, { id: "1", path: "/second", secret });
  const first = forgeDelivery("push", {}, { id: "1", path: "/webhook" });
  const deliveries = [first, second("another secret"), second("a wrong secret")];
  const statuses = [];
  for (const each of deliveries) statuses.push((await test.deliver(each)).status);
  assertEquals([statuses, seen], [[200, 200, 401], ["github:1", "second-one:1"]]);
});

Deno.test("an app keeps the events of a platform that it does not have: another version may know it", async () => {
  const bot = defineApp({ name: "bot", platform: telegram() });
  const open = {
    GITHUB_WEBHOOK_SECRET: "",
    TELEGRAM_SECRET_TOKEN: "x",
    TELEGRAM_ALLOWED_USERS: "*",
  };
  const opened = await Deno.openKv(":memory:");
  const store = await openEventStore(opened, { namespace: "bot" });
  const intake = createIntake(github({ secrets: ["s"] }), { store });
  await intake.request("/webhook", forgeDelivery("push", {}, { id: "1", secret: "s" }));
  await using app = await openApp(bot, { store: kv(opened), env: open, log: () => {} });
  await app.worker.poll();
  const event = await store.get("github:1");
  assertEquals([event?.state, event?.attempts?.at(-1)?.error], [
    "queued",
    "Error: The app has no platform 'github' of the kind 'forge', which has stored this event",
  ]);
  await app.stop();
  opened.close();
});

Deno.test("an app does not hand one sender's events to another sender's handlers", async () => {
  const seen: string[] = [];
  const bot = defineApp({ name: "bot", platform: standard({ name: "billing" }) });
  bot.onAny(({ id }) => seen.push(id));
  using opened = await Deno.openKv(":memory:");
  const store = await openEventStore(opened, { namespace: "bot" });
  const intake = createIntake(standard({ name: "clerk", secrets: [TEST_SECRETS.gitlab] }), {
    store,
  });
  const delivery = standardDelivery({ type: "user.deleted" }, { id: "1" });
  assertEquals((await intake.request("/webhook", delivery)).status, 200);
  const env = { BILLING_WEBHOOK_SECRET: TEST_SECRETS.gitlab };
  await using app = await openApp(bot, { store: kv(opened), env, log: () => {} });
  await app.worker.poll();
  assertEquals([(await store.get("clerk:1"))?.state, seen], ["queued", []]);
});

Deno.test("strict keeps events without a handler, of each platform", async () => {
  const bot = defineApp({ name: "bot", platform: github(), strict: true });
  bot.from(telegram({ path: "/telegram" }));
  await using test = await startTestBot(bot);
  const message = { text: "hi", from: { id: 42 }, chat: { id: 42 } };
  for (const delivery of [push(), messengerUpdate({ message })]) {
    const { event } = await test.deliver(delivery, { expectFailure: true });
    assertEquals(event?.state, "dead");
  }
});

Deno.test("payloads of a platform do not mix with those of another", () => {
  const { bot } = noting();
  // @ts-expect-error: Telegram sends that.
  bot.on("message", () => {});
  // @ts-expect-error: GitLab sends that.
  bot.on("merge_request.open", () => {});
  const chat = defineApp({ name: "chat", platform: telegram() });
  // @ts-expect-error: a code host sends that.
  chat.on("push", () => {});
  defineApp({ name: "lab", platform: gitlab() }).on("merge_request.open", ({ payload }) => {
    const title: string = payload.object_attributes.title;
    assert(title);
  });
  const own = defineApp({ name: "own", platform: github<{ "a.b": { n: number } }>() });
  own.on("a.b", ({ payload }) => assertEquals(payload.n.toFixed(), "1"));
});

Deno.test("a handler written apart can be registered at several apps", async () => {
  const seen: string[] = [];
  const audit = async ({ type }: WebhookEvent<JsonObject>, { step }: HandlerContext) => {
    seen.push(await step("audit", () => type));
  };
  const bots: App[] = [defineApp({ name: "one", platform: github() }).onAny(audit)];
  bots.push(defineApp({ name: "two", platform: forge(), env: {} }).onAny(audit));
  for (const bot of bots) {
    await using test = await startTestBot(bot);
    await test.deliver(push());
  }
  assertEquals(seen, ["push", "push"]);
});

const keepPayloads = { forMs: 60_000, maxBytes: 1_000_000 };

Deno.test("defineApp() keeps payloads, so that done events can be replayed", async () => {
  const bot = defineApp({ name: "bot", platform: github(), keepPayloads });
  const seen: string[] = [];
  bot.on("push", (event, { step }) => {
    return step("part", () => {
      seen.push(`${event.payload.ref} ${event.attempt}`, event.idempotencyKey());
    });
  });
  await using test = await startTestBot(bot);
  await test.deliver(push("d1"));
  assert(await test.store.replay("github:d1"));
  await until(() => seen.length === 4);
  const [first, key, second, otherKey] = seen;
  assertEquals([first, second], ["main 1", "main 1"]);
  assert(key !== otherKey);
});

Deno.test("defineApp() refuses to keep payloads for longer than the records", async () => {
  for (
    const [limits, message] of [
      [{ forMs: 2, maxBytes: 1 }, "'keepPayloads.forMs' must be from 1 to 1, the retention, got 2"],
      [{ forMs: 1, maxBytes: 0.5 }, "'keepPayloads.maxBytes' must be a whole number from 1 to "],
    ] as const
  ) {
    const define = () =>
      defineApp({ name: "bot", platform: github(), retentionMs: 1, keepPayloads: limits });
    await assertRejects(
      async () => await define(),
      RangeError,
      `Cannot define the app: ${message}`,
    );
  }
  const other = { forMs: 1, maxBytes: 1, max: 1 } as typeof keepPayloads;
  await assertRejects(
    async () => await defineApp({ name: "bot", platform: github(), keepPayloads: other }),
    TypeError,
    `Cannot define the app, in 'keepPayloads': there is no option "max".`,
  );
});
