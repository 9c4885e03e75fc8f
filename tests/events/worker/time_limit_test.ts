import { assert, assertEquals } from "@std/assert";
import { createEventRouter, type EventHandler, startWorker } from "../../../events/mod.ts";
import type { LogRecord } from "../../../core/mod.ts";
import { delivery, later } from "../store/_events.ts";

import { testStoreOnce } from "../store/contract/_contract.ts";
import { ON_DENO_2_5 } from "../../_deno_version.ts";
import { reach, testSimulated, until, withWorker } from "./_worker.ts";

/** A handler that runs until it is told to end, and does not heed its signal. */
function deafHandler(): {
  readonly handler: EventHandler;
  /** The ids of the events whose handlers were started. */
  readonly started: string[];
  readonly signals: Map<string, AbortSignal>;
  /** Ends a handler: it returns, or throws an error. */
  readonly end: (id: string, error?: Error) => void;
} {
  const running = new Map<string, PromiseWithResolvers<void>>();
  const started: string[] = [];
  const signals = new Map<string, AbortSignal>();
  const handler: EventHandler = ({ id }, { signal }) => {
    started.push(id);
    signals.set(id, signal);
    const own = Promise.withResolvers<void>();
    running.set(id, own);
    return own.promise;
  };
  const end = (id: string, error?: Error) => {
    if (error) running.get(id)!.reject(error);
    else running.get(id)!.resolve();
  };
  return { handler, started, signals, end };
}

testStoreOnce(
  "a handler that reaches its time limit is aborted, and its place is free",
  async (sut) => {
    const { handler, started, signals, end } = deafHandler();
    await withWorker(sut, handler, { concurrency: 1, timeoutMs: 20 }, async () => {
      for (const id of ["d1", "d2"]) await sut.store.accept(delivery(id));
      await until(() => started.length === 2);
      const reason = signals.get("d1")!.reason as Error;
      assertEquals(reason.message, "The handler has reached its time limit of 20 ms");
      assertEquals((await sut.store.get("d1"))?.state, "running");
      end("d2");
      await reach(sut.store, "d2", "done");
      end("d1");
      await reach(sut.store, "d1", "done");
      assertEquals((await sut.store.get("d1"))?.attempt, 1);
    });
  },
);

testStoreOnce("a handler that fails after its time limit has failed", async (sut) => {
  const { handler, signals, end } = deafHandler();
  await withWorker(sut, handler, { timeoutMs: 20 }, async () => {
    await sut.store.accept(delivery("d1"));
    await until(() => signals.get("d1")?.aborted ?? false);
    end("d1", new Error("gave up"));
    await reach(sut.store, "d1", "queued");
    const record = await sut.store.get("d1");
    assertEquals(record?.attempts.map(({ error }) => error), ["Error: gave up"]);
  });
});

testSimulated(
  "nothing starts beside a handler past its time limit, of its event or its group",
  async (sut) => {
    const { handler, started, signals, end } = deafHandler();
    // Another worker on the same store would take over an event whose lease was not renewed.
    const other = await sut.place.open();
    const options = { leaseMs: 1_000, pollMs: 100 };
    const second = startWorker(other, handler, { ...options, log: () => {} });
    await withWorker(sut, handler, { ...options, timeoutMs: 100 }, async () => {
      for (const id of ["d1", "d2"]) await sut.store.accept(delivery(id, "{}", "key"));
      await until(() => signals.get("d1")?.aborted ?? false);
      await later(3_000);
      assertEquals(started, ["d1"]);
      end("d1");
      await until(() => started.length === 2);
      end("d2");
      await reach(sut.store, "d2", "done");
      await second.stop();
    });
    assertEquals(started, ["d1", "d2"]);
  },
);

testSimulated("the log names a handler past its time limit, again and again", async (sut) => {
  const { handler, end } = deafHandler();
  const records: LogRecord[] = [];
  const log = (record: LogRecord) => void records.push(record);
  const overdue = () => records.filter(({ message }) => message === "handler still running");
  const options = { timeoutMs: 90_000, leaseMs: 600_000, pollMs: 60_000, log };
  await withWorker(sut, handler, options, async () => {
    await sut.store.accept(delivery("d1"));
    await later(1_000);
    for (const count of [0, 1, 2]) {
      assertEquals(overdue().length, count);
      await later(90_000);
    }
    const { level, eventId, type, attempt, durationMs } = overdue()[0]!;
    assertEquals([level, eventId, type, attempt], ["error", "d1", "push", 1]);
    assertEquals(Math.round(durationMs as number / 1_000), 90);
    end("d1");
    await later(100);
    assertEquals((await sut.store.get("d1"))?.state, "done");
  });
}, ON_DENO_2_5 ? "takes minutes of turns of the simulation" : undefined);

testStoreOnce("onStuck is called once, when no handler could be started any more", async (sut) => {
  const { handler, started, end } = deafHandler();
  let stuck = 0;
  const options = { concurrency: 2, timeoutMs: 20, onStuck: () => stuck++ };
  await withWorker(sut, handler, options, async () => {
    await sut.store.accept(delivery("d1"));
    await until(() => started.length === 1);
    await later(60);
    assertEquals(stuck, 0);
    for (const id of ["d2", "d3"]) await sut.store.accept(delivery(id));
    await until(() => stuck > 0);
    await later(60);
    assertEquals([stuck, started.length], [1, 3]);
    for (const id of started) end(id);
  });
});

testStoreOnce("handlers that come and go past their time limit do not add up", async (sut) => {
  const { handler, started, signals, end } = deafHandler();
  let stuck = 0;
  const options = { concurrency: 2, timeoutMs: 20, onStuck: () => stuck++ };
  await withWorker(sut, handler, options, async () => {
    for (const id of ["d1", "d2", "d3"]) {
      await sut.store.accept(delivery(id));
      await until(() => signals.get(id)?.aborted ?? false);
      end(id);
      await reach(sut.store, id, "done");
    }
  });
  assertEquals([stuck, started], [0, ["d1", "d2", "d3"]]);
});

testSimulated(
  "a worker that stops names the events that it gives back, and reports no more",
  async (sut) => {
    const { handler, started } = deafHandler();
    const records: LogRecord[] = [];
    const log = (record: LogRecord) => void records.push(record);
    const worker = startWorker(sut.store, handler, { timeoutMs: 1_000, log });
    await sut.store.accept(delivery("d1"));
    await until(() => started.length === 1);
    await worker.stop({ graceMs: 100 });
    await later(3_000);
    assertEquals(
      records.map(({ level, message, eventId }) => [level, message, eventId]),
      [["warn", "event given back while its handler runs", "d1"]],
    );
  },
);

testSimulated(
  "a worker that stops fails the events of handlers that are past their time limit",
  async (sut) => {
    const { handler, started } = deafHandler();
    const error = "Error: Still running after its time limit of 1000 ms";
    for (const [attempt, state] of [[1, "queued"], [2, "dead"]] as const) {
      const options = { timeoutMs: 1_000, retry: { maxAttempts: 2, minDelayMs: 0 }, log: () => {} };
      const worker = startWorker(sut.store, handler, options);
      if (attempt === 1) await sut.store.accept(delivery("d1"));
      await until(() => started.length === attempt);
      await later(2_000);
      await worker.stop({ graceMs: 100 });
      const record = await sut.store.get("d1");
      assertEquals([record?.state, record?.attempts.length], [state, attempt]);
      assertEquals(record?.attempts.at(-1)?.error, error);
    }
  },
);

testStoreOnce(
  "a handler that fails past its time limit has failed, also while the worker stops",
  async (sut) => {
    const { handler, signals, end } = deafHandler();
    const worker = startWorker(sut.store, handler, { timeoutMs: 20, log: () => {} });
    await sut.store.accept(delivery("d1"));
    await until(() => signals.get("d1")?.aborted ?? false);
    const stopped = worker.stop();
    end("d1", new Error("at last"));
    await stopped;
    const attempts = (await sut.store.get("d1"))?.attempts;
    assertEquals(attempts?.map(({ error }) => error), ["Error: at last"]);
  },
);

testStoreOnce("a handler has a time limit of its own", async (sut) => {
  const { handler, started, signals, end } = deafHandler();
  const router = createEventRouter().on("push", handler, { timeoutMs: 20 });
  await withWorker(sut, router.handle, { concurrency: 1 }, async () => {
    for (const id of ["d1", "d2"]) await sut.store.accept(delivery(id));
    await until(() => started.length === 2);
    assert(signals.get("d1")!.aborted);
    for (const id of started) end(id);
    await reach(sut.store, "d2", "done");
  });
});

testStoreOnce("a handler may run for longer than the worker's limit", async (sut) => {
  const { handler, signals, end } = deafHandler();
  const router = createEventRouter().on("push", handler, { timeoutMs: 60_000 });
  await withWorker(sut, router.handle, { timeoutMs: 20 }, async () => {
    await sut.store.accept(delivery("d1"));
    await until(() => signals.has("d1"));
    await later(100);
    assertEquals(signals.get("d1")!.aborted, false);
    end("d1");
    await reach(sut.store, "d1", "done");
  });
});

testStoreOnce(
  "each handler of an event has its own limit, and its place is free after the longest",
  async (sut) => {
    const [short, usual, long] = [deafHandler(), deafHandler(), deafHandler()];
    const records: LogRecord[] = [];
    const log = (record: LogRecord) => void records.push(record);
    const router = createEventRouter()
      .on("push", short.handler, { id: "short", timeoutMs: 20 })
      .on("push", usual.handler, { id: "usual" })
      .on("push", long.handler, { id: "long", timeoutMs: 200 });
    const isAborted = (sut: typeof short) => sut.signals.get("d1")!.aborted;
    await withWorker(sut, router.handle, { concurrency: 1, timeoutMs: 80, log }, async () => {
      for (const id of ["d1", "d2"]) await sut.store.accept(delivery(id));
      await until(() => short.signals.get("d1")?.aborted ?? false);
      assertEquals([isAborted(usual), isAborted(long)], [false, false]);
      await until(() => isAborted(usual));
      assertEquals([isAborted(long), long.started], [false, ["d1"]]);
      await until(() => long.started.length === 2);
      assert(isAborted(long));
      for (const each of [short, usual, long]) for (const id of ["d1", "d2"]) each.end(id);
      await reach(sut.store, "d2", "done");
    });
    const named = records.filter(({ message, eventId }) =>
      message === "handler still running" && eventId === "d1"
    );
    assertEquals(named.map(({ handler }) => handler), [
      "id(short)",
      "id(usual)",
      "id(short), id(usual), id(long)", // what holds the event
    ]);
  },
);

testStoreOnce(
  "a place is free once each handler has ended or reached its limit, and is counted then",
  async (sut) => {
    const [short, long] = [deafHandler(), deafHandler()];
    const records: LogRecord[] = [];
    const log = (record: LogRecord) => void records.push(record);
    const router = createEventRouter()
      .on("push", short.handler, { id: "short", timeoutMs: 20 })
      .on("push", long.handler, { id: "long", timeoutMs: 600_000 })
      .on("push", () => {}, { id: "quick" });
    const stuck = Promise.withResolvers<void>();
    const options = { concurrency: 2, timeoutMs: 600_000, log, onStuck: () => stuck.resolve() };
    await withWorker(sut, router.handle, options, async () => {
      for (const id of ["d1", "d2", "d3"]) await sut.store.accept(delivery(id));
      // Its limit has passed when the other one ends, or passes after that.
      await until(() => short.signals.get("d1")?.aborted ?? false);
      assertEquals(short.started, ["d1", "d2"]);
      long.end("d1");
      await until(() => short.started.includes("d3"));
      long.end("d2");
      long.end("d3");
      await stuck.promise;
      for (const id of ["d1", "d2", "d3"]) short.end(id);
      for (const id of ["d1", "d2", "d3"]) await reach(sut.store, id, "done");
    });
    const named = records.filter(({ message, eventId }) =>
      message === "handler still running" && eventId === "d1"
    );
    assertEquals(named.map(({ timeoutMs }) => timeoutMs), [20, 20]);
  },
);

testStoreOnce("what goes on after the handlers has the worker's limit again", async (sut) => {
  const router = createEventRouter()
    .on("push", () => later(5))
    .on("push", () => later(5), { id: "short", timeoutMs: 1_000 });
  let isAborted: boolean | undefined;
  const worker = startWorker(sut.store, async (event, context) => {
    await router.handle(event, context);
    await later(1_100);
    isAborted = context.signal.aborted;
  }, { log: () => {}, timeoutMs: 600_000 });
  await sut.store.accept(delivery("d1"));
  await reach(sut.store, "d1", "done");
  await worker.stop();
  assertEquals(isAborted, false);
});

testStoreOnce("a handler of a router in another router has its own limit", async (sut) => {
  const { handler, signals, end } = deafHandler();
  const inner = createEventRouter().on("push", handler, { timeoutMs: 20 });
  const outer = createEventRouter().on("push", inner.handle, { timeoutMs: 50_000 });
  await withWorker(sut, outer.handle, {}, async () => {
    await sut.store.accept(delivery("d1"));
    await until(() => signals.get("d1")?.aborted ?? false);
    end("d1");
    await reach(sut.store, "d1", "done");
  });
});

testStoreOnce("a worker that stops leaves no timeout of a single handler behind", async (sut) => {
  const [short, long] = [deafHandler(), deafHandler()];
  const router = createEventRouter()
    .on("push", short.handler, { id: "short", timeoutMs: 60_000 })
    .on("push", long.handler, { id: "long" });
  const worker = startWorker(sut.store, router.handle, { log: () => {} });
  await sut.store.accept(delivery("d1"));
  await until(() => long.started.length === 1);
  await worker.stop({ graceMs: 0 });
  assertEquals((await sut.store.get("d1"))?.state, "queued");
});

testStoreOnce(
  "onStuck is not called for handlers that have ended, and wait to be settled",
  async (sut) => {
    const { handler, signals, end } = deafHandler();
    const complete = sut.store.complete.bind(sut.store);
    const isWorking = Promise.withResolvers<void>();
    sut.store.complete = (...args) => isWorking.promise.then(() => complete(...args));
    let stuck = 0;
    const options = { concurrency: 2, timeoutMs: 20, onStuck: () => stuck++ };
    await withWorker(sut, handler, options, async () => {
      for (const id of ["d1", "d2", "d3"]) {
        await sut.store.accept(delivery(id));
        await until(() => signals.get(id)?.aborted ?? false);
        end(id);
      }
      isWorking.resolve();
      await reach(sut.store, "d3", "done");
      assertEquals(stuck, 0);
    });
  },
);

testStoreOnce("a handler's own signal follows that of the event", async (sut) => {
  const [short, long] = [deafHandler(), deafHandler()];
  const router = createEventRouter()
    .on("push", short.handler, { id: "short", timeoutMs: 10_000 })
    .on("push", long.handler, { id: "long" });
  await withWorker(sut, router.handle, {}, async () => {
    await sut.store.accept(delivery("d1"));
    await until(() => short.signals.has("d1"));
    assert(await sut.store.cancel("d1"));
    await until(() => short.signals.get("d1")!.aborted);
    for (const each of [short, long]) each.end("d1");
    await reach(sut.store, "d1", "dead");
  });
});

testStoreOnce("a handler's log has the event's id", async (sut) => {
  const records: LogRecord[] = [];
  const log = (record: LogRecord) => void records.push(record);
  const handler: EventHandler = (_event, context) => {
    context.log({ level: "info", time: "", message: "own" });
    context.log({ level: "info", time: "", message: "of another", eventId: "d9" });
  };
  await withWorker(sut, handler, { log }, async () => {
    await sut.store.accept({ ...delivery("d1"), requestId: "r1" });
    await reach(sut.store, "d1", "done");
    await until(() => records.length === 3);
  });
  const lines = records.map(({ message, eventId }) => [message, eventId]);
  assertEquals(lines, [["own", "d1"], ["of another", "d9"], ["event handled", "d1"]]);
  const { type, attempt, requestId, durationMs } = records[2]!;
  assertEquals([type, attempt, requestId, typeof durationMs], ["push", 1, "r1", "number"]);
});
