import {
  assert,
  assertEquals,
  assertGreaterOrEqual,
  assertLess,
  assertMatch,
  assertThrows,
} from "@std/assert";
import { withDeadline } from "../../../core/timeouts.ts";
import {
  type Delivery,
  type EventRecord,
  openEventStore,
  startWorker,
  type WebhookEvent,
} from "../../../events/mod.ts";
import type { LogRecord } from "../../../middleware/mod.ts";
import { asyncEffects, type KvHandler, type KvStore } from "../../_kv_handlers.ts";
import { assertWithin } from "../../_within.ts";
import { recordKey } from "../store/kv/_keys.ts";
import { memoryStore, type StoreUnderTest, testStore } from "../store/kv/_stores.ts";
import { changeValue } from "../store/kv/_values.ts";
import { reach, simulated, stealLease, until, withWorker } from "./_worker.ts";

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

testStore("startWorker() hands the event to the handler, and settles it", async (sut) => {
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
});

testStore("startWorker() handles each of many events once", async (sut) => {
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

testStore("startWorker() finds what was stored before it started", async (sut) => {
  await sut.store.accept(delivery("d1"));
  await withWorker(sut, () => {}, {}, () => reach(sut.store, "d1", "done"));
});

Deno.test("startWorker() tries a failed event again", async () => {
  await using sut = await memoryStore();
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

Deno.test("startWorker() gives an event up after the last attempt, with its reason", async () => {
  await using sut = await memoryStore();
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
});

Deno.test("startWorker() keeps what was thrown that is no error, and not '[object Object]'", async () => {
  await using sut = await memoryStore();
  const handler = () => Promise.reject({ code: 42 });
  await withWorker(sut, handler, { log: () => {}, retry: { maxAttempts: 1 } }, async () => {
    const { id } = await sut.store.accept(delivery("d1"));
    await reach(sut.store, id, "dead");
    assertEquals((await sut.store.get(id))?.attempts[0]?.error, '{"code":42}');
  });
});

Deno.test("startWorker() does not let a failing event hold up the others", async () => {
  await using sut = await memoryStore();
  const handled: string[] = [];
  const handler = ({ id }: WebhookEvent) => {
    if (id === "bad") throw new Error("always");
    handled.push(id);
  };
  await withWorker(sut, handler, { concurrency: 1, retry: { minDelayMs: 10_000 } }, async () => {
    for (const id of ["bad", "d1", "d2"]) await sut.store.accept(delivery(id));
    await until(() => handled.length === 2);
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

Deno.test("startWorker() handles no more events at once than asked", async () => {
  await using sut = await memoryStore();
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

Deno.test("startWorker() runs as many handlers as asked, also thousands", async () => {
  await using sut = await memoryStore();
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

Deno.test(
  "startWorker() starts a handler ten leases long once",
  simulated(async (sut) => {
    let starts = 0;
    const handler = () => {
      starts++;
      return later(2_000);
    };
    // Another process would take the event over as soon as its lease expires.
    const store = await openEventStore(sut.kv, { notifier: "watch" });
    const other = startWorker(store, handler, { leaseMs: 200, pollMs: 20, log: () => {} });
    await withWorker(sut, handler, { leaseMs: 200, pollMs: 20 }, async () => {
      await sut.store.accept(delivery("d1"));
      await reach(sut.store, "d1", "done");
    });
    await other.stop();
    assertEquals(starts, 1);
  }),
);

Deno.test("startWorker() keeps an event when its process stands still for longer than a lease", async () => {
  await using sut = await memoryStore();
  let starts = 0;
  const handler: KvHandler = async (_event, { signal }) => {
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
});

/** Works without a pause for an answer of the KV. */
function block(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

/** Handles an event whose handler blocks its process again and again. Returns how often it was started. */
async function startsWhileBlocked(ms: number, times: number): Promise<number> {
  await using sut = await memoryStore();
  let [starts, running, most] = [0, 0, 0];
  const handler: KvHandler = async (_event, { signal }) => {
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
    const handler: KvHandler = (_event, { signal }) => {
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
  simulated(async (sut) => {
    const aborted = Promise.withResolvers<void>();
    const handler: KvHandler = (_event, { signal }) => {
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

Deno.test("settleWith() commits effects with the settlement, and none of a failed attempt", async () => {
  await using sut = await memoryStore();
  const handler: KvHandler = ({ attempt }, { settleWith }) => {
    settleWith((commit) => void commit.sum(["count"], 1n));
    if (attempt === 1) throw new Error("once");
  };
  await withWorker(sut, handler, { retry: { minDelayMs: 1 } }, async () => {
    await sut.store.accept(delivery("d1"));
    await reach(sut.store, "d1", "done");
    assertEquals((await sut.kv.get<Deno.KvU64>(["count"])).value?.value, 1n);
  });
});

Deno.test("settleWith() fails the attempt when its effects cannot be committed", async () => {
  await using sut = await memoryStore();
  const handler: KvHandler = (_event, { settleWith }) =>
    settleWith((commit) => void commit.set(["big"], new Uint8Array(70_000)));
  await withWorker(sut, handler, { retry: { maxAttempts: 1 } }, async () => {
    await sut.store.accept(delivery("d1"));
    await reach(sut.store, "d1", "dead");
  });
});

Deno.test("settleWith() fails the attempt when a check of its effects does not hold", async () => {
  await using sut = await memoryStore();
  await sut.kv.set(["taken"], 1);
  const handler: KvHandler = (_event, { settleWith }) =>
    settleWith((commit) => commit.check({ key: ["taken"], versionstamp: null }).set(["taken"], 2));
  await withWorker(sut, handler, { retry: { minDelayMs: 1, maxAttempts: 2 } }, async () => {
    await sut.store.accept(delivery("d1"));
    await reach(sut.store, "d1", "dead");
    const { attempt, attempts } = (await sut.store.get("d1"))!;
    assertEquals([attempt, attempts.length], [2, 2]);
    assertEquals(attempts[0]?.error, "Error: A check among the effects does not hold");
  });
});

const QUEUE_USES: Readonly<Record<string, KvHandler>> = {
  "db.enqueue()": (_event, { db }) => db.enqueue("mine"),
  "db.atomic().enqueue()": (_event, { db }) => db.atomic().enqueue("mine").commit(),
  "commit.enqueue() of settleWith()": (_event, { settleWith }) =>
    settleWith((commit) => commit.enqueue("mine")),
  "commit.enqueue() of checkpoint()": (_event, { checkpoint }) =>
    checkpoint("part", (commit) => commit.enqueue("mine")),
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

Deno.test("startWorker() keeps the error of a thrown value that has no text", async () => {
  await using sut = await memoryStore();
  const handler = () => {
    throw Object.create(null);
  };
  await withWorker(sut, handler, { retry: { maxAttempts: 1 } }, async () => {
    await sut.store.accept(delivery("d1"));
    await reach(sut.store, "d1", "dead");
  });
});

/** Claims an event and lets its lease expire, like a process that dies while it handles the event. */
async function dieWith(store: KvStore, times: number): Promise<void> {
  for (let i = 0; i < times; i++) {
    assertEquals((await store.claim({ limit: 1, owner: "dying", leaseMs: 1 })).length, 1);
    await later(5);
  }
}

Deno.test("startWorker() gives up an event whose processes die again and again", async () => {
  await using sut = await memoryStore();
  await sut.store.accept(delivery("d1"));
  await dieWith(sut.store, 3);
  let handled = 0;
  await withWorker(sut, () => handled++, { retry: { maxAttempts: 3 } }, async () => {
    await reach(sut.store, "d1", "dead");
  });
  assertEquals(handled, 0);
});

for (const retry of [{ maxAttempts: 3 }, { minDelayMs: 3_600_000 }]) {
  const [name] = Object.keys(retry);
  Deno.test(`startWorker() puts off an event whose record has changed since: ${name}`, async () => {
    await using sut = await memoryStore();
    const { store } = sut;
    const by = await openEventStore(sut.kv);
    await store.accept(delivery("d1"));
    await dieWith(store, 3);
    const claim = store.claim.bind(store);
    store.claim = async (options) => {
      const leases = await claim(options);
      for (const { record } of leases) await by.cancel(record.id);
      return leases;
    };
    await withWorker(sut, () => {}, { leaseMs: 600_000, retry }, () => reach(by, "d1", "dead"));
  });
}

Deno.test("startWorker() waits longer each time that the process of an event died", async () => {
  await using sut = await memoryStore();
  await sut.store.accept(delivery("d1"));
  await dieWith(sut.store, 3);
  const options = { leaseMs: 1_000, retry: { minDelayMs: 10_000 } };
  await withWorker(sut, () => {}, options, async () => {
    await reach(sut.store, "d1", "queued");
    const record = (await sut.store.get("d1"))!;
    assertGreaterOrEqual(record.dueAt! - Date.now(), 35_000);
    assertEquals(record.attempts.at(-1)?.error?.split(":", 1), ["Lease expired"]);
  });
});

Deno.test(
  "two workers of one KV do not keep each other waiting",
  simulated(async (sut) => {
    const other = await openEventStore(sut.kv, { notifier: "watch" });
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
  }),
);

Deno.test("startWorker() keeps up with an ordering key that is joined all the time", async () => {
  await using sut = await memoryStore();
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
});

function keyed(deliveryId: string, orderingKey: string): Delivery {
  return { ...delivery(deliveryId), orderingKey };
}

/** A store of which one call is never answered, as a remote KV that swallows it. */
function hanging(store: KvStore, call: "claim" | "renew" | "release") {
  const called = Promise.withResolvers<void>();
  const get = (target: KvStore, name: string | symbol) => {
    const value = Reflect.get(target, name, target);
    if (name !== call) return typeof value === "function" ? value.bind(target) : value;
    return () => {
      called.resolve();
      return new Promise(() => {});
    };
  };
  return { store: new Proxy(store, { get }), called: called.promise };
}

Deno.test(
  "startWorker() aborts a handler before another may start, without a renewal",
  simulated(async (sut) => {
    const aborted = Promise.withResolvers<number>();
    const start = performance.now();
    const handler: KvHandler = (_event, { signal }) => {
      signal.addEventListener("abort", () => aborted.resolve(performance.now() - start));
      return aborted.promise;
    };
    const { store } = hanging(sut.store, "renew");
    const worker = startWorker(store, handler, { leaseMs: 400, log: () => {} });
    await sut.store.accept(delivery("d1"));
    assertLess(await aborted.promise, 450);
    await worker.stop();
    assertEquals((await sut.store.get("d1"))?.state, "running");
  }),
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
  Deno.test(
    `startWorker() starts a handler once although the clock goes a day ${direction}`,
    simulated(async (sut) => {
      let [starts, aborts] = [0, 0];
      const handler: KvHandler = (_event, { signal }) => {
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
    }),
  );

  Deno.test(
    `startWorker() handles what waits although the clock goes a day ${direction}`,
    simulated(async (sut) => {
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
    }),
  );
}

Deno.test(
  "startWorker() tries again in a second what a clock an hour ahead has put off, and says so",
  simulated(async (sut) => {
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
  }),
);

Deno.test(
  "startWorker() puts right what another process schedules with a clock ahead, each time",
  simulated(async (sut) => {
    const other = await openEventStore(sut.kv);
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

Deno.test("startWorker() ends when its KV is closed", async () => {
  await using sut = await memoryStore();
  const records: LogRecord[] = [];
  const options = { pollMs: 10, log: (record: LogRecord) => void records.push(record) };
  const worker = startWorker(sut.store, () => {}, options);
  await later(20);
  sut.kv.close();
  const failed = () => records.filter(({ message }) => message === "claim failed").length;
  await until(() => failed() > 0);
  // One that was under way may fail otherwise, before the one that finds the KV closed.
  await later(100);
  const count = failed();
  assertLess(count, 3);
  await later(100);
  assertEquals(failed(), count);
  await worker.stop();
});

Deno.test("stop() waits for handlers, and takes no further events", async () => {
  await using sut = await memoryStore();
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

Deno.test("stop() gives back at once what handlers give up when their signal aborts", async () => {
  await using sut = await memoryStore();
  const started = Promise.withResolvers<void>();
  const handler: KvHandler = (_event, { signal }) =>
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
});

/** Starts a worker whose handler has an event in hand until it is told to end. */
async function held({ store }: StoreUnderTest) {
  const [hold, started] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const handler = () => (started.resolve(), hold.promise);
  const worker = startWorker(store, handler, { log: () => {} });
  await store.accept(delivery("d1"));
  await started.promise;
  return { worker, end: hold.resolve, state: async () => (await store.get("d1"))?.state };
}

Deno.test("stop() gives back what a handler holds past the grace, and it cannot settle", async () => {
  await using sut = await memoryStore();
  const { worker, end, state } = await held(sut);
  await worker.stop({ graceMs: 10 });
  assertEquals(await state(), "queued");
  end();
  await later(20);
  assertEquals(await state(), "queued");
});

Deno.test("stop() called twice at once resolves both times once the handlers are through", async () => {
  await using sut = await memoryStore();
  const { worker, end, state } = await held(sut);
  const stops = Promise.all([worker.stop({ graceMs: 60_000 }), worker.stop({ graceMs: 60_000 })]);
  end();
  await withDeadline(stops, 5_000);
  assertEquals(await state(), "done");
});

Deno.test("stop() waits for as long as asked, even for ever", async () => {
  await using sut = await memoryStore();
  const { worker, end, state } = await held(sut);
  const stopped = worker.stop({ graceMs: Infinity });
  await later(50);
  end();
  await stopped;
  assertEquals(await state(), "done");
});

Deno.test("stop() resolves when another one has given all back", async () => {
  await using sut = await memoryStore();
  const { worker, end, state } = await held(sut);
  await withDeadline(
    Promise.all([worker.stop({ graceMs: 60_000 }), worker.stop({ graceMs: 10 })]),
    5_000,
  );
  await withDeadline(worker.stop({ graceMs: 60_000 }), 5_000);
  assertEquals(await state(), "queued");
  end();
});

Deno.test("poll() resolves once the KV is closed, although a handler runs", async () => {
  await using sut = await memoryStore();
  const hold = Promise.withResolvers<void>();
  const worker = startWorker(sut.store, () => hold.promise, { log: () => {}, pollMs: 10 });
  await sut.store.accept(delivery("d1"));
  await reach(sut.store, "d1", "running");
  const polled = worker.poll();
  sut.kv.close();
  await withDeadline(polled, 5_000);
  await worker.stop({ graceMs: 10 });
  hold.resolve();
});

Deno.test("poll() resolves once all that was due is handled", async () => {
  await using sut = await memoryStore();
  const worker = startWorker(sut.store, () => later(5), { concurrency: 3, pollMs: 60_000 });
  await Promise.all(Array.from({ length: 20 }, (_, i) => sut.store.accept(delivery(`d${i}`))));
  await worker.poll();
  assertEquals((await sut.store.stats()).done, 20);
  await worker.stop();
  await worker.poll();
});

Deno.test("poll() waits for what is tried again while it looks at the schedule", async () => {
  await using sut = await memoryStore();
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
});

Deno.test("startWorker() refuses options that make no sense", async () => {
  await using sut = await memoryStore();
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

Deno.test("startWorker() tries an event again whose handler throws what cannot be looked at", async () => {
  await using sut = await memoryStore();
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
});

Deno.test("startWorker() reports no lost lease of an event that it settles meanwhile", async () => {
  const sut = await memoryStore();
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
  const handler: KvHandler = (_event, { signal }) =>
    signal.addEventListener("abort", () => isAborted = true);
  await withWorker(sut, handler, { leaseMs: 3_000, log }, async () => {
    await store.accept(delivery("d1"));
    await refused.promise;
    await later(100);
  });
  const messages = records.map(({ message }) => message);
  assertEquals([isAborted, messages], [false, ["event handled"]]);
});
