/** Events that a handler puts off, by throwing `RetryLaterError`. */
import {
  assert,
  assertEquals,
  assertGreater,
  assertGreaterOrEqual,
  assertThrows,
} from "@std/assert";
import {
  createEventRouter,
  defineApp,
  type EventHandler,
  forge,
  GiveUpError,
  NotDoneError,
  RetryLaterError,
  startWorker,
} from "../../../mod.ts";
import { forgeDelivery, startTestBot, type TestBot } from "../../../testing/mod.ts";
import { botOf } from "../../testing/_bots.ts";
import { recordTelemetry } from "../../telemetry/_recording.ts";
import { delivery } from "../store/_events.ts";

import { testStoreOnce } from "../store/contract/_contract.ts";
import { reach, until } from "./_worker.ts";

const [MINUTE_MS, HOUR_MS, DAY_MS] = [60_000, 3_600_000, 86_400_000];

const later = (afterMs: number, reason = "Rate limit") => new RetryLaterError(reason, { afterMs });

const push = () => forgeDelivery("push", {}, { id: "d1" });

const recordOf = async ({ store }: TestBot) => (await store.get("forge:d1"))!;

const messagesOf = ({ logs }: TestBot) =>
  logs.filter(({ message }) => message.startsWith("event ")).map(({ level, message }) =>
    `${level}: ${message}`
  );

Deno.test("RetryLaterError takes a delay from 0 to seven days, a reason and a cause", () => {
  for (const afterMs of [0, 0.5, 7 * DAY_MS]) assertEquals(later(afterMs).afterMs, afterMs);
  const error = new RetryLaterError("night", { afterMs: 1, cause: "why" });
  assertEquals([String(error), error.cause], ["RetryLaterError: night", "why"]);
  assertEquals("cause" in later(1), false);
});

Deno.test("a longer delay than seven days counts as seven, as a service may ask for more", async () => {
  const afterMs = 10 * DAY_MS;
  assertEquals(later(afterMs).afterMs, 7 * DAY_MS);
  assertEquals(new NotDoneError("Too many requests", { afterMs }).afterMs, 7 * DAY_MS);
  await using bot = await startTestBot(botOf(() => Promise.reject(later(afterMs))));
  const { event } = await bot.deliver(forgeDelivery("push", {}));
  assertEquals([event?.state, event?.attempt], ["queued", 0]);
  assertGreater(event!.dueAt! - Date.now(), 6.9 * DAY_MS);
});

const BAD_DELAYS: readonly [unknown, string][] = [
  [-1, "-1"],
  [NaN, "NaN"],
  [Infinity, "Infinity"],
  [undefined, "undefined"],
  [null, "null"],
  ["60", '"60"'],
  [60n, "60"],
  [new Date(), "an object"],
];

for (const [afterMs, shown] of BAD_DELAYS) {
  Deno.test(`RetryLaterError refuses a delay of ${shown} (${typeof afterMs})`, () => {
    assertThrows(
      () => later(afterMs as number),
      RangeError,
      `Cannot put the event off: 'afterMs' must be a number of milliseconds from 0 on, got ${shown}`,
    );
  });
}

for (const options of [undefined, null, 60, []]) {
  Deno.test(`RetryLaterError refuses options that are no object: ${options}`, () => {
    const make = () => new RetryLaterError("no", options as unknown as { afterMs: number });
    assertThrows(make, TypeError, "Cannot put the event off: the options must be an object, got ");
  });
}

Deno.test("an event that is put off comes again after its delay, as the same attempt", async () => {
  const attempts: number[] = [];
  await using test = await startTestBot(botOf(({ attempt }) => {
    if (attempts.push(attempt) < 3) throw later(HOUR_MS);
  }));
  const { event } = await test.deliver(push());
  assertEquals([event?.state, event?.attempt, event?.attempts], ["queued", 0, []]);
  assertEquals([event?.dueAt! - event?.putOff?.at!, event?.putOff?.reason], [
    HOUR_MS,
    "Rate limit",
  ]);
  await test.advance(HOUR_MS - 10_000);
  assertEquals(attempts.length, 1);
  for (let i = 0; i < 2; i++) await test.advance(HOUR_MS);
  assertEquals([attempts, (await recordOf(test)).state], [[1, 1, 1], "done"]);
  const { level, eventId, afterMs, reason } = test.logs.find(({ message }) =>
    message === "event put off"
  )!;
  const expected = ["info", "forge:d1", HOUR_MS, "Rate limit"];
  assertEquals([level, eventId, afterMs, reason], expected);
});

Deno.test("an event that is put off for no time at all does not come at once", async () => {
  await using test = await startTestBot(botOf(() => {
    throw later(0);
  }));
  const { delayMs } = (await test.deliver(push())).event!;
  assertEquals(delayMs, 100);
});

Deno.test("a put-off uses up no attempt, and failures count as before", async () => {
  let calls = 0;
  const fails: EventHandler = () => {
    throw ++calls % 2 === 1 ? later(1_000) : new Error("real");
  };
  const retry = { maxAttempts: 3, minDelayMs: 1_000, maxDelayMs: 1_000 };
  await using test = await startTestBot(botOf(fails, { worker: { retry } }));
  await test.deliver(push());
  for (let i = 0; i < 5; i++) await test.advance(2_000, { expectFailure: true });
  const { state, attempt, attempts } = await recordOf(test);
  assertEquals([state, attempt, calls], ["dead", 3, 6]);
  assertEquals(attempts.map(({ attempt, error }) => `${attempt} ${error}`), [
    ...["1 Error: real", "2 Error: real", "3 Error: real"],
  ]);
});

Deno.test("seven days after the first time, a put-off counts as a failure", async () => {
  await using test = await startTestBot(botOf(() => {
    throw later(DAY_MS);
  }, { worker: { retry: { maxAttempts: 2 } } }));
  await test.deliver(push());
  for (let day = 1; day < 7; day++) await test.advance(DAY_MS);
  const before = await recordOf(test);
  assertEquals([before.state, before.attempt, before.putOff?.times], ["queued", 0, 7]);
  await test.advance(DAY_MS, { expectFailure: true });
  const failed = await recordOf(test);
  assertEquals([failed.state, failed.attempt], ["queued", 1]);
  assert(failed.delayMs! < 2_000, "the backoff counts, not the delay");
  await test.advance(2_000, { expectFailure: true });
  assertEquals((await recordOf(test)).outcome, "failed");
  assert(await test.store.replay("forge:d1"));
  await test.advance(0);
  const again = await recordOf(test);
  assertEquals([again.state, again.attempt, again.putOff?.times], ["queued", 0, 1]);
});

Deno.test("an event that has waited for others for a week can be put off", async () => {
  let calls = 0;
  const app = defineApp({ name: "bot", platform: forge({ groupBy: () => "key" }) });
  app.on("push", ({ deliveryId }) => {
    if (deliveryId === "first" || ++calls > 1) throw later(DAY_MS);
    throw later(HOUR_MS);
  });
  await using test = await startTestBot(app);
  await test.deliver(forgeDelivery("push", {}, { id: "first" }));
  await test.deliver(push());
  for (let day = 0; day < 6; day++) await test.advance(DAY_MS);
  assertEquals(calls, 0);
  await test.store.cancel("forge:first");
  await test.advance(DAY_MS);
  assertEquals([(await recordOf(test)).attempt, calls], [0, 2]);
});

Deno.test("of an event that is put off, steps stay and effects are not written", async () => {
  let [attempts, steps] = [0, 0];
  await using test = await startTestBot(botOf(async (_event, context) => {
    const isFirst = ++attempts === 1;
    await context.step("pay", ({ settleWith }) => {
      steps++;
      settleWith((commit) => commit.set(["paid"], 1));
    });
    if (!isFirst) return;
    context.settleWith((commit) => commit.set(["settled"], 1));
    throw later(HOUR_MS);
  }));
  await test.deliver(push());
  await test.advance(HOUR_MS);
  assertEquals([attempts, steps], [2, 1]);
  const values = await test.db.getMany([["paid"], ["settled"]]);
  assertEquals(values.map(({ value }: Deno.KvEntryMaybe<unknown>) => value), [1, null]);
});

/** Delivers one event to several handlers of a router; each ends as it is told, by attempt. */
async function route(...handlers: readonly (() => unknown)[]) {
  const router = createEventRouter();
  const calls = handlers.map(() => 0);
  handlers.forEach((handler, i) =>
    router.on("push", async () => {
      calls[i]!++;
      // The others' ends are known by then.
      await new Promise((resolve) => setTimeout(resolve, i));
      await handler();
    }, { id: `h${i}` })
  );
  await using test = await startTestBot(botOf(router.handle));
  const { event } = await test.deliver(push(), { expectFailure: true });
  await test.advance(0, { expectFailure: true });
  return { event: event!, calls, messages: messagesOf(test) };
}

const fail = (error: Error) => () => {
  throw error;
};

Deno.test("a router puts an event off for the longest delay, and notes what succeeded", async () => {
  const { event, messages } = await route(
    fail(later(MINUTE_MS)),
    () => {},
    fail(later(HOUR_MS)),
    fail(later(1)),
  );
  assertEquals([event.state, event.attempt, event.delayMs], ["queued", 0, HOUR_MS]);
  assertEquals(event.progress, ["onAny/id(h1)"]);
  assertEquals(
    event.putOff?.reason,
    "id(h0): RetryLaterError: Rate limit; id(h2): RetryLaterError: Rate limit; " +
      "id(h3): RetryLaterError: Rate limit",
  );
  assertEquals(messages, ["info: event put off"]);
});

Deno.test("an ordinary failure counts beside a put-off, and waits as long as that", async () => {
  const { event, messages } = await route(fail(later(HOUR_MS)), fail(new Error("no")));
  assertEquals([event.state, event.attempt, event.delayMs], ["queued", 1, HOUR_MS]);
  assertEquals([event.attempts.length, event.putOff?.times], [1, 1]);
  assertEquals(messages, ["warn: event failed, to be tried again"]);
  const short = await route(fail(later(1)), fail(new Error("no")));
  assertGreaterOrEqual(short.event.delayMs!, 1_000);
});

Deno.test("a handler that gives its event up waits for one that puts it off", async () => {
  const { event } = await route(fail(new GiveUpError("gone")), fail(later(HOUR_MS)));
  assertEquals([event.state, event.attempt, event.delayMs], ["queued", 0, HOUR_MS]);
});

Deno.test("a router within a router puts an event off as one alone", async () => {
  const inner = (...errors: Error[]) => {
    const router = createEventRouter();
    errors.forEach((error, i) => router.on("push", fail(error), { id: `inner${i}` }));
    return router.handle;
  };
  const run = async (...handlers: EventHandler[]) => {
    const router = createEventRouter();
    handlers.forEach((handler, i) => router.on("push", handler, { id: `outer${i}` }));
    await using test = await startTestBot(botOf(router.handle));
    const { event } = await test.deliver(push(), { expectFailure: true });
    return [event?.attempt, event?.delayMs];
  };
  assertEquals(await run(inner(later(MINUTE_MS))), [0, MINUTE_MS]);
  const two = inner(later(MINUTE_MS), later(HOUR_MS));
  assertEquals(await run(two, () => {}), [0, HOUR_MS]);
  assertEquals(await run(two, inner(later(2 * HOUR_MS))), [0, 2 * HOUR_MS]);
  const mixed = inner(later(HOUR_MS), new Error("no"));
  assertEquals(await run(mixed, () => {}), [1, HOUR_MS]);
  assertEquals(await run(mixed, inner(later(2 * HOUR_MS))), [1, 2 * HOUR_MS]);
});

Deno.test("handlers that keep failing beside a put-off do not wait for ever", async () => {
  const router = createEventRouter()
    .on("push", fail(later(7 * DAY_MS)), { id: "later" })
    .on("push", fail(new Error("no")), { id: "fails" });
  await using test = await startTestBot(botOf(router.handle));
  await test.deliver(push(), { expectFailure: true });
  await test.advance(7 * DAY_MS, { expectFailure: true });
  assert((await recordOf(test)).delayMs! <= 1.25 * HOUR_MS);
});

/** Defines an app whose middleware puts off until it is let through. */
function nightly(types: readonly string[], after = false) {
  const state = { isNight: true, handled: 0 };
  const app = defineApp({ name: "bot", platform: forge<object>() });
  app.use(async (_event, _context, next) => {
    if (after) await next();
    if (state.isNight) throw later(HOUR_MS, "night");
    if (!after) await next();
  });
  app.use(async (_event, _context, next) => await next());
  for (const type of types) app.on(type as never, () => void state.handled++);
  return { app, state };
}

Deno.test("middleware puts events off, also those that nobody wants", async () => {
  for (const after of [false, true]) {
    for (const [types, outcome] of [[["push"], "handled"], [["issues"], "ignored"]] as const) {
      const { app, state } = nightly(types, after);
      await using test = await startTestBot(app);
      assertEquals((await test.deliver(push())).event?.putOff?.reason, "night");
      state.isNight = false;
      await test.advance(HOUR_MS);
      assertEquals((await recordOf(test)).outcome, outcome);
    }
  }
});

Deno.test("an event that a handler had begun with, and put off, is not ignored later", async () => {
  let router = createEventRouter().on("push", fail(later(HOUR_MS)));
  await using test = await startTestBot(botOf((...args) => router.handle(...args)));
  await test.deliver(push());
  router = createEventRouter();
  await test.advance(HOUR_MS, { expectFailure: true });
  assertEquals((await recordOf(test)).state, "dead");
});

testStoreOnce(
  "an event that is put off as its worker stops is put off, and not due at once",
  async (sut) => {
    await sut.store.accept(delivery("d1"));
    const started = Promise.withResolvers<void>();
    const worker = startWorker(sut.store, async (_event, { signal }) => {
      started.resolve();
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      throw later(HOUR_MS);
    }, { log: () => {} });
    await started.promise;
    await worker.stop();
    const { state, attempt, delayMs } = (await sut.store.get("d1"))!;
    assertEquals([state, attempt, delayMs], ["queued", 0, HOUR_MS]);
  },
);

testStoreOnce("an event that is put off past its time limit is put off", async (sut) => {
  await sut.store.accept(delivery("d1"));
  const telemetry = recordTelemetry();
  const worker = startWorker(sut.store, async (_event, { signal }) => {
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    throw later(HOUR_MS);
  }, { log: () => {}, timeoutMs: 10, telemetry });
  await until(async () => (await sut.store.get("d1"))?.putOff !== undefined);
  await worker.stop();
  assertEquals((await sut.store.get("d1"))?.attempt, 0);
  assertEquals(telemetry.outcomes, [["put_off"]]);
});

testStoreOnce("an event that is put off after it was cancelled is cancelled", async (sut) => {
  const worker = startWorker(sut.store, async (_event, { signal }) => {
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    throw later(HOUR_MS);
  }, { log: () => {} });
  await sut.store.accept(delivery("d1"));
  await reach(sut.store, "d1", "running");
  assert(await sut.store.cancel("d1"));
  await reach(sut.store, "d1", "dead");
  await worker.stop();
  assertEquals((await sut.store.get("d1"))?.outcome, "cancelled");
});

testStoreOnce(
  "an event that kills its processes dies, however often it is put off between",
  async (sut) => {
    const { store } = sut;
    await store.accept(delivery("d1"));
    const retry = { minDelayMs: 0, maxDelayMs: 0, maxAttempts: 3 };
    let putOffs = 0;
    for (let i = 0; (await store.get("d1"))!.state !== "dead"; i++) {
      assert(i < 10, "it lives on and on");
      // A process leases it and dies.
      await until(async () => (await store.claim({ limit: 1, owner: "x", leaseMs: 1 })).length > 0);
      await new Promise((resolve) => setTimeout(resolve, 5));
      const worker = startWorker(store, () => {
        putOffs++;
        throw later(0);
      }, { log: () => {}, pollMs: 5, retry });
      await until(async () => (await store.get("d1"))!.state !== "running");
      await worker.stop();
    }
    assertEquals((await store.get("d1"))!.attempts.map(({ outcome }) => outcome), [
      ...["expired", "expired", "expired", "failed"],
    ]);
    assertEquals(putOffs, 2);
  },
);

Deno.test("an event that is put off holds its ordering group, and nothing overtakes it", async () => {
  const handled: string[] = [];
  const app = defineApp({ name: "bot", platform: forge({ groupBy: () => "key" }) });
  let isFree = false;
  app.on("push", ({ deliveryId }) => {
    if (!isFree) throw later(HOUR_MS);
    handled.push(deliveryId!);
  });
  await using test = await startTestBot(app);
  for (const id of ["a", "b", "c"]) await test.deliver(forgeDelivery("push", {}, { id }));
  isFree = true;
  await test.advance(HOUR_MS - 10_000);
  assertEquals(handled, []);
  await test.advance(10_000);
  assertEquals(handled, ["a", "b", "c"]);
});

testStoreOnce(
  "an error that somebody has changed does not make a record unreadable",
  async (sut) => {
    await sut.store.accept(delivery("d1"));
    const error = Object.assign(later(0), { afterMs: NaN, message: undefined });
    const worker = startWorker(sut.store, fail(error), { log: () => {} });
    await worker.poll();
    await worker.stop();
    assertEquals((await sut.store.stats()).unreadable, 0);
    const { delayMs, putOff } = (await sut.store.get("d1"))!;
    assertEquals([delayMs, putOff?.times], [100, 1]);
    assert(await sut.store.cancel("d1"));
  },
);
