import { assertEquals } from "@std/assert";
import type { EventStore, StoreInspector } from "../../../../events/mod.ts";
import { claimOne, delivery } from "../_events.ts";
import { memoryStore, testStoreInOneProcess } from "./_stores.ts";

function testInspector(
  name: string,
  fn: (store: EventStore, inspector: StoreInspector, kv: Deno.Kv) => Promise<void>,
): void {
  testStoreInOneProcess(
    name,
    ({ store, kv }) => fn(store, store.inspect, kv),
  );
}

/** The numbers of open events, with a plus where there are more. */
async function open(inspector: StoreInspector, max = 10): Promise<string> {
  const { queued, running, parked } = await inspector.count(max);
  return [queued, running, parked].map(({ count, isMore }) => `${count}${isMore ? "+" : ""}`)
    .join(" ");
}

testInspector(
  "count() counts an event once that the schedule names twice",
  async (store, inspector, kv) => {
    await store.accept(delivery("a"));
    const [entry] = await Array.fromAsync(kv.list({ prefix: ["events", "due"] }));
    const [namespace, kind, dueAt, ...rest] = entry!.key;
    await kv.set([namespace!, kind!, Number(dueAt) + 1, ...rest], entry!.value);
    assertEquals(await open(inspector), "1 0 0");
    await kv.set([namespace!, kind!, Date.now() + 60_000, ...rest], entry!.value);
    assertEquals(await open(inspector), "1 0 0");
  },
);

Deno.test("count() tells the states of events with their own schedule entries without their records", async () => {
  await using sut = await memoryStore();
  const { store, kv } = sut;
  for (let i = 0; i < 20; i++) await store.emit("jobs", "later", {}, { delayMs: 60_000 });
  await store.accept(delivery("parked"));
  await store.park(await claimOne(store), { name: "n", timeoutMs: 60_000 });
  await store.accept(delivery("running"));
  await claimOne(store);
  await store.accept(delivery("due"));
  const getMany = kv.getMany.bind(kv);
  let read = 0;
  kv.getMany =
    ((keys: readonly Deno.KvKey[]) => (read += keys.length, getMany(keys as never))) as never;
  const counts = await store.inspect.count(100);
  const { queued, running, parked, oldestDueAt } = counts;
  assertEquals([queued.count, running.count, parked.count, read], [21, 1, 1, 0]);
  assertEquals(oldestDueAt, (await store.get("due"))!.dueAt);
});
