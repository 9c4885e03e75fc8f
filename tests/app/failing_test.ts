import { assert, assertEquals, assertThrows } from "@std/assert";
import type { FailingEvent, FailingOptions } from "../../app/mod.ts";
import type { StoreDefinition } from "../../events/store/store_definition.ts";
import { createEventRouter, defineApp, github, startWorker } from "../../mod.ts";
import { forgeDelivery, startTestBot } from "../../testing/mod.ts";
import { delivery } from "../events/store/_events.ts";
import { testStoreOnce } from "../events/store/contract/_contract.ts";
import { until } from "../events/worker/_worker.ts";
import { testApp } from "./_stores.ts";

const MINUTE_MS = 60_000;

const push = (id = "d1") => forgeDelivery("push", {}, { id });

/** An app whose handler of pushes fails until an attempt, and what its reports say. */
function failing(store: StoreDefinition, failsUntil = Infinity) {
  const bot = defineApp({ name: "bot", platform: github(), store });
  const reports: FailingEvent[] = [];
  bot.on("push", ({ attempt }) => {
    if (attempt <= failsUntil) throw new Error("no");
  });
  return { bot, reports };
}

/** Lets time pass in steps, whatever fails. */
async function pass(test: Awaited<ReturnType<typeof startTestBot>>, minutes: number) {
  for (let i = 0; i < minutes; i++) await test.advance(MINUTE_MS, { expectFailure: true });
}

testApp("onFailing() is told once of an event that has failed some times", async (store) => {
  const { bot, reports } = failing(store);
  assertEquals(bot.failingRules, []);
  bot.onFailing(({ payload }) => void reports.push(payload), { afterAttempts: 3 });
  assertEquals(bot.failingRules.length, 1);
  await using test = await startTestBot(bot);
  await test.deliver(push(), { expectFailure: true });
  await test.advance(1_500, { expectFailure: true });
  assertEquals(reports, []);
  await pass(test, 30);
  assertEquals(reports.length, 1);
  const [{ id, type, attempt, attempts, nextAttemptAt, since }] = reports as [FailingEvent];
  assertEquals([id, type, attempt, attempts.length], ["github:d1", "push", 3, 3]);
  assertEquals([since, attempts.at(-1)?.error], [attempts[0]!.endedAt, "Error: no"]);
  assert(nextAttemptAt - attempts[2]!.endedAt >= 4_000);
});

testApp("onFailing() is told after a time, before an attempt that comes later", async (store) => {
  const { bot, reports } = failing(store);
  const at: number[] = [];
  bot.onFailing(({ payload }) => {
    reports.push(payload);
    at.push(Date.now());
  }, { afterMs: 10 * MINUTE_MS });
  await using test = await startTestBot(bot);
  await test.deliver(push(), { expectFailure: true });
  await pass(test, 60);
  assertEquals(reports.length, 1);
  const afterMs = at[0]! - reports[0]!.since;
  assert(afterMs >= 10 * MINUTE_MS && afterMs < 10 * MINUTE_MS + 5_000, `${afterMs}`);
});

testApp("onFailing() is not told of events that succeed or die before", async (store) => {
  const { bot, reports } = failing(store, 2);
  const dead: string[] = [];
  bot.on("star", () => {
    throw new Error("no");
  }, { retry: { maxAttempts: 2 } });
  bot.onFailing(({ payload }) => void reports.push(payload), { afterAttempts: 3 });
  bot.onFailing(({ payload }) => void reports.push(payload), { afterMs: 20_000 });
  bot.onDead(({ payload }) => void dead.push(payload.id));
  await using test = await startTestBot(bot);
  for (const type of ["push", "star"]) {
    await test.deliver(forgeDelivery(type, {}, { id: type }), { expectFailure: true });
  }
  await pass(test, 5);
  assertEquals([reports, dead], [[], ["github:star"]]);
});

testApp("onFailing() takes several rules and handlers, with options", async (store) => {
  const { bot } = failing(store);
  const told: string[] = [];
  const note = (name: string) => () => void told.push(name);
  bot.onFailing(note("a"), { afterAttempts: 2 }).onFailing(note("b"), {
    afterAttempts: 2,
    id: "b",
  });
  let calls = 0;
  bot.onFailing(() => {
    if (calls++ === 0) throw new Error("not yet");
    told.push("c");
  }, { afterAttempts: 1, retry: { minDelayMs: 10 * MINUTE_MS } });
  assertThrows(() => bot.onFailing(() => {}, { afterAttempts: 2 }), TypeError, "an id of its own");
  await using test = await startTestBot(bot);
  await test.deliver(push(), { expectFailure: true });
  await pass(test, 5);
  assertEquals(told.toSorted(), ["a", "b"]);
  await pass(test, 10);
  assertEquals(told.toSorted(), ["a", "b", "c"]);
});

testApp("a handler of a report can act on the event", async (store) => {
  const { bot } = failing(store);
  bot.onFailing(async ({ payload: { id } }, { cancel }) => void await cancel(id), {
    afterAttempts: 1,
  });
  await using test = await startTestBot(bot);
  const { event } = await test.deliver(push(), { expectFailure: true });
  assertEquals(event?.outcome, "cancelled");
});

testApp("of events that are handled together, the first one is reported", async (store) => {
  const platform = github({ groupBy: () => ({ key: "a", quietMs: 1_000 }) });
  const bot = defineApp({ name: "bot", platform, store });
  const ids: string[] = [];
  bot.on("push", ({ attempt }) => {
    if (attempt < 3) throw new Error("no");
  }).onFailing(({ payload }) => void ids.push(payload.id), { afterAttempts: 1 });
  await using test = await startTestBot(bot);
  for (const id of ["d1", "d2"]) await test.deliver(push(id));
  await pass(test, 2);
  assertEquals([ids, (await test.store.get("github:d2"))?.state], [["github:d1"], "done"]);
});

testStoreOnce("an event whose processes keep dying is reported", async ({ store }) => {
  const seen: (readonly [string, number])[] = [];
  const router = createEventRouter()
    .on("failing", ({ payload }) => void seen.push(["report", payload.attempt as number]))
    .on("push", ({ attempt }) => void seen.push(["push", attempt]));
  await store.accept(delivery("d1"));
  for (let died = 1; died <= 2; died++) {
    await until(async () =>
      (await store.claim({ limit: 1, owner: "gone", leaseMs: 1 })).length === 1
    );
  }
  const worker = startWorker(store, router.handle, {
    ...{ log: () => {}, pollMs: 5, reportFailing: [{ afterAttempts: 2 }] },
  });
  await until(() => seen.length === 2);
  await worker.stop();
  assertEquals(new Map(seen), new Map([["report", 2], ["push", 3]]));
});

const BAD: readonly [options: unknown, message: string][] = [
  [undefined, "Cannot register the handler: the rule must be an object"],
  [{}, "Cannot register the handler: give either 'afterAttempts' or 'afterMs'"],
  [{ afterAttempts: 1, afterMs: 1 }, "give either 'afterAttempts' or 'afterMs'"],
  [{ afterAttempts: 0 }, "'afterAttempts' must be a whole number"],
  [{ afterMs: -1 }, "'afterMs' must be from 0 to 31536000000"],
  [{ afterMs: 1, after: 2 }, 'there is no option "after"'],
];

Deno.test("onFailing() refuses what is no rule, and more than ten", () => {
  const bot = defineApp({ name: "bot", platform: github() });
  for (const [options, message] of BAD) {
    assertThrows(() => bot.onFailing(() => {}, options as FailingOptions), Error, message);
  }
  assertEquals(bot.failingRules, []);
  for (let i = 1; i <= 10; i++) bot.onFailing(() => {}, { afterAttempts: i });
  assertThrows(
    () => bot.onFailing(() => {}, { afterMs: 1 }),
    RangeError,
    "Cannot register the handler: there may be up to 10 rules for failing events, got 11",
  );
});

testStoreOnce("startWorker() refuses what are no rules", ({ store }) => {
  const start = (reportFailing: unknown) => () =>
    startWorker(store, () => {}, { reportFailing } as object);
  assertThrows(start({}), TypeError, "'reportFailing' must be an array of rules, got an object");
  assertThrows(start([{ after: 1 }]), TypeError, "in 'reportFailing': there is no option");
  assertThrows(start([{}]), TypeError, "give either 'afterAttempts' or 'afterMs'");
});
