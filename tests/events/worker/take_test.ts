/** Limits of services, in handlers. */
import { setTimeout as wait } from "node:timers/promises";
import {
  assert,
  assertEquals,
  assertGreaterOrEqual,
  assertLess,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import {
  type App,
  defineApp,
  type EventHandler,
  github,
  type HandlerContext,
  NotDoneError,
  RetryLaterError,
} from "../../../mod.ts";
import { forgeDelivery, startTestBot, type TestBot } from "../../../testing/mod.ts";
import { testWith } from "../../_permissions.ts";
import { LOCAL_STORES } from "../../_stores.ts";
import { delivery } from "../store/_events.ts";
import { ask, LimitedService } from "../store/_limited.ts";
import { testStoreOnce } from "../store/contract/_contract.ts";
import { handle, reach, until, withWorker } from "./_worker.ts";

const AN_HOUR = { limit: 1, perMs: 3_600_000, waitMs: 0 } as const;

/** Registers a test of a bot over the store of each engine. */
function testBot(name: string, fn: (botOf: (handler: EventHandler) => App) => Promise<void>): void {
  for (const [engine, store] of Object.entries(LOCAL_STORES)) {
    const needs = engine === "kv" ? [] : ["read", "write"] as const;
    testWith(
      needs,
      `${name} [${engine}]`,
      () =>
        fn((handler) =>
          defineApp({ name: "bot", platform: github(), store: store() })
            .on("push", handler as never) as never
        ),
    );
  }
}

const push = (test: TestBot) => test.deliver(forgeDelivery("push", {}));

testBot("take() puts an event off until there is room, without an attempt", async (botOf) => {
  const service = new LimitedService(AN_HOUR);
  const bot = botOf(async (_event, { take }) => {
    await take("service", AN_HOUR);
    service.call();
  });
  await using test = await startTestBot(bot);
  const ids: string[] = [];
  for (let i = 0; i < 4; i++) ids.push((await push(test)).event!.id);
  const [first, ...others] = await Promise.all(ids.map((id) => test.store.get(id)));
  assertEquals([first?.state, service.accepted], ["done", 1]);
  const delays: number[] = [];
  for (const event of others) {
    const { state, attempt, attempts, delayMs, putOff } = event!;
    assertEquals([state, attempt, attempts], ["queued", 0, []]);
    assertEquals(putOff?.reason, 'No room under the limit "service"');
    delays.push(delayMs!);
  }
  assert(delays[0]! > 3_600_000 && delays[0]! <= 3_712_500, `${delays}`);
  for (const i of [1, 2]) assertGreaterOrEqual(delays[i]! - delays[i - 1]!, 3_600_000);
  await test.advance(delays[2]!);
  for (const id of ids) await reach(test.store, id, "done");
  assertEquals([service.accepted, service.refused], [4, 0]);
  for (const id of ids) assertEquals((await test.store.get(id))!.attempts.length, 1);
});

testBot("take() waits for a while", async (botOf) => {
  const rule = { limit: 1, perMs: 100 };
  const service = new LimitedService(rule);
  const bot = botOf(async (_event, { take }) => {
    await take("service", { ...rule, key: "mine" });
    await take("service", { ...rule, key: 42 });
    service.call();
  });
  await using test = await startTestBot(bot);
  for (let i = 0; i < 3; i++) assertEquals((await push(test)).event?.state, "done");
  assertEquals([service.accepted, service.refused], [3, 0]);
});

testBot("take() counts as many calls as it is told", async (botOf) => {
  const left: number[] = [];
  const bot = botOf(async (_event, { take }) => {
    for (let i = 0;; i++) {
      const rule = { limit: 10, perMs: 60_000, waitMs: 0, count: 4 };
      if (!await take.now("model", rule)) return void left.push(i);
    }
  });
  await using test = await startTestBot(bot);
  await push(test);
  assertEquals(left, [2]);
});

for (const unknown of ["fail", "skip"] as const) {
  testBot(`a step with ${unknown} has not begun if there is no room for it`, async (botOf) => {
    let calls = 0;
    const bot = botOf(async (_event, { step }) => {
      await step("call", async ({ take }) => {
        await take("service", AN_HOUR);
        calls++;
      }, { unknown });
    });
    await using test = await startTestBot(bot);
    await push(test);
    const { event } = await push(test);
    assertEquals([event?.state, calls, event?.steps], ["queued", 1, []]);
    await test.advance(event!.delayMs!);
    assertEquals([(await test.store.get(event!.id))?.state, calls], ["done", 2]);
  });
}

testBot("a step that may have made a call stays unknown", async (botOf) => {
  const errors: unknown[] = [];
  const bot = botOf(async ({ id: key }, { step, take }) => {
    await step("calls", async () => {
      await take("other service", { ...AN_HOUR, key });
      await take("service", AN_HOUR).catch((error) => {
        errors.push(error);
        throw error;
      });
    }, { unknown: "fail" });
  });
  await using test = await startTestBot(bot);
  await push(test);
  const { event } = await push(test);
  await test.advance(event!.delayMs!, { expectFailure: true });
  assertEquals((await test.store.get(event!.id))?.state, "dead");
  assert(errors[0] instanceof RetryLaterError && !(errors[0] instanceof NotDoneError));
});

testBot("take.later() closes a limit until a time", async (botOf) => {
  let calls = 0;
  const bot = botOf(async (_event, { take }) => {
    await take("service", { limit: 100, perMs: 60_000, waitMs: 0 });
    await take.later("service", { untilMs: undefined });
    await take.later("service", { key: "another", untilMs: Date.now() + 600_000 });
    if (++calls === 2) await take.later("service", { untilMs: Date.now() + 600_000 });
  });
  await using test = await startTestBot(bot);
  for (let i = 0; i < 2; i++) assertEquals((await push(test)).event?.state, "done");
  const { delayMs } = (await push(test)).event!;
  assert(delayMs! > 590_000 && delayMs! <= 600_000, `${delayMs}`);
  await test.advance(600_000);
  assertEquals(calls, 3);
});

testStoreOnce("take.now() counts a call if there is room at once", async ({ store }) => {
  const had: boolean[] = [];
  let refusal: unknown;
  let tries = 0;
  await handle({ store }, async (_event, { take }) => {
    const rule = { limit: 2, perMs: 3_600_000, waitMs: 0 };
    for (let i = 0; i < 20; i++) had.push(await take.now("service", rule));
    refusal = await take("service", rule).catch((error) => error);
    const short = { limit: 1, perMs: 1_000 };
    assert(await take.now("short", short));
    while (!await take.now("short", short) && ++tries < 1_000) await wait(5);
  });
  assertEquals(had, Array.from({ length: 20 }, (_, i) => i < 2));
  assert(tries > 0 && tries < 1_000, `${tries}`);
  // As soon as if nothing had asked before: what was left out was promised nothing.
  assert(refusal instanceof RetryLaterError);
  assert(refusal.afterMs > 3_500_000 && refusal.afterMs <= 3_712_500, `${refusal.afterMs}`);
});

testBot("an attempt that takes all of a limit itself fails, and is not put off", async (botOf) => {
  let calls = 0;
  const bot = botOf(async ({ payload: { inSteps } }, { step, take }) => {
    for (const name of ["a", "b"]) {
      if (inSteps) await step(name, ({ take }) => take("service", AN_HOUR));
      else await take("service", AN_HOUR);
      calls++;
    }
  });
  await using test = await startTestBot(bot);
  const { event } = await test.deliver(forgeDelivery("push", {}), { expectFailure: true });
  assertEquals([event?.state, event?.attempt, calls], ["queued", 1, 1]);
  assertStringIncludes(
    event!.attempts[0]!.error!,
    'Cannot take part in the limit "service": this attempt has taken 1 of 1 already',
  );
  await test.store.cancel(event!.id);
  await test.advance(2 * 3_600_000);
  const { event: other } = await test.deliver(forgeDelivery("push", { inSteps: true }));
  assertEquals([other?.state, other?.attempt, calls], ["queued", 0, 2]);
  await test.advance(2 * 3_600_000);
  assertEquals([(await test.store.get(other!.id))?.state, calls], ["done", 4]);
});

testStoreOnce(
  "a call that has room does not wait for one before it that has none",
  async ({ store }) => {
    const rule = { limit: 10, perMs: 3_600_000, waitMs: 0 };
    await ask(store, rule, { count: 5 });
    const records = await handle({ store }, async (_event, { take }) => {
      const large = take("service", { ...rule, count: 8 });
      await Promise.all([assertRejects(() => large, RetryLaterError), take("service", rule)]);
      assertEquals(await take.now("service", { ...rule, limit: 6 }), false);
      await take("service", rule);
    });
    assertEquals(records.map(({ message }) => message), ["event handled"]);
  },
);

testStoreOnce("a wait for room ends when its event is cancelled", async ({ store, place }) => {
  let ended = 0;
  const handler: EventHandler = async (_event, { take }) => {
    try {
      await take("service", { ...AN_HOUR, waitMs: 10_000_000 });
    } finally {
      ended++;
    }
  };
  await withWorker({ store, place }, handler, {}, async () => {
    await store.accept(delivery("d1"));
    await reach(store, "d1", "done");
    await store.accept(delivery("d2"));
    await until(() => store.tokens.of("service", "").waiting === 1);
    assert(await store.cancel("d2"));
    await reach(store, "d2", "dead");
    assertEquals([ended, store.tokens.of("service", "").waiting], [2, 0]);
  });
});

testStoreOnce("a wait that nobody awaits is over before its handler is", async ({ store }) => {
  const records = await handle({ store }, (_event, { take }) => {
    take("service", { limit: 1, perMs: 1_000 });
  });
  assertEquals(records.map(({ message }) => message), ["event handled"]);
});

testStoreOnce("take() refuses what is no rule", async ({ store }) => {
  let context: HandlerContext | undefined;
  const rule = { limit: 1, perMs: 1_000 };
  const errors: Record<string, (take: HandlerContext["take"]) => Promise<void>> = {
    "Cannot take part in the limit: 'name' must be a text that is not empty, got \"\"": (take) =>
      take("", rule),
    "Cannot take part in the limit \"a\": 'limit' must be a whole number from 1 to 1000000000, got 0":
      (take) => take("a", { ...rule, limit: 0 }),
    "Cannot take part in the limit \"a\": 'perMs' must be a whole number from 1 to 604800000, got undefined":
      (take) => take("a", { limit: 1 } as typeof rule),
    "Cannot take part in the limit \"a\": 'count' must be up to the limit of 1, got 2": (take) =>
      take("a", { ...rule, count: 2 }),
    "Cannot take part in the limit \"a\": 'key' must be a text, got an object": (take) =>
      take("a", { ...rule, key: {} as string }),
    "Cannot take part in the limit \"a\": 'key' must have up to 256 characters, has 257": (take) =>
      take("a", { ...rule, key: "k".repeat(257) }),
    "Cannot close the limit \"a\": 'untilMs' must be a time in milliseconds since the epoch, got 1795799929":
      (take) => take.later("a", { untilMs: 1_795_799_929 }),
  };
  const records = await handle({ store }, async (_event, own) => {
    context = own;
    for (const [message, call] of Object.entries(errors)) {
      await assertRejects(() => call(own.take), Error, message);
    }
  });
  assertEquals(records.map(({ message }) => message), ["event handled"]);
  const over = "Cannot take part in a limit: the handler has ended";
  await assertRejects(() => context!.take("a", rule), TypeError, over);
});

testStoreOnce("calls of one handler take few commits", async ({ store }) => {
  let took = Infinity;
  await handle({ store }, async (_event, { take }) => {
    const rule = { limit: 1_000_000, perMs: 3_600_000 };
    await Promise.all(Array.from({ length: 2_000 }, () => take("service", rule)));
    await take("service", rule);
    for (let tries = 0; tries < 3; tries++) {
      const start = performance.now();
      for (let i = 0; i < 500; i++) await take("service", rule);
      took = Math.min(took, performance.now() - start);
    }
  });
  // Under 20 µs each.
  assertLess(took, 10);
});
