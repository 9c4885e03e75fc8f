/** Handlers that wait for something from outside, by `waitFor`. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { defineApp, forge, GiveUpError, RetryLaterError, startWorker } from "../../../mod.ts";
import { createEventRouter, ParkedError, type WaitOptions } from "../../../events/mod.ts";
import { forgeDelivery, startTestBot, type TestBot } from "../../../testing/mod.ts";
import { botOf } from "../../testing/_bots.ts";
import { recordTelemetry } from "../../telemetry/_recording.ts";
import { delivery } from "../store/_events.ts";
import { memoryStore } from "../store/kv/_stores.ts";
import { testFailing, testStoreOnce } from "../store/contract/_contract.ts";
import { reach, stealLease, until } from "./_worker.ts";
import { createKvRouter, type KvHandler } from "../../_kv_handlers.ts";

const [HOUR_MS, DAY_MS] = [3_600_000, 86_400_000];

const push = (id = "d1") => forgeDelivery("push", {}, { id });

const recordOf = async ({ store }: TestBot, id = "forge:d1") => (await store.get(id))!;

const messagesOf = ({ logs }: TestBot) =>
  logs.filter(({ message }) => message.startsWith("event ")).map(({ level, message }) =>
    `${level}: ${message}`
  );

/** A bot that waits for a name, and the results that its handler has got. */
async function waitingBot(options?: WaitOptions, name = "approval:1") {
  const results: unknown[] = [];
  const test = await startTestBot(botOf(async (_event, { waitFor }) => {
    results.push(await waitFor(name, options));
  }));
  return { test, results, [Symbol.asyncDispose]: () => test[Symbol.asyncDispose]() };
}

Deno.test("waitFor() parks the event, and returns the value it is woken with", async () => {
  await using bot = await waitingBot();
  const { test, results } = bot;
  const { event } = await test.deliver(push());
  assertEquals([event?.state, event?.attempt, event?.attempts], ["parked", 0, []]);
  const { name, since, until } = event!.waitingFor!;
  assertEquals([name, until - since, event!.dueAt], ["approval:1", 7 * DAY_MS, until]);
  const woken = await test.store.wake("approval:1", { approved: true });
  assertEquals(woken, { outcome: "woken", eventId: "forge:d1" });
  await test.advance(0);
  assertEquals(results, [{ value: { approved: true }, timedOut: false }]);
  const { state, waitingFor, attempts } = await recordOf(test);
  assertEquals([state, waitingFor, attempts.length], ["done", undefined, 1]);
  assertEquals(messagesOf(test), [
    "info: event parked",
    "info: event woken",
    "info: event handled",
  ]);
});

Deno.test("waitFor() returns that its time has passed", async () => {
  await using bot = await waitingBot({ timeoutMs: HOUR_MS });
  const { test, results } = bot;
  await test.deliver(push());
  await test.advance(HOUR_MS - 10_000);
  assertEquals(results, []);
  await test.advance(10_000);
  assertEquals(results, [{ value: undefined, timedOut: true }]);
  assertEquals((await recordOf(test)).state, "done");
  const { waitedFor, timedOut, eventId } = test.logs.find(({ message }) =>
    message === "event woken"
  )!;
  assertEquals([waitedFor, timedOut, eventId], ["approval:1", true, "forge:d1"]);
});

Deno.test("waitFor() returns a value that came before, without parking", async () => {
  await using bot = await waitingBot();
  const { test, results } = bot;
  assertEquals(await test.store.wake("approval:1", [1]), { outcome: "kept" });
  const { event } = await test.deliver(push());
  assertEquals([event?.state, results], ["done", [{ value: [1], timedOut: false }]]);
  assertEquals(messagesOf(test), ["info: event handled"]);
});

Deno.test("waitFor() returns the same result in each later attempt", async () => {
  const results: unknown[] = [];
  await using test = await startTestBot(botOf(async ({ attempt }, { waitFor }) => {
    results.push((await waitFor("a")).value, (await waitFor("a")).value);
    if (attempt === 1) throw new Error("once");
  }));
  await test.deliver(push());
  await test.store.wake("a", 1);
  await test.advance(2_000, { expectFailure: true });
  await test.advance(2_000);
  assertEquals([results, (await recordOf(test)).state], [[1, 1, 1, 1], "done"]);
});

Deno.test("a handler waits for several names, one after the other", async () => {
  const results: unknown[] = [];
  await using test = await startTestBot(botOf(async (_event, { waitFor, step }) => {
    await step("ask", () => results.push("asked"));
    const first = await waitFor<string>("first");
    const second = await waitFor<string>("second", { timeoutMs: HOUR_MS });
    results.push(first.value, second.timedOut);
  }));
  await test.deliver(push());
  await test.store.wake("first", "yes");
  await test.advance(0);
  assertEquals((await recordOf(test)).waitingFor?.name, "second");
  await test.advance(HOUR_MS);
  assertEquals(results, ["asked", "yes", true]);
});

/** Ways in which a handler does not let the error of its wait pass. */
const STUBBORN: Readonly<Record<string, KvHandler>> = {
  "catches it": async (_event, { waitFor }) => void await waitFor("a").catch(() => {}),
  "throws another error": async (_event, { waitFor }) => {
    await waitFor("a").catch((cause) => {
      throw new Error("wrapped", { cause });
    });
  },
  "gives up": async (_event, { waitFor }) => {
    await waitFor("a").catch(() => {
      throw new GiveUpError("no");
    });
  },
  "throws in its finally": async (_event, { waitFor }) => {
    try {
      await waitFor("a");
    } finally {
      // deno-lint-ignore no-unsafe-finally
      throw new Error("finally");
    }
  },
  "races it": async (_event, { waitFor }) => void await Promise.race([waitFor("a"), undefined]),
  "does not await it": (_event, { waitFor }) => void waitFor("a"),
  "has effects": async (_event, { waitFor, settleWith, wake }) => {
    settleWith((commit) => commit.set(["effect"], 1));
    wake("other");
    await waitFor("a");
  },
};

for (const [does, handler] of Object.entries(STUBBORN)) {
  for (const isAlone of [true, false]) {
    Deno.test(`a handler that ${does} is parked all the same (${isAlone ? "alone" : "of two"})`, async () => {
      let done = 0;
      const waits: KvHandler = async (event, context) => {
        await handler(event, context);
        done++;
      };
      const router = createKvRouter().on("push", waits).on("push", () => {}, { id: "second" });
      await using test = await startTestBot(botOf(isAlone ? waits : router.handle));
      const { event } = await test.deliver(push());
      assertEquals([event?.state, event?.waitingFor?.name, event?.attempts], ["parked", "a", []]);
      assertEquals((await test.db.get(["effect"])).value, null);
      assertEquals((await test.store.wake("other")).outcome, "kept");
      await test.store.wake("a");
      await test.advance(0, { expectFailure: true });
      assertEquals((await recordOf(test)).waitingFor, undefined);
    });
  }
}

/** Delivers an event to a router with two handlers, of which one waits. */
async function besideAWait(other: KvHandler) {
  const calls = { waits: 0, other: 0 };
  const router = createKvRouter().on("push", async (_event, { waitFor }) => {
    calls.waits++;
    await waitFor("a");
  }).on("push", (event, context) => {
    calls.other++;
    return other(event, context);
  }, { id: "other" });
  const test = await startTestBot(botOf(router.handle));
  const { event } = await test.deliver(push(), { expectFailure: true });
  return { test, calls, event: event!, [Symbol.asyncDispose]: () => test[Symbol.asyncDispose]() };
}

Deno.test("a handler that has succeeded does not run again beside one that waits", async () => {
  await using bot = await besideAWait(() => {});
  const { test, calls, event } = bot;
  assertEquals([event.state, event.progress], ["parked", ["onAny/id(other)"]]);
  await test.store.wake("a");
  await test.advance(0);
  assertEquals([calls, (await recordOf(test)).state], [{ waits: 2, other: 1 }, "done"]);
});

Deno.test("an ordinary failure beside a wait counts, and the event waits in a later attempt", async () => {
  await using bot = await besideAWait(({ attempt }) => {
    if (attempt === 1) throw new Error("once");
  });
  const { test, calls, event } = bot;
  assertEquals([event.state, event.attempt, event.waitingFor], ["queued", 1, undefined]);
  assertEquals(
    event.attempts[0]?.error,
    "AggregateError: 1 of 2 handlers failed: id(other): Error: once",
  );
  await test.advance(2_000);
  assertEquals((await recordOf(test)).state, "parked");
  await test.store.wake("a");
  await test.advance(0);
  assertEquals([calls, (await recordOf(test)).state], [{ waits: 3, other: 2 }, "done"]);
});

Deno.test("a put-off beside a wait counts, and the event waits in a later attempt", async () => {
  let isOff = true;
  await using bot = await besideAWait(() => {
    if (isOff) throw new RetryLaterError("later", { afterMs: HOUR_MS });
  });
  const { test, event } = bot;
  assertEquals([event.state, event.putOff?.reason], [
    "queued",
    "id(other): RetryLaterError: later",
  ]);
  isOff = false;
  await test.advance(HOUR_MS);
  const { state, putOff } = await recordOf(test);
  assertEquals([state, putOff], ["parked", undefined]);
});

Deno.test("a handler that gives up beside one that waits does so once that has ended", async () => {
  await using bot = await besideAWait(() => {
    throw new GiveUpError("never");
  });
  const { test, event } = bot;
  assertEquals(event.state, "parked");
  await test.store.wake("a");
  await test.advance(0, { expectFailure: true });
  assertEquals((await recordOf(test)).state, "dead");
});

Deno.test("two handlers of an event do not wait for two names", async () => {
  await using bot = await besideAWait(async (_event, { waitFor }) => void await waitFor("b"));
  const { event } = bot;
  assertEquals(event.state, "queued");
  assertStringIncludes(
    event.attempts[0]!.error!,
    'WaitRefusedError: Cannot wait for "b": the event waits for "a" already',
  );
});

Deno.test("two handlers of an event can wait for one name", async () => {
  await using bot = await besideAWait(async (_event, { waitFor }) => void await waitFor("a"));
  const { test, event } = bot;
  assertEquals(event.state, "parked");
  await test.store.wake("a");
  await test.advance(0);
  assertEquals((await recordOf(test)).state, "done");
});

Deno.test("a router in a router waits, and drops the wait if another handler fails", async () => {
  let fails = true;
  const inner = createKvRouter().on(
    "push",
    async (_event, { waitFor }) => void await waitFor("a"),
  )
    .on("push", () => {
      if (fails) throw new Error("no");
    }, { id: "fails" });
  const outer = createKvRouter().onAny(inner.handle).onAny(() => {}, { id: "plain" });
  await using test = await startTestBot(botOf(outer.handle));
  const { event } = await test.deliver(push(), { expectFailure: true });
  assertEquals([event?.state, event?.attempt], ["queued", 1]);
  fails = false;
  await test.advance(2_000);
  assertEquals((await recordOf(test)).state, "parked");
});

Deno.test("another event's wait for the same name is an ordinary failure", async () => {
  await using bot = await waitingBot();
  const { test } = bot;
  await test.deliver(push());
  const { event } = await test.deliver(push("d2"), { expectFailure: true });
  assertEquals([event?.state, event?.attempts[0]?.error], [
    "queued",
    'WaitRefusedError: Cannot wait for "approval:1": event forge:d1 waits for it already',
  ]);
});

/** An app whose issues wait, and whose pushes wake by what they do. */
async function wakingBot(wakes: KvHandler, others: readonly KvHandler[] = []) {
  const results: unknown[] = [];
  const router = createKvRouter().on("issues", async (_event, { waitFor }) => {
    results.push(await waitFor("a"));
  }).on("push", wakes);
  for (const [i, other] of others.entries()) router.on("push", other, { id: `other${i}` });
  const test = await startTestBot(botOf(router.handle));
  await test.deliver(forgeDelivery("issues", {}, { id: "i1" }));
  return { test, results, [Symbol.asyncDispose]: () => test[Symbol.asyncDispose]() };
}

Deno.test("wake() wakes an event once its handler has succeeded", async () => {
  await using bot = await wakingBot((_event, { wake }) => wake("a", 1));
  const { test, results } = bot;
  await test.deliver(push());
  assertEquals(results, [{ value: 1, timedOut: false }]);
  assertEquals((await recordOf(test, "forge:i1")).state, "done");
});

Deno.test("wake() of a handler that fails is dropped", async () => {
  await using bot = await wakingBot(({ attempt }, { wake }) => {
    wake("a", attempt);
    if (attempt === 1) throw new Error("once");
  });
  const { test, results } = bot;
  await test.deliver(push(), { expectFailure: true });
  assertEquals(results, []);
  await test.advance(2_000);
  assertEquals(results, [{ value: 2, timedOut: false }]);
});

Deno.test("wake() of one handler counts although another one fails", async () => {
  const fails = () => {
    throw new GiveUpError("no");
  };
  await using bot = await wakingBot((_event, { wake }) => wake("a", 1), [fails]);
  const { test, results } = bot;
  await test.deliver(push(), { expectFailure: true });
  assertEquals(results, [{ value: 1, timedOut: false }]);
  assertEquals((await recordOf(test)).state, "dead");
});

Deno.test("wake() takes the value as it is at the call, and the first of two", async () => {
  await using bot = await wakingBot((_event, { wake }) => {
    const value = { a: 1 };
    wake("a", value);
    value.a = 2;
    wake("a", value);
  });
  const { test, results } = bot;
  await test.deliver(push());
  assertEquals(results, [{ value: { a: 1 }, timedOut: false }]);
});

Deno.test("wake() takes three names, and neither other values nor a fourth", async () => {
  const errors: string[] = [];
  await using test = await startTestBot(botOf((_event, { wake }) => {
    for (const name of ["a", "b", "d", "e", "a"]) {
      try {
        wake(name, name);
      } catch (error) {
        errors.push(String(error));
      }
    }
    try {
      wake("f", () => {});
    } catch (error) {
      errors.push(String(error));
    }
  }));
  await test.deliver(push());
  assertEquals(errors, [
    'RangeError: Cannot wake "e": a commit wakes 3 names at most',
    'TypeError: Cannot wake "f": the value must be one that JSON has, got a function',
  ]);
  const outcomes = await Promise.all(["a", "d", "e"].map((name) => test.store.wake(name)));
  assertEquals(outcomes.map(({ outcome }) => outcome), ["late", "late", "kept"]);
});

Deno.test("middleware takes a wait for no failure, and cannot keep the event from it", async () => {
  const seen: unknown[] = [];
  const bot = defineApp({ name: "waits", platform: forge() });
  bot.use(async (_event, _context, next) => {
    await next().then(() => seen.push("ended"), (error) => seen.push(error));
  });
  bot.on("push", async (_event, { waitFor }) => {
    seen.push((await waitFor("a")).value);
  });
  await using test = await startTestBot(bot);
  assertEquals((await test.deliver(push())).event?.state, "parked");
  await test.store.wake("a", 1);
  await test.advance(0);
  assertEquals([seen, (await recordOf(test)).state], [["ended", 1, "ended"], "done"]);
});

Deno.test("an event of a group is answered by a later one of the same group", async () => {
  const bot = defineApp({ name: "waits", platform: forge({ groupBy: () => "all" }) });
  const results: unknown[] = [];
  bot.on("issues", async (_event, { waitFor }) => void results.push((await waitFor("a")).value));
  bot.on("push", (_event, { wake }) => wake("a", "from the same group"));
  await using test = await startTestBot(bot);
  await test.deliver(forgeDelivery("issues", {}, { id: "i1" }));
  await test.deliver(push());
  assertEquals(results, ["from the same group"]);
});

testStoreOnce(
  "attempts that end with a wait are counted as parked, without an error",
  async (sut) => {
    const telemetry = recordTelemetry();
    const worker = startWorker(sut.store, async (_event, { waitFor }) => void await waitFor("a"), {
      ...{ log: () => {}, telemetry },
    });
    await sut.store.accept(delivery("d1"));
    await reach(sut.store, "d1", "parked");
    await until(() => telemetry.outcomes.length === 1);
    await worker.stop();
    assertEquals(telemetry.outcomes, [["parked"]]);
  },
);

testStoreOnce("a handler that waits while the worker stops is parked", async ({ store }) => {
  const started = Promise.withResolvers<void>();
  const worker = startWorker(store, async (_event, { waitFor, signal }) => {
    started.resolve();
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    await waitFor("a");
  }, { log: () => {} });
  await store.accept(delivery("d1"));
  await started.promise;
  await worker.stop();
  assertEquals((await store.get("d1"))?.state, "parked");
});

testStoreOnce("a handler that waits after its time limit is parked", async ({ store }) => {
  const worker = startWorker(store, async (_event, { waitFor, signal }) => {
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    await waitFor("a");
  }, { log: () => {}, timeoutMs: 10 });
  await store.accept(delivery("d1"));
  await reach(store, "d1", "parked");
  await worker.stop();
});

testStoreOnce("a handler whose event is cancelled does not wait", async ({ store }) => {
  const started = Promise.withResolvers<void>();
  const worker = startWorker(store, async (_event, { waitFor, signal }) => {
    started.resolve();
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    await waitFor("a");
  }, { log: () => {} });
  await store.accept(delivery("d1"));
  await started.promise;
  assert(await store.cancel("d1"));
  await reach(store, "d1", "dead");
  assertEquals(await store.wake("a"), { outcome: "kept" });
  await worker.stop();
});

Deno.test("a ParkedError names what the event waits for", async () => {
  let met: unknown;
  await using test = await startTestBot(botOf(async (_event, { waitFor }) => {
    met = await waitFor("a").catch((error) => error);
  }));
  await test.deliver(push());
  assert(met instanceof ParkedError);
  assertEquals(String(met), 'ParkedError: The event waits for "a"');
});

for (const fault of ["before", "after"] as const) {
  testFailing(
    fault,
    `a commit that fails ${fault} it parks the event does no harm`,
    async ({ failing }) => {
      const { store, arm } = failing;
      const messages: string[] = [];
      const results: unknown[] = [];
      const worker = startWorker(store, async (_event, { waitFor }) => {
        const waiting = waitFor("a");
        waiting.catch(arm);
        results.push((await waiting).value);
      }, { pollMs: 20, log: ({ message }) => messages.push(message) });
      await store.accept(delivery("d1"));
      await until(() => messages.includes("event parked"));
      assertEquals((await store.get("d1"))?.state, "parked");
      await store.wake("a", 1);
      await reach(store, "d1", "done");
      await worker.stop();
      assertEquals(results, [1]);
    },
  );
}

Deno.test("a lost lease ends a wait, and the event is handled elsewhere", async () => {
  await using sut = await memoryStore();
  let isFirst = true;
  const errors: string[] = [];
  const worker = startWorker(sut.store, async (_event, { waitFor }) => {
    if (!isFirst) return;
    isFirst = false;
    await sut.store.wake("a", 1);
    await stealLease(sut, "d1");
    await waitFor("a").catch((error) => {
      errors.push(String(error));
      throw error;
    });
  }, { pollMs: 20, log: () => {} });
  await sut.store.accept(delivery("d1"));
  await until(() => errors.length === 1);
  assertEquals(errors, ['Error: Cannot wait for "a": the lease was lost']);
  await worker.stop();
  assertEquals((await sut.store.wake("a")).outcome, "late");
});

testStoreOnce(
  "another event that begins to wait for the name meanwhile is an ordinary failure",
  async (sut) => {
    const { store } = sut;
    await store.accept(delivery("d1"));
    await store.accept(delivery("d2"));
    let waiting = 0;
    const both = Promise.withResolvers<void>();
    const worker = startWorker(store, async (_event, { waitFor }) => {
      // Both find the name free, and go on to be parked.
      await waitFor("a").catch(async () => {
        if (++waiting === 2) both.resolve();
        await both.promise;
      });
    }, { pollMs: 20, log: () => {}, retry: { minDelayMs: 60_000, maxDelayMs: 60_000 } });
    await until(async () => {
      const { parked, queued } = await store.stats();
      return parked === 1 && queued === 1;
    });
    await worker.stop();
    const [queued] = await Array.fromAsync(store.list({ state: "queued" }));
    assertStringIncludes(
      queued!.attempts[0]!.error!,
      'WaitRefusedError: Cannot wait for "a": event d',
    );
  },
);

for (const isAlone of [true, false]) {
  const whose = isAlone ? "their handler" : "one of their handlers";
  testStoreOnce(
    `events that are handled together are dead at once if ${whose} waits`,
    async ({ store }) => {
      const quiet = { quietMs: 30, maxWaitMs: 1_000 };
      for (const id of ["d1", "d2"]) await store.accept({ ...delivery(id, "{}", "key"), ...quiet });
      let runs = 0;
      const router = createEventRouter().on("push", async (_event, { waitFor }) => {
        runs++;
        await waitFor("a");
      });
      if (!isAlone) router.onAny(() => {});
      const worker = startWorker(store, router.handle, { pollMs: 20, log: () => {} });
      await until(async () => (await store.stats()).dead === 2);
      await worker.stop();
      assertEquals(runs, 1);
      const [dead] = await Array.fromAsync(store.list({ state: "dead", ids: ["d1"] }));
      assertStringIncludes(dead!.attempts[0]!.error!, "Cannot wait: the event is handled together");
    },
  );
}
