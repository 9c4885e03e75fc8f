import { assertEquals, assertRejects } from "@std/assert";
import { openEventStore } from "../../../../events/mod.ts";
import { until } from "../../worker/_worker.ts";
import { claimOne, delivery } from "../_events.ts";
import { settle, trimmed } from "../_tidying.ts";
import { keysOf } from "./_keys.ts";
import { memoryStore, testStore } from "./_stores.ts";
import { trimPayloads } from "../_tidying.ts";
import { setNewer, setValue } from "./_values.ts";

const DAY_MS = 86_400_000;

const keepPayloads = { forMs: DAY_MS, maxBytes: 1_000_000 };

/** The sum of the sizes, as it is stored. */
async function sumOf(kv: Deno.Kv): Promise<number> {
  return Number((await kv.get<Deno.KvU64>(["events", "keptBytes"])).value?.value ?? 0n);
}

function testKeeping(name: string, fn: Parameters<typeof testStore>[1]): void {
  const untilTrimmed: typeof fn = async (sut) => {
    await fn(sut);
    await trimmed(sut.store);
  };
  testStore(name, untilTrimmed, { keepPayloads });
}

testKeeping("replayAll() leaves done events whose payload is gone", async ({ kv, store }) => {
  await settle(store, "d1");
  await settle(store, "d2");
  const [key] = await keysOf(kv, "kept");
  await kv.delete(key!);
  assertEquals(await store.replayAll({ state: "done", ids: ["d1", "d2"] }), {
    changed: 1,
    left: ["d1"],
  });
});

for (
  const [name, damage] of [
    ["wrong", new Deno.KvU64(5n)],
    ["below zero", new Deno.KvU64(2n ** 64n - 5n)],
    ["no number", "text"],
  ] as const
) {
  Deno.test(`a sum that is ${name} is counted anew`, async () => {
    await using sut = await memoryStore({ keepPayloads: { forMs: DAY_MS, maxBytes: 20 } });
    await settle(sut.store, "d1");
    await settle(sut.store, "d2");
    // What counts in passing has ended.
    await trimmed(sut.store);
    await sut.kv.set(["events", "keptBytes"], damage);
    await sut.kv.delete(["events", "keptCounted"]);
    // Opened anew, as after a start.
    const store = await openEventStore(sut.kv, { keepPayloads: { forMs: DAY_MS, maxBytes: 20 } });
    assertEquals(await trimPayloads(store), 0);
    assertEquals(await sumOf(sut.kv), 14);
    await settle(store, "d3");
    await until(async () => await sumOf(sut.kv) <= 20);
    assertEquals((await keysOf(sut.kv, "kept")).length, 2);
  });
}

Deno.test("an entry that another version wrote is left to it", async () => {
  await using sut = await memoryStore({ keepPayloads });
  for (const [settledAt, id] of [[1, "d1"], [2, "d2"]] as const) {
    await setValue(sut.kv, ["events", "kept", settledAt, id], { receivedAt: 1 });
  }
  await setNewer(sut.kv, ["events", "kept", 2, "d2"]);
  await settle(sut.store, "d3");
  const store = await openEventStore(sut.kv);
  assertEquals(await trimPayloads(store), 1);
  assertEquals((await keysOf(sut.kv, "kept")).length, 2);
});

Deno.test("an event is not settled while the sum cannot be added to", async () => {
  await using sut = await memoryStore({ keepPayloads: { forMs: DAY_MS, maxBytes: 1_000 } });
  await sut.store.accept(delivery("d1"));
  const lease = await claimOne(sut.store);
  await sut.kv.set(["events", "keptBytes"], "x");
  await assertRejects(() => sut.store.complete(lease));
  assertEquals((await sut.store.get("d1"))?.state, "running");
});
