import { assert, assertEquals, assertLess, assertRejects } from "@std/assert";
import { timingSafeEqual } from "@std/crypto/timing-safe-equal";
import type { Delivery } from "../../../../events/mod.ts";
import { claimAll, claimOne, delivery, later } from "../_events.ts";
import {
  assertEmpty,
  testNotifier,
  testStore,
  testStoreInOneProcess,
  testStoreOnce,
} from "./_contract.ts";

testStore("accept() stores an event that can be claimed and loaded", async ({ store }) => {
  await store.accept({ ...delivery("d1"), requestId: "r1" });
  const lease = await claimOne(store);
  const { id, platform, type, state, attempt, requestId } = lease.record;
  const actual = { id, platform, type, state, attempt, requestId };
  assertEquals(actual, {
    ...{ id: "d1", platform: "forge", type: "push" },
    ...{ state: "running", attempt: 1, requestId: "r1" },
  });
  assertEquals(new TextDecoder().decode(await store.load(lease)), `{"a":1}`);
});

testStore("accept() makes one event of 200 parallel deliveries of one id", async ({ store }) => {
  const results = await Promise.all(
    Array.from({ length: 200 }, () => store.accept(delivery("d1"))),
  );
  assertEquals(results.filter(({ duplicate }) => !duplicate).length, 1);
  assertEquals((await claimAll(store)).length, 1);
});

testStore("accept() makes an event of each delivery without an id", async ({ store }) => {
  const results = await Promise.all([store.accept(delivery()), store.accept(delivery())]);
  assertEquals(new Set(results.map(({ id }) => id)).size, 2);
  assertEquals((await claimAll(store)).length, 2);
});

testStore("accept() knows a delivery again after its event is done", async ({ store }) => {
  await store.accept(delivery("d1"));
  assert(await store.complete(await claimOne(store)));
  assertEquals(await store.accept(delivery("d1")), { id: "d1", duplicate: true });
  assertEquals(await claimAll(store), []);
});

testStore("accept() queues a delivery afresh whose event is dead", async ({ place, store }) => {
  await store.accept(delivery("d1", `{"first":true}`));
  assert(await store.bury(await claimOne(store), new Error("no")));
  assertEquals((await store.accept(delivery("d1", `{"second":true}`))).duplicate, false);
  const lease = await claimOne(store);
  assertEquals(lease.record.attempt, 1);
  assertEquals(new TextDecoder().decode(await store.load(lease)), `{"second":true}`);
  assertEquals((await place.contents()).payloads, 1);
});

const SIZES = [1, 64_999, 65_000, 65_001, 65_536, 780_000, 780_001, 3_000_000, 26_214_400];

for (const size of SIZES) {
  testStore(`load() returns ${size} bytes as they were accepted`, async ({ place, store }) => {
    const body = new Uint8Array(size);
    for (let i = 0; i < size; i++) body[i] = (i * 31) % 251;
    await store.accept({ ...delivery("d1"), body });
    assert(timingSafeEqual(await store.load(await claimOne(store)), body));
    assertEquals((await place.contents()).uploads, 0);
  });
}

testStore("load() returns letters with one emoji byte for byte", async ({ store }) => {
  // As a string, 33,000 letters with one emoji take 66,004 bytes of a KV value: too many.
  const text = `{"text":"${"a".repeat(33_000)}🙂"}`;
  await store.accept(delivery("d1", text));
  assertEquals(new TextDecoder().decode(await store.load(await claimOne(store))), text);
});

testStore(
  "load() rejects when part of the payload is gone",
  async ({ damages, store }) => {
    await store.accept({ ...delivery("d1"), body: new Uint8Array(200_000) });
    await damages.lose("payload", "d1");
    const lease = await claimOne(store);
    await assertRejects(() => store.load(lease), Error, "Cannot read the payload");
  },
  {},
  "damages",
);

testStore("accept() leaves nothing of a large duplicate", async ({ place, store }) => {
  const large = { ...delivery("d1"), body: new Uint8Array(1_000_000) };
  const results = await Promise.all([
    store.accept(large),
    store.accept(large),
    store.accept(large),
  ]);
  assertEquals(results.filter(({ duplicate }) => !duplicate).length, 1);
  assertEquals((await place.contents()).payloads, 1);
  assertEquals((await place.contents()).uploads, 0);
});

testStore("claim() leases an event to one of many claimers", async ({ store }) => {
  await store.accept(delivery("d1"));
  const claims = await Promise.all(Array.from({ length: 20 }, () => claimAll(store)));
  assertEquals(claims.flat().length, 1);
});

testStore("claim() takes no more than its limit, the first received first", async ({ store }) => {
  for (const id of ["d1", "d2", "d3"]) {
    await store.accept(delivery(id));
    await later(2);
  }
  const leases = await store.claim({ limit: 2, owner: "tester", leaseMs: 30_000 });
  assertEquals(leases.map(({ record }) => record.id), ["d1", "d2"]);
});

testStore("claim() takes over an event whose lease has expired", async ({ store }) => {
  await store.accept(delivery("d1"));
  const first = await claimOne(store, 1);
  await later(5);
  const second = await claimOne(store);
  assertEquals(second.record.attempt, 2);
  assertEquals(await store.complete(first), false);
  assertEquals(await store.complete(second), true);
});

testStore("renew() keeps others from taking an event over", async ({ store }) => {
  await store.accept(delivery("d1"));
  const lease = await claimOne(store, 50);
  const renewed = await store.renew(lease, 60_000);
  await later(60);
  assertEquals(await claimAll(store), []);
  assertEquals(await store.complete(renewed!), true);
});

testStore("renew() returns null when the lease was lost", async ({ store }) => {
  await store.accept(delivery("d1"));
  const lease = await claimOne(store, 1);
  await later(5);
  await claimOne(store);
  assertEquals(await store.renew(lease, 1_000), null);
});

testStore("complete() keeps the record and deletes the rest", async ({ place, store }) => {
  await store.accept(delivery("d1"));
  await store.complete(await claimOne(store));
  const record = await store.get("d1");
  assertEquals([record?.state, record?.payload, record?.dueAt], ["done", null, null]);
  assertEquals((await place.contents()).times, 0);
  assertEquals((await place.contents()).payloads, 0);
});

testStore(
  "complete() commits effects with the settlement, and only then",
  async ({ place, store }) => {
    await store.accept(delivery("d1"));
    const lost = await claimOne(store, 1);
    await later(5);
    const held = await claimOne(store);
    await store.complete(lost, { effects: place.effects.add("count", 1) });
    assertEquals(await place.effects.get("count"), null);
    await store.complete(held, { effects: place.effects.add("count", 1) });
    assertEquals(await place.effects.get("count"), 1);
  },
);

testStore("retry() makes an event due later, and not before", async ({ store }) => {
  await store.accept(delivery("d1"));
  assert(await store.retry(await claimOne(store), 60_000, new Error("no luck")));
  assertEquals(await claimAll(store), []);
  const { state, dueAt } = (await store.get("d1"))!;
  assertEquals(state, "queued");
  assertLess(Math.abs(dueAt! - Date.now() - 60_000), 10_000);
});

testStore("retry() makes an event come again, with its error", async ({ store }) => {
  await store.accept(delivery("d1"));
  assert(await store.retry(await claimOne(store), 5, new TypeError("no luck")));
  await later(10);
  const { record } = await claimOne(store);
  assertEquals([record.attempt, record.attempts[0]?.attempt], [2, 1]);
  assertEquals(record.attempts[0]?.error, "TypeError: no luck");
});

testStore("retry() keeps the last ten attempts, each error bounded", async ({ store }) => {
  await store.accept(delivery("d1"));
  for (let i = 1; i <= 12; i++) await store.retry(await claimOne(store), 0, "x".repeat(9_999));
  const { attempts } = (await store.get("d1"))!;
  assertEquals(attempts.map(({ attempt }) => attempt), [3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
  assertEquals(attempts.map(({ error }) => error?.length), Array(10).fill(1_000));
});

testStore("release() makes an event due at once", async ({ store }) => {
  await store.accept(delivery("d1"));
  assert(await store.release(await claimOne(store)));
  assertEquals((await claimOne(store)).record.attempt, 1);
});

testStore(
  "bury() keeps the record, payload and error of a dead event",
  async ({ place, store }) => {
    await store.accept(delivery("d1"));
    assert(await store.bury(await claimOne(store), new Error("no")));
    const record = await store.get("d1");
    assertEquals([record?.state, record?.attempts.length], ["dead", 1]);
    assertEquals((await place.contents()).payloads, 1);
    assertEquals(await claimAll(store), []);
  },
);

testStore("a lease that was lost settles nothing", async ({ store }) => {
  await store.accept(delivery("d1"));
  const lost = await claimOne(store, 1);
  await later(5);
  await claimOne(store);
  const refused = [
    await store.complete(lost),
    await store.retry(lost, 0, "no"),
    await store.release(lost),
    await store.bury(lost, "no"),
  ];
  assertEquals(refused, [false, false, false, false]);
  assertEquals((await store.get("d1"))?.state, "running");
});

testNotifier("listen() wakes when an event was accepted", async ({ place, store }) => {
  const woken = Promise.withResolvers<void>();
  const listening = store.listen({ wake: woken.resolve });
  await store.accept(delivery("d1"));
  await woken.promise;
  place.close();
  await listening;
});

testNotifier("the notifier wakes another store in the same place", async ({ place, store }) => {
  const woken = Promise.withResolvers<void>();
  const other = await place.open();
  const listening = other.listen({ wake: woken.resolve });
  await store.accept(delivery("d1"));
  await woken.promise;
  place.close();
  await listening;
});

testStoreInOneProcess("stores with different namespaces do not meet", async ({ place, store }) => {
  const other = await place.open({ namespace: "other" });
  await other.accept(delivery("d1"));
  assertEquals(await claimAll(store), []);
  assertEquals((await store.accept(delivery("d1"))).duplicate, false);
});

testStoreInOneProcess(
  "claim() passes over a record that cannot be read, and reports it",
  async ({ damages, place }) => {
    const messages: string[] = [];
    const store = await place.open({ log: ({ message }) => messages.push(message) });
    await store.accept(delivery("d1"));
    await later(2);
    await store.accept(delivery("d2"));
    const restore = await damages.spoil("event", "d1");
    assertEquals((await claimOne(store)).record.id, "d2");
    assertEquals(messages, ["event record unreadable, left unhandled"]);
    await restore();
    await damages.makeDue("d1");
    assertEquals((await claimOne(store)).record.id, "d1");
  },
  {},
  "damages",
);

testStoreInOneProcess(
  "a record of another version is left as it is, and looked at later",
  async ({ damages, place }) => {
    const store = await place.open({ log: () => {} });
    await store.accept(delivery("d1"));
    const restore = await damages.spoil("event", "d1");
    assertEquals(await claimAll(store), []);
    await assertRejects(() => store.accept(delivery("d1")), Error, "unreadable");
    assertEquals((await place.contents()).times, 1);
    await restore();
    await damages.makeDue("d1");
    assertEquals((await claimOne(store)).record.id, "d1");
    assertEquals((await place.contents()).times, 1);
  },
  {},
  "damages",
);

testStore("claim() notes an expired lease among the errors", async ({ store }) => {
  await store.accept(delivery("d1"));
  assertEquals((await claimOne(store, 1)).takenOver, false);
  await later(5);
  const { takenOver, record } = await claimOne(store);
  assertEquals([takenOver, record.attempt, record.attempts[0]?.attempt], [true, 2, 1]);
});

testStoreOnce("a store refuses a retention that makes no sense", async ({ place }) => {
  for (const retentionMs of [0, -1, NaN, Infinity, 1e18]) {
    await assertRejects(() => place.open({ retentionMs }), RangeError, "'retentionMs'");
  }
});

testStoreOnce(
  "accept() rejects a payload that cannot be stored, and stores nothing",
  async (sut) => {
    const size = sut.store.maxPayloadBytes + 1;
    const accepting = () => sut.store.accept({ ...delivery("d1"), body: new Uint8Array(size) });
    await assertRejects(accepting, RangeError, `${size}`);
    await assertEmpty(sut);
  },
);

testStore("recover() does not take a new run of an event for the old one", async ({ store }) => {
  await store.accept(delivery("d1"));
  const old = await claimOne(store);
  assert(await store.bury(old, new Error("no")));
  assert(await store.replay("d1"));
  const again = await claimOne(store);
  assertEquals([again.record.attempt, await store.recover(old)], [old.record.attempt, null]);
  assert(await store.bury(again, new Error("no")));
  await store.accept(delivery("d1"));
  await claimOne(store);
  assertEquals(await store.recover(again), null);
});

testStoreOnce("accept() refuses a delivery whose event could not be read again", async (sut) => {
  const { store } = sut;
  const wrong: readonly object[] = [
    ...[{ sender: { id: "7", isBot: false } }, { sender: { id: 7 } }, { sender: "octocat" }],
    ...[{ repository: { id: 1, fullName: "a/b" } }, { chat: { id: "main", type: "group" } }],
    ...[{ type: undefined }, { platform: 1 }, { source: null }, { action: 1 }, { intake: {} }],
    ...[{ deliveryId: 5 }, { requestId: 5 }, { orderingKey: 5 }, { orderingKey: {} }],
    ...[{ deliveryId: null }, { action: null }, { intake: null }, { quietMs: null }],
    ...[{ orderingKey: "a", quietMs: NaN }, { orderingKey: "a", quietMs: "5" }],
    ...[{ orderingKey: "a", quietMs: 5, maxWaitMs: "5" }, { traceparent: 5 }],
    ...[{ body: "{}" }, { body: undefined }, { body: [1] }],
  ];
  for (const part of wrong) {
    const accept = async () => await store.accept({ ...delivery("d1"), ...part } as Delivery);
    const [name] = Object.keys(part).slice(-1);
    await assertRejects(accept, TypeError, undefined, name);
  }
  assertEquals(await Array.fromAsync(store.list()), []);
  await assertRejects(
    () => store.accept({ ...delivery("d1"), sender: { id: "7" } } as unknown as Delivery),
    TypeError,
    "Cannot accept the delivery: its 'sender' is not of the type that a Delivery has there, got an object",
  );
});

testStore("accept() refuses an id that keys with it could not be read by", async ({ store }) => {
  const tooLong = () => store.accept(delivery("\u00e9".repeat(601)));
  await assertRejects(tooLong, RangeError, "its id has over 600 characters");
  const { id } = await store.accept(delivery("\u20ac".repeat(600)));
  assertEquals((await claimOne(store)).record.id, id);
});
