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
  type EventHandler,
  GiveUpError,
  type LogRecord,
} from "../../mod.ts";
import {
  forgeDelivery,
  messengerUpdate,
  startTestBot,
  type TestBotOptions,
} from "../../testing/mod.ts";

const HOUR_MS = 3_600_000;

const later = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

Deno.test("startTestBot() delivers, and waits until the handler is through", async () => {
  const handled: string[] = [];
  await using bot = await startTestBot(async ({ id, payload }) => {
    await later(20);
    handled.push(`${id}: ${payload.ref}`);
  });
  const { status, text, code, event } = await bot.deliver(
    forgeDelivery("push", { ref: "main" }, { id: "d1" }),
  );
  assertEquals([status, text, code], [200, "OK", null]);
  assertEquals([event?.state, event?.id], ["done", "forge:d1"]);
  assertEquals(handled, ["forge:d1: main"]);
});

Deno.test("startTestBot() reports a duplicate by the first one's event", async () => {
  let calls = 0;
  await using bot = await startTestBot(() => calls++);
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
  await using bot = await startTestBot(fail);
  const { event } = await bot.deliver(forgeDelivery("push", {}), { expectFailure: true });
  assertEquals([event?.state, event?.attempt], ["queued", 1]);
  for (let i = 0; i < 40; i++) await bot.advance(1.25 * HOUR_MS, { expectFailure: true });
  const { state, attempt } = (await bot.store.get(event!.id))!;
  assertEquals([state, attempt], ["dead", 36]);
  assertGreaterOrEqual(times.at(-1)! - times[0]!, 24 * HOUR_MS);
  assert(bot.logs.some(({ message }) => message === "event failed for the last time, now dead"));
});

Deno.test("startTestBot() keeps a running handler while the clock is moved", async () => {
  const released = Promise.withResolvers<void>();
  let starts = 0;
  await using bot = await startTestBot(async () => {
    starts++;
    await released.promise;
  });
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
    await using bot = await startTestBot(() => {});
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

Deno.test("startTestBot() says when an event is not handled in time", async () => {
  const released = Promise.withResolvers<void>();
  await using bot = await startTestBot(() => released.promise, { timeoutMs: 20 });
  const message = "The events were not handled within 20 ms";
  await assertRejects(() => bot.deliver(forgeDelivery("push", {})), Error, message);
  released.resolve();
});

Deno.test("startTestBot() takes the intakes' and the worker's options", async () => {
  const allowedUsers = "42";
  const messenger = { orderBy: byChat, unauthorized: "ignore" } as const;
  const options = { allowedUsers, messenger, worker: { retry: { maxAttempts: 1 } } };
  await using bot = await startTestBot(() => Promise.reject(new Error("no")), options);
  const from = (id: number) => messengerUpdate({ message: { from: { id }, chat: { id: 7 } } });
  const { event } = await bot.deliver(from(42), { expectFailure: true });
  assertEquals([event?.state, event?.orderingKey], ["dead", "7"]);
  assertEquals((await bot.deliver(from(43))).status, 200);
  assertEquals((await bot.deliver(from(43))).event, undefined);
});

const TO_EXPECT = "If the test expects this, call deliver(delivery, { expectFailure: true })";

Deno.test("deliver() rejects with the error that the handler threw", async () => {
  const thrown = new TypeError("undefined is not a number");
  await using bot = await startTestBot(() => Promise.reject(thrown));
  const deliver = () => bot.deliver(forgeDelivery("push", {}, { id: "d1" }));
  const { message, cause } = await assertRejects(deliver, Error);
  const what = "The handler of event forge:d1 (push) failed in attempt 1: see the cause. ";
  assertEquals(message, what + TO_EXPECT);
  assertStrictEquals(cause, thrown);
});

const dead: [string, unknown, TestBotOptions][] = [
  ["gives an event up", new GiveUpError("no use"), {}],
  ["fails for the last time", new Error("no"), { worker: { retry: { maxAttempts: 1 } } }],
  ["throws a text", "no", {}],
  ["throws nothing", undefined, {}],
];

for (const [what, thrown, options] of dead) {
  Deno.test(`deliver() rejects when the handler ${what}`, async () => {
    await using bot = await startTestBot(() => Promise.reject(thrown), options);
    const { cause } = await assertRejects(() => bot.deliver(forgeDelivery("push", {})), Error);
    assertStrictEquals(cause, thrown);
  });
}

Deno.test("deliver() rejects when effects cannot be committed", async () => {
  await using bot = await startTestBot((_, { settleWith }) => {
    settleWith((commit) => commit.set(["key"], Symbol("no value")));
  });
  await assertRejects(() => bot.deliver(forgeDelivery("push", {})), Error, TO_EXPECT);
});

Deno.test("deliver() rejects also where the worker has a log of its own", async () => {
  const records: LogRecord[] = [];
  const worker = { log: (record: LogRecord) => void records.push(record) };
  await using bot = await startTestBot(() => Promise.reject(new Error("no")), { worker });
  await assertRejects(() => bot.deliver(forgeDelivery("push", {})), Error, TO_EXPECT);
  assertEquals(records.map(({ message }) => message), ["event failed, to be tried again"]);
});

Deno.test("deliver() resolves for an event that has no handler, or a handler that succeeds", async () => {
  await using bot = await startTestBot(createEventRouter().on("push", () => {}).handle);
  for (const type of ["push", "ping"]) {
    assertEquals((await bot.deliver(forgeDelivery(type, {}))).event?.state, "done");
  }
});

Deno.test("deliver() rejects for its own event only", async () => {
  const thrown = new Error("no");
  await using bot = await startTestBot(async ({ type }) => {
    await later(20);
    if (type === "push") throw thrown;
  });
  const failing = assertRejects(() => bot.deliver(forgeDelivery("push", {})), Error);
  const { event } = await bot.deliver(forgeDelivery("issues", { action: "opened" }));
  assertEquals(event?.state, "done");
  assertStrictEquals((await failing).cause, thrown);
  await bot.advance(0);
});

Deno.test("advance() rejects with the error that a handler threw", async () => {
  const thrown = new Error("still not");
  await using bot = await startTestBot(() => Promise.reject(thrown));
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

Deno.test("startTestBot() refuses a log that is no function", async () => {
  const worker = { log: "console" as never };
  const message = "Cannot start the worker: 'log' must be a function";
  await assertRejects(() => startTestBot(() => {}, { worker }), TypeError, message);
});

Deno.test("startTestBot() leaves nothing open when an option makes no sense", async () => {
  const start = () => startTestBot(() => {}, { worker: { concurrency: 0 } });
  await assertRejects(start, RangeError, "concurrency");
});
