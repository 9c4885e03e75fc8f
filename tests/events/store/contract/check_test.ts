import { assertEquals } from "@std/assert";
import type { CheckedPage, EventStore } from "../../../../events/mod.ts";
import { claimOne, delivery } from "../_events.ts";
import { testStoreInOneProcess } from "./_contract.ts";

/** Checks the whole store. */
async function check(store: EventStore): Promise<CheckedPage["findings"][number][]> {
  return (await Array.fromAsync(store.check())).flatMap(({ findings }) => findings);
}

const IDS = ["d1", "d2", "d3"];

async function acceptAll(store: EventStore, key?: string): Promise<void> {
  for (const id of IDS) await store.accept(delivery(id, "{}", key));
}

testStoreInOneProcess("check() finds nothing where all is right", async ({ store }) => {
  await store.accept(delivery("done"));
  await store.complete(await claimOne(store));
  await store.accept(delivery("dead"));
  await store.bury(await claimOne(store), new Error("no"));
  await store.accept(delivery("parked"));
  await store.park(await claimOne(store), { name: "answer", timeoutMs: 60_000 });
  await store.accept(delivery("late"));
  await store.retry(await claimOne(store), 60_000, new Error("once"));
  await acceptAll(store, "k");
  await claimOne(store);
  await store.emit("own", "later", {}, { delayMs: 60_000, group: "k" });
  await (await store.state("s")).set(1);
  await store.wake("early", 1);
  assertEquals(await check(store), []);
});

testStoreInOneProcess(
  "check() names what cannot be decoded, and changes nothing",
  async (sut) => {
    const { damages, store } = sut;
    await acceptAll(store);
    await (await store.state("s")).set(1);
    await store.wake("early", 1);
    const restore = await damages.spoil("event", "d1");
    await damages.spoil("name", "early");
    await damages.spoilCell("state", "", "s");
    const found = await check(store);
    const kinds = found.map((finding) => "kind" in finding ? finding.kind : finding.is);
    assertEquals(kinds.toSorted(), ["event", "name", "state"]);
    assertEquals((await check(store)).length, 3);
    await restore();
    assertEquals((await store.get("d1"))?.state, "queued");
  },
  {},
  "damages",
);
