import {
  assert,
  assertEquals,
  assertGreaterOrEqual,
  assertLess,
  assertRejects,
  assertThrows,
} from "@std/assert";
import type { EventStore } from "../../../../events/mod.ts";
import { MonotonicClock } from "../../../_monotonic_clock.ts";
import { WallClock } from "../../../_wall_clock.ts";
import { ask } from "../_limited.ts";
import { testStoreInOneProcess, testStoreOnce } from "./_contract.ts";

const A_MINUTE = { limit: 3, perMs: 60_000 } as const;

/** Lists limits, each with its name, its key and what is free. */
const listed = (store: EventStore, options?: Parameters<EventStore["limits"]>[0]) =>
  Array.fromAsync(store.limits(options), ({ name, key, free }) => [name, key, free]);

testStoreInOneProcess("limits() lists limits by their names and keys", async ({ store, place }) => {
  assertEquals(await listed(store), []);
  for (const [name, key] of [["b", "2"], ["b", "1"], ["bb", ""], ["a", ""], ["b", "2"]] as const) {
    assertEquals(await ask(store, A_MINUTE, { name, key }), undefined);
  }
  const all = [["a", "", 2], ["b", "1", 2], ["b", "2", 1], ["bb", "", 2]];
  for (const each of [store, await place.open()]) {
    assertEquals(await listed(each), all);
    assertEquals(await listed(each, { name: "b" }), all.slice(1, 3));
    assertEquals(await listed(each, { name: "c" }), []);
  }
  const [first] = await Array.fromAsync(store.limits());
  assertEquals(first, {
    ...{ name: "a", key: "", ...A_MINUTE },
    ...{ free: 2, closedUntil: undefined, isUnreadable: false },
  });
});

testStoreOnce("limits() tells what is free now, and until when it is closed", async ({ store }) => {
  using clock = new WallClock();
  const look = async () => {
    const [found] = await Array.fromAsync(store.limits());
    const { limit, free, closedUntil } = found!;
    return [limit, free, closedUntil && Math.round((closedUntil - Date.now()) / 1_000)];
  };
  const bucket = store.tokens.of("service", "");
  await bucket.closeFor(10_000);
  assertEquals(await look(), [undefined, undefined, 10]);
  clock.advance(10_001);
  for (let i = 0; i < 3; i++) assertEquals(await ask(store, A_MINUTE), undefined);
  assertEquals(await look(), [3, 0, undefined]);
  // By a rule with a lower limit, more are taken than there are.
  assert(await ask(store, { ...A_MINUTE, limit: 2 }));
  assertEquals(await look(), [2, 0, undefined]);
  clock.advance(90_000);
  assertEquals(await look(), [2, 2, undefined]);
  await bucket.closeFor(30_000);
  assertEquals(await look(), [2, 0, 30]);
});

testStoreOnce("reopenLimit() opens a limit for all processes", async ({ store, place }) => {
  using clock = new WallClock();
  using monotonic = new MonotonicClock();
  const stores = [store, await place.open()];
  assertEquals(await store.reopenLimit("service", { key: 1 }), false);
  await store.tokens.of("service", "1").closeFor(600_000_000);
  for (const each of stores) {
    assertGreaterOrEqual((await ask(each, A_MINUTE, { key: "1" }))!, 599_000_000);
    assert(each.tokens.of("service", "1").isFull(A_MINUTE, 1));
  }
  assertEquals(await store.reopenLimit("service"), false);
  assertEquals(await store.reopenLimit("service", { key: 1 }), true);
  assertEquals(await store.reopenLimit("service", { key: 1 }), false);
  monotonic.advance(1_000);
  for (const each of stores) {
    assert(!each.tokens.of("service", "1").isFull(A_MINUTE, 1));
    assertEquals(await ask(each, A_MINUTE, { key: "1" }), undefined);
  }
  // What was promised for after the close is forgotten.
  assertEquals(await ask(store, A_MINUTE, { key: "1" }), undefined);
  assertLess((await ask(store, A_MINUTE, { key: "1" }))!, 70_000);
  clock.advance(90_000);
  assertEquals(await ask(store, A_MINUTE, { key: "1" }), undefined);
});

testStoreInOneProcess(
  "limits() names what it cannot read",
  async ({ damages, store }) => {
    for (const key of ["1", "2"]) await ask(store, A_MINUTE, { name: "a", key });
    await damages.spoilCell("limit", "a", "1");
    const [spoilt, whole] = await Array.fromAsync(store.limits());
    assertEquals([spoilt?.name, spoilt?.key, spoilt?.isUnreadable], ["a", "1", true]);
    assertEquals([spoilt?.limit, spoilt?.free], [undefined, undefined]);
    assertEquals([whole?.key, whole?.isUnreadable, whole?.free], ["2", false, 2]);
  },
  {},
  "damages",
);

testStoreOnce("limits() refuses wrong options", ({ store }) => {
  assertThrows(
    () => store.limits({ name: 1 } as never),
    TypeError,
    "Cannot list the limits: 'name' must be a text, got 1",
  );
});

testStoreOnce("reopenLimit() refuses wrong options", async ({ store }) => {
  await assertRejects(
    () => store.reopenLimit("service", { key: {} as string }),
    TypeError,
    "Cannot reopen the limit: 'key' must be a text, got an object",
  );
});
