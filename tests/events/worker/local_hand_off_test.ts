import { assertEquals, assertRejects } from "@std/assert";
import {
  type EventStore,
  GiveUpError,
  openEventStore,
  startWorker,
  type WebhookEvent,
} from "../../../events/mod.ts";
import { changedKv, failingOnce } from "../../../dev/harness/faulty_kv.ts";
import type { LogRecord } from "../../../core/mod.ts";
import { assertWithin } from "../../_within.ts";
import { delivery, later } from "../store/_events.ts";
import { testFailing, testStoreOnce } from "../store/contract/_contract.ts";

/** Stops the wall clock in its scope. */
function stopClock(): Disposable {
  const { now } = Date;
  const time = now();
  Date.now = () => time;
  return { [Symbol.dispose]: () => void (Date.now = now) };
}

/** Longest time until an event is handled whose commit was looked for: some 1 s is usual. */
const MOST_MS = 8_000;

/** Registers a test of a worker on a store whose commit for a delivery fails: the event is handled once, and soon. */
function testFault(
  fault: "before" | "after",
  name: string,
  fn: (accept: () => Promise<unknown>) => Promise<void>,
): void {
  testFailing(fault, name, async ({ failing: { store, arm } }) => {
    // Received within the same millisecond, the record of a second delivery has the place of the first one.
    using _time = fault === "before" ? stopClock() : undefined;
    const handled: string[] = [];
    // It still runs when the commit is looked for.
    const handler = ({ id }: { readonly id: string }) => (handled.push(id), later(1_300));
    const worker = startWorker(store, handler, { log: () => {} });
    await later(50);
    arm();
    await assertRejects(() => store.accept(delivery("d1")), Error, "connection lost");
    await fn(() => store.accept(delivery("d1")));
    const start = performance.now();
    while (handled.length === 0 && performance.now() - start < MOST_MS) await later(10);
    await later(1_500);
    await worker.stop();
    assertEquals(handled, ["d1"]);
  });
}

testFault(
  "after",
  "an event whose commit was made, but not answered, is handled soon",
  async () => {},
);

testFault(
  "before",
  "an event that was taken in by a second delivery is handled once",
  async (accept) => void await accept(),
);

testFault(
  "after",
  "an event whose commit was made, but not answered, is no second time another's",
  async (accept) => assertEquals(await accept(), { id: "d1", duplicate: true }),
);

testStoreOnce(
  "a delivery that is sent again as its event dies in the same millisecond is kept",
  async ({ store }) => {
    using _time = stopClock();
    const handled: string[] = [];
    const handler = ({ id }: { readonly id: string }) => {
      handled.push(id);
      if (handled.length === 1) throw new GiveUpError("not now");
    };
    const worker = startWorker(store, handler, { log: () => {} });
    for (const _ of [1, 2]) {
      assertEquals(await store.accept(delivery("d1")), { id: "d1", duplicate: false });
      await worker.poll();
    }
    assertEquals(handled, ["d1", "d1"]);
    assertEquals((await store.get("d1"))?.state, "done");
    await worker.stop();
  },
);

Deno.test("a worker keeps its room where a reading fails while an event of a key dies", async () => {
  using kv = await Deno.openKv(":memory:");
  let fails = false;
  const get = (key: Deno.KvKey) => {
    if (fails && key[1] === "id") return Promise.reject(new Error("connection lost"));
    return kv.get(key);
  };
  const store = await openEventStore(changedKv(kv, { get }));
  let handled = 0;
  const handler = ({ id }: { readonly id: string }) => {
    handled++;
    fails = id.startsWith("dies");
    if (fails) setTimeout(() => fails = false, 20);
    if (fails) throw new GiveUpError("no");
  };
  const worker = startWorker(store, handler, { concurrency: 2, log: () => {} });
  for (let i = 0; i < 4; i++) {
    await Promise.all(
      [`dies${i}`, `next${i}`].map((id) => store.accept(delivery(id, "{}", "key"))),
    );
    await worker.poll();
  }
  await store.accept(delivery("after"));
  await worker.poll();
  assertEquals(handled, 9);
  await worker.stop();
});

testFailing(
  "before",
  "an event keeps its lease that is handed off again after a failed commit",
  async ({ failing: { store, arm } }) => {
    const handled: string[] = [];
    const accepted = Promise.withResolvers<void>();
    const handler = async ({ id }: { readonly id: string }) => {
      handled.push(id);
      // The event that is handed off by a settlement that fails is looked for after a second.
      if (id === "second") return await later(1_500);
      await accepted.promise;
      arm();
    };
    const worker = startWorker(store, handler, { log: () => {} });
    for (const id of ["first", "second"]) await store.accept(delivery(id, "{}", "key"));
    accepted.resolve();
    await worker.poll();
    await worker.poll();
    await worker.stop();
    assertEquals(handled, ["first", "second"]);
    assertEquals((await store.get("second"))?.state, "done");
  },
);

/** Runs a worker that tries events once, on a KV of which a commit is repeated once it is armed. */
async function withRepetition(
  fn: (store: EventStore, arm: () => void, kv: Deno.Kv) => Promise<void>,
  onEvent: (id: string, arm: () => void) => unknown = () => {},
): Promise<string[]> {
  using kv = await Deno.openKv(":memory:");
  const { kv: failing, arm } = failingOnce(kv, "repeated");
  const store = await openEventStore(failing, { notifier: "watch" });
  const handled: string[] = [];
  const handler = async ({ id, attempt }: WebhookEvent) => {
    await onEvent(id, arm);
    handled.push(`${id}: ${attempt}`);
  };
  const worker = startWorker(store, handler, { retry: { maxAttempts: 1 }, log: () => {} });
  await fn(store, arm, kv);
  // Less than a lease: an event that nobody holds would be found after that.
  await assertWithin(20_000, () => settled(store));
  await worker.stop();
  return handled;
}

/** Waits until nothing is open, and returns how long that took. */
async function settled(store: EventStore): Promise<number> {
  const start = performance.now();
  const isOpen = async () => {
    const { queued, running } = await store.stats();
    return queued + running > 0;
  };
  while (await isOpen() && performance.now() - start < 29_000) await later(10);
  return performance.now() - start;
}

Deno.test("an event is handled at its first attempt whose commit was made and repeated", async () => {
  for (const key of [undefined, "key"]) {
    const handled = await withRepetition(async (store, arm) => {
      await later(50);
      arm();
      const accepted = await store.accept(delivery("d1", "{}", key));
      assertEquals(accepted, { id: "d1", duplicate: false });
    });
    assertEquals(handled, ["d1: 1"]);
  }
});

Deno.test("the next event of a key is handled if the commit that hands it off is repeated", async () => {
  const accepted = Promise.withResolvers<void>();
  const handled = await withRepetition(
    async (store) => {
      for (const id of ["d1", "d2"]) await store.accept(delivery(id, "{}", "key"));
      accepted.resolve();
    },
    async (id, arm) => {
      await accepted.promise;
      if (id === "d1") arm();
    },
  );
  assertEquals(handled, ["d1: 1", "d2: 1"]);
});

Deno.test("events are handled whose claim was made and repeated", async () => {
  const ways: readonly ((store: EventStore) => Promise<{ readonly id: string }>)[] = [
    (store) => store.accept(delivery("d1")),
    (store) => store.accept(delivery("d1", "{}", "key")),
    // It joins its group when it is claimed.
    (store) => store.emit("jobs", "x", {}, { id: "1", group: "key" }),
  ];
  for (const storeIn of ways) {
    let id: string | undefined;
    const handled = await withRepetition(async (_, arm, kv) => {
      await later(50);
      // Stored by a process without a worker.
      const store = await openEventStore(kv, { notifier: "watch" });
      arm();
      id = (await storeIn(store)).id;
    });
    assertEquals(handled, [`${id}: 1`]);
  }
});

Deno.test("an event that was emitted by itself is handled once if its commit is repeated", async () => {
  const handled = await withRepetition(async (store, arm) => {
    await later(50);
    arm();
    assertEquals((await store.emit("jobs", "x", {})).duplicate, false);
  });
  assertEquals(handled.length, 1);
});

Deno.test("an event is reported as handled whose settlement was made and repeated", async () => {
  for (const key of [undefined, "key"]) {
    using kv = await Deno.openKv(":memory:");
    const { kv: failing, arm } = failingOnce(kv, "repeated");
    const store = await openEventStore(failing, { notifier: "watch" });
    const messages: string[] = [];
    const log = ({ message }: LogRecord) => void messages.push(message);
    const worker = startWorker(store, (_, { settleWith }) => {
      settleWith((commit) => commit.sum(["handled"], 1n));
      arm();
    }, { log });
    await store.accept(delivery("d1", "{}", key));
    await assertWithin(20_000, () => settled(store));
    await worker.stop();
    assertEquals(messages.filter((message) => message !== "worker started"), ["event handled"]);
    assertEquals((await kv.get<Deno.KvU64>(["handled"])).value?.value, 1n);
  }
});
