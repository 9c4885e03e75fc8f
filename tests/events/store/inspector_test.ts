import { assert, assertEquals } from "@std/assert";
import {
  type BoundedCount,
  type EventStore,
  openEventStore,
  type StoreInspector,
} from "../../../events/mod.ts";
import { testKv } from "../../_kvs.ts";
import { buryAll, claimAll, claimOne, delivery } from "./_events.ts";
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

/** The number of dead events. */
async function dead(inspector: StoreInspector, max: number): Promise<BoundedCount> {
  return (await inspector.count(max)).dead;
}

testInspector("count() counts as stats() does", async (store, inspector) => {
  await buryAll(store, ["dead"]);
  await Promise.all(["a", "b", "c"].map((id) => store.accept(delivery(id))));
  const leases = await claimAll(store);
  await store.park(leases[0]!, { name: "n", timeoutMs: 60_000 });
  await store.complete(leases[1]!);
  await store.accept(delivery("later"));
  await store.retry(await claimOne(store), 60_000, "no");
  for (const id of ["g1", "g2", "g3"]) await store.accept(delivery(id, "{}", "key"));
  await claimOne(store);
  await store.accept(delivery("due"));
  await store.emit("jobs", "report", {}, { delayMs: 60_000, group: "team" });
  const { queued, running, parked } = await store.stats();
  assertEquals([queued, running, parked], [5, 2, 1]);
  assertEquals(await open(inspector), "5 2 1");
});

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

testInspector("count() stops counting at a largest number", async (store, inspector) => {
  for (let i = 0; i < 6; i++) await store.accept(delivery(`q${i}`));
  assertEquals(await open(inspector, 6), "6 0 0");
  assertEquals(await open(inspector, 5), "5+ 0 0");
  await claimAll(store);
  assertEquals(await open(inspector, 6), "0 6 0");
  assertEquals(await open(inspector, 3), "0 3+ 0");
  for (let i = 0; i < 6; i++) await store.accept(delivery(`g${i}`, "{}", `key${i % 2}`));
  assertEquals(await open(inspector, 20), "6 6 0");
  assertEquals((await open(inspector, 1)).split(" ")[0], "1+");
});

testInspector("count() ends when it is told to", async (store, inspector) => {
  await store.accept(delivery("a"));
  const { queued } = await inspector.count(10, AbortSignal.abort());
  assert(queued.isMore);
});

testInspector("count() counts dead events up to a largest number", async (store, inspector) => {
  await buryAll(store, ["a", "b", "c"]);
  assertEquals(await dead(inspector, 3), { count: 3, isMore: false });
  assertEquals(await dead(inspector, 2), { count: 2, isMore: true });
  await store.replay("a");
  assertEquals(await dead(inspector, 3), { count: 2, isMore: false });
});

testInspector("emittedBy() finds generated ids of all sources", async (store, inspector) => {
  await store.accept(delivery("a"));
  await store.accept({ ...delivery("b"), intake: "forge" });
  const leases = await claimAll(store);
  const body = new TextEncoder().encode("{}");
  const of = (source: string) => ({ source, type: "t", delayMs: 60_000, body });
  for (const lease of leases) {
    await store.complete(lease, { emits: [of("zoo"), of("jobs"), of("a-b")] });
  }
  const { record } = leases.find(({ record }) => record.intake === "forge")!;
  const parent = (await store.get(record.id))!;
  const ids = ["zoo:forge:b/0001", "jobs:forge:b/0002", "a-b:forge:b/0003"];
  assertEquals(await inspector.emittedBy(parent, 50), ids);
  assertEquals(await inspector.emittedBy(parent, 2), ids.slice(0, 2));
  assertEquals(await inspector.emittedBy((await store.get(ids[0]!))!, 50), []);
});

testKv("records of a console are read in their order", async (kv) => {
  const { consoleRecords: records } = await openEventStore(kv, {
    namespace: "bot",
    notifier: "watch",
  });
  const other = await openEventStore(kv, { namespace: "other", notifier: "watch" });
  for (const number of [3, 1, 2]) {
    await records.write([{ kind: "minute", number, id: "x", value: { number }, forMs: 60_000 }]);
  }
  await records.write([{ kind: "quarter", number: 2, id: "x", value: 0, forMs: 60_000 }]);
  const numbers = async (list: AsyncIterable<{ readonly number: number }>) =>
    await Array.fromAsync(list, ({ number }) => number);
  assertEquals(await numbers(records.between("minute", 1, 3)), [1, 2]);
  assertEquals(await numbers(records.last("minute", 2)), [3, 2]);
  assertEquals(await records.read({ kind: "minute", number: 2, id: "x" }), { number: 2 });
  await records.delete({ kind: "minute", number: 2, id: "x" });
  assertEquals(await records.read({ kind: "minute", number: 2, id: "x" }), undefined);
  assertEquals(await numbers(other.consoleRecords.last("minute", 9)), []);
});

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
