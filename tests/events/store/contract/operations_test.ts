import { assert, assertEquals } from "@std/assert";
import { claimOne, delivery, listed, oneOfEach } from "../_events.ts";
import { until } from "../../worker/_worker.ts";
import { testStore } from "./_contract.ts";

testStore("stats() counts by state, and tells the oldest that waits", async ({ store }) => {
  assertEquals((await store.stats()).oldestWaitingAt, null);
  await oneOfEach(store);
  const oldestWaitingAt = (await store.get("queued"))!.receivedAt;
  const counts = { queued: 1, running: 1, parked: 0, done: 1, dead: 1, unreadable: 0 };
  assertEquals(await store.stats(), { ...counts, dueLater: 0, oldestWaitingAt });
});

testStore("stats() counts what is due later, which is not the oldest that waits", async (sut) => {
  const { store } = sut;
  await store.emit("jobs", "item", {}, { delayMs: 60_000 });
  await store.accept(delivery("put-off"));
  await store.release(await claimOne(store), { delayMs: 60_000, reason: "night" });
  const { queued, dueLater, oldestWaitingAt } = await store.stats();
  assertEquals([queued, dueLater, oldestWaitingAt], [2, 2, null]);
  await store.accept(delivery("waiting"));
  const { receivedAt } = (await store.get("waiting"))!;
  const { dueLater: later, oldestWaitingAt: since } = await store.stats();
  assertEquals([later, since], [2, receivedAt]);
});

testStore("stats() takes an event that was delayed as waiting from then on", async ({ store }) => {
  const { id } = await store.emit("jobs", "item", {}, { delayMs: 20 });
  const { dueAt } = (await store.get(id))!;
  await until(() => Date.now() >= dueAt!);
  const { dueLater, oldestWaitingAt } = await store.stats();
  assertEquals([dueLater, oldestWaitingAt], [0, dueAt]);
});

testStore("replay() puts a dead event back with all its attempts", async ({ store }) => {
  await oneOfEach(store);
  assert(await store.cancel("queued"));
  assert(await store.replay("dead"));
  const { record } = await claimOne(store);
  assertEquals([record.id, record.attempt, record.attempts.length], ["dead", 1, 1]);
});

testStore("replay() leaves any other event alone", async ({ store }) => {
  await oneOfEach(store);
  for (const id of ["done", "running", "queued", "unknown"]) {
    assertEquals(await store.replay(id), false);
  }
});

testStore("cancel() gives up an event that waits", async ({ store }) => {
  await oneOfEach(store);
  assert(await store.cancel("queued"));
  const record = (await store.get("queued"))!;
  assertEquals([record.state, record.outcome, record.attempts], ["dead", "cancelled", []]);
});

testStore("cancel() leaves what is settled alone", async ({ store }) => {
  await oneOfEach(store);
  for (const id of ["done", "dead", "unknown"]) assertEquals(await store.cancel(id), false);
});

testStore("purge() deletes settled events, with their payloads", async ({ place, store }) => {
  await oneOfEach(store);
  assertEquals(await store.purge({}), { changed: 2, left: [] });
  assertEquals(await listed(store), ["queued", "running"]);
  assertEquals((await place.contents()).payloads, 2);
});

testStore("purge() deletes no more than the filter lets through", async ({ store }) => {
  await oneOfEach(store);
  assertEquals((await store.purge({ state: "dead" })).changed, 1);
  assertEquals(await listed(store), ["done", "queued", "running"]);
});

testStore("a delivery whose event was purged makes a new one", async ({ store }) => {
  await oneOfEach(store);
  await store.purge({ state: "done" });
  assertEquals(await store.accept(delivery("done")), { id: "done", duplicate: false });
});
