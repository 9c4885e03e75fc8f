import { assertEquals } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { claimOne, delivery, keysOf } from "./_events.ts";
import { memoryStore, testStore, testStoreInOneProcess } from "./_stores.ts";

const HOUR_MS = 3_600_000;

testStore("firstOf() knows a document again under another id", async ({ store }) => {
  assertEquals(await store.firstOf(delivery("d1"), HOUR_MS), null);
  await store.accept(delivery("d1"));
  assertEquals(await store.firstOf(delivery("d2"), HOUR_MS), "d1");
  await store.complete(await claimOne(store));
  assertEquals(await store.firstOf(delivery("d3"), HOUR_MS), "d1");
});

testStore("firstOf() leaves a document alone that comes again under its id", async ({ store }) => {
  await store.firstOf(delivery("d1"), HOUR_MS);
  assertEquals(await store.firstOf(delivery("d1"), HOUR_MS), null);
  await store.accept(delivery("d1"));
  assertEquals(await store.firstOf(delivery("d1"), HOUR_MS), null);
});

testStore("firstOf() takes a document again whose event has died", async ({ store }) => {
  await store.firstOf(delivery("d1"), HOUR_MS);
  await store.accept(delivery("d1"));
  await store.bury(await claimOne(store), new Error("no"));
  assertEquals(await store.firstOf(delivery("d2"), HOUR_MS), null);
  await store.accept(delivery("d2"));
  assertEquals(await store.firstOf(delivery("d3"), HOUR_MS), "d2");
});

testStore("firstOf() tells documents apart by every byte", async ({ store }) => {
  await store.firstOf(delivery("d1"), HOUR_MS);
  await store.accept(delivery("d1"));
  assertEquals(await store.firstOf(delivery("d2", `{"a":2}`), HOUR_MS), null);
});

testStore("firstOf() waits for an event that is on its way into the store", async ({ store }) => {
  await store.firstOf(delivery("d1"), HOUR_MS);
  const asked = store.firstOf(delivery("d2"), HOUR_MS);
  await store.accept(delivery("d1"));
  assertEquals(await asked, "d1");
});

Deno.test("firstOf() gives up on an event that never arrives, and takes the next one", async () => {
  using time = new FakeTime();
  await using sut = await memoryStore();
  await sut.store.firstOf(delivery("d1"), HOUR_MS);
  time.tick(6_000);
  assertEquals(await sut.store.firstOf(delivery("d2"), HOUR_MS), null);
});

Deno.test("firstOf() forgets a document when its window is over", async () => {
  using time = new FakeTime();
  await using sut = await memoryStore();
  await sut.store.firstOf(delivery("d1"), 60_000);
  await sut.store.accept(delivery("d1"));
  time.tick(59_999);
  assertEquals(await sut.store.firstOf(delivery("d2"), 60_000), "d1");
  time.tick(1);
  assertEquals(await sut.store.firstOf(delivery("d3"), 60_000), null);
});

testStoreInOneProcess("firstOf() takes what it cannot read for nothing", async ({ kv, store }) => {
  await store.firstOf(delivery("d1"), HOUR_MS);
  const [key] = await keysOf(kv, "content");
  const day = Date.now() + 24 * HOUR_MS;
  for (const seen of [null, 5, {}, { id: 5, at: 1 }, { id: "a", at: 5n }, { id: "a", at: day }]) {
    await kv.set(key!, seen);
    assertEquals(await store.firstOf(delivery("d1"), HOUR_MS), null);
  }
});
