import { assert, assertEquals, assertThrows } from "@std/assert";
import type { StoreDefinition } from "../../events/store/store_definition.ts";
import {
  createEventRouter,
  defineApp,
  forge,
  GiveUpError,
  type HandlerOptions,
  RetryLaterError,
  type RetryPolicy,
  startWorker,
  type WebhookEvent,
} from "../../mod.ts";
import { forgeDelivery, startTestBot } from "../../testing/mod.ts";
import { delivery } from "../events/store/_events.ts";
import { testStoreOnce } from "../events/store/contract/_contract.ts";
import { reach, until } from "../events/worker/_worker.ts";
import { testApp } from "./_stores.ts";

const MINUTE_MS = 60_000;

/** A handler by the attempts in which it fails, and what it throws. */
interface Handler extends HandlerOptions {
  readonly failsUntil: number;
  readonly error?: Error;
}

/** Delivers an event to handlers, and advances by a time as often as told; returns what each was called with. */
async function run(
  store: StoreDefinition,
  handlers: Readonly<Record<string, Handler>>,
  [stepMs, times]: readonly [number, number],
  retry?: RetryPolicy,
) {
  const calls: Record<string, number[]> = {};
  const bot = defineApp({ name: "bot", platform: forge<object>(), store, worker: { retry } });
  for (const [id, { failsUntil, error = new Error(id), ...options }] of Object.entries(handlers)) {
    bot.onAny(({ attempt }) => {
      (calls[id] ??= []).push(attempt);
      if (attempt <= failsUntil) throw error;
    }, { id, ...options });
  }
  await using test = await startTestBot(bot);
  await test.deliver(forgeDelivery("push", {}, { id: "d1" }), { expectFailure: true });
  const first = (await test.store.get("forge:d1"))!;
  for (let i = 0; i < times; i++) await test.advance(stepMs, { expectFailure: true });
  const event = (await test.store.get("forge:d1"))!;
  return { calls, first, event, logs: test.logs };
}

testApp("a handler's policy counts in place of the worker's", async (store) => {
  const retry = { minDelayMs: MINUTE_MS, maxAttempts: 2 };
  const { calls, first, event } = await run(store, { a: { failsUntil: 9, retry } }, [
    2 * MINUTE_MS,
    2,
  ]);
  assert(first.delayMs! >= MINUTE_MS && first.delayMs! <= 1.25 * MINUTE_MS);
  assertEquals([calls, event.state, event.attempts.at(-1)?.error], [
    { a: [1, 2] },
    "dead",
    "Error: a",
  ]);
});

testApp("a handler's policy takes what it leaves out from the worker's", async (store) => {
  const { first, event } = await run(
    store,
    { a: { failsUntil: 9, retry: { maxAttempts: 1 } }, b: { failsUntil: 9, retry: {} } },
    [MINUTE_MS, 2],
    { minDelayMs: MINUTE_MS / 2, maxAttempts: 2 },
  );
  assert(first.delayMs! >= MINUTE_MS / 2);
  assertEquals([event.state, event.attempt], ["dead", 2]);
});

testApp("of several handlers that fail, the longest delay counts", async (store) => {
  const { first, calls } = await run(store, {
    a: { failsUntil: 1 },
    b: { failsUntil: 1, retry: { minDelayMs: MINUTE_MS } },
    c: { failsUntil: 0, retry: { minDelayMs: 9 * MINUTE_MS } },
  }, [2 * MINUTE_MS, 1]);
  assert(first.delayMs! >= MINUTE_MS && first.delayMs! <= 1.25 * MINUTE_MS);
  assertEquals(calls, { a: [1, 2], b: [1, 2], c: [1] });
});

testApp("a handler whose attempts are used up is not called while others are", async (store) => {
  const retry = { maxAttempts: 2 };
  const { calls, event } = await run(
    store,
    { a: { failsUntil: 9, retry }, b: { failsUntil: 3 } },
    [MINUTE_MS, 4],
  );
  assertEquals(calls, { a: [1, 2], b: [1, 2, 3, 4] });
  assertEquals([event.state, event.attempt, event.progress], ["dead", 4, ["id(b)"]]);
  assertEquals(
    event.attempts.at(-1)?.error,
    "GiveUpError: 1 of 2 handlers failed: id(a): GiveUpError: Not called any more, since its attempts are used up",
  );
});

testApp("an event dies at once if the rest of its handlers give it up", async (store) => {
  const { calls, event } = await run(store, {
    a: { failsUntil: 9, retry: { maxAttempts: 1 } },
    b: { failsUntil: 9, error: new GiveUpError("gone") },
  }, [MINUTE_MS, 1]);
  assertEquals([calls, event.state], [{ a: [1], b: [1] }, "dead"]);
});

testApp(
  "a handler that puts its event off outlasts one whose attempts are used up",
  async (store) => {
    const later = new RetryLaterError("Later", { afterMs: MINUTE_MS });
    const { calls, first, event } = await run(store, {
      a: { failsUntil: 9, retry: { maxAttempts: 1 } },
      b: { failsUntil: 1, error: later },
    }, [2 * MINUTE_MS, 1]);
    assertEquals([first.state, first.delayMs], ["queued", MINUTE_MS]);
    assertEquals([calls, event.state, event.progress], [{ a: [1], b: [1, 2] }, "dead", ["id(b)"]]);
  },
);

testApp("a replay begins the attempts of a handler anew", async (store) => {
  const calls: number[] = [];
  const bot = defineApp({ name: "bot", platform: forge<object>(), store });
  bot.onAny(({ attempt }) => {
    if (calls.push(attempt) < 3) throw new Error("no");
  }, { retry: { maxAttempts: 2 } });
  await using test = await startTestBot(bot);
  await test.deliver(forgeDelivery("push", {}, { id: "d1" }), { expectFailure: true });
  await test.advance(MINUTE_MS, { expectFailure: true });
  assert(await test.store.replay("forge:d1"));
  await test.advance(0);
  assertEquals([calls, (await test.store.get("forge:d1"))?.state], [[1, 2, 1], "done"]);
});

testApp("handlers within a router inherit the policy of the router", async (store) => {
  const calls: string[] = [];
  const failing = (name: string) => () => {
    calls.push(name);
    throw new Error(name);
  };
  const inner = createEventRouter().onAny(failing("a")).onAny(failing("b"), {
    id: "b",
    retry: { maxAttempts: 2 },
  });
  const bot = defineApp({ name: "bot", platform: forge<object>(), store });
  bot.onAny(inner.handle, { id: "inner", retry: { maxAttempts: 1 } }).onAny(() => {});
  await using test = await startTestBot(bot);
  await test.deliver(forgeDelivery("push", {}, { id: "d1" }), { expectFailure: true });
  for (let i = 0; i < 3; i++) await test.advance(MINUTE_MS, { expectFailure: true });
  const { state, attempt } = (await test.store.get("forge:d1"))!;
  assertEquals([calls, state, attempt], [["a", "b", "b"], "dead", 2]);
});

testApp("onDead, onOther and schedules take a policy", async (store) => {
  const told: number[] = [];
  const fail = () => {
    throw new Error("no");
  };
  const retry = { maxAttempts: 1 };
  const bot = defineApp({ name: "bot", platform: forge<object>(), store });
  bot.onOther(fail, { retry }).schedule("digest", "0 7 * * *", fail, { retry });
  bot.onDead(({ attempt }) => {
    told.push(attempt);
    if (attempt === 1) throw new Error("no");
  }, { retry: { maxAttempts: 2, minDelayMs: MINUTE_MS } });
  await using test = await startTestBot(bot);
  const { event } = await test.deliver(forgeDelivery("push", {}), { expectFailure: true });
  const slot = await test.run("digest", { expectFailure: true });
  assertEquals([event?.state, slot.state, told], ["dead", "dead", [1, 1]]);
  await test.advance(2 * MINUTE_MS);
  assertEquals(told, [1, 1, 2, 2]);
});

testApp("a handler's policy counts if its effects cannot be committed", async (store) => {
  const bot = defineApp({ name: "bot", platform: forge<object>(), store });
  bot.onAny((_event, { settleWith }) => {
    settleWith(() => {
      throw new Error("no");
    });
  }, { retry: { maxAttempts: 1 } }).onAny(() => {}, { id: "other" });
  await using test = await startTestBot(bot);
  const { event } = await test.deliver(forgeDelivery("push", {}), { expectFailure: true });
  assertEquals(event?.state, "dead");
});

Deno.test("on() refuses a policy that the worker refuses", () => {
  const bot = defineApp({ name: "bot", platform: forge<object>() });
  const on = (retry: unknown) => () => bot.onAny(() => {}, { retry } as HandlerOptions);
  assertThrows(on(3), TypeError, "Cannot register the handler: 'retry' must be an object, got 3");
  assertThrows(
    on({ maxAttempts: 0 }),
    RangeError,
    "Cannot register the handler, in 'retry': 'maxAttempts' must be ",
  );
});

testStoreOnce(
  "an event whose process has died has the attempts of its handler",
  async ({ store }) => {
    const calls: number[] = [];
    const note = ({ attempt }: WebhookEvent) => void calls.push(attempt);
    const { handle } = createEventRouter().on("push", note, { retry: { maxAttempts: 2 } });
    await store.accept(delivery("d1"));
    for (let died = 1; died <= 2; died++) {
      await until(async () =>
        (await store.claim({ limit: 1, owner: "gone", leaseMs: 1 })).length === 1
      );
    }
    const worker = startWorker(store, handle, {
      log: () => {},
      pollMs: 5,
      retry: { maxAttempts: 9 },
    });
    await reach(store, "d1", "dead");
    await worker.stop();
    assertEquals([calls, (await store.get("d1"))?.attempt], [[], 2]);
  },
);
