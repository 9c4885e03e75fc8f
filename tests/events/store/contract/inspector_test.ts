import { assert, assertEquals } from "@std/assert";
import type { BoundedCount, EventStore, StoreInspector } from "../../../../events/mod.ts";
import { buryAll, claimAll, claimOne, delivery } from "../_events.ts";
import { testStoreInOneProcess } from "./_contract.ts";

function testInspector(
  name: string,
  fn: (store: EventStore, inspector: StoreInspector) => Promise<void>,
): void {
  testStoreInOneProcess(name, ({ store }) => fn(store, store.inspect));
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

testInspector("withDeliveryId() finds the events of all intakes", async (store, inspector) => {
  for (const intake of ["shop", "a", "a-b", "a9", undefined]) {
    for (const id of ["d1", "d2"]) await store.accept({ ...delivery(id), intake });
  }
  await store.accept({ ...delivery("d3"), intake: "a-b" });
  const ids = ["a-b:d1", "a9:d1", "a:d1", "shop:d1"];
  assertEquals(await inspector.withDeliveryId("d1"), ids);
  assertEquals(await inspector.withDeliveryId("d3"), ["a-b:d3"]);
  assertEquals(await inspector.withDeliveryId("d4"), []);
  for (const lease of await claimAll(store)) await store.complete(lease);
  await store.purge({ ids: ["a:d1", "a-b:d1"] });
  assertEquals(await inspector.withDeliveryId("d1"), ["a9:d1", "shop:d1"]);
});

testStoreInOneProcess("records of a console are read in their order", async ({ place }) => {
  const { consoleRecords: records } = await place.open({ namespace: "bot" });
  const other = await place.open({ namespace: "other" });
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
