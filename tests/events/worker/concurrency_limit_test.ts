/** Limits of how many runs of a handler go at once. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  createEventRouter,
  type EventHandler,
  type EventRecord,
  type EventRouter,
  type EventStore,
  startWorker,
  type WorkerOptions,
} from "../../../mod.ts";
import { waitsForLimit } from "../../../events/store/settlement.ts";
import { ConcurrencyLimit } from "../../../events/worker/concurrency_limit.ts";
import { delivery } from "../store/_events.ts";
import { testStoreOnce } from "../store/contract/_contract.ts";
import { reach, until } from "./_worker.ts";

/** Reason of a signal that is aborted because the worker stops. */
const STOPS = "The worker stops";

/** A handler whose runs end when they are told to, or throw. */
function gate() {
  const waiting: { readonly id: string; end(error?: Error): void }[] = [];
  let [running, most] = [0, 0];
  const handler: EventHandler = async ({ id }, { signal }) => {
    most = Math.max(most, ++running);
    try {
      await new Promise<void>((resolve, reject) => {
        const end = (error?: Error) => error ? reject(error) : resolve();
        waiting.push({ id, end });
        signal.addEventListener(
          "abort",
          () => signal.reason.message === STOPS && end(signal.reason),
        );
      });
    } finally {
      running--;
    }
  };
  return {
    handler,
    ids: () => waiting.map(({ id }) => id),
    end: (error?: Error) => waiting.shift()!.end(error),
    running: () => running,
    most: () => most,
  };
}

/** Runs a worker with a router while `fn` runs. */
async function during(
  store: EventStore,
  router: EventRouter,
  fn: () => Promise<void>,
  options: WorkerOptions = {},
) {
  const worker = startWorker(store, router.handle, { log: () => {}, pollMs: 20, ...options });
  try {
    await fn();
  } finally {
    await worker.stop();
  }
}

/** Stores events of a type, one after the other. */
async function accept(store: EventStore, type: string, ...ids: readonly string[]) {
  for (const id of ids) await store.accept({ ...delivery(id), type });
}

const numbered = (count: number) => Array.from({ length: count }, (_, i) => `e${i}`);

const countOf = async (store: EventStore, state: EventRecord["state"]) =>
  (await store.stats())[state];

testStoreOnce(
  "a handler runs no more often at once than its limit, and all are handled",
  async ({ store }) => {
    const { handler, ids, end, most } = gate();
    const router = createEventRouter().on("slow", handler, { concurrency: 2 });
    await during(store, router, async () => {
      await accept(store, "slow", ...numbered(6));
      for (let ended = 0; ended < 6; ended++) {
        await until(() => ids().length === Math.min(2, 6 - ended));
        end();
      }
      await until(async () => await countOf(store, "done") === 6);
    });
    assertEquals(most(), 2);
  },
);

testStoreOnce("events that wait for a limit take no place of the others", async ({ store }) => {
  const { handler, ids, end } = gate();
  const others: string[] = [];
  const router = createEventRouter()
    .on("slow", handler, { concurrency: 1 })
    .on("quick", ({ id }) => void others.push(id));
  await during(store, router, async () => {
    await accept(store, "slow", ...numbered(8));
    await until(() => ids().length === 1);
    for (const id of ["q1", "q2"]) {
      await accept(store, "quick", id);
      await reach(store, id, "done");
    }
    assertEquals(ids(), ["e0"]);
    // Those that do not wait in memory say so.
    await until(async () => {
      const queued = await Array.fromAsync(store.list({ state: "queued" }));
      return queued.length > 0 && queued.every((event) => waitsForLimit(event as EventRecord));
    });
    end();
    await until(() => ids().length === 1);
    end();
    await until(async () => await countOf(store, "done") === 4);
  }, { concurrency: 2 });
  assertEquals(others, ["q1", "q2"]);
});

testStoreOnce("what waits in memory begins when a run ends, in its order", async ({ store }) => {
  const { handler, ids, end } = gate();
  const router = createEventRouter().onAny(handler, { concurrency: 1 });
  await during(store, router, async () => {
    await accept(store, "slow", ...numbered(4));
    for (const id of numbered(4)) {
      await until(() => ids()[0] === id);
      end();
    }
    await until(async () => await countOf(store, "done") === 4);
  });
  for await (const { attempt } of store.list({ state: "done" })) assertEquals(attempt, 1);
});

testStoreOnce(
  "events beyond those go back to the schedule, without an attempt",
  async ({ store }) => {
    const { handler, ids, end } = gate();
    const router = createEventRouter().onAny(handler, { concurrency: 1 });
    await accept(store, "slow", ...numbered(16));
    await during(store, router, async () => {
      await until(async () => await countOf(store, "running") === 11 && ids().length === 1);
      const queued = await Array.fromAsync(store.list({ state: "queued" }));
      assertEquals(queued.length, 5);
      for (const { attempt, attempts, delayMs, putOff } of queued) {
        assertEquals([attempt, attempts, putOff], [0, [], undefined]);
        assert(delayMs! >= 1_000 && delayMs! <= 2_500, `${delayMs}`);
      }
      for (let ended = 0; ended < 16; ended++) {
        await until(() => ids().length === 1);
        end();
      }
      await until(async () => await countOf(store, "done") === 16);
    }, { concurrency: 30 });
  },
);

testStoreOnce(
  "an event that has waited in memory for long goes back to the schedule",
  async ({ store }) => {
    const { handler, ids, end } = gate();
    const router = createEventRouter().onAny(handler, { concurrency: 1 });
    await during(store, router, async () => {
      await accept(store, "slow", "e0", "e1");
      await reach(store, "e1", "running");
      await until(async () => {
        const { state, delayMs } = (await store.get("e1"))!;
        return state === "queued" && delayMs! >= 1_000;
      });
      assertEquals(ids(), ["e0"]);
      end();
      await until(() => ids()[0] === "e1");
      end();
      await reach(store, "e1", "done");
    }, { leaseMs: 600 });
    assertEquals((await store.get("e1"))?.attempts.length, 1);
  },
);

testStoreOnce(
  "an event waits as a whole, and a handler's place is free once that has ended",
  async ({ store }) => {
    const limited = gate();
    const other = gate();
    const router = createEventRouter()
      .on("both", limited.handler, { id: "limited", concurrency: 1 })
      .on("both", other.handler, { id: "other" });
    await during(store, router, async () => {
      await accept(store, "both", "e0", "e1");
      await until(() => limited.running() === 1 && other.running() === 1);
      await reach(store, "e1", "running");
      assertEquals([limited.ids(), other.ids()], [["e0"], ["e0"]]);
      limited.end();
      await until(() => limited.ids()[0] === "e1");
      assertEquals(other.ids(), ["e0", "e1"]);
      for (const each of [limited, other, other]) each.end();
      await until(async () => await countOf(store, "done") === 2);
    });
  },
);

testStoreOnce(
  "a retry takes a place for the handlers that are called again only",
  async ({ store }) => {
    const limited = gate();
    let failures = 0;
    const router = createEventRouter()
      .onAny(limited.handler, { id: "limited", concurrency: 1 })
      .on("fails", () => {
        if (failures++ === 0) throw new Error("no");
      });
    await during(store, router, async () => {
      await accept(store, "fails", "e0");
      await until(() => limited.running() === 1);
      limited.end();
      await until(async () => (await store.get("e0"))!.attempts.length === 1);
      await accept(store, "other", "e1");
      await until(() => limited.running() === 1);
      await reach(store, "e0", "done");
      assertEquals(limited.ids(), ["e1"]);
      limited.end();
    }, { retry: { minDelayMs: 50 } });
  },
);

testStoreOnce("a run past its time limit keeps its place until it ends", async ({ store }) => {
  const { handler, ids, end } = gate();
  const messages: string[] = [];
  const router = createEventRouter().onAny(handler, { concurrency: 1, timeoutMs: 20 });
  await during(store, router, async () => {
    await accept(store, "slow", "e0");
    await until(() => messages.includes("handler still running"));
    await accept(store, "slow", "e1");
    await reach(store, "e1", "running");
    assertEquals(ids(), ["e0"]);
    end();
    await until(() => ids()[0] === "e1");
    end();
    await until(async () => await countOf(store, "done") === 2);
  }, { log: ({ message }) => void messages.push(message) });
});

testStoreOnce(
  "a limit counts within a router, and beside that of the router",
  async ({ store }) => {
    const [a, b] = [gate(), gate()];
    const inner = createEventRouter();
    const router = createEventRouter()
      .onAny(inner.handle, { id: "inner", concurrency: 2 })
      .on("c", () => {});
    inner.on("a", a.handler, { concurrency: 1 }).on("b", b.handler);
    await during(store, router, async () => {
      await accept(store, "a", "a0", "a1");
      await until(() => a.running() === 1);
      await accept(store, "b", "b0", "b1");
      await until(() => b.running() === 1);
      await accept(store, "c", "c0");
      await reach(store, "c0", "done");
      assertEquals([a.running(), b.running()], [1, 1]);
      for (const [gate, other] of [[a, b], [b, a]]) {
        gate!.end();
        await until(() => gate!.running() + other!.running() === 2);
      }
      for (const each of [a, b]) each.end();
      await until(async () => await countOf(store, "done") === 5);
    });
    assertEquals([a.most(), b.most()], [1, 1]);
  },
);

testStoreOnce(
  "an event whose process has died in its last attempt dies, also if it waits for a limit",
  async ({ store }) => {
    const { handler, ids } = gate();
    const router = createEventRouter().onAny(handler, {
      concurrency: 1,
      retry: { maxAttempts: 1 },
    });
    await accept(store, "slow", "e1");
    assertEquals((await store.claim({ limit: 1, owner: "gone", leaseMs: 1_000 })).length, 1);
    await during(store, router, async () => {
      await accept(store, "slow", "e0");
      await reach(store, "e1", "dead");
      assertEquals(ids(), ["e0"]);
    }, { leaseMs: 600 });
  },
);

testStoreOnce("an event that waits for a limit is cancelled at once", async ({ store }) => {
  const { handler, ids, end } = gate();
  const router = createEventRouter().onAny(handler, { concurrency: 1 });
  await during(store, router, async () => {
    await accept(store, "slow", "e0", "e1");
    await reach(store, "e1", "running");
    assert(await store.cancel("e1"));
    await reach(store, "e1", "dead");
    assertEquals(ids(), ["e0"]);
    end();
  });
});

testStoreOnce(
  "a worker that stops gives back what waits for a limit, due at once",
  async ({ store }) => {
    const { handler, ids } = gate();
    const router = createEventRouter().onAny(handler, { concurrency: 1 });
    await during(store, router, async () => {
      await accept(store, "slow", "e0", "e1");
      await reach(store, "e1", "running");
      await until(() => ids().length === 1);
    });
    for (const id of ["e0", "e1"]) {
      const { state, attempt, delayMs } = (await store.get(id))!;
      assertEquals([state, attempt, delayMs], ["queued", 0, 0]);
    }
  },
);

testStoreOnce(
  "an event whose lease has ended while it waited for a limit is not begun",
  async ({ store }) => {
    const { handler, ids, end } = gate();
    const router = createEventRouter().onAny(handler, { concurrency: 1 });
    // The worker does not look at its jobs while a claim is not answered.
    const unanswered = Promise.withResolvers<never[]>();
    let isAnswered = true;
    const claim: EventStore["claim"] = (options) =>
      isAnswered ? store.claim(options) : unanswered.promise;
    await during({ ...store, claim }, router, async () => {
      await accept(store, "slow", "e0", "e1");
      await reach(store, "e1", "running");
      await until(() => ids().length === 1);
      isAnswered = false;
      const holds = (id: string) => id !== "e1";
      const other = { limit: 1, owner: "other", leaseMs: 60_000, holds };
      await until(async () => (await store.claim(other)).length === 1);
      end();
      await reach(store, "e0", "done");
      await accept(store, "slow", "e2");
      await until(() => ids().length === 1);
      assertEquals(ids(), ["e2"]);
      unanswered.resolve([]);
    }, { leaseMs: 1_500, pollMs: 20 });
  },
);

Deno.test("as many events may wait in memory as runs end in a second", () => {
  const limit = new ConcurrencyLimit(2);
  assertEquals([limit.ahead, limit.isReached], [20, false]);
  for (let i = 0; i < 2; i++) limit.begin();
  assertEquals(limit.isReached, true);
  for (const [ms, ahead] of [[60_000, 2], [0, 1_000]] as const) {
    for (let i = 0; i < 100; i++) {
      limit.begin();
      limit.end(ms);
    }
    assertEquals([Math.round(limit.ahead), limit.isReached], [ahead, true]);
  }
});

Deno.test("on() refuses a limit that is not a whole number from 1 on", () => {
  for (const concurrency of [0, -1, 1.5, Infinity]) {
    assertThrows(
      () => createEventRouter().onAny(() => {}, { concurrency }),
      RangeError,
      "Cannot register the handler: 'concurrency' must be ",
    );
  }
});
