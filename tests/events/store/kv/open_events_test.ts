import { assert, assertEquals, assertThrows } from "@std/assert";
import type { EventList, EventStore, ListOptions } from "../../../../events/mod.ts";
import { encodeValue } from "../../../../events/store/kv/value_codec.ts";
import { MonotonicClock } from "../../../_monotonic_clock.ts";
import { claimAll, claimOne, delivery, listed, pagesOf } from "../_events.ts";
import { countReads } from "./_keys.ts";
import { memoryStore, type StoreUnderTest, testStoreInOneProcess } from "./_stores.ts";

const HOUR_MS = 3_600_000;

/** Puts entries on the schedule of events that are gone, due in an hour. */
async function crowd({ kv }: StoreUnderTest, count: number): Promise<void> {
  const due = Date.now() + HOUR_MS / 2;
  const entry = encodeValue({ receivedAt: 5, group: null, delayMs: 1 });
  for (let i = 0; i < count; i += 500) {
    const write = kv.atomic();
    for (let k = i; k < i + 500; k++) {
      write.set(["events", "due", due, `x${k}`], entry);
    }
    await write.commit();
  }
}

/** Takes in a delivery, and parks it. */
async function park(store: EventStore, id: string): Promise<void> {
  await store.accept(delivery(id));
  assert(await store.park(await claimOne(store), { name: id, timeoutMs: HOUR_MS }));
}

testStoreInOneProcess(
  "a page finds open events whatever else is open, in few reads",
  async (sut) => {
    const { store } = sut;
    await park(store, "parked");
    await Promise.all(["r1", "r2"].map((id) => store.accept(delivery(id))));
    await claimAll(store);
    await store.accept(delivery("r3"));
    await claimOne(store, 2 * HOUR_MS);
    for (let i = 0; i < 20; i++) {
      await store.accept(delivery(`done${i}`));
      await store.complete(await claimOne(store));
    }
    await crowd(sut, 5_000);
    for (const order of ["newest", "oldest"] as const) {
      const [running] = await pagesOf(store, { state: "running", order, maxReads: 400 });
      assertEquals(running!.toSorted(), ["r1", "r2", "r3"]);
      assertEquals(await pagesOf(store, { state: "parked", order, maxReads: 6 }), [["parked"]]);
    }
  },
);

testStoreInOneProcess(
  "pages of more events than can be sorted have each of them once",
  async (sut) => {
    const { store } = sut;
    await crowd(sut, 4_500);
    const ids = Array.from({ length: 60 }, (_, i) => `e${String(i).padStart(2, "0")}`);
    await Promise.all(ids.map((id, i) => {
      const [key, notBefore] = [i % 3 === 0 ? `key${i % 2}` : undefined, i % 5 === 0];
      return notBefore
        ? store.emit("jobs", "later", {}, { id, delayMs: HOUR_MS })
        : store.accept(delivery(id, "{}", key));
    }));
    for (const order of ["newest", "oldest"] as const) {
      const found = (await pagesOf(store, { state: "queued", order, limit: 25, maxReads: 2_000 }))
        .flat();
      assertEquals(found.map((id) => id.replace("jobs:", "")).toSorted(), ids);
    }
  },
);

Deno.test("pages go on within an entry that more events share than a page holds", async () => {
  await using sut = await memoryStore();
  const ids = Array.from({ length: 30 }, (_, i) => `e${String(i).padStart(2, "0")}`);
  await Promise.all(ids.map((id) => sut.store.accept(delivery(id))));
  assertEquals((await claimAll(sut.store)).length, 30);
  await crowd(sut, 4_500);
  const found = await pagesOf(sut.store, { state: "running", limit: 7, maxReads: 1_000 });
  assertEquals(found.map((page) => page.length), [7, 7, 7, 7, 2]);
  assertEquals(found.flat().toSorted(), ids);
});

Deno.test("a list without a limit finds open events by their indexes, the oldest or newest first", async () => {
  await using sut = await memoryStore();
  const { store, kv } = sut;
  const times: number[] = [];
  for (const id of ["q1", "q2"]) {
    await store.accept(delivery(id, "{}", "key"));
    times.push((await store.get(id))!.receivedAt);
  }
  await park(store, "parked").catch(() => {});
  const reads = countReads(kv);
  const ids = async (options: ListOptions) =>
    (await Array.fromAsync(store.list(options))).map(({ id }) => id);
  for (let i = 0; i < 30; i++) {
    await store.accept(delivery(`d${i}`));
    await store.cancel(`d${i}`);
  }
  reads.records = 0;
  assertEquals(await ids({ state: "queued", receivedBefore: Infinity }), ["q2"]);
  assert(reads.records < 10, `${reads.records}`);
  assertEquals(await ids({ state: "queued", order: "newest" }), ["q2"]);
  assertEquals(await listed(store, { state: "queued", receivedBefore: times[0]! }), []);
});

Deno.test("cancelAll() without a state reads open events only", async () => {
  await using sut = await memoryStore();
  const { store, kv } = sut;
  for (let i = 0; i < 30; i++) {
    await store.accept(delivery(`done${i}`));
    await store.complete(await claimOne(store));
  }
  await park(store, "parked");
  await store.accept(delivery("running", "{}", "key"));
  await claimOne(store);
  await store.accept(delivery("queued", "{}", "key"));
  const reads = countReads(kv);
  assertEquals((await store.cancelAll({})).changed, 3);
  assert(reads.records < 25, `${reads.records}`);
  assertEquals(await listed(store, { state: "dead" }), ["parked", "queued"]);
});

Deno.test("a page looks through a bounded part of the indexes, and goes on from there", async () => {
  await using sut = await memoryStore();
  const { store } = sut;
  await crowd(sut, 4_500);
  await store.accept(delivery("r"));
  await claimOne(store, 2 * HOUR_MS);
  using clock = new MonotonicClock();
  const found = await pagesOf(store, { state: "running", maxReads: 5 });
  assertEquals(found.flat(), ["r"]);
  assert(found.length > 10);
  clock.advance(5_001);
  const list = store.list({ state: "running", maxMs: 1 });
  await Array.fromAsync(list);
  assertEquals(list.reachedAt, undefined);
});

Deno.test("a page that has no time gets on all the same", async () => {
  await using sut = await memoryStore();
  const { store } = sut;
  await crowd(sut, 4_500);
  const cursors = new Set<string>();
  using clock = new MonotonicClock();
  let cursor: string | undefined = "";
  for (let i = 0; i < 20; i++) {
    const list: EventList = store.list({ state: "running", maxMs: 1, cursor });
    clock.advance(2);
    assertEquals(await Array.fromAsync(list), []);
    cursor = list.cursor;
    cursors.add(cursor!);
  }
  assertEquals(cursors.size, 20);
});

Deno.test("list() refuses a cursor that is no place in the indexes", async () => {
  await using sut = await memoryStore();
  const bad = [
    "queued:",
    "queued:[]",
    "queued:{}",
    "dead:[1,0,0]",
    'queued:["1",0,0]',
    "queued:[1,0,0,1,2,3]",
  ];
  for (const cursor of bad) {
    assertThrows(() => sut.store.list({ state: "queued", cursor }), TypeError, "'cursor' must be");
  }
});
