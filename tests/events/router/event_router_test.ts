import { assert, assertEquals, assertLess, assertMatch, assertThrows } from "@std/assert";
import type { JsonObject } from "../../../core/parse_json.ts";
import {
  type EventHandler,
  type EventRecord,
  GiveUpError,
  startWorker,
  type WorkerOptions,
} from "../../../events/mod.ts";
import { createEventRouter } from "../../../events/router/mod.ts";
import type { LogRecord } from "../../../middleware/mod.ts";
import { defineApp, forge } from "../../../mod.ts";
import { forgeDelivery, startTestBot } from "../../../testing/mod.ts";
import { subjectsOf } from "../../../webhook/forge.ts";
import { asyncEffects, createKvRouter, type KvHandler, type KvRouter } from "../../_kv_handlers.ts";
import { delivery } from "../store/_events.ts";
import { memoryStore, type StoreUnderTest } from "../store/kv/_stores.ts";

interface Outcome {
  readonly record: EventRecord;
  readonly logged: readonly string[];
}

const later = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Has a router handle what is due, until nothing waits any more. */
async function work(
  { store }: StoreUnderTest,
  { handle }: KvRouter,
  options: WorkerOptions = {},
): Promise<Outcome> {
  const records: LogRecord[] = [];
  const log = (record: LogRecord) => void records.push(record);
  const worker = startWorker(store, handle, { log, retry: { minDelayMs: 0 }, ...options });
  do await worker.poll(); while ((await store.get("d1"))?.state === "queued");
  await worker.stop();
  const logged = records.map(({ level, message }) => `${level}: ${message}`);
  return { record: (await store.get("d1"))!, logged };
}

/** Has a router handle one event in a store of its own. */
async function route(
  router: KvRouter,
  type: string,
  payload: JsonObject = {},
): Promise<Outcome> {
  await using sut = await memoryStore();
  await sut.store.accept({
    ...delivery("d1", JSON.stringify(payload)),
    type,
    action: subjectsOf(payload).action,
  });
  return await work(sut, router);
}

/** Lists the handlers that are called for an event. */
async function calledFor(type: string, payload: JsonObject = {}): Promise<string[]> {
  const called: string[] = [];
  const router = createKvRouter()
    .on("issues", () => called.push("issues"))
    .on("issues.opened", () => called.push("issues.opened"))
    .on(["issues.closed", "push"], () => called.push("issues.closed|push"))
    .onAny(() => called.push("*"));
  await route(router, type, payload);
  return called;
}

Deno.test("createKvRouter() hands events on by type, and by type and action", async () => {
  assertEquals(await calledFor("push"), ["issues.closed|push", "*"]);
  assertEquals(await calledFor("issues", { action: "opened" }), ["issues", "issues.opened", "*"]);
  assertEquals(await calledFor("issues", { action: "edited" }), ["issues", "*"]);
  assertEquals(await calledFor("issue_comment", { action: "opened" }), ["*"]);
});

Deno.test("createKvRouter() takes GitLab's action from the attributes", async () => {
  const attributes = { object_attributes: { action: "opened" } };
  assertEquals(await calledFor("issues", attributes), ["issues", "issues.opened", "*"]);
});

Deno.test("createKvRouter() takes an action with a hyphen or a colon", async () => {
  for (const action of ["set-role", "role:set"]) {
    const called: unknown[] = [];
    const router = createKvRouter().on(`command.${action}`, () => void called.push(action));
    await route(router, "command", { action });
    assertEquals(called, [action]);
  }
});

Deno.test("createKvRouter() takes nothing odd for an action", async () => {
  for (const action of [null, 7, {}, "", "a b", "x".repeat(1_000), ["opened"]]) {
    assertEquals(await calledFor("issues", { action }), ["issues", "*"]);
  }
});

/** Lists the names of those with a dot that are called for an event. */
async function dottedCalledFor(type: string, payload: JsonObject = {}): Promise<string[]> {
  const called: string[] = [];
  const router = createKvRouter();
  for (const name of ["invoice", "invoice.paid", "invoice.paid.late", "paid"]) {
    router.on(name, () => called.push(name));
  }
  await route(router.onOther(() => called.push("other")), type, payload);
  return called;
}

Deno.test("createKvRouter() hands on types with dots as a whole", async () => {
  const late = { action: "late" };
  assertEquals(await dottedCalledFor("invoice.paid"), ["invoice.paid"]);
  assertEquals(await dottedCalledFor("invoice.paid", late), ["invoice.paid", "invoice.paid.late"]);
  assertEquals(await dottedCalledFor("invoice.paid.late"), ["invoice.paid.late"]);
  assertEquals(await dottedCalledFor("invoice", { action: "paid" }), ["invoice", "invoice.paid"]);
  assertEquals(await dottedCalledFor("invoice", { action: "paid.late" }), [
    ...["invoice", "invoice.paid.late"],
  ]);
  assertEquals(await dottedCalledFor("invoice.sent"), ["other"]);
});

Deno.test("createKvRouter() calls a handler of several names once", async () => {
  let calls = 0;
  const router = createKvRouter().on(["issues", "issues.opened"], () => calls++, {
    id: "all",
  });
  await route(router, "issues", { action: "opened" });
  assertEquals(calls, 1);
});

Deno.test("createKvRouter() hands on what no handler is named for", async () => {
  const called: string[] = [];
  const router = createKvRouter()
    .onOther(({ type }) => called.push(`other ${type}`))
    .on("issues.opened", () => called.push("issues.opened"))
    .onAny(({ type }) => called.push(`any ${type}`));
  await route(router, "issues", { action: "opened" });
  await route(router, "issues", { action: "closed" });
  assertEquals(called, ["issues.opened", "any issues", "other issues", "any issues"]);
});

Deno.test("createKvRouter() ignores an event without a handler", async () => {
  const { record, logged } = await route(createKvRouter().on("push", () => {}), "star");
  assertEquals([record.state, record.outcome, record.payload], ["done", "ignored", null]);
  assertEquals(record.attempts.map(({ outcome }) => outcome), ["ignored"]);
  assertEquals(logged, ["debug: event ignored"]);
});

Deno.test("createKvRouter() keeps an event without a handler if it is strict", async () => {
  const router = createKvRouter({ strict: true }).on("push", () => {});
  const { record, logged } = await route(router, "star", {
    action: "created",
  });
  assertEquals([record.state, record.attempt, record.payload !== null], ["dead", 1, true]);
  assertEquals(record.attempts[0]?.error, "GiveUpError: No handler for star.created");
  assertEquals(logged, ["warn: event given up, now dead"]);
});

Deno.test("createKvRouter() handles an event that was kept, once there is a handler", async () => {
  await using sut = await memoryStore();
  await sut.store.accept({ ...delivery("d1"), type: "star" });
  await work(sut, createKvRouter({ strict: true }));
  assert(await sut.store.replay("d1"));
  assertEquals((await work(sut, createKvRouter().on("star", () => {}))).record.state, "done");
});

Deno.test("createKvRouter() keeps a replayed event that still has no handler", async () => {
  await using sut = await memoryStore();
  await sut.store.accept({ ...delivery("d1"), type: "star" });
  await work(sut, createKvRouter({ strict: true }));
  assert(await sut.store.replay("d1"));
  const { record } = await work(sut, createKvRouter());
  assertEquals([record.state, record.payload !== null], ["dead", true]);
  assertEquals(record.attempts.map(({ outcome }) => outcome), ["failed", "failed"]);
});

Deno.test("createKvRouter() keeps an event whose handler is gone after an attempt", async () => {
  await using sut = await memoryStore();
  await sut.store.accept({ ...delivery("d1"), type: "star" });
  const [lease] = await sut.store.claim({ limit: 1, owner: "killed", leaseMs: 1 });
  assert(lease);
  await later(5);
  const { record } = await work(sut, createKvRouter());
  assertEquals(record.state, "dead");
  assertEquals(record.attempts.map(({ outcome }) => outcome), ["expired", "failed"]);
});

Deno.test("createKvRouter() keeps an event whose handler was aborted by a stop, and is gone", async () => {
  await using sut = await memoryStore();
  await sut.store.accept({ ...delivery("d1"), type: "star" });
  const before = createKvRouter().on(
    "star",
    (_event, { signal }) =>
      new Promise((_resolve, reject) =>
        signal.addEventListener("abort", () => reject(signal.reason))
      ),
  );
  const worker = startWorker(sut.store, before.handle, { log: () => {} });
  while ((await sut.store.get("d1"))?.state !== "running") await later(1);
  await later(20);
  await worker.stop();
  assertEquals((await sut.store.get("d1"))?.attempts, []);
  const { record } = await work(sut, createKvRouter());
  assertEquals([record.state, record.payload !== null], ["dead", true]);
});

Deno.test("createKvRouter() ignores an event also where a handler surrounds the router", async () => {
  for (const isBegun of [false, true]) {
    await using sut = await memoryStore();
    const { store } = sut;
    await store.accept({ ...delivery("d1"), type: "star" });
    if (isBegun) {
      const [lease] = await store.claim({ limit: 1, owner: "before", leaseMs: 60_000 });
      await store.retry(lease!, 0, "not yet");
    }
    const inner = createKvRouter();
    const outer = createKvRouter().onOther(async (event, context) => {
      await inner.handle(event, context);
    });
    const { record } = await work(sut, outer);
    assertEquals(`${record.state} ${record.outcome}`, isBegun ? "dead failed" : "done ignored");
  }
});

Deno.test("createKvRouter() ignores no event that a handler around it has effects for", async () => {
  await using sut = await memoryStore();
  await sut.store.accept({ ...delivery("d1"), type: "star" });
  const router = createKvRouter();
  const handle: KvHandler = async (event, context) => {
    context.settleWith((commit) => commit.set(["effect"], 1));
    await router.handle(event, context);
  };
  const { record } = await work(sut, { ...router, handle } as KvRouter);
  assertEquals([record.state, (await sut.kv.get(["effect"])).value], ["dead", null]);
});

Deno.test("createKvRouter() handles an ignored event that is delivered again", async () => {
  await using sut = await memoryStore();
  const star = { ...delivery("d1"), type: "star" };
  for (const expected of [["ignored", undefined], ["ignored", 1], ["handled", 2]] as const) {
    assertEquals(await sut.store.accept(star), { id: "d1", duplicate: false });
    const router = expected[0] === "handled"
      ? createKvRouter().on("star", () => {})
      : createKvRouter();
    const { record } = await work(sut, router);
    assertEquals([record.outcome as string, record.run as number | undefined], [...expected]);
  }
  assertEquals((await sut.store.accept(star)).duplicate, true);
});

Deno.test("createKvRouter() refuses options of the wrong type", () => {
  const wanted = "'strict' must be true or false, got \"yes\"";
  assertThrows(() => createEventRouter({ strict: "yes" } as never), TypeError, wanted);
  assertThrows(() => createEventRouter(null as never), TypeError, "the options must be an object");
});

Deno.test("createKvRouter() tries only those handlers again that have failed", async () => {
  await using sut = await memoryStore();
  const calls = { steady: 0, shaky: 0, any: 0 };
  const router = createKvRouter()
    .on("push", (_event, { settleWith }) => {
      calls.steady++;
      settleWith((commit) => commit.sum(["steady"], 1n));
    })
    .on("push", (_event, { settleWith }) => {
      settleWith((commit) => commit.sum(["shaky"], 1n));
      if (++calls.shaky < 3) throw new Error("not yet");
    }, { id: "shaky" })
    .onAny(() => calls.any++);
  await sut.store.accept(delivery("d1"));
  const { record } = await work(sut, router);
  assertEquals([record.state, record.attempt], ["done", 3]);
  assertEquals(calls, { steady: 1, shaky: 3, any: 1 });
  for (const key of ["steady", "shaky"]) {
    assertEquals((await sut.kv.get<Deno.KvU64>([key])).value?.value, 1n);
  }
  assertEquals(
    record.attempts[0]?.error,
    "AggregateError: 1 of 3 handlers failed: id(shaky): Error: not yet",
  );
});

Deno.test("createKvRouter() does not try a handler again that succeeded after one had failed", async () => {
  const calls: string[] = [];
  const router = createKvRouter()
    .on("push", ({ attempt }) => {
      calls.push("shaky");
      if (attempt === 1) throw new Error("not yet");
    })
    .on("push", async () => {
      calls.push("slow");
      await later(0);
    }, { id: "slow" });
  assertEquals((await route(router, "push")).record.attempt, 2);
  assertEquals(calls, ["shaky", "slow", "shaky"]);
});

Deno.test("createKvRouter() remembers what is done in another process, before all is", async () => {
  await using sut = await memoryStore();
  const thawed = Promise.withResolvers<void>();
  const calls: string[] = [];
  const router = (second: EventHandler) =>
    createKvRouter().on("push", () => calls.push("first")).on("push", (event, context) => {
      calls.push("second");
      return second(event, context);
    }, { id: "second" });
  await sut.store.accept(delivery("d1"));
  const frozen = startWorker(sut.store, router(() => thawed.promise).handle, { log: () => {} });
  for (let i = 0; i < 1_000 && !(await sut.store.get("d1"))?.progress; i++) await later(1);
  await frozen.stop({ graceMs: 0 });
  assertEquals((await work(sut, router(() => {}))).record.state, "done");
  assertEquals(calls, ["first", "second", "second"]);
  thawed.resolve();
});

Deno.test("createKvRouter() fails with the error of the only handler itself", async () => {
  const error = () => {
    throw new GiveUpError("Never");
  };
  const { record } = await route(createKvRouter().on("push", error), "push");
  assertEquals([record.state, record.attempts[0]?.error], ["dead", "GiveUpError: Never"]);
});

Deno.test("createKvRouter() gives an event up only if all failed handlers do", async () => {
  const giveUp = () => {
    throw new GiveUpError("Never");
  };
  let calls = 0;
  const fail = () => {
    if (++calls === 1) throw Object.create(null);
  };
  const both = createKvRouter().on("push", giveUp).on("push", fail, { id: "b" }).onAny(() => {});
  const { record } = await route(both, "push");
  assertEquals([record.state, record.attempt], ["dead", 2]);
  assertEquals(record.attempts.map(({ error }) => error), [
    "AggregateError: 2 of 3 handlers failed: on(push): GiveUpError: Never; " +
    "id(b): A value without a text was thrown",
    "GiveUpError: 1 of 3 handlers failed: on(push): GiveUpError: Never",
  ]);
});

Deno.test("createKvRouter() gives each handler steps of its own", async () => {
  await using sut = await memoryStore();
  const seen: string[] = [];
  const taking = (name: string): KvHandler => async ({ attempt }, { step }) => {
    seen.push(await step("step", () => `${name} in ${attempt}`));
    if (attempt === 1) throw new Error("no");
  };
  const [a, b] = [taking("a"), taking("b")];
  const router = createKvRouter().on("push", a).on("push", b, { id: "b" });
  await sut.store.accept(delivery("d1"));
  const { record } = await work(sut, router);
  assertEquals(seen.toSorted(), ["a in 1", "a in 1", "b in 1", "b in 1"]);
  const names = record.steps?.map(({ name }) => name);
  assertEquals(names?.toSorted(), ["id(b)/step", "on(push)/step"]);
});

Deno.test("createKvRouter() fails a handler whose effects cannot be committed, and no other", async () => {
  await using sut = await memoryStore();
  await sut.kv.set(["taken"], 1);
  const taken = { key: ["taken"], versionstamp: null };
  const calls: string[] = [];
  const router = createKvRouter()
    .on("push", ({ attempt }, { settleWith }) => {
      calls.push("bad");
      if (attempt === 1) settleWith((commit) => commit.check(taken));
    })
    .on("push", ({ attempt }, { settleWith }) => {
      calls.push("late");
      if (attempt < 3) settleWith(asyncEffects(async () => await Promise.resolve()));
    }, { id: "late" })
    .onAny(async () => {
      calls.push("good");
      await Promise.resolve();
    });
  await sut.store.accept(delivery("d1"));
  const { record } = await work(sut, router);
  assertEquals([record.state, record.attempt], ["done", 3]);
  assertEquals(calls, ["bad", "late", "good", "bad", "late", "late"]);
});

Deno.test("createKvRouter() fails a handler with several effects that are late, and nothing else", async () => {
  await using sut = await memoryStore();
  const tooLate = asyncEffects(async () => {
    await Promise.resolve();
    throw new Error("too late");
  });
  const router = createKvRouter().on("push", ({ attempt }, { settleWith }) => {
    if (attempt < 3) { for (let i = 0; i < 2; i++) settleWith(tooLate); }
  }).onAny(async ({ attempt }) => {
    if (attempt === 1) await later(0);
  });
  await sut.store.accept(delivery("d1"));
  const { record } = await work(sut, router);
  assertEquals([record.state, record.attempt], ["done", 3]);
});

Deno.test("createKvRouter() commits nothing of a step that cannot be, and all of others", async () => {
  await using sut = await memoryStore();
  await sut.kv.set(["taken"], 1);
  const taken = { key: ["taken"], versionstamp: null };
  const router = createKvRouter()
    .on("push", async ({ attempt }, { step, settleWith }) => {
      settleWith((commit) => commit.sum(["settled"], 1n));
      await step("fine", (own) => own.settleWith((commit) => commit.sum(["fine"], 1n)));
      if (attempt > 1) return;
      await step("bad", (own) => {
        own.settleWith((commit) => commit.sum(["bad"], 1n).check(taken));
      });
    })
    .onAny((_event, { settleWith }) => settleWith((commit) => commit.sum(["any"], 1n)));
  await sut.store.accept(delivery("d1"));
  const { record } = await work(sut, router);
  assertEquals([record.state, record.attempt, record.attempts.length], ["done", 2, 2]);
  const sums = await sut.kv.getMany<Deno.KvU64[]>([["fine"], ["bad"], ["settled"], ["any"]]);
  assertEquals(sums.map(({ value }) => value?.value), [1n, undefined, 1n, 1n]);
});

Deno.test("createKvRouter() tells the reasons of many handlers in what a record keeps", async () => {
  const router = createKvRouter();
  for (let i = 0; i < 30; i++) {
    router.on("push", () => {
      throw new GiveUpError(`${i} `.repeat(1_000));
    }, { id: `h${i}` });
  }
  const message = (await route(router, "push")).record.attempts[0]!.error!;
  assertEquals(message.length < 1_000, true);
  assertMatch(message, /^GiveUpError: 30 of 30 handlers failed: id\(h0\): GiveUpError: 0 0 0 /);
  assertMatch(message, /…; id\(h9\): GiveUpError: 9 9 [9 ]+…; and 20 more$/);
});

Deno.test("createKvRouter() settles events without effects in commits that they share", async () => {
  await using sut = await memoryStore();
  for (let i = 0; i < 30; i++) await sut.store.accept(delivery(`d${i}`));
  let commits = 0;
  const atomic = sut.kv.atomic.bind(sut.kv);
  sut.kv.atomic = () => (commits++, atomic());
  await work(sut, createKvRouter().on("push", () => {}), { concurrency: 30 });
  assertEquals((await sut.store.stats()).done, 30);
  assertLess(commits, 15);
});

Deno.test("createKvRouter() refuses what is no handler, and names that are none", () => {
  const router = createKvRouter();
  for (const handler of [undefined, null, "push", {}] as unknown as EventHandler[]) {
    assertThrows(() => router.on("push", handler), TypeError);
    assertThrows(() => router.onAny(handler), TypeError);
    assertThrows(() => router.onOther(handler), TypeError);
  }
  for (const names of [[], "", ["push", ""], undefined, ["push", 7]] as unknown as "push"[]) {
    assertThrows(() => router.on(names, () => {}), TypeError);
  }
});

Deno.test("a router that is a handler of another one need not have a handler for an event", async () => {
  const seen: string[] = [];
  const inner = createKvRouter().on("push", () => seen.push("inner"));
  const outer = createKvRouter().onAny(inner.handle).on("star", () => seen.push("star"));
  await using test = await withHandler(outer.handle);
  assertEquals((await test.deliver(forgeDelivery("star", {}))).event?.outcome, "handled");
  assertEquals((await test.deliver(forgeDelivery("push", {}))).event?.outcome, "handled");
  assertEquals((await test.deliver(forgeDelivery("fork", {}))).event?.outcome, "ignored");
  assertEquals(seen, ["star", "inner"]);
});

for (const name of ["*", "issues.*", "issues opened", "issues/opened", " push"]) {
  Deno.test(`on() refuses a name that no event has: ${JSON.stringify(name)}`, () => {
    const message = "it must be for the name of an event, or an array of names, got ";
    assertThrows(() => createKvRouter().on(name, () => {}), TypeError, message);
  });
}

Deno.test("on() takes a type with brackets, as Stripe's are", async () => {
  const [type, action] = ["v2.core.account[requirements].updated", "now"];
  const seen: string[] = [];
  const router = createKvRouter().on(type, () => seen.push("all"))
    .on(`${type}.${action}`, () => seen.push(action));
  await route(router, type, {});
  await route(router, type, { action });
  assertEquals(seen, ["all", "all", "now"]);
});

/** Starts an app whose events all go to one handler. */
function withHandler(handler: KvHandler) {
  const app = defineApp({ name: "bot", platform: forge<object>() });
  app.onAny(handler);
  return startTestBot(app);
}
