import { assertEquals } from "@std/assert";
import { type EventStore, startWorker } from "../../../../events/mod.ts";
import { claimAll, claimOne, delivery } from "../_events.ts";
import { assertEmpty, testAging } from "./_contract.ts";

const DAY_MS = 86_400_000;

const retentionMs = 7 * DAY_MS;

testAging(
  "the id of an event that waits in line is known for as long as it waits",
  async ({ place, store }) => {
    for (const id of ["d1", "d2"]) await store.accept(delivery(id, "{}", "repo"));
    await place.pass(30 * DAY_MS);
    for (const id of ["d1", "d2"]) {
      assertEquals((await store.get(id))?.state, "queued");
      assertEquals(await store.accept(delivery(id, "{}", "repo")), { id, duplicate: true });
    }
    assertEquals(await store.cancel("d2"), true);
  },
  { retentionMs },
);

testAging(
  "the id of an event that nobody comes to handle is known for as long as it waits",
  async ({ place, store }) => {
    await store.accept(delivery("d1"));
    await place.pass(5 * DAY_MS);
    assertEquals(await store.accept(delivery("d1")), { id: "d1", duplicate: true });
    assertEquals((await claimAll(store)).length, 1);
  },
  { retentionMs: 1 },
);

/** Has the worker of the store's own process take an event, which fails and is tried again in a month. */
async function failOnce(store: EventStore): Promise<void> {
  const retry = { minDelayMs: 30 * DAY_MS, maxDelayMs: 30 * DAY_MS };
  const fail = () => {
    throw new Error("no");
  };
  const worker = startWorker(store, fail, { retry, log: () => {} });
  await store.accept(delivery("d1"));
  await worker.poll();
  await worker.stop();
}

testAging(
  "the id of an event that was handled at once, and failed, is known until it is done",
  async ({ place, store }) => {
    await failOnce(store);
    await place.pass(20 * DAY_MS);
    assertEquals(await store.accept(delivery("d1")), { id: "d1", duplicate: true });
    await place.pass(30 * DAY_MS);
    await store.complete(await claimOne(store));
    assertEquals((await store.accept(delivery("d1"))).duplicate, true);
    await place.pass(retentionMs);
    await assertEmpty({ place });
  },
  { retentionMs },
);

testAging(
  "an id is forgotten with its event, also that of one that was handled at once",
  async ({ place, store }) => {
    const worker = startWorker(store, () => {}, { log: () => {} });
    await store.accept(delivery("d1"));
    await worker.poll();
    await worker.stop();
    await place.pass(retentionMs - 60_000);
    assertEquals((await store.accept(delivery("d1"))).duplicate, true);
    await place.pass(2 * DAY_MS + 60_000);
    await assertEmpty({ place });
  },
  { retentionMs },
);

testAging("the id of a dead event is known until it is purged", async ({ place, store }) => {
  await store.accept(delivery("d1"));
  await store.bury(await claimOne(store), new Error("no"));
  await place.pass(300 * DAY_MS);
  assertEquals((await store.get("d1"))?.state, "dead");
  await store.purge({});
  assertEquals((await place.contents()).ids, 0);
}, { retentionMs });
