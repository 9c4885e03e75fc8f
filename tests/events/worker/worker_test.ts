import {
  assert,
  assertEquals,
  assertGreaterOrEqual,
  assertLess,
  assertMatch,
  assertRejects,
  assertThrows,
} from "@std/assert";
import { withDeadline } from "../../../core/timeouts.ts";
import {
  type Delivery,
  type EventHandler,
  type EventRecord,
  type EventStore,
  startWorker,
  type WebhookEvent,
} from "../../../events/mod.ts";
import type { LogRecord } from "../../../middleware/mod.ts";
import { asyncEffects, type KvHandler } from "../../_kv_handlers.ts";
import { assertWithin } from "../../_within.ts";
import { recordKey } from "../store/kv/_keys.ts";
import { testStoreInOneProcess, testStoreOnce } from "../store/contract/_contract.ts";
import { memoryStore } from "../store/kv/_stores.ts";
import { changeValue } from "../store/kv/_values.ts";
import {
  type OpenedStore,
  reach,
  simulatedKv,
  stealLease,
  testSimulated,
  until,
  withWorker,
} from "./_worker.ts";

const encoder = new TextEncoder();

function delivery(deliveryId: string, text = `{"a":1}`): Delivery {
  const body = encoder.encode(text);
  return {
    platform: "forge",
    source: "github",
    type: "push",
    deliveryId,
    body,
    payload: JSON.parse(text),
  };
}

const later = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

testStoreInOneProcess(
  "startWorker() hands the event to the handler, and settles it",
  async (sut) => {
    const events: WebhookEvent[] = [];
    let record: EventRecord | null = null;
    await withWorker(sut, (event) => events.push(event), {}, async () => {
      await sut.store.accept({ ...delivery("d1", `{"ref":"🙂"}`), requestId: "r1" });
      await reach(sut.store, "d1", "done");
      record = await sut.store.get("d1");
    });
    const { body, batch, receivedAt, idempotencyKey: _, ...rest } = events[0]!;
    assertEquals(rest, {
      ...{
        id: "d1",
        deliveryId: "d1",
        intake: undefined,
        platform: "forge",
        source: "github",
        type: "push",
      },
      ...{ payload: { ref: "🙂" }, requestId: "r1", attempt: 1 },
      ...{ action: undefined, repository: undefined, chat: undefined, sender: undefined },
    });
    assertEquals(new TextDecoder().decode(body), `{"ref":"🙂"}`);
    assertEquals(receivedAt, record!.receivedAt);
    assertEquals([batch.length, batch[0] === events[0]], [1, true]);
  },
);

testStoreInOneProcess("startWorker() handles each of many events once", async (sut) => {
  const handled: string[] = [];
  await withWorker(sut, (event) => handled.push(event.id), {}, async () => {
    const ids = Array.from({ length: 100 }, (_, i) => `d${i}`);
    await Promise.all(ids.map((id) => sut.store.accept(delivery(id))));
    await until(() => handled.length >= 100);
    await later(100);
  });
  assertEquals(handled.length, 100);
  assertEquals(new Set(handled).size, 100);
});

testStoreInOneProcess("startWorker() finds what was stored before it started", async (sut) => {
  await sut.store.accept(delivery("d1"));
  await withWorker(sut, () => {}, {}, () => reach(sut.store, "d1", "done"));
});

testStoreOnce("startWorker() tries a failed event again", async (sut) => {
  const attempts: number[] = [];
  const handler = ({ attempt }: WebhookEvent) => {
    attempts.push(attempt);
    if (attempt < 3) throw new Error("not yet");
  };
  await withWorker(sut, handler, { retry: { minDelayMs: 1 } }, async () => {
    await sut.store.accept(delivery("d1"));
    await reach(sut.store, "d1", "done");
  });
  assertEquals(attempts, [1, 2, 3]);
});

testStoreOnce(
  "startWorker() gives an event up after the last attempt, with its reason",
  async (sut) => {
    const records: LogRecord[] = [];
    const log = (record: LogRecord) => void records.push(record);
    const options = { log, retry: { minDelayMs: 1, maxAttempts: 2 } };
    await withWorker(sut, () => Promise.reject(new Error("never")), options, async () => {
      await sut.store.accept({ ...delivery("d1"), requestId: "r1" });
      await reach(sut.store, "d1", "dead");
      assertEquals((await sut.store.get("d1"))?.attempts.map(({ error }) => error), [
        "Error: never",
        "Error: never",
      ]);
    });
    assertEquals(records.map(({ level, eventId, requestId }) => [level, eventId, requestId]), [
      ["warn", "d1", "r1"],
      ["error", "d1", "r1"],
    ]);
  },
);

testStoreOnce(
  "startWorker() keeps what was thrown that is no error, and not '[object Object]'",
  async (sut) => {
    const handler = () => Promise.reject({ code: 42 });
    await withWorker(sut, handler, { log: () => {}, retry: { maxAttempts: 1 } }, async () => {
      const { id } = await sut.store.accept(delivery("d1"));
      await reach(sut.store, id, "dead");
      assertEquals((await sut.store.get(id))?.attempts[0]?.error, '{"code":42}');
    });
  },
);

testStoreOnce("startWorker() does not let a failing event hold up the others", async (sut) => {
  const handled: string[] = [];
  const handler = ({ id }: WebhookEvent) => {
    if (id === "bad") throw new Error("always");
    handled.push(id);
  };
  await withWorker(sut, handler, { concurrency: 1, retry: { minDelayMs: 10_000 } }, async () => {
    for (const id of ["bad", "d1", "d2"]) await sut.store.accept(delivery(id));
    await until(() => handled.length === 2);
    // The others may be quicker than the commit of its failure.
    await until(async () => (await sut.store.get("bad"))?.attempts.length === 1);
    assertEquals((await sut.store.get("bad"))?.state, "queued");
  });
});

Deno.test("startWorker() treats a payload that is gone as a failed attempt", async () => {
  await using sut = await memoryStore();
  await sut.store.accept(delivery("d1"));
  for await (const { key } of sut.kv.list({ prefix: ["events", "payload"] })) {
    await sut.kv.delete(key);
  }
  await withWorker(sut, () => {}, { retry: { maxAttempts: 1 } }, async () => {
    await reach(sut.store, "d1", "dead");
    assert((await sut.store.get("d1"))?.attempts[0]?.error?.includes("Cannot read the payload"));
  });
});

testStoreOnce("startWorker() handles no more events at once than asked", async (sut) => {
  let [running, most, handled] = [0, 0, 0];
  const handler = async () => {
    most = Math.max(most, ++running);
    await later(5);
    running--;
    handled++;
  };
  await withWorker(sut, handler, { concurrency: 3 }, async () => {
    await Promise.all(Array.from({ length: 30 }, (_, i) => sut.store.accept(delivery(`d${i}`))));
    await until(() => handled === 30);
  });
  assertEquals(most, 3);
});

testStoreOnce("startWorker() runs as many handlers as asked, also thousands", async (sut) => {
  const hold = Promise.withResolvers<void>();
  const ids = Array.from({ length: 2_200 }, (_, i) => `d${i}`);
  let running = 0;
  const handler = () => {
    running++;
    return hold.promise;
  };
  await withWorker(sut, handler, { concurrency: 3_000 }, async () => {
    await Promise.all(ids.map((id) => sut.store.accept(delivery(id))));
    await until(() => running === ids.length);
    hold.resolve();
    await until(async () => (await sut.store.stats()).done === ids.length);
  });
});

testSimulated("startWorker() starts a handler ten leases long once", async (sut) => {
  let starts = 0;
  const handler = () => {
    starts++;
    return later(2_000);
  };
  // Another process would take the event over as soon as its lease expires.
  const store = await sut.place.open();
  const other = startWorker(store, handler, { leaseMs: 200, pollMs: 20, log: () => {} });
  await withWorker(sut, handler, { leaseMs: 200, pollMs: 20 }, async () => {
    await sut.store.accept(delivery("d1"));
    await reach(sut.store, "d1", "done");
  });
  await other.stop();
  assertEquals(starts, 1);
});

testStoreOnce(
  "startWorker() keeps an event when its process stands still for longer than a lease",
  async (sut) => {
    let starts = 0;
    const handler: EventHandler = async (_event, { signal }) => {
      starts++;
      await later(20);
      const end = performance.now() + 750;
      while (performance.now() < end);
      await later(500);
      signal.throwIfAborted();
    };
    await withWorker(sut, handler, { leaseMs: 500, pollMs: 20 }, async () => {
      await sut.store.accept(delivery("d1"));
      await reach(sut.store, "d1", "done");
    });
    assertEquals(starts, 1);
  },
);

/** Works without a pause for an answer of the KV. */
function block(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

/** Handles an event whose handler blocks its process again and again. Returns how often it was started. */
async function startsWhileBlocked(ms: number, times: number): Promise<number> {
  await using sut = await memoryStore();
  let [starts, running, most] = [0, 0, 0];
  const handler: EventHandler = async (_event, { signal }) => {
    starts++;
    most = Math.max(most, ++running);
    for (let i = 0; i < times; i++) {
      block(ms);
      await later(0);
    }
    await later(300);
    running--;
    signal.throwIfAborted();
  };
  const options = { leaseMs: 200, pollMs: 20, retry: { minDelayMs: 0 } };
  await withWorker(sut, handler, options, async () => {
    await sut.store.accept(delivery("d1"));
    await reach(sut.store, "d1", "done");
  });
  assertEquals(most, 1);
  return starts;
}

for (const [ms, times] of [[300, 4], [80, 15]] as const) {
  Deno.test(`startWorker() keeps an event when its process stands still ${times} times, for ${ms} ms`, async () => {
    // On a busy machine the KV may not answer in between: then the handler is aborted, and tried again.
    for (let left = 2; await startsWhileBlocked(ms, times) > 1; left--) assertLess(0, left);
  });
}

for (const state of ["running", "queued"] as const) {
  Deno.test(`startWorker() starts no second handler of a lost event that is ${state}`, async () => {
    await using sut = await memoryStore();
    const { kv, store } = sut;
    const ends: (() => void)[] = [];
    const lost = Promise.withResolvers<void>();
    let leftOut = 0;
    const claim = store.claim.bind(store);
    store.claim = (options) => {
      const { holds } = options;
      return claim({
        ...options,
        holds: (id) => {
          const isHeld = holds!(id, Date.now());
          if (isHeld) leftOut++;
          return isHeld;
        },
      });
    };
    const handler: EventHandler = (_event, { signal }) => {
      signal.addEventListener("abort", () => lost.resolve());
      const { promise, resolve } = Promise.withResolvers<void>();
      ends.push(resolve);
      return promise;
    };
    await withWorker(sut, handler, { leaseMs: 300, retry: { minDelayMs: 0 } }, async () => {
      await store.accept(delivery("d1"));
      await reach(store, "d1", "running");
      // With its payload, which its record holds.
      const lease = { owner: "other", until: 0, ms: 1, startedAt: 0 };
      const members = { state, lease: state === "running" ? lease : null };
      await changeValue(kv, await recordKey(kv, "d1"), members);
      await lost.promise;
      await until(() => leftOut > 0 || ends.length > 1);
      assertEquals(ends.length, 1);
      ends[0]!();
      await until(() => ends.length > 1);
      ends[1]!();
      await reach(store, "d1", "done");
    });
    assertEquals(ends.length, 2);
  });
}

Deno.test(
  "startWorker() aborts a handler whose lease was lost, and settles nothing",
  simulatedKv(async (sut) => {
    const aborted = Promise.withResolvers<void>();
    const handler: EventHandler = (_event, { signal }) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      signal.addEventListener("abort", () => (aborted.resolve(), resolve()));
      return promise;
    };
    await withWorker(sut, handler, { leaseMs: 300 }, async () => {
      await sut.store.accept(delivery("d1"));
      await reach(sut.store, "d1", "running");
      await stealLease(sut, "d1");
      await aborted.promise;
      await later(20);
      assertEquals((await sut.store.get("d1"))?.lease?.owner, "other");
    });
  }),
);

testStoreOnce(
  "settleWith() commits effects with the settlement, and none of a failed attempt",
  async (sut) => {
    const { place: { effects } } = sut;
    const handler: EventHandler = ({ attempt }, { settleWith }) => {
      settleWith(effects.add("count", 1));
      if (attempt === 1) throw new Error("once");
    };
    await withWorker(sut, handler, { retry: { minDelayMs: 1 } }, async () => {
      await sut.store.accept(delivery("d1"));
      await reach(sut.store, "d1", "done");
      assertEquals(await effects.get("count"), 1);
    });
  },
);

Deno.test("settleWith() fails the attempt when its effects cannot be committed", async () => {
  await using sut = await memoryStore();
  const handler: KvHandler = (_event, { settleWith }) =>
    settleWith((commit) => void commit.set(["big"], new Uint8Array(70_000)));
  await withWorker(sut, handler, { retry: { maxAttempts: 1 } }, async () => {
    await sut.store.accept(delivery("d1"));
    await reach(sut.store, "d1", "dead");
  });
});

testStoreOnce("settleWith() fails the attempt when its effects are refused", async (sut) => {
  const { place: { effects } } = sut;
  const handler: EventHandler = (_event, { settleWith }) => settleWith(effects.refused());

  await withWorker(sut, handler, { retry: { minDelayMs: 1, maxAttempts: 2 } }, async () => {
    await sut.store.accept(delivery("d1"));
    await reach(sut.store, "d1", "dead");
    const { attempt, attempts } = (await sut.store.get("d1"))!;
    assertEquals([attempt, attempts.length], [2, 2]);
    assertEquals(attempts[0]?.error, `Error: ${effects.refusal}`);
  });
});

const QUEUE_USES: Readonly<Record<string, KvHandler>> = {
  "db.enqueue()": (_event, { db }) => db.enqueue("mine"),
  "db.atomic().enqueue()": (_event, { db }) => db.atomic().enqueue("mine").commit(),
  "commit.enqueue() of settleWith()": (_event, { settleWith }) =>
    settleWith((commit) => commit.enqueue("mine")),
  "commit.enqueue() of a step": (_event, { step }) =>
    step("part", ({ settleWith }) => settleWith((commit) => commit.enqueue("mine"))),
};

for (const [use, handler] of Object.entries(QUEUE_USES)) {
  Deno.test(`${use} fails the attempt where the queue is the store's`, async () => {
    await using sut = await memoryStore();

    await withWorker(sut, handler, { retry: { maxAttempts: 1 } }, async () => {
      await sut.store.accept(delivery("d1"));
      await reach(sut.store, "d1", "dead");
      const { attempts } = (await sut.store.get("d1"))!;
      assertMatch(attempts[0]!.error!, /^TypeError: Cannot enqueue in the KV of the event store: /);
    });
  });
}

Deno.test("settleWith() leaves an event unsettled whose effects throw in the commit", async () => {
  await using sut = await memoryStore();
  await sut.kv.set(["text"], "no number");
  const handler: KvHandler = (_event, { settleWith }) =>
    settleWith((commit) => commit.sum(["text"], 1n));
  await withWorker(sut, handler, { retry: { maxAttempts: 1 } }, async () => {
    await sut.store.accept(delivery("d1"));
    await reach(sut.store, "d1", "dead");
    assert((await sut.store.get("d1"))?.payload);
  });
});

Deno.test("settleWith() refuses effects that are added later", async () => {
  await using sut = await memoryStore();
  const handler: KvHandler = (_event, { settleWith }) =>
    settleWith(asyncEffects(async (commit) => await null ?? commit.set(["a"], 1)));
  await withWorker(sut, handler, { retry: { maxAttempts: 1 } }, async () => {
    await sut.store.accept(delivery("d1"));
    await reach(sut.store, "d1", "dead");
  });
});

testStoreOnce("startWorker() keeps the error of a thrown value that has no text", async (sut) => {
  const handler = () => {
    throw Object.create(null);
  };
  await withWorker(sut, handler, { retry: { maxAttempts: 1 } }, async () => {
    await sut.store.accept(delivery("d1"));
    await reach(sut.store, "d1", "dead");
  });
});

/** Claims an event and lets its lease expire, like a process that dies while it handles the event. */
async function dieWith(store: EventStore, times: number): Promise<void> {
  for (let i = 0; i < times; i++) {
    assertEquals((await store.claim({ limit: 1, owner: "dying", leaseMs: 1 })).length, 1);
    await later(5);
  }
}

testStoreOnce(
  "startWorker() gives up an event whose processes die again and again",
  async (sut) => {
    await sut.store.accept(delivery("d1"));
    await dieWith(sut.store, 3);
    let handled = 0;
    await withWorker(sut, () => handled++, { retry: { maxAttempts: 3 } }, async () => {
      await reach(sut.store, "d1", "dead");
    });
    assertEquals(handled, 0);
  },
);

for (const retry of [{ maxAttempts: 3 }, { minDelayMs: 3_600_000 }]) {
  const [name] = Object.keys(retry);
  testStoreOnce(
    `startWorker() puts off an event whose record has changed since: ${name}`,
    async (sut) => {
      const { store } = sut;
      const by = await sut.place.open();
      await store.accept(delivery("d1"));
      await dieWith(store, 3);
      const claim = store.claim.bind(store);
      store.claim = async (options) => {
        const leases = await claim(options);
        for (const { record } of leases) await by.cancel(record.id);
        return leases;
      };
      await withWorker(sut, () => {}, { leaseMs: 600_000, retry }, () => reach(by, "d1", "dead"));
    },
  );
}

testStoreOnce(
  "startWorker() waits longer each time that the process of an event died",
  async (sut) => {
    await sut.store.accept(delivery("d1"));
    await dieWith(sut.store, 3);
    const options = { leaseMs: 1_000, retry: { minDelayMs: 10_000 } };
    await withWorker(sut, () => {}, options, async () => {
      await reach(sut.store, "d1", "queued");
      const record = (await sut.store.get("d1"))!;
      assertGreaterOrEqual(record.dueAt! - Date.now(), 35_000);
      assertEquals(record.attempts.at(-1)?.error?.split(":", 1), ["Lease expired"]);
    });
  },
);

testSimulated("two workers of one store do not keep each other waiting", async (sut) => {
  const other = await sut.place.open();
  const ids = Array.from({ length: 300 }, (_, i) => `d${i}`);
  await Promise.all(ids.map((id) => sut.store.accept(delivery(id))));
  const handled = [0, 0];
  const options = { pollMs: 600_000, log: () => {} };
  const workers = [sut.store, other].map((store, i) =>
    startWorker(store, () => later(10).then(() => handled[i]!++), options)
  );
  await until(() => handled[0]! + handled[1]! >= 300);
  await Promise.all(workers.map((worker) => worker.stop()));
  assertEquals(handled[0]! + handled[1]!, 300);
  assertGreaterOrEqual(Math.min(...handled), 30);
});

testStoreOnce(
  "startWorker() keeps up with an ordering key that is joined all the time",
  async (sut) => {
    const order: string[] = [];
    let accepted = 0;
    const worker = startWorker(sut.store, ({ id }) => order.push(id), { log: () => {} });
    const end = performance.now() + 1_000;
    const senders = Array.from({ length: 4 }, async () => {
      while (performance.now() < end) await sut.store.accept(keyed(`d${accepted++}`, "repo"));
    });
    await Promise.all(senders);
    assertGreaterOrEqual(order.length, accepted / 20);
    assertEquals(new Set(order).size, order.length);
    await worker.stop();
  },
);

function keyed(deliveryId: string, orderingKey: string): Delivery {
  return { ...delivery(deliveryId), orderingKey };
}

/** A store of which one call is never answered, as a remote KV that swallows it. */
function hanging(store: EventStore, call: "claim" | "renew" | "release") {
  const called = Promise.withResolvers<void>();
  const get = (target: EventStore, name: string | symbol) => {
    const value = Reflect.get(target, name, target);
    if (name !== call) return typeof value === "function" ? value.bind(target) : value;
    return () => {
      called.resolve();
      return new Promise(() => {});
    };
  };
  return { store: new Proxy(store, { get }), called: called.promise };
}

testSimulated(
  "startWorker() aborts a handler before another may start, without a renewal",
  async (sut) => {
    const aborted = Promise.withResolvers<number>();
    const start = performance.now();
    const handler: EventHandler = (_event, { signal }) => {
      signal.addEventListener("abort", () => aborted.resolve(performance.now() - start));
      return aborted.promise;
    };
    const { store } = hanging(sut.store, "renew");
    const worker = startWorker(store, handler, { leaseMs: 400, log: () => {} });
    await sut.store.accept(delivery("d1"));
    assertLess(await aborted.promise, 450);
    await worker.stop();
    assertEquals((await sut.store.get("d1"))?.state, "running");
  },
);

for (const call of ["claim", "renew", "release"] as const) {
  Deno.test(`stop() resolves within the grace when ${call}() is never answered`, async () => {
    await assertWithin(15_000, async () => {
      await using sut = await memoryStore();
      const { store, called } = hanging(sut.store, call);
      const [started, hold] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const handler = () => (started.resolve(), hold.promise);
      const worker = startWorker(store, handler, { leaseMs: 100, log: () => {} });
      await sut.store.accept(delivery("d1"));
      await (call === "release" ? started.promise : called);
      const start = performance.now();
      await worker.stop({ graceMs: 300 });
      hold.resolve();
      return performance.now() - start;
    });
  });
}

/** Sets the wall clock, a simulation's too, and puts it right at the end of the scope. */
function setClock(byMs: number): Disposable {
  const { Date: before } = globalThis;
  const now = () => before.now() + byMs;
  const get = (target: DateConstructor, name: string | symbol) =>
    name === "now" ? now : Reflect.get(target, name);
  globalThis.Date = new Proxy(before, { get });
  return { [Symbol.dispose]: () => void (globalThis.Date = before) };
}

const DAY_MS = 86_400_000;

for (const [direction, jumpMs] of [["forward", DAY_MS], ["back", -DAY_MS]] as const) {
  testSimulated(
    `startWorker() starts a handler once although the clock goes a day ${direction}`,
    async (sut) => {
      let [starts, aborts] = [0, 0];
      const handler: EventHandler = (_event, { signal }) => {
        starts++;
        signal.addEventListener("abort", () => aborts++);
        return later(1_200);
      };
      await withWorker(sut, handler, { leaseMs: 600, pollMs: 20 }, async () => {
        await sut.store.accept(delivery("d1"));
        await reach(sut.store, "d1", "running");
        using _clock = setClock(jumpMs);
        await reach(sut.store, "d1", "done");
        assertEquals([starts, aborts], [1, 0]);
      });
    },
  );

  testSimulated(
    `startWorker() handles what waits although the clock goes a day ${direction}`,
    async (sut) => {
      const handler = ({ attempt }: WebhookEvent) => {
        if (attempt === 1) throw new Error("once");
      };
      const options = { leaseMs: 300, pollMs: 20, retry: { minDelayMs: 50 } };
      await withWorker(sut, handler, options, async () => {
        await sut.store.accept(delivery("d1"));
        await until(async () => (await sut.store.get("d1"))?.attempt === 1);
        using _clock = setClock(jumpMs);
        await sut.store.accept(delivery("d2"));
        await reach(sut.store, "d1", "done");
        await reach(sut.store, "d2", "done");
      });
    },
  );
}

testSimulated(
  "startWorker() tries again in a second what a clock an hour ahead has put off, and says so",
  async (sut) => {
    const records: LogRecord[] = [];
    const log = (record: LogRecord) => void records.push(record);
    const handler = ({ attempt }: WebhookEvent) => {
      if (attempt === 1) throw new Error("once");
    };
    let id = "";
    const isDone = async () => (await sut.store.get(id))?.state === "done";
    const clock = setClock(60 * 60_000);
    await withWorker(sut, handler, { log, leaseMs: 600, pollMs: 20 }, async () => {
      ({ id } = await sut.store.accept(delivery("d1")));
      await until(async () => (await sut.store.get(id))?.attempts.length === 1);
      clock[Symbol.dispose]();
      await until(isDone);
    });
    const jumps = records.filter(({ message }) => message === "clock was set");
    assertEquals(jumps.map(({ level, byMs }) => [level, Math.round(Number(byMs) / 60_000)]), [
      ["warn", -60],
    ]);
    const anew = records.filter(({ message }) => message.startsWith("schedule corrected"));
    assertEquals(anew.map(({ level, events }) => [level, events]), [["warn", 1]]);
  },
);

Deno.test(
  "startWorker() puts right what another process schedules with a clock ahead, each time",
  simulatedKv(async (sut) => {
    const other = await sut.place.open();
    let handled = 0;
    await withWorker(sut, () => handled++, { leaseMs: 100, pollMs: 20 }, async () => {
      for (let i = 1; i <= 2; i++) {
        const clock = setClock(75 * 60_000);
        // The time of the event is taken at once, so that nobody here sees a jump.
        const accepting = other.accept(delivery(`d${i}`));
        clock[Symbol.dispose]();
        await accepting;
        await until(() => handled === i);
      }
    });
  }),
);

testStoreOnce("startWorker() ends when its database is closed", async (sut) => {
  const records: LogRecord[] = [];
  const options = { pollMs: 10, log: (record: LogRecord) => void records.push(record) };
  const worker = startWorker(sut.store, () => {}, options);
  await later(20);
  sut.place.close();
  const failed = () => records.filter(({ message }) => message === "claim failed").length;
  await until(() => failed() > 0);
  // One that was under way may fail otherwise, before the one that finds the database closed.
  await later(100);
  const count = failed();
  assertLess(count, 3);
  await later(100);
  assertEquals(failed(), count);
  await worker.stop();
});

testStoreOnce("stop() waits for handlers, and takes no further events", async (sut) => {
  const started = Promise.withResolvers<void>();
  const handler = async () => {
    started.resolve();
    await later(50);
  };
  const worker = startWorker(sut.store, handler, { concurrency: 1, log: () => {} });
  await sut.store.accept(delivery("d1"));
  await started.promise;
  await sut.store.accept(delivery("d2"));
  await worker.stop();
  assertEquals((await sut.store.get("d1"))?.state, "done");
  assertEquals((await sut.store.get("d2"))?.state, "queued");
});

testStoreOnce(
  "stop() gives back at once what handlers give up when their signal aborts",
  async (sut) => {
    const started = Promise.withResolvers<void>();
    const handler: EventHandler = (_event, { signal }) =>
      new Promise((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason));
        started.resolve();
      });
    const logged: unknown[] = [];
    const worker = startWorker(sut.store, handler, {
      log: ({ level, message, eventId }) => void logged.push([level, message, eventId]),
    });
    await sut.store.accept(delivery("d1"));
    await started.promise;
    await worker.stop();
    assertEquals(logged, [["info", "event given back", "d1"]]);
    const record = (await sut.store.get("d1"))!;
    assertEquals([record.state, record.attempts.length], ["queued", 0]);
    assertGreaterOrEqual(Date.now(), record.dueAt!);
  },
);

testStoreOnce(
  "stop() gives back at once what is handed off to the worker meanwhile",
  async (sut) => {
    const reserved = Promise.withResolvers<void>();
    const listen: EventStore["listen"] = (listener) => {
      const { reserve } = listener;
      return sut.store.listen({
        ...listener,
        reserve: (bytes) => (reserved.resolve(), reserve!(bytes)),
      });
    };
    let starts = 0;
    const worker = startWorker({ ...sut.store, listen }, () => void starts++, { log: () => {} });
    const accepting = sut.store.accept(delivery("d1"));
    await reserved.promise;
    await withDeadline(worker.stop({ graceMs: 60_000 }), 5_000);
    await accepting;
    assertEquals([(await sut.store.get("d1"))?.state, starts], ["queued", 0]);
  },
);

/** Starts a worker whose handler has an event in hand until it is told to end. */
async function held({ store }: Pick<OpenedStore, "store">) {
  const [hold, started] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const handler = () => (started.resolve(), hold.promise);
  const worker = startWorker(store, handler, { log: () => {} });
  await store.accept(delivery("d1"));
  await started.promise;
  return { worker, end: hold.resolve, state: async () => (await store.get("d1"))?.state };
}

testStoreOnce(
  "stop() gives back what a handler holds past the grace, and it cannot settle",
  async (sut) => {
    const { worker, end, state } = await held(sut);
    await worker.stop({ graceMs: 10 });
    assertEquals(await state(), "queued");
    end();
    await later(20);
    assertEquals(await state(), "queued");
  },
);

testStoreOnce(
  "stop() called twice at once resolves both times once the handlers are through",
  async (sut) => {
    const { worker, end, state } = await held(sut);
    const stops = Promise.all([worker.stop({ graceMs: 60_000 }), worker.stop({ graceMs: 60_000 })]);
    end();
    await withDeadline(stops, 5_000);
    assertEquals(await state(), "done");
  },
);

testStoreOnce("stop() waits for as long as asked, even for ever", async (sut) => {
  const { worker, end, state } = await held(sut);
  const stopped = worker.stop({ graceMs: Infinity });
  await later(50);
  end();
  await stopped;
  assertEquals(await state(), "done");
});

testStoreOnce("stop() resolves when another one has given all back", async (sut) => {
  const { worker, end, state } = await held(sut);
  await withDeadline(
    Promise.all([worker.stop({ graceMs: 60_000 }), worker.stop({ graceMs: 10 })]),
    5_000,
  );
  await withDeadline(worker.stop({ graceMs: 60_000 }), 5_000);
  assertEquals(await state(), "queued");
  end();
});

testStoreOnce(
  "poll() resolves once the database is closed, although a handler runs",
  async (sut) => {
    const hold = Promise.withResolvers<void>();
    const worker = startWorker(sut.store, () => hold.promise, { log: () => {}, pollMs: 10 });
    await sut.store.accept(delivery("d1"));
    await reach(sut.store, "d1", "running");
    const polled = worker.poll();
    sut.place.close();
    await withDeadline(polled, 5_000);
    await worker.stop({ graceMs: 10 });
    hold.resolve();
  },
);

testSimulated(
  "poll() rejects once claims have failed for 10 s, and waits for one that succeeds before",
  async ({ store }) => {
    const worker = startWorker(store, () => {}, { log: () => {} });
    await store.accept(delivery("d1"));
    await worker.poll();
    const claim = store.claim.bind(store);
    store.claim = () => Promise.reject(new Error("no answer"));
    const begun = performance.now();
    await assertRejects(() => worker.poll(), Error, "The schedule cannot be read: no answer");
    const ms = performance.now() - begun;
    assert(ms >= 10_000 && ms < 12_000, `after ${ms} ms`);
    await store.accept(delivery("d2"));
    const polled = worker.poll();
    await later(5_000);
    store.claim = claim;
    await polled;
    assertEquals((await store.stats()).done, 2);
    store.claim = () => new Promise(() => {});
    await assertRejects(
      () => worker.poll(),
      Error,
      "The schedule cannot be read: No answer within",
    );
    // Nobody waits for this one.
    worker.poll();
    await later(30_000);
    const last = worker.poll();
    await worker.stop({ graceMs: 0 });
    await last;
  },
);

testStoreOnce("poll() resolves once all that was due is handled", async (sut) => {
  const worker = startWorker(sut.store, () => later(5), { concurrency: 3, pollMs: 60_000 });
  await Promise.all(Array.from({ length: 20 }, (_, i) => sut.store.accept(delivery(`d${i}`))));
  await worker.poll();
  assertEquals((await sut.store.stats()).done, 20);
  await worker.stop();
  await worker.poll();
});

testStoreOnce(
  "poll() waits for what is tried again while it looks at the schedule",
  async (sut) => {
    const retried = Promise.withResolvers<void>();
    const { store } = sut;
    const [claim, retry] = [store.claim.bind(store), store.retry.bind(store)];
    let claims = 0;
    store.claim = async (options) => {
      const leases = await claim(options);
      // The second one has looked before the event is due again, and tells so after that.
      if (++claims === 2) await retried.promise;
      return leases;
    };
    store.retry = async (...args) => {
      await until(() => claims === 2);
      const isRetried = await retry(...args);
      setTimeout(retried.resolve, 10);
      return isRetried;
    };
    await store.accept(delivery("d1"));
    const worker = startWorker(store, () => Promise.reject(new Error("no")), {
      ...{ log: () => {}, pollMs: 60_000, retry: { minDelayMs: 0, maxAttempts: 2 } },
    });
    await worker.poll();
    assertEquals((await store.get("d1"))?.state, "dead");
    await worker.stop();
  },
);

testStoreOnce("startWorker() refuses options that make no sense", (sut) => {
  const table: readonly object[] = [
    ...[0, 1.5].map((concurrency) => ({ concurrency })),
    ...[-1, 1e10].map((leaseMs) => ({ leaseMs })),
    ...[0, -1, 1.5, Infinity].map((timeoutMs) => ({ timeoutMs })),
    ...[{ pollMs: NaN }, { retry: { maxAttempts: 0 } }, { retry: { minDelayMs: NaN } }],
  ];
  for (const options of table) {
    const start = () => startWorker(sut.store, () => {}, options);
    assertThrows(start, RangeError, "Cannot start the worker");
  }
  const start = () => startWorker(sut.store, () => {}, { reportDead: 1 } as object);
  assertThrows(start, TypeError, "'reportDead' must be true or false, got 1");
});

testStoreOnce(
  "startWorker() tries an event again whose handler throws what cannot be looked at",
  async (sut) => {
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    const handler = ({ attempt }: WebhookEvent) => {
      if (attempt === 1) throw proxy;
    };
    await withWorker(sut, handler, { retry: { minDelayMs: 1 }, pollMs: 5 }, async () => {
      await sut.store.accept(delivery("d1"));
      await reach(sut.store, "d1", "done");
      const errors = (await sut.store.get("d1"))?.attempts.map(({ error }) => error);
      assertEquals(errors, ["Error: A value without a text was thrown", undefined]);
    });
  },
);

testStoreOnce(
  "startWorker() reports no lost lease of an event that it settles meanwhile",
  async (sut) => {
    const { store } = sut;
    const complete = store.complete.bind(store);
    const renew = store.renew.bind(store);
    const refused = Promise.withResolvers<void>();
    store.renew = async (lease, leaseMs) => {
      const renewed = await renew(lease, leaseMs);
      if (!renewed) refused.resolve();
      return renewed;
    };
    // The settlement is committed, and its answer comes after that of the renewal.
    store.complete = async (lease, options) => {
      const isSettled = await complete(lease, options);
      await refused.promise;
      await later(20);
      return isSettled;
    };
    const records: LogRecord[] = [];
    const log = (record: LogRecord) => void records.push(record);
    let isAborted = false;
    const handler: EventHandler = (_event, { signal }) =>
      signal.addEventListener("abort", () => isAborted = true);
    await withWorker(sut, handler, { leaseMs: 3_000, log }, async () => {
      await store.accept(delivery("d1"));
      await refused.promise;
      await later(100);
    });
    const messages = records.map(({ message }) => message);
    assertEquals([isAborted, messages], [false, ["event handled"]]);
  },
);
