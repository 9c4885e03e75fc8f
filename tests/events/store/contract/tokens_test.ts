/** Buckets of tokens that all processes share. */
import { setTimeout as wait } from "node:timers/promises";
import { assert, assertEquals, assertGreaterOrEqual } from "@std/assert";
import { MonotonicClock } from "../../../_monotonic_clock.ts";
import { WallClock } from "../../../_wall_clock.ts";
import { assertWithin } from "../../../_within.ts";
import { takeIfRoom } from "../../../../events/worker/_tokens.ts";
import { ask, callOften, LimitedService } from "../_limited.ts";
import { testAging, testStoreOnce } from "./_contract.ts";

const A_MINUTE = { limit: 60, perMs: 60_000 } as const;

const FIVE_MINUTES = 300_000;

/** Time after which a token is free again: its slot is a 32nd of the time. */
const CYCLE_MS = 60_000 + 1_875;

testStoreOnce(
  "three processes never exceed a limit, and use 95 % of it, also once one is killed",
  async ({ store, place }) => {
    using clock = new WallClock();
    const service = new LimitedService(A_MINUTE);
    const stores = [store, await place.open(), await place.open()];
    const times = { callers: 2, forMs: FIVE_MINUTES };
    await callOften(service, stores, clock, times);
    // It takes three more, and does not use them.
    for (let lost = 0; lost < 3;) {
      const afterMs = await ask(stores[2]!, A_MINUTE);
      if (afterMs === undefined) lost++;
      else clock.advance(Math.ceil(afterMs));
    }
    await callOften(service, stores.slice(0, 2), clock, times);
    assertEquals(service.refused, 0);
    assertGreaterOrEqual(service.accepted, 0.95 * 600);
  },
);

testStoreOnce("what is put off comes back one by one", async ({ store, place }) => {
  using _clock = new WallClock();
  const stores = [store, await place.open()];
  const times: number[] = [];
  for (let i = 0; i < 100; i++) {
    const afterMs = await ask(stores[i % 2]!, A_MINUTE);
    if (afterMs !== undefined) times.push(Date.now() + afterMs);
  }
  assertEquals(times.length, 40);
  assert(times[0]! >= Date.now() + 60_000);
  for (let i = 1; i < 40; i++) {
    // A 60th of the time in which a token goes round. Between two calls, the clock goes on.
    assert(Math.abs(times[i]! - times[i - 1]! - CYCLE_MS / 60) < 500, `${times}`);
  }
});

testStoreOnce("those who wait get theirs in the order in which they came", async ({ store }) => {
  const rule = { limit: 2, perMs: 100 };
  const service = new LimitedService(rule);
  const served: number[] = [];
  const waits = [0, 1, 2, 3, 4, 5].map(async (i) => {
    const wait = { waitMs: 10_000 };
    assertEquals(await ask(store, rule, wait), undefined);
    service.call();
    served.push(i);
  });
  await Promise.all(waits);
  assertEquals([served, service.refused], [[0, 1, 2, 3, 4, 5], 0]);
});

testStoreOnce("a wait that would be in vain ends at once", async ({ store }) => {
  const rule = { limit: 1, perMs: 60_000 };
  assertEquals(await ask(store, rule), undefined);
  const waits = [1, 2].map(() => ask(store, rule, { waitMs: 59_000 }));
  for (const afterMs of await Promise.all(waits)) assertGreaterOrEqual(afterMs!, 59_000);
});

testStoreOnce("a limit that is closed is closed for all processes", async ({ store, place }) => {
  using clock = new WallClock();
  const other = await place.open();
  // Tokens at hand are given up as well.
  await Promise.all([1, 2, 3].map(() => ask(store, A_MINUTE)));
  assertEquals(await ask(store, A_MINUTE), undefined);
  await store.tokens.of("service", "").closeFor(30_000);
  await store.tokens.of("service", "").closeFor(10);
  for (const each of [store, other]) {
    assertGreaterOrEqual((await ask(each, A_MINUTE))!, 29_000);
    assertEquals(await ask(each, A_MINUTE, { name: "another" }), undefined);
  }
  clock.advance(30_000);
  for (const each of [store, other]) assertEquals(await ask(each, A_MINUTE), undefined);
});

testStoreOnce("a clock that is set back closes no limit", async ({ store }) => {
  using clock = new WallClock();
  using monotonic = new MonotonicClock();
  const rule = { limit: 1, perMs: 32_000 };
  const bucket = store.tokens.of("service", "");
  assert(await takeIfRoom(bucket, rule));
  assert(!await takeIfRoom(bucket, rule));
  clock.advance(-3_600_000);
  assert(bucket.isFull(rule, 1));
  monotonic.advance(1_000);
  assert(!await takeIfRoom(bucket, rule));
  clock.advance(66_000);
  monotonic.advance(1_000);
  assert(await takeIfRoom(bucket, rule));
});

testStoreOnce("each call counts by its own rule", async ({ store, place }) => {
  using _clock = new WallClock();
  const other = await place.open();
  for (let i = 0; i < 5; i++) {
    assertEquals(await ask(store, { limit: 5, perMs: 1_000_000 }), undefined);
  }
  assert(await ask(store, { limit: 5, perMs: 1_000_000 }));
  assertEquals(await ask(other, { limit: 6, perMs: 60_000 }), undefined);
  assert(await ask(other, { limit: 6, perMs: 60_000 }));
  assert(await ask(store, { limit: 5, perMs: 1_000_000 }));
});

testStoreOnce("a longer time counts what is taken in a shorter one", async ({ store, place }) => {
  using clock = new WallClock();
  const other = await place.open();
  const [long, short] = [{ limit: 5, perMs: 3_600_000 }, { limit: 5, perMs: 1_000 }];
  for (let i = 0; i < 3; i++) assertEquals(await ask(store, long), undefined);
  clock.advance(200_000);
  for (let i = 0; i < 2; i++) {
    assertEquals(await ask(other, short), undefined);
    clock.advance(10_000);
  }
  assert(await ask(store, long));
  assertEquals(await ask(other, short), undefined);
});

testStoreOnce("tokens at hand are not for a rule that permits less", async ({ store }) => {
  const rule = { limit: 1_000, perMs: 3_600_000 };
  await Promise.all(Array.from({ length: 20 }, () => ask(store, rule)));
  assertEquals(await ask(store, rule), undefined);
  assert(store.tokens.of("service", "").takeNow(rule, 1) !== undefined);
  assert(await ask(store, { ...rule, limit: 10 }));
});

testStoreOnce("what begins with a token does not find it again", async ({ store }) => {
  const rule = { limit: 1, perMs: 3_600_000 };
  const bucket = store.tokens.of("service", "");
  const found = await new Promise((resolve, reject) => {
    const use = () => {
      resolve(bucket.takeNow(rule, 1));
      return true;
    };
    bucket.wait(rule, { count: 1, waitMs: 0, use, putOff: reject, fail: reject });
  });
  assertEquals(found, undefined);
});

testStoreOnce("the next one is served once the first one gives up", async ({ store }) => {
  const rule = { limit: 10, perMs: 3_600_000 };
  const bucket = store.tokens.of("service", "");
  assertEquals(await ask(store, rule, { count: 8 }), undefined);
  const end = () => {
    throw new Error("Its wait has ended");
  };
  const ending = { use: end, putOff: end, fail: end };
  const cancel = bucket.wait(rule, { count: 5, waitMs: 10_000_000, ...ending });
  while (!bucket.isFull(rule, 5)) await wait(1);
  const next = ask(store, rule, { waitMs: 10_000_000 });
  await wait(1);
  cancel();
  assertEquals(await next, undefined);
});

testStoreOnce("calls that count for several lose nothing of the limit", async ({ store }) => {
  const rule = { limit: 100, perMs: 3_600_000 };
  const asked = Array.from({ length: 40 }, () => ask(store, rule, { count: 3 }));
  assertEquals((await Promise.all(asked)).filter((each) => each === undefined).length, 33);
});

testStoreOnce("calls within a lot take no commit, and less than 20 µs", async ({ store }) => {
  const rule = { limit: 1_000_000, perMs: 3_600_000 };
  const count = 2_000;
  await Promise.all(Array.from({ length: count }, () => ask(store, rule)));
  const bucket = store.tokens.of("service", "");
  await assertWithin(0.02 * count, async () => {
    assertEquals(await ask(store, rule), undefined);
    const start = performance.now();
    for (let i = 1; i < count; i++) assert(bucket.takeNow(rule, 1) !== undefined);
    return performance.now() - start;
  });
});

testAging("a bucket is forgotten once it is as good as new", async ({ store, place }) => {
  const { others: before } = await place.contents();
  await ask(store, A_MINUTE);
  assertEquals((await place.contents()).others, before + 1);
  await place.pass(60_000);
  assertEquals((await place.contents()).others, before + 1);
  await place.pass(CYCLE_MS);
  assertEquals((await place.contents()).others, before);
});
