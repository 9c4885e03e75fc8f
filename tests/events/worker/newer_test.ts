import { assert, assertEquals } from "@std/assert";
import { events } from "../../../app/mod.ts";
import {
  createEventRouter,
  type EventHandler,
  NewerEventError,
  RetryLaterError,
} from "../../../events/mod.ts";
import { defineApp, forge } from "../../../mod.ts";
import { forgeDelivery, startTestBot } from "../../../testing/mod.ts";
import { aborted, hearing, idsOf, urgent } from "./_newer.ts";
import { reach, testSimulated, until, withWorker } from "./_worker.ts";

testSimulated("a newer event interrupts the handler, which runs anew with both", async (sut) => {
  const { store } = sut;
  let reason: unknown;
  const { runs, logs } = await hearing(sut, ["a", "b"], async (run, event, context) => {
    assertEquals(event.attempt, 1);
    if (run > 1) return;
    await store.accept(urgent("b"));
    await aborted(context).catch((error) => reason = error);
    throw reason;
  });
  assertEquals(runs, [["a"], ["a", "b"]]);
  assert(reason instanceof NewerEventError);
  assertEquals([reason.eventId, reason.name], ["b", "NewerEventError"]);
  const { attempt, attempts, interrupted } = (await store.get("a"))!;
  assertEquals([attempt, attempts.length, attempts[0]!.outcome], [1, 1, "handled"]);
  assertEquals([interrupted?.times, interrupted?.by], [1, "b"]);
  const line = logs.find(({ message }) => message === "handler interrupted")!;
  assertEquals([line.level, line.eventId, line.newerEventId], ["info", "a", "b"]);
});

const PAUSES: Readonly<Record<string, () => Error>> = {
  "waits for its retry": () => new Error("no"),
  "is put off": () => new RetryLaterError("Too many requests", { afterMs: 1_000 }),
};
for (const [what, makeError] of Object.entries(PAUSES)) {
  Deno.test(`an event that ${what} is handled with a newer one, and no earlier`, async () => {
    const runs: string[][] = [];
    const bot = defineApp({
      name: "bot",
      platform: forge<object>({
        groupBy: () => ({ key: "chat", newer: "interrupt", interrupt: { steps: "keep" } }),
      }),
    });
    bot.onAny((event) => {
      if (runs.push(idsOf(event)) === 1) throw makeError();
    });
    await using test = await startTestBot(bot);
    const push = (id: string) => forgeDelivery("push", {}, { id });
    await test.deliver(push("a"), { expectFailure: true });
    await test.deliver(push("b"));
    assertEquals(runs, [["forge:a"]]);
    await test.advance(2_000);
    assertEquals(runs, [["forge:a"], ["forge:a", "forge:b"]]);
  });
}

const WRAPPED: Readonly<Record<string, (reason: unknown) => unknown>> = {
  "an error that it has caused": (cause) =>
    new Error("no answer", { cause: new Error("", { cause }) }),
  "several errors that are all the reason": (each) =>
    new AggregateError([each, new Error("", { cause: each })]),
};
for (const [name, wrap] of Object.entries(WRAPPED)) {
  testSimulated(`a handler is interrupted if it ends by ${name}`, async (sut) => {
    const { runs } = await hearing(sut, ["a", "b"], async (run, _event, context) => {
      if (run > 1) return;
      await sut.store.accept(urgent("b"));
      await aborted(context).catch((reason) => {
        throw wrap(reason);
      });
    });
    assertEquals(runs, [["a"], ["a", "b"]]);
    assertEquals((await sut.store.get("a"))!.attempt, 1);
  });
}

const OTHERS: Readonly<Record<string, (reason: unknown) => unknown>> = {
  "another error": () => new Error("no"),
  "the same words": (reason) => new NewerEventError((reason as NewerEventError).eventId),
  "several errors of which one is another": (each) => new AggregateError([each, new Error("no")]),
  "no error": () => null,
};
for (const [name, wrap] of Object.entries(OTHERS)) {
  testSimulated(`an attempt counts that ends by ${name} after an abort`, async (sut) => {
    const { runs, logs } = await hearing(sut, ["a", "b"], async (run, _event, context) => {
      if (run > 1) return;
      await sut.store.accept(urgent("b"));
      await aborted(context).catch((reason) => {
        throw wrap(reason);
      });
    });
    // The second attempt is interrupted before its handler is called.
    assertEquals(runs, [["a"], ["a", "b"]]);
    const { attempt, attempts } = (await sut.store.get("a"))!;
    assertEquals([attempt, attempts.map(({ outcome }) => outcome)], [2, ["failed", "handled"]]);
    const line = logs.find(({ message }) => message === "event failed, to be tried again");
    assertEquals(line?.newerEventId, "b");
  });
}

testSimulated("the work of a handler counts that returns after an abort", async (sut) => {
  const { runs } = await hearing(sut, ["a", "b", "c"], async (run, _event, context) => {
    if (run > 1) return;
    for (const id of ["b", "c"]) await sut.store.accept(urgent(id));
    await aborted(context).catch(() => {});
  });
  assertEquals(runs, [["a"], ["b", "c"]]);
  assertEquals((await sut.store.get("a"))!.interrupted, undefined);
});

testSimulated("a handler is left to finish after some interrupts", async (sut) => {
  const ids = ["a", "b", "c", "d", "e"];
  const more = { maxInterrupts: 3 };
  const { runs } = await hearing(sut, ids, async (run, _event, context) => {
    const next = ids[run];
    if (next === undefined) return;
    await sut.store.accept(urgent(next, more));
    if (run < 4) await aborted(context);
    // Longer than the watch needs to look.
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    assertEquals(context.signal.aborted, false);
  }, more);
  assertEquals(runs, [["a"], ["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"], ["e"]]);
  assertEquals((await sut.store.get("a"))!.interrupted?.times, 3);
  assertEquals((await sut.store.get("e"))!.interrupted, undefined);
});

testSimulated("an interrupted group has to be quiet anew", async (sut) => {
  const more = { quietMs: 5_000 };
  const times: number[] = [];
  const { runs } = await hearing(sut, ["a", "b", "c"], async (run, _event, context) => {
    times.push(Date.now());
    if (run > 1) return;
    await sut.store.accept(urgent("b", more));
    setTimeout(() => void sut.store.accept(urgent("c", more)), 2_000);
    await aborted(context);
  }, more);
  assertEquals(runs, [["a"], ["a", "b", "c"]]);
  const waitedMs = times[1]! - times[0]!;
  assert(waitedMs >= 7_000 && waitedMs < 8_000, `${waitedMs}`);
});

testSimulated(
  "events of other handlers do not interrupt, and those behind them neither",
  async (sut) => {
    const { store } = sut;
    const runs: string[][] = [];
    const note: EventHandler = (event) => void runs.push(idsOf(event));
    const router = createEventRouter<Record<string, { text: string }>>()
      .on(["push", "edit"], async (event, context) => {
        note(event, context);
        if (runs.length > 1) return;
        await store.accept({ ...urgent("b"), type: "stop" });
        await store.accept(urgent("c"));
        await new Promise((resolve) => setTimeout(resolve, 3_000));
        assertEquals(context.signal.aborted, false);
      })
      .on("stop", note);
    await store.accept(urgent("a"));
    await withWorker(sut, router.handle, {}, async () => {
      for (const id of ["a", "b", "c"]) await reach(store, id, "done");
    });
    assertEquals(runs, [["a"], ["b"], ["c"]]);
  },
);

testSimulated("an event of another type interrupts that the same handler takes", async (sut) => {
  const { store } = sut;
  const runs: string[][] = [];
  const router = createEventRouter<Record<string, { text: string }>>()
    .on(["push", "edit"], async (event, context) => {
      if (runs.push(idsOf(event)) > 1) return;
      await store.accept({ ...urgent("b"), type: "edit" });
      await aborted(context);
    });
  await store.accept(urgent("a"));
  await withWorker(sut, router.handle, {}, () => reach(store, "b", "done"));
  assertEquals(runs, [["a"], ["a", "b"]]);
});

testSimulated("newer events wait once one of several handlers has ended", async (sut) => {
  const { store } = sut;
  const runs: string[] = [];
  let isFirst = true;
  const router = createEventRouter()
    .onAny((event) => void runs.push(`one ${idsOf(event)}`), { id: "one" })
    .onAny(async (event, { signal }) => {
      if (isFirst) {
        isFirst = false;
        await until(async () => (await store.get("a"))!.progress?.length === 1);
        await store.accept(urgent("b"));
        await new Promise((resolve) => setTimeout(resolve, 3_000));
        assertEquals(signal.aborted, false);
      }
      runs.push(`two ${idsOf(event)}`);
    }, { id: "two" });
  await store.accept(urgent("a"));
  await withWorker(sut, router.handle, {}, () => reach(store, "b", "done"));
  assertEquals(runs.slice(0, 2), ["one a", "two a"]);
  assertEquals(new Set(runs.slice(2)), new Set(["one b", "two b"]));
});

testSimulated("several handlers that are interrupted run anew, without an attempt", async (sut) => {
  const { store } = sut;
  const runs: string[] = [];
  const handle: EventHandler = async (event, context) => {
    runs.push(String(idsOf(event)));
    if (event.batch.length > 1) return;
    if (runs.length === 2) await store.accept(urgent("b"));
    await aborted(context);
  };
  const router = createEventRouter().onAny(handle, { id: "one" }).onAny(handle, { id: "two" });
  await store.accept(urgent("a"));
  await withWorker(sut, router.handle, {}, () => reach(store, "b", "done"));
  assertEquals(runs, ["a", "a", "a,b", "a,b"]);
  assertEquals((await store.get("a"))!.attempt, 1);
});

testSimulated("a handler that ends after an abort keeps the events of the others", async (sut) => {
  const { store } = sut;
  const runs: string[] = [];
  const abortedOne = Promise.withResolvers<void>();
  const router = createEventRouter()
    .onAny(async (event, context) => {
      runs.push(`one ${idsOf(event)}`);
      if (runs.length > 2) return;
      await store.accept(urgent("b"));
      await aborted(context).catch(() => {});
      abortedOne.resolve();
    }, { id: "one" })
    .onAny(async (event, context) => {
      runs.push(`two ${idsOf(event)}`);
      if (runs.length > 2) return;
      await abortedOne.promise;
      await until(async () => (await store.get("a"))!.progress?.length === 1);
      context.signal.throwIfAborted();
    }, { id: "two" });
  await store.accept(urgent("a"));
  await withWorker(sut, router.handle, {}, () => reach(store, "b", "done"));
  assertEquals(runs.slice(0, 3), ["one a", "two a", "two a"]);
  assertEquals(new Set(runs.slice(3)), new Set(["one b", "two b"]));
  const { attempt, interrupted } = (await store.get("a"))!;
  assertEquals([attempt, interrupted], [1, undefined]);
});

for (
  const [steps, expected] of [
    ["keep", { always: 1, once: 1, never: 2, sent: 1 }],
    ["drop", { always: 1, once: 2, never: 2, sent: 1 }],
  ] as const
) {
  testSimulated(`an interrupted run has its steps by the rule "${steps}"`, async (sut) => {
    const more = { interrupt: { steps } };
    const taken: Record<string, number> = {};
    const take = (name: string) => () => taken[name] = (taken[name] ?? 0) + 1;
    let found = 0;
    const { runs } = await hearing(sut, ["a", "b"], async (run, _event, context) => {
      const { step } = context;
      await step("always", take("always"), { keep: true });
      await step("once", take("once"));
      await step("never", take("never"), { keep: false });
      await step("sent", async () => {
        take("sent")();
        if (run > 1) return;
        await sut.store.accept(urgent("b", more));
        await aborted(context);
      }, { unknown: () => Boolean(++found) as true });
    }, more);
    assertEquals(runs, [["a"], ["a", "b"]]);
    assertEquals([taken, found], [{ ...expected }, 1]);
  });
}

testSimulated("the many results of an interrupted run are dropped", async (sut) => {
  const names = Array.from({ length: 60 }, (_, i) => `part ${i}`);
  const results: unknown[] = [];
  await hearing(sut, ["a", "b"], async (run, _event, context) => {
    for (const name of names) results.push(await context.step(name, () => run));
    if (run > 1) return;
    await sut.store.accept(urgent("b"));
    await aborted(context);
  });
  assertEquals(results, [...names.map(() => 1), ...names.map(() => 2)]);
});

testSimulated("events that come back, or are emitted, do not interrupt", async (sut) => {
  const { store } = sut;
  const jobs = events("jobs");
  let isReplayed = false;
  const runs: string[][] = [];
  const handler: EventHandler = async (event, { signal }) => {
    runs.push(idsOf(event));
    if (event.id !== "a" || isReplayed) return;
    isReplayed = true;
    assert(await store.replay("dead"));
    await store.emit(jobs, "job", {}, { group: "chat", quietMs: 0 });
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    assertEquals(signal.aborted, false);
  };
  await store.accept(urgent("dead"));
  await store.cancel("dead");
  await store.accept(urgent("a"));
  await withWorker(sut, handler, {}, () => reach(store, "dead", "done"));
  assertEquals(runs.filter(([id]) => id === "a" || id === "dead"), [["a"], ["dead"]]);
});

testSimulated("a newer event that is there before the handler is called is heard", async (sut) => {
  const { store } = sut;
  const runs: string[][] = [];
  const handler: EventHandler = (event) => {
    if (runs.push(idsOf(event)) > 1) return;
    return store.accept(urgent("b")).then(() => Promise.reject(new Error("not yet")));
  };
  await store.accept(urgent("a"));
  const retry = { minDelayMs: 2_000 };
  await withWorker(sut, handler, { retry }, () => reach(store, "b", "done"));
  assertEquals(runs, [["a"], ["a", "b"]]);
});

testSimulated(
  "a handler is interrupted within a second that another process has a newer event for",
  async (sut) => {
    const other = await sut.place.open();
    let ms = 0;
    const { runs } = await hearing(sut, ["a", "b"], async (run, _event, context) => {
      if (run > 1) return;
      await other.accept(urgent("b"));
      const start = Date.now();
      await aborted(context).finally(() => ms = Date.now() - start);
    });
    assertEquals(runs, [["a"], ["a", "b"]]);
    // The simulation takes some milliseconds for a read.
    assert(ms > 100 && ms <= 1_050, `${ms}`);
  },
);
