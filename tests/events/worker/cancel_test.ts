/** Events that are cancelled while a worker has them. */
import { assertEquals, assertLess, assertRejects } from "@std/assert";
import { changedKv, withOperations } from "../../../dev/harness/faulty_kv.ts";
import {
  type EventHandler,
  type EventStore,
  openEventStore,
  startWorker,
  type WorkerOptions,
} from "../../../events/mod.ts";
import type { LogRecord } from "../../../middleware/mod.ts";
import { delivery } from "../store/_events.ts";
import { testFailing, testStoreInOneProcess, testStoreOnce } from "../store/contract/_contract.ts";
import { memoryStore } from "../store/kv/_stores.ts";
import { reach, until } from "./_worker.ts";

/** A handler that ends as soon as its signal is aborted. */
const obedient: EventHandler = (_event, { signal }) =>
  new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));

/** Runs a worker on an event `d1` until that is dead, and cancels it on the way. */
async function cancelRunning(
  store: EventStore,
  handler: EventHandler,
  options: WorkerOptions & { readonly by?: EventStore } = {},
): Promise<string[]> {
  const records: LogRecord[] = [];
  const { by = store, ...given } = options;
  const log = (record: LogRecord) => void records.push(record);
  // An event that is cancelled between its lease and its start is not started.
  const started = Promise.withResolvers<void>();
  const starting: EventHandler = (event, context) => {
    started.resolve();
    return handler(event, context);
  };
  const worker = startWorker(store, starting, { log, pollMs: 20, ...given });
  await store.accept(delivery("d1"));
  await started.promise;
  assertEquals(await by.cancel("d1"), true);
  await reach(store, "d1", "dead");
  await worker.stop();
  return records.map(({ level, message }) => `${level}: ${message}`);
}

testStoreOnce(
  "cancel() aborts a handler of this process at once, and its event is cancelled",
  async (sut) => {
    const start = performance.now();
    // At the next renewal it would be aborted after three minutes.
    const records = await cancelRunning(sut.store, obedient, { leaseMs: 600_000 });
    assertLess(performance.now() - start, 60_000);
    assertEquals((await sut.store.get("d1"))?.outcome, "cancelled");
    assertEquals(records, ["info: event cancelled"]);
  },
);
testStoreOnce("cancel() of another store in this process aborts a handler at once", async (sut) => {
  const by = await sut.place.open();
  const records = await cancelRunning(sut.store, obedient, { by, leaseMs: 600_000 });
  assertEquals(records, ["info: event cancelled"]);
});

Deno.test("cancel() reaches no handler of another namespace", async () => {
  await using sut = await memoryStore();
  const other = await openEventStore(sut.kv, { namespace: "other" });
  let isAborted = false;
  const started = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  const worker = startWorker(sut.store, async (_event, { signal }) => {
    signal.addEventListener("abort", () => isAborted = true);
    started.resolve();
    await ended.promise;
  }, { log: () => {} });
  await Promise.all([sut.store, other].map((store) => store.accept(delivery("d1"))));
  await started.promise;
  const idle = startWorker(other, obedient, { log: () => {} });
  await reach(other, "d1", "running");
  assertEquals(await other.cancel("d1"), true);
  await reach(other, "d1", "dead");
  assertEquals(isAborted, false);
  ended.resolve();
  await reach(sut.store, "d1", "done");
  await Promise.all([worker.stop(), idle.stop()]);
});

testStoreOnce(
  "a handler finds another event and cancels it at once, by its context",
  async (sut) => {
    const { store } = sut;
    const started = Promise.withResolvers<void>();
    const handler: EventHandler = async (event, context) => {
      if (event.id === "d1") {
        started.resolve();
        await obedient(event, context);
        return;
      }
      for await (const { id } of context.store.list({ state: "running" })) {
        if (id !== event.id) assertEquals(await context.cancel(id), true);
      }
      assertEquals(await context.cancel("unknown"), false);
      assertEquals((await context.store.get(event.id))?.state, "running");
    };
    const worker = startWorker(store, handler, { log: () => {}, leaseMs: 600_000 });
    await store.accept(delivery("d1"));
    await started.promise;
    await store.accept(delivery("d2"));
    await reach(store, "d2", "done");
    await reach(store, "d1", "dead");
    assertEquals((await store.get("d1"))?.outcome, "cancelled");
    await worker.stop();
  },
);

Deno.test("cancel() by another process aborts a handler at the next renewal", async () => {
  await using sut = await memoryStore();
  // Another view of the KV: a store in this process would tell the worker.
  const by = await openEventStore(changedKv(sut.kv, {}));
  const reasons: unknown[] = [];
  const records = await cancelRunning(sut.store, async (event, context) => {
    await Promise.resolve(obedient(event, context)).catch((reason) => void reasons.push(reason));
  }, { by, leaseMs: 1_000 });
  assertEquals(reasons.map(String), ["Error: The event was cancelled"]);
  assertEquals((await sut.store.get("d1"))?.outcome, "cancelled");
  assertEquals(records, ["info: event cancelled"]);
});

testStoreInOneProcess(
  "an event that is cancelled while it runs is not done, nor tried again",
  async (sut) => {
    let starts = 0;
    await cancelRunning(sut.store, (event, context) => {
      starts++;
      return obedient(event, context);
    }, { leaseMs: 1_000, retry: { minDelayMs: 0 } });
    const { state, outcome } = (await sut.store.get("d1"))!;
    assertEquals([state, outcome, starts], ["dead", "cancelled", 1]);
  },
);

for (const ending of ["returns", "throws"] as const) {
  testStoreOnce(`an event is cancelled although its handler ${ending} after that`, async (sut) => {
    const { place: { effects } } = sut;
    const records = await cancelRunning(sut.store, async (_event, { signal, settleWith }) => {
      settleWith(effects.set("effect", 1));
      await until(() => signal.aborted);
      if (ending === "throws") throw new Error("too late");
    });
    const { state, outcome } = (await sut.store.get("d1"))!;
    assertEquals([state, outcome], ["dead", "cancelled"]);
    assertEquals(await effects.get("effect"), null);
    assertEquals(records, ["info: event cancelled"]);
  });
}

testStoreOnce(
  "a handler that ignores its signal holds its ordering key until it ends",
  async (sut) => {
    const { store } = sut;
    const hold = Promise.withResolvers<void>();
    const handled: string[] = [];
    const worker = startWorker(store, ({ id }) => {
      handled.push(id);
      return id === "d1" ? hold.promise : undefined;
    }, { leaseMs: 1_000, pollMs: 20, log: () => {} });
    for (const id of ["d1", "d2"]) await store.accept(delivery(id, "{}", "key"));
    await until(() => handled.length > 0);
    assertEquals(await store.cancel("d1"), true);
    const { lease } = (await store.get("d1"))!;
    // Renewed again and again, for longer than the lease was when the event was cancelled.
    await until(async () =>
      ((await store.get("d1"))?.lease?.until ?? Infinity) > lease!.until + 500
    );
    assertEquals([handled, (await store.get("d1"))?.state], [["d1"], "running"]);
    hold.resolve();
    await reach(store, "d2", "done");
    assertEquals([handled, (await store.get("d1"))?.outcome], [["d1", "d2"], "cancelled"]);
    await worker.stop();
  },
);

testStoreOnce(
  "an event that is cancelled while it waits for a handler is not started",
  async (sut) => {
    const { store } = sut;
    const hold = Promise.withResolvers<void>();
    const handled: string[] = [];
    const claim = store.claim.bind(store);
    // One more than there are handlers for.
    store.claim = (options) => claim({ ...options, limit: 2 });
    for (const id of ["d1", "d2"]) await store.accept(delivery(id));
    const worker = startWorker(store, ({ id }) => {
      handled.push(id);
      return hold.promise;
    }, { concurrency: 1, log: () => {} });
    await reach(store, "d2", "running");
    assertEquals(await store.cancel("d2"), true);
    hold.resolve();
    await reach(store, "d2", "dead");
    await worker.stop();
    assertEquals([handled, (await store.get("d2"))?.outcome], [["d1"], "cancelled"]);
  },
);
testFailing(
  "after",
  "an event that is cancelled before its worker knows of it is not started",
  async ({ failing }) => {
    const { store, arm } = failing;
    let starts = 0;
    const worker = startWorker(store, () => void starts++, { log: () => {} });
    await store.accept(delivery("before"));
    await reach(store, "before", "done");
    arm();
    // Its commit was made, but the worker that has room for it is not told.
    await assertRejects(() => store.accept(delivery("d1")), Error, "connection lost");
    assertEquals(await store.cancel("d1"), true);
    await reach(store, "d1", "dead");
    await worker.stop();
    assertEquals([starts, (await store.get("d1"))?.outcome], [1, "cancelled"]);
  },
);

Deno.test("a handler is told of a cancel that only a step's lost answer shows", async () => {
  await using sut = await memoryStore();
  const by = await openEventStore(sut.kv);
  let armed = false;
  const kv = withOperations(sut.kv, (operation) => {
    const commit = operation.commit.bind(operation);
    operation.commit = async () => {
      const result = await commit();
      if (!armed) return result;
      armed = false;
      assertEquals(await by.cancel("d1"), true);
      throw new Error("connection lost");
    };
  });
  const store = await openEventStore(kv);
  const told = Promise.withResolvers<boolean>();
  const worker = startWorker(store, async (_event, { step, signal }) => {
    armed = true;
    await step("a", () => {});
    told.resolve(signal.aborted);
  }, { log: () => {} });
  await store.accept(delivery("d1"));
  assertEquals(await told.promise, true);
  await reach(store, "d1", "dead");
  await worker.stop();
});

testStoreOnce(
  "an event that is cancelled between its claim and its start is not started",
  async (sut) => {
    const { store } = sut;
    const [leased, cancelled] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const claim = store.claim.bind(store);
    // A claim that has committed still reads payloads.
    store.claim = async (options) => {
      const leases = await claim(options);
      if (leases.length > 0) leased.resolve();
      if (leases.length > 0) await cancelled.promise;
      return leases;
    };
    await store.accept(delivery("d1"));
    let starts = 0;
    const worker = startWorker(store, () => void starts++, { log: () => {} });
    await leased.promise;
    assertEquals(await store.cancel("d1"), true);
    cancelled.resolve();
    await reach(store, "d1", "dead");
    await worker.stop();
    assertEquals([starts, (await store.get("d1"))?.outcome], [0, "cancelled"]);
  },
);

testStoreOnce(
  "an event that is cancelled while its payload is loaded is not started",
  async (sut) => {
    const { store } = sut;
    // A payload that does not fit the record is loaded in a step of its own.
    const body = new TextEncoder().encode(JSON.stringify({ text: "a".repeat(100_000) }));
    await store.accept({ ...delivery("d1"), body });
    const load = store.load.bind(store);
    store.load = async (lease) => {
      assertEquals(await store.cancel("d1"), true);
      return await load(lease);
    };
    let starts = 0;
    const worker = startWorker(store, () => void starts++, { log: () => {} });
    await reach(store, "d1", "dead");
    await worker.stop();
    assertEquals([starts, (await store.get("d1"))?.outcome], [0, "cancelled"]);
  },
);

for (const place of ["here", "elsewhere"] as const) {
  testStoreOnce(`step() rejects once its event was cancelled ${place}`, async (sut) => {
    const { place: { effects } } = sut;
    const by = place === "here" ? sut.store : await sut.place.open();
    const refused = Promise.withResolvers<unknown[]>();
    const worker = startWorker(sut.store, async (_event, { step, signal }) => {
      await by.cancel("d1");
      const set = effects.set("effect", 1);
      const error = await step("a", ({ settleWith }) => settleWith(set)).catch(String);
      refused.resolve([error, signal.aborted]);
    }, { log: () => {} });
    await sut.store.accept(delivery("d1"));
    const message = "Error: Cannot note progress: the event was cancelled";
    assertEquals(await refused.promise, [message, true]);
    await reach(sut.store, "d1", "dead");
    await worker.stop();
    const { outcome, steps } = (await sut.store.get("d1"))!;
    assertEquals([outcome, steps], ["cancelled", undefined]);
    assertEquals(await effects.get("effect"), null);
  });
}

testStoreOnce(
  "stop() does not give back what was cancelled, although its handler still runs",
  async (sut) => {
    const hold = Promise.withResolvers<void>();
    const worker = startWorker(sut.store, () => hold.promise, { log: () => {} });
    await sut.store.accept(delivery("d1"));
    await reach(sut.store, "d1", "running");
    await sut.store.cancel("d1");
    await worker.stop({ graceMs: 10 });
    assertEquals((await sut.store.get("d1"))?.outcome, "cancelled");
    hold.resolve();
  },
);
