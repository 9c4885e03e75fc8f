/** Limits of how many events are begun in a time. */
import { setTimeout as wait } from "node:timers/promises";
import { assert, assertEquals, assertGreaterOrEqual, assertMatch, assertThrows } from "@std/assert";
import {
  createEventRouter,
  defineApp,
  type EventHandler,
  type EventStore,
  github,
  type HandlerContext,
  type LogRecord,
  startWorker,
  type WorkerOptions,
} from "../../../mod.ts";
import { waitsForLimit } from "../../../events/store/settlement.ts";
import type { EventRecord, RatedEvent } from "../../../events/mod.ts";
import { forgeDelivery, startTestBot } from "../../../testing/mod.ts";
import { LOCAL_STORES } from "../../_stores.ts";
import { testWith } from "../../_permissions.ts";
import { delivery } from "../store/_events.ts";
import { ask, LimitedService } from "../store/_limited.ts";
import { testStoreOnce } from "../store/contract/_contract.ts";
import { reach, until } from "./_worker.ts";

const AN_HOUR = { name: "service", limit: 2, perMs: 3_600_000 } as const;

/** Runs a worker while `fn` runs. */
async function during(
  store: EventStore,
  handler: EventHandler,
  options: WorkerOptions,
  fn: () => Promise<void>,
): Promise<void> {
  const worker = startWorker(store, handler, { log: () => {}, pollMs: 20, ...options });
  try {
    await fn();
  } finally {
    await worker.stop();
  }
}

async function accept(store: EventStore, type: string, ...ids: readonly string[]) {
  for (const id of ids) await store.accept({ ...delivery(id), type });
}

/** Lists the events that wait for a limit on the schedule, once there are as many. */
async function waiting(store: EventStore, count: number): Promise<EventRecord[]> {
  let found: EventRecord[] = [];
  await until(async () => {
    const queued = await Array.fromAsync(store.list({ state: "queued" }));
    found = queued.filter(waitsForLimit);
    return found.length === count;
  });
  return found;
}

const doneIn = async (store: EventStore) => (await store.stats()).done;

testStoreOnce(
  "no more events are begun than their rate permits, by all processes",
  async ({ store, place }) => {
    const begun: string[] = [];
    const handler: EventHandler = ({ id }) => void begun.push(id);
    const options = { rate: AN_HOUR };
    const stores = [store, await place.open()];
    await during(
      stores[0]!,
      handler,
      options,
      () =>
        during(stores[1]!, handler, options, async () => {
          for (const i of [0, 1]) await accept(stores[i]!, "push", `a${i}`, `b${i}`, `c${i}`);
          const delays = [];
          for (const { attempt, attempts, putOff, limitedBy, delayMs } of await waiting(store, 4)) {
            assertEquals([attempt, attempts, putOff, limitedBy], [0, [], undefined, "service"]);
            delays.push(delayMs!);
          }
          delays.sort((a, b) => a - b);
          assertGreaterOrEqual(delays[0]!, 3_500_000);
          // Each comes at a time of its own.
          for (let i = 1; i < 4; i++) assertGreaterOrEqual(delays[i]! - delays[i - 1]!, 1_700_000);
        }),
    );
    assertEquals(begun.length, 2);
  },
);

testStoreOnce("events that wait for their rate take no place of the others", async ({ store }) => {
  const router = createEventRouter()
    .on("slow", () => {}, { rate: AN_HOUR })
    .on("quick", () => {});
  await during(store, router.handle, { concurrency: 1 }, async () => {
    await accept(store, "slow", "a", "b", "c", "d");
    await accept(store, "quick", "q");
    await reach(store, "q", "done");
    await waiting(store, 2);
  });
});

testStoreOnce("what waits for a moment waits in memory", async ({ store }) => {
  const rate = { name: "service", limit: 1, perMs: 60 };
  const service = new LimitedService(rate);
  const begun: string[] = [];
  const ids = ["a", "b", "c", "d", "e"];
  const handler: EventHandler = ({ id }) => {
    begun.push(id);
    service.call();
  };
  await during(store, handler, { rate, concurrency: 2 }, async () => {
    await accept(store, "push", ...ids);
    await until(async () => await doneIn(store) === 5);
  });
  assertEquals([service.refused, begun.sort()], [0, ids]);
  for await (const { attempts } of store.list({ state: "done" })) assertEquals(attempts.length, 1);
});

testStoreOnce("a rate counts for each key, beside a limit of runs", async ({ store }) => {
  const begun: string[] = [];
  let [running, most] = [0, 0];
  const router = createEventRouter().onAny(async ({ id }) => {
    most = Math.max(most, ++running);
    begun.push(id);
    await Promise.resolve();
    running--;
  }, { concurrency: 1, rate: { ...AN_HOUR, key: ({ type }) => type } });
  await during(store, router.handle, {}, async () => {
    await accept(store, "x", "x1", "x2", "x3");
    await accept(store, "y", "y1", "y2", "y3");
    await waiting(store, 2);
    await until(async () => await doneIn(store) === 4);
  });
  assertEquals([begun.sort(), most], [["x1", "x2", "y1", "y2"], 1]);
});

testStoreOnce("an event needs room under all rates of its handlers", async ({ store }) => {
  const rate = (name: string, limit: number) => ({ rate: { ...AN_HOUR, name, limit } });
  const begun: string[] = [];
  const inner = createEventRouter().on("both", ({ id }) => void begun.push(id), rate("c", 100));
  const router = createEventRouter()
    .on("both", () => {}, { id: "a", ...rate("a", 3) })
    .on("both", inner.handle, { id: "b", ...rate("b", 1) });
  await during(store, router.handle, rate("d", 100), async () => {
    await accept(store, "both", "x", "y", "z");
    await waiting(store, 2);
    await reach(store, "x", "done");
  });
  assertEquals(begun, ["x"]);
});

testStoreOnce("an event counts once under a limit that several name", async ({ store }) => {
  const rate = { name: "service", limit: 1, perMs: 3_600_000 };
  const inner = createEventRouter()
    .on("both", () => {}, { id: "a" })
    .on("both", () => {}, { id: "b", rate: { ...rate, perMs: 1_000 } });
  const router = createEventRouter().on("both", inner.handle, { rate: { ...rate, limit: 5 } });
  await during(store, router.handle, {}, async () => {
    await accept(store, "both", "x", "y");
    await until(async () => await doneIn(store) === 1);
    const [event] = await waiting(store, 1);
    // By the strictest of both.
    assertGreaterOrEqual(event!.delayMs!, 3_500_000);
  });
});

testStoreOnce("the first call of a handler has the room of its event's rate", async ({ store }) => {
  const rule = { limit: 2, perMs: 3_600_000, waitMs: 0 };
  const rate = { ...AN_HOUR, key: ({ type }: RatedEvent) => type };
  const calls: Record<string, (key: string, take: HandlerContext["take"]) => Promise<unknown>> = {
    one: (key, take) => take("service", { ...rule, key }),
    two: (key, take) => take("service", { ...rule, key, count: 2 }),
    now: (key, take) => take.now("service", { ...rule, key, count: 2 }),
    others: (key, take) =>
      Promise.all([1, 2].map((i) => take("service", { ...rule, key: `${i}${key}`, count: 2 }))),
    stricter: (key, take) => take("service", { ...rule, key, limit: 1 }),
    thrice: (key, take) => Promise.all([1, 2, 3].map(() => take("service", { ...rule, key }))),
  };
  const results: Record<string, unknown> = {};
  const handler: EventHandler = async ({ type }, { take }) => {
    results[type] = await calls[type]!(type, take).catch((error) => error.name);
  };
  await during(store, handler, { rate }, async () => {
    for (const type of Object.keys(calls)) await accept(store, type, type);
    await until(async () => await doneIn(store) === 6);
  });
  const never = { stricter: "RangeError", thrice: "RangeError" };
  const others = [undefined, undefined];
  assertEquals(results, { one: undefined, two: undefined, now: true, others, ...never });
  const free = await Array.fromAsync(store.limits(), ({ key, free }) => [key, free]);
  assertEquals(free.filter(([key]) => key === "one"), [["one", 1]]);
});

testStoreOnce("a first call that comes too late has no room of its rate", async ({ store }) => {
  const rate = { name: "service", limit: 1, perMs: 32_000 };
  const handler: EventHandler = async (_event, { take }) => {
    await wait(1_100); // a call that is on time comes within a thirty-second of that
    await take("service", { limit: 1, perMs: 32_000, waitMs: 0 });
  };
  await during(store, handler, { rate }, async () => {
    await accept(store, "push", "a");
    await until(async () => (await store.get("a"))!.attempts.length === 1);
  });
  const [attempt] = (await store.get("a"))!.attempts;
  assertMatch(attempt!.error!, /RangeError: .* this attempt has taken 1 of 1 already/);
});

testStoreOnce(
  "an event whose limit cannot be read is put off, and the log says so",
  async ({ damages, store }) => {
    await ask(store, AN_HOUR);
    await damages.spoilCell("limit", "service", "");
    const messages: string[] = [];
    const log = ({ message }: LogRecord) => void messages.push(message);
    await during(store, () => {}, { rate: AN_HOUR, log }, async () => {
      await accept(store, "push", "a");
      await waiting(store, 1);
    });
    assert(messages.includes("limit not read, event put off"), `${messages}`);
  },
  {},
  "damages",
);

testStoreOnce(
  "a handler that closes the limit of its rate holds up the rest",
  async ({ store }) => {
    const rate = { ...AN_HOUR, limit: 100 };
    const handler: EventHandler = async (_event, { take }) => {
      await take.later("service", { untilMs: Date.now() + 600_000 });
    };
    await during(store, handler, { rate }, async () => {
      await accept(store, "push", "a");
      await reach(store, "a", "done");
      await accept(store, "push", "b");
      const [event] = await waiting(store, 1);
      assert(event!.delayMs! > 500_000 && event!.delayMs! <= 600_000);
    });
  },
);

testStoreOnce("an event whose key cannot be found fails", async ({ store }) => {
  const key = () => {
    throw new Error("no key");
  };
  await during(store, () => {}, { rate: { ...AN_HOUR, key } }, async () => {
    await accept(store, "push", "a");
    await until(async () => (await store.get("a"))!.attempts.length === 1);
  });
  const [attempt] = (await store.get("a"))!.attempts;
  assertEquals([attempt?.outcome, attempt?.error], ["failed", "Error: no key"]);
});

testStoreOnce("an event that waits for its rate is cancelled at once", async ({ store }) => {
  const rate = { name: "service", limit: 1, perMs: 1_500 };
  await during(store, () => {}, { rate }, async () => {
    await accept(store, "push", "a");
    await reach(store, "a", "done");
    await accept(store, "push", "b");
    await until(() => store.tokens.of("service", "").waiting === 1);
    assert(await store.cancel("b"));
    await reach(store, "b", "dead");
    assertEquals(store.tokens.of("service", "").waiting, 0);
  });
});

testStoreOnce("a worker that stops gives back what waits for its rate", async ({ store }) => {
  const rate = { name: "service", limit: 1, perMs: 1_500 };
  await during(store, () => {}, { rate }, async () => {
    await accept(store, "push", "a");
    await reach(store, "a", "done");
    await accept(store, "push", "b");
    await until(() => store.tokens.of("service", "").waiting === 1);
  });
  const { state, attempt, delayMs } = (await store.get("b"))!;
  assertEquals([state, attempt, delayMs], ["queued", 0, 0]);
});

for (const [engine, store] of Object.entries(LOCAL_STORES)) {
  const needs = engine === "kv" ? [] : ["read", "write"] as const;
  testWith(needs, `a test bot turns the time of rates [${engine}]`, async () => {
    let begun = 0;
    const bot = defineApp({
      name: "bot",
      platform: github(),
      store: store(),
      worker: { rate: AN_HOUR },
    })
      .on("push", () => void begun++);
    await using test = await startTestBot(bot);
    for (let i = 0; i < 4; i++) await test.deliver(forgeDelivery("push", {}));
    assertEquals(begun, 2);
    await test.advance(4 * 3_600_000);
    assertEquals(begun, 4);
  });
}

Deno.test("a rate that is none is refused", () => {
  const errors = {
    "Cannot register the handler: 'rate' must be an object, got 5": 5,
    "Cannot register the handler, in 'rate': 'name' must be a text that is not empty, got undefined":
      {
        limit: 1,
        perMs: 1,
      },
    "Cannot register the handler, in 'rate': 'limit' must be a whole number from 1 to 1000000000, got 0.5":
      {
        ...AN_HOUR,
        limit: 0.5,
      },
    "Cannot register the handler, in 'rate': there is no option \"waitMs\". There are name, key, limit, perMs":
      { ...AN_HOUR, waitMs: 1 },
    "Cannot register the handler, in 'rate': 'key' must be a text, got true": {
      ...AN_HOUR,
      key: true,
    },
  };
  for (const [message, rate] of Object.entries(errors)) {
    assertThrows(
      () => createEventRouter().onAny(() => {}, { rate: rate as typeof AN_HOUR }),
      Error,
      message,
    );
  }
});
