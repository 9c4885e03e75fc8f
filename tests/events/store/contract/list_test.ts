import { assert, assertEquals, assertThrows } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import type { EventStore } from "../../../../events/mod.ts";
import { buryAll, delivery, listed, pagesOf } from "../_events.ts";
import { testStore, testStoreInOneProcess, testStoreOnce } from "./_contract.ts";

const ORDERS = ["oldest", "newest"] as const;

/** Takes in events, of which two are of the same millisecond, and the ids would sort otherwise. */
async function fiveEvents(store: EventStore): Promise<string[]> {
  using time = new FakeTime(1_000);
  for (const [id, waitMs] of [["e", 1], ["b", 5], ["a", 0], ["d", 5], ["c", 5]] as const) {
    time.tick(waitMs);
    await store.accept(delivery(id));
  }
  return ["e", "a", "b", "d", "c"];
}

testStoreInOneProcess(
  "list() gives events in pages, the oldest first or the newest",
  async ({ store }) => {
    await buryAll(store, ["d1", "d2", "d3"]);
    for (const state of [undefined, "dead"] as const) {
      assertEquals(await pagesOf(store, { state, limit: 2 }), [["d1", "d2"], ["d3"]]);
      assertEquals(await pagesOf(store, { state, order: "newest", limit: 2 }), [["d3", "d2"], [
        "d1",
      ]]);
      assertEquals(await pagesOf(store, { state, order: "newest" }), [["d3", "d2", "d1"]]);
    }
  },
);

testStoreOnce("list() tells that nothing is left behind a full page", async (sut) => {
  const ids = await fiveEvents(sut.store);
  for (const limit of [1, 2, 3, 4, 5, 6]) {
    for (const order of ORDERS) {
      const pages = await pagesOf(sut.store, { limit, order });
      assertEquals(pages.flat(), order === "oldest" ? ids : ids.toReversed());
      assertEquals(pages.length, Math.ceil(ids.length / limit));
    }
  }
});

testStoreOnce("list() goes on behind an event that is gone", async ({ elsewhere }) => {
  for (const order of ORDERS) {
    await using sut = await elsewhere();
    const { store } = sut;
    const ids = await fiveEvents(store);
    const all = order === "oldest" ? ids : ids.toReversed();
    const list = store.list({ limit: 3, order });
    await Array.fromAsync(list);
    assert(await store.cancel(all[2]!));
    assertEquals((await store.purge({ ids: [all[2]!] })).changed, 1);
    assertEquals(await pagesOf(store, { order, limit: 1 }), [0, 1, 3, 4].map((i) => [all[i]!]));
    const rest = await Array.fromAsync(store.list({ order, cursor: list.cursor }));
    assertEquals(rest.map(({ id }) => id), all.slice(3));
  }
});

testStoreOnce("list() has a cursor for what it has not come to", async (sut) => {
  const [first, ...others] = await fiveEvents(sut.store);
  const list = sut.store.list();
  for await (const { id } of list) {
    assertEquals(id, first);
    break;
  }
  const rest = await Array.fromAsync(sut.store.list({ cursor: list.cursor }));
  assertEquals(rest.map(({ id }) => id), others);
});

testStoreOnce("list() takes pages of a filter", async (sut) => {
  const ids = await fiveEvents(sut.store);
  const filter = { ids: ["c", "a", "e"], limit: 2 };
  assertEquals(await pagesOf(sut.store, filter), [["e", "a"], ["c"]]);
  assertEquals(await pagesOf(sut.store, { ...filter, order: "newest" }), [["c", "a"], ["e"]]);
  const times = { receivedAfter: 1_006, receivedBefore: 1_016, limit: 2 };
  assertEquals(await pagesOf(sut.store, times), [["a", "b"], ["d"]]);
  assertEquals(await pagesOf(sut.store, { ...times, order: "newest" }), [["d", "b"], ["a"]]);
  assertEquals(await pagesOf(sut.store, { state: "done", order: "newest" }), [[]]);
  assertEquals(ids.length, 5);
});

testStoreOnce("list() is empty where the filter leaves nothing behind the cursor", async (sut) => {
  await fiveEvents(sut.store);
  for (const state of [undefined, "dead"] as const) {
    const newest = { state, order: "newest", receivedAfter: 1_015, cursor: "1006:b" } as const;
    assertEquals(await Array.fromAsync(sut.store.list(newest)), []);
    const oldest = { state, receivedBefore: 1_006, cursor: "1011:d" };
    assertEquals(await Array.fromAsync(sut.store.list(oldest)), []);
  }
});

testStoreOnce("list() keeps its cursor once it has ended", async (sut) => {
  const [first] = await fiveEvents(sut.store);
  const list = sut.store.list({ limit: 1 });
  await Array.fromAsync(list);
  const { cursor } = list;
  assertEquals([await Array.fromAsync(list), list.cursor], [[], cursor]);
  assertEquals(cursor, `1001:${first}`);
});

testStoreOnce("list() sorts ids of one time by their bytes", async (sut) => {
  using _time = new FakeTime(1_000);
  const ids = ["a", "a:", "aa", "\uffee", "\u{1f600}"];
  for (const id of ids.toReversed()) await sut.store.accept(delivery(id));
  assertEquals(await pagesOf(sut.store, { limit: 1 }), ids.map((id) => [id]));
  const newest = ids.toReversed().map((id) => [id]);
  assertEquals(await pagesOf(sut.store, { limit: 1, order: "newest" }), newest);
});

testStoreOnce("list() says what is wrong with its options", (sut) => {
  const table: [options: unknown, error: typeof Error, message: string][] = [
    [null, TypeError, "the options must be an object, got null"],
    [{ order: "up" }, TypeError, `'order' must be "oldest" or "newest", got "up"`],
    [{ limit: 0 }, RangeError, "'limit' must be"],
    [{ limit: 1.5 }, RangeError, "'limit' must be"],
    [{ cursor: "d1" }, TypeError, `'cursor' must be the cursor of another list, got "d1"`],
    [{ cursor: 7 }, TypeError, "'cursor' must be the cursor of another list, got 7"],
  ];
  for (const [options, error, message] of table) {
    assertThrows(() => sut.store.list(options as never), error, message);
  }
});

testStoreInOneProcess("list() takes times before the epoch", async ({ store }) => {
  await buryAll(store, ["d1", "d2"]);
  for (const state of [undefined, "dead"] as const) {
    for (const order of ORDERS) {
      for (const receivedAfter of [-1, -0.5, -1e20, -Infinity]) {
        const events = await Array.fromAsync(store.list({ state, order, receivedAfter }));
        assertEquals(events.length, 2, `${state} ${order} ${receivedAfter}`);
      }
      const none = store.list({ state, order, receivedAfter: -2, receivedBefore: -1 });
      assertEquals(await Array.fromAsync(none), []);
    }
  }
});

testStore("list() of dead events keeps the order and the times received", async ({ store }) => {
  const times: number[] = [];
  for (const id of ["d9", "d5", "d7"]) {
    await buryAll(store, [id]);
    times.push((await store.get(id))!.receivedAt);
    await new Promise((resolve) => setTimeout(resolve, 3));
  }
  const found = await Array.fromAsync(store.list({ state: "dead" }), ({ id }) => id);
  assertEquals(found, ["d9", "d5", "d7"]);
  const [first, second, third] = times;
  assertEquals(await listed(store, { state: "dead", receivedAfter: second! }), ["d5", "d7"]);
  assertEquals(await listed(store, { state: "dead", receivedBefore: third! }), ["d5", "d9"]);
  const between = { receivedAfter: first! + 0.5, receivedBefore: third! - 0.5 };
  assertEquals(await listed(store, { state: "dead", ...between }), ["d5"]);
});
