import { assertEquals } from "@std/assert";
import { openEventStore } from "../../../../events/mod.ts";
import { claimOne, delivery } from "../_events.ts";
import { withExpiringKv } from "./_expiring_kv.ts";

const DAY_MS = 86_400_000;

const retentionMs = 7 * DAY_MS;

Deno.test("an event whose id has become another's leaves that alone", () =>
  withExpiringKv(async ({ kv, pass }) => {
    const store = await openEventStore(kv, { retentionMs });
    await store.accept(delivery("d1"));
    const lease = await claimOne(store);
    await kv.delete(["events", "id", "d1"]);
    // As earlier versions left it: nothing tells that the id is kept.
    const { engine: _, ...record } = lease.record;
    await pass(3 * DAY_MS);
    assertEquals((await store.accept(delivery("d1"))).duplicate, false);
    assertEquals(await store.retry({ ...lease, record }, 0, new Error("no")), true);
    const [, second] = await Array.fromAsync(store.list());
    assertEquals((await store.get("d1"))?.receivedAt, second?.receivedAt);
  }));
