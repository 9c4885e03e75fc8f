import { assert, assertEquals } from "@std/assert";
import type { EventStore, Lease } from "../../../events/mod.ts";
import { claimAll, claimOne, delivery, later } from "./_events.ts";
import { testStore } from "./_stores.ts";

const LEASE_MS = 60_000;

/** Takes an event in, starts on it, and cancels it: its handler may run until the lease would have ended. */
async function cancelRunning(store: EventStore, id: string, key?: string): Promise<Lease> {
  await store.accept(delivery(id, "{}", key));
  const lease = await claimOne(store, LEASE_MS);
  assert(await store.cancel(id));
  return lease;
}

const dueAt = async (store: EventStore, id: string) => (await store.get(id))?.dueAt;

const untilOf = ({ record }: Lease) => record.lease!.until;

testStore("purge() leaves an event whose handler may still run", async ({ store }) => {
  await cancelRunning(store, "d1");
  assertEquals(await store.purge({}), { changed: 0, left: [] });
  assertEquals(await store.purge({ ids: ["d1"] }), { changed: 0, left: ["d1"] });
});

testStore(
  "purge() deletes an event that was cancelled once its lease is over",
  async ({ store }) => {
    await store.accept(delivery("d1"));
    await claimOne(store, 1);
    assert(await store.cancel("d1"));
    await later(5);
    assertEquals(await store.purge({}), { changed: 1, left: [] });
  },
);

testStore("an event cancelled twice waits for its first handler", async ({ store }) => {
  const lease = await cancelRunning(store, "d1");
  for (let i = 0; i < 2; i++) {
    assert(await store.replay("d1"));
    assertEquals(await dueAt(store, "d1"), untilOf(lease));
    assert(await store.cancel("d1"));
  }
  assertEquals((await store.accept(delivery("d1"))).duplicate, false);
  assertEquals(await dueAt(store, "d1"), untilOf(lease));
  assertEquals(await claimAll(store), []);
});

testStore(
  "the next of a key that comes later waits for a handler that was cancelled",
  async ({ store }) => {
    const lease = await cancelRunning(store, "d1", "key");
    await store.accept(delivery("d2", "{}", "key"));
    assertEquals(await dueAt(store, "d2"), untilOf(lease));
    assert(await store.cancel("d2"));
    await store.accept(delivery("d3", "{}", "key"));
    assertEquals(await dueAt(store, "d3"), untilOf(lease));
  },
);

testStore("the next but one of a key waits for a handler that was cancelled", async ({ store }) => {
  for (const id of ["d1", "d2", "d3"]) await store.accept(delivery(id, "{}", "key"));
  const lease = await claimOne(store, LEASE_MS);
  for (const id of ["d1", "d2"]) assert(await store.cancel(id));
  assertEquals(await dueAt(store, "d3"), untilOf(lease));
});

testStore(
  "an event that comes again under another key waits for its handler there",
  async ({ store }) => {
    const lease = await cancelRunning(store, "d1", "key");
    await store.accept(delivery("d2", "{}", "other"));
    await store.accept(delivery("d1", "{}", "other"));
    await store.complete(await claimOne(store));
    assertEquals(await dueAt(store, "d1"), untilOf(lease));
  },
);
