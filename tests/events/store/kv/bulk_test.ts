import { assertEquals, assertNotEquals } from "@std/assert";
import { changedKv } from "../../../../dev/harness/faulty_kv.ts";
import { type EventRecord, type EventStore, openEventStore } from "../../../../events/mod.ts";
import type { Notifier } from "../engines/kv.ts";
import { buryAll, claimAll, delivery, idsOf, listed } from "../_events.ts";
import { keysOf } from "./_keys.ts";
import { testStore } from "./_stores.ts";
import { changeValue, valueAt } from "./_values.ts";
import { PART_BYTES } from "../../../../events/store/kv/_layout.ts";

const numbered = (count: number) => Array.from({ length: count }, (_, i) => `d${i + 10}`);

async function acceptAll(store: EventStore, ids: readonly string[], key?: string): Promise<void> {
  for (const id of ids) await store.accept(delivery(id, "{}", key));
}

testStore("purge() deletes payloads of more parts than share a commit", async ({ kv, store }) => {
  await buryAll(store, numbered(10));
  for (const key of await keysOf(kv, "event")) {
    const { payload } = await valueAt<EventRecord>(kv, key);
    await changeValue(kv, key, { payload: { ...payload, size: 100 * PART_BYTES } });
  }
  assertEquals((await store.purge({})).changed, 10);
});

testStore("replayAll() notifies", async ({ kv }) => {
  const store = await openEventStore(kv, { notifier: "watch" });
  await buryAll(store, ["d1"]);
  await kv.delete(["events", "notifier"]);
  await store.replayAll({});
  assertNotEquals((await kv.get(["events", "notifier"])).value, null);
});

/** A KV in which something happens each time that a list has been read. */
function afterLists(kv: Deno.Kv, happen: () => Promise<unknown>): Deno.Kv {
  async function* list(...args: Parameters<Deno.Kv["list"]>) {
    const all = await Array.fromAsync(kv.list(...args));
    await happen();
    yield* all;
  }
  return changedKv(kv, { list });
}

testStore("an event that changes meanwhile keeps no other from being purged", async (sut) => {
  await buryAll(sut.store, numbered(9));
  const kv = afterLists(sut.kv, () => sut.store.replay("d10"));
  const store = await openEventStore(kv, { notifier: sut.store.notifier as Notifier });
  assertEquals(await store.purge({}), { changed: 8, left: [] });
  assertEquals(await listed(sut.store), ["d10"]);
});

testStore("an event that changes meanwhile keeps no other from being cancelled", async (sut) => {
  await acceptAll(sut.store, numbered(9));
  const kv = afterLists(sut.kv, () => sut.store.cancel("d10"));
  const store = await openEventStore(kv, { notifier: sut.store.notifier as Notifier });
  assertEquals(await store.cancelAll({}), { changed: 8, left: [] });
});

testStore("cancelAll() leaves what does not match any more when it is cancelled", async (sut) => {
  await acceptAll(sut.store, numbered(3));
  const kv = afterLists(sut.kv, () => claimAll(sut.store));
  const store = await openEventStore(kv, { notifier: sut.store.notifier as Notifier });
  assertEquals(await store.cancelAll({ state: "queued" }), { changed: 0, left: [] });
  const running = await Array.fromAsync(sut.store.list({ state: "running" }));
  assertEquals(running.map((event) => event.cancelRequestedAt), [undefined, undefined, undefined]);
});

testStore("an event that changes meanwhile keeps no other from being replayed", async (sut) => {
  await buryAll(sut.store, numbered(9));
  const kv = afterLists(sut.kv, () => sut.store.purge({ ids: ["d10"] }));
  const store = await openEventStore(kv, { notifier: sut.store.notifier as Notifier });
  assertEquals(await store.replayAll({}), { changed: 8, left: [] });
  assertEquals(idsOf(await claimAll(sut.store)).toSorted(), numbered(9).slice(1));
});
