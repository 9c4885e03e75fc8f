import { assertEquals } from "@std/assert";
import { openEventStore, startWorker } from "../../../events/mod.ts";
import { claimAll, claimOne, delivery, keysOf } from "./_events.ts";
import { withExpiringKv } from "./kv/_expiring_kv.ts";

const DAY_MS = 86_400_000;
const retentionMs = 7 * DAY_MS;

Deno.test("the id of an event that waits in line is known for as long as it waits", () =>
  withExpiringKv(async ({ kv, pass }) => {
    const store = await openEventStore(kv, { retentionMs });
    for (const id of ["d1", "d2"]) await store.accept(delivery(id, "{}", "repo"));
    await pass(30 * DAY_MS);
    for (const id of ["d1", "d2"]) {
      assertEquals((await store.get(id))?.state, "queued");
      assertEquals(await store.accept(delivery(id, "{}", "repo")), { id, duplicate: true });
    }
    assertEquals(await store.cancel("d2"), true);
  }));

Deno.test("the id of an event that nobody comes to handle is known for as long as it waits", () =>
  withExpiringKv(async ({ kv, pass }) => {
    const store = await openEventStore(kv, { retentionMs: 1 });
    await store.accept(delivery("d1"));
    await pass(5 * DAY_MS);
    assertEquals(await store.accept(delivery("d1")), { id: "d1", duplicate: true });
    assertEquals((await claimAll(store)).length, 1);
  }));

/** Has the worker of the store's own process take an event, which fails and is tried again in a month. */
async function failOnce(store: Awaited<ReturnType<typeof openEventStore>>): Promise<void> {
  const retry = { minDelayMs: 30 * DAY_MS, maxDelayMs: 30 * DAY_MS };
  const fail = () => {
    throw new Error("no");
  };
  const worker = startWorker(store, fail, { retry, log: () => {} });
  await store.accept(delivery("d1"));
  await worker.poll();
  await worker.stop();
}

Deno.test("the id of an event that was handled at once, and failed, is known until it is done", () =>
  withExpiringKv(async ({ kv, pass }) => {
    const store = await openEventStore(kv, { retentionMs });
    await failOnce(store);
    await pass(20 * DAY_MS);
    assertEquals(await store.accept(delivery("d1")), { id: "d1", duplicate: true });
    await pass(30 * DAY_MS);
    await store.complete(await claimOne(store));
    assertEquals((await store.accept(delivery("d1"))).duplicate, true);
    await pass(retentionMs);
    assertEquals([...await keysOf(kv, "id"), ...await keysOf(kv, "event")], []);
  }));

Deno.test("an id is forgotten with its event, also that of one that was handled at once", () =>
  withExpiringKv(async ({ kv, pass }) => {
    const store = await openEventStore(kv, { retentionMs });
    const worker = startWorker(store, () => {}, { log: () => {} });
    await store.accept(delivery("d1"));
    await worker.poll();
    await worker.stop();
    await pass(retentionMs - 60_000);
    assertEquals((await store.accept(delivery("d1"))).duplicate, true);
    await pass(2 * DAY_MS + 60_000);
    assertEquals([...await keysOf(kv, "id"), ...await keysOf(kv, "event")], []);
  }));

Deno.test("the id of a dead event is known until it is purged", () =>
  withExpiringKv(async ({ kv, pass }) => {
    const store = await openEventStore(kv, { retentionMs });
    await store.accept(delivery("d1"));
    await store.bury(await claimOne(store), new Error("no"));
    await pass(300 * DAY_MS);
    assertEquals((await store.get("d1"))?.state, "dead");
    await store.purge({});
    assertEquals(await keysOf(kv, "id"), []);
  }));

Deno.test("an event whose id has become another's leaves that alone", () =>
  withExpiringKv(async ({ kv, pass }) => {
    const store = await openEventStore(kv, { retentionMs });
    await store.accept(delivery("d1"));
    const lease = await claimOne(store);
    await kv.delete(["events", "id", "d1"]);
    // As earlier versions left it: nothing tells that the id is kept.
    const { idKept: _, ...record } = lease.record;
    await pass(3 * DAY_MS);
    assertEquals((await store.accept(delivery("d1"))).duplicate, false);
    assertEquals(await store.retry({ ...lease, record }, 0, new Error("no")), true);
    const [, second] = await Array.fromAsync(store.list());
    assertEquals((await store.get("d1"))?.receivedAt, second?.receivedAt);
  }));
