import { assert, assertEquals } from "@std/assert";
import type { EventFilter, EventStore } from "../../../webhook/mod.ts";
import { claimOne, delivery, keysOf } from "./_events.ts";
import { testStore } from "./_stores.ts";

/** One event in each state, named after it. */
async function oneOfEach(store: EventStore): Promise<void> {
  await store.accept(delivery("done"));
  await store.complete(await claimOne(store));
  await store.accept({ ...delivery("dead"), type: "issues" });
  await store.bury(await claimOne(store), new Error("no"));
  await store.accept(delivery("running"));
  await claimOne(store);
  await store.accept(delivery("queued"));
}

async function listed(store: EventStore, filter?: EventFilter): Promise<string[]> {
  const ids = [];
  for await (const { id } of store.list(filter)) ids.push(id);
  return ids.toSorted();
}

testStore("list() finds all events", async ({ store }) => {
  await oneOfEach(store);
  assertEquals(await listed(store), ["dead", "done", "queued", "running"]);
});

testStore("list() finds by state, type and time", async ({ store }) => {
  await oneOfEach(store);
  assertEquals(await listed(store, { state: "dead" }), ["dead"]);
  assertEquals(await listed(store, { type: "issues" }), ["dead"]);
  assertEquals(await listed(store, { type: "issues", state: "done" }), []);
  const { receivedAt } = (await store.get("queued"))!;
  assertEquals(await listed(store, { receivedAfter: receivedAt + 1 }), []);
  assertEquals((await listed(store, { receivedBefore: receivedAt + 1 })).length, 4);
});

testStore("stats() counts by state, and tells the oldest that waits", async ({ store }) => {
  assertEquals((await store.stats()).oldestWaitingAt, null);
  await oneOfEach(store);
  const oldestWaitingAt = (await store.get("queued"))!.receivedAt;
  assertEquals(await store.stats(), { queued: 1, running: 1, done: 1, dead: 1, oldestWaitingAt });
});

testStore("replay() puts a dead event back with all its attempts", async ({ store }) => {
  await oneOfEach(store);
  assert(await store.cancel("queued"));
  assert(await store.replay("dead"));
  const { record } = await claimOne(store);
  assertEquals([record.id, record.attempt, record.errors.length], ["dead", 1, 1]);
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
  assertEquals([record.state, record.errors.at(-1)?.message], ["dead", "Cancelled"]);
});

testStore("cancel() takes the lease of an event that runs", async ({ store }) => {
  await store.accept(delivery("d1"));
  const lease = await claimOne(store);
  assert(await store.cancel("d1"));
  assertEquals([await store.renew(lease, 1_000), await store.complete(lease)], [null, false]);
  assertEquals((await store.get("d1"))?.state, "dead");
});

testStore("cancel() leaves what is settled alone", async ({ store }) => {
  await oneOfEach(store);
  for (const id of ["done", "dead", "unknown"]) assertEquals(await store.cancel(id), false);
});

testStore("purge() deletes settled events, with their payloads", async ({ kv, store }) => {
  await oneOfEach(store);
  const progress: number[] = [];
  assertEquals(await store.purge({}, (purged) => progress.push(purged)), 2);
  assertEquals(progress, [1, 2]);
  assertEquals(await listed(store), ["queued", "running"]);
  assertEquals((await keysOf(kv, "payload")).length, 2);
});

testStore("purge() deletes no more than the filter lets through", async ({ store }) => {
  await oneOfEach(store);
  assertEquals(await store.purge({ state: "dead" }), 1);
  assertEquals(await listed(store), ["done", "queued", "running"]);
});

testStore("a delivery whose event was purged makes a new one", async ({ store }) => {
  await oneOfEach(store);
  await store.purge({ state: "done" });
  assertEquals(await store.accept(delivery("done")), { id: "done", duplicate: false });
});
