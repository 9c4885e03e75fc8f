import { assert, assertEquals, assertGreaterOrEqual, assertLess } from "@std/assert";
import { claimOne, delivery, later } from "../_events.ts";
import { testStore } from "./_contract.ts";

const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

testStore("a record keeps the trace of its delivery through all attempts", async ({ store }) => {
  await store.accept({ ...delivery("d1"), traceparent: TRACEPARENT });
  assert(await store.retry(await claimOne(store), 0, new Error("no")));
  assertEquals((await claimOne(store)).record.traceparent, TRACEPARENT);
});

testStore("a record keeps no text that is not the place of a span", async ({ store }) => {
  await store.accept({ ...delivery("d1"), traceparent: "x".repeat(70_000) });
  assertEquals("traceparent" in (await claimOne(store)).record, false);
});

testStore("oldestDueAt() tells since when the next event is due", async ({ store }) => {
  assertEquals(await store.oldestDueAt(), null);
  const before = Date.now();
  await store.accept(delivery("d1"));
  await later(5);
  await store.accept(delivery("d2"));
  const dueAt = (await store.oldestDueAt())!;
  assertGreaterOrEqual(dueAt, before);
  assertLess(dueAt, Date.now() - 4);
});

testStore("oldestDueAt() leaves out what runs or waits for its retry", async ({ store }) => {
  await store.accept(delivery("d1"));
  await claimOne(store);
  await store.accept(delivery("d2"));
  await store.retry(await claimOne(store), 60_000, new Error("no"));
  assertEquals(await store.oldestDueAt(), null);
});
