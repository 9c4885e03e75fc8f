import { assert, assertEquals } from "@std/assert";
import { changedKv } from "../../../../dev/harness/faulty_kv.ts";
import { openEventStore } from "../../../../events/mod.ts";
import type { Notifier } from "../engines/kv.ts";
import { claimOne, delivery } from "../_events.ts";
import { testStoreInOneProcess } from "./_stores.ts";

testStoreInOneProcess(
  "cancel() of a cancelled event tells the listener again, whoever cancelled it",
  async (sut) => {
    const cancelled: string[] = [];
    const { kv, store } = sut;
    store.listen({ wake: () => {}, onCancelRequested: (id) => cancelled.push(id) }).catch(() => {});
    await store.accept(delivery("d1"));
    await claimOne(store);
    // Another view of the KV, as another process has it.
    const other = await openEventStore(changedKv(kv, {}), { notifier: store.notifier as Notifier });
    assert(await other.cancel("d1"));
    assertEquals(cancelled, []);
    for (const _ of [1, 2]) assert(await store.cancel("d1"));
    assertEquals(cancelled, ["d1", "d1"]);
    kv.close();
  },
);
