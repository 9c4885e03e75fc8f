import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import type { Lease } from "../../../events/mod.ts";
import { claimOne, delivery, later, recordKey } from "./_events.ts";
import { memoryStore, type StoreUnderTest, testStore, testStoreInOneProcess } from "./_stores.ts";
import { changeValue } from "./_values.ts";

testStore(
  "EventStore.checkpoint() notes parts, and commits their effects",
  async ({ kv, store }) => {
    await store.accept(delivery("d1"));
    const first = await store.checkpoint(await claimOne(store), "a", (c) => c.set(["a"], 1));
    const second = await store.checkpoint(first!, "b");
    assertEquals(second?.record.progress, ["a", "b"]);
    assertEquals((await kv.get(["a"])).value, 1);
    assertEquals(await store.complete(second!), true);
  },
);

testStore(
  "EventStore.checkpoint() commits nothing for a lease that is lost",
  async ({ kv, store }) => {
    await store.accept(delivery("d1"));
    const lease = await claimOne(store);
    await store.renew(lease, 60_000);
    assertEquals(await store.checkpoint(lease, "a", (commit) => commit.set(["a"], 1)), null);
    assertEquals((await kv.get(["a"])).value, null);
    assertEquals((await store.get("d1"))?.progress ?? [], []);
  },
);

testStore(
  "EventStore.checkpoint() notes nothing when a check does not hold",
  async ({ kv, store }) => {
    await kv.set(["a"], 1);
    await store.accept(delivery("d1"));
    const lease = await claimOne(store);
    const note = () =>
      store.checkpoint(lease, "a", (c) => c.check({ key: ["a"], versionstamp: null }));
    await assertRejects(note, Error, "A check among the effects does not hold");
    assertEquals((await store.get("d1"))?.progress ?? [], []);
  },
);

testStore("EventStore.checkpoint() is remembered by a retry and a replay", async ({ store }) => {
  await store.accept(delivery("d1"));
  const noted = await store.checkpoint(await claimOne(store), "a");
  await store.retry(noted!, 0, new Error("no"));
  const again = await claimOne(store);
  assertEquals(again.record.progress, ["a"]);
  await store.bury(again, new Error("no"));
  await store.replay("d1");
  assertEquals((await claimOne(store)).record.progress, ["a"]);
});

testStore(
  "EventStore.checkpoint() is remembered when a dead event is delivered again",
  async ({ store }) => {
    await store.accept(delivery("d1"));
    const noted = await store.checkpoint(await claimOne(store), "a");
    await store.bury({ ...noted!, record: { ...noted!.record, lease: null } }, new Error("no"));
    await store.accept(delivery("d1"));
    assertEquals((await store.get("d1"))?.progress, ["a"]);
  },
);

/** Notes parts with names of a kind until that is refused, after most of them were noted at once. */
async function noteAll(
  { kv, store }: StoreUnderTest,
  nameOf: (i: number) => string,
): Promise<Lease> {
  const key = await recordKey(kv, "d1");
  const before = Math.floor(
    30_000 / new TextEncoder().encode(JSON.stringify(nameOf(0))).byteLength,
  );
  await changeValue(kv, key, { progress: Array.from({ length: before }, (_, i) => nameOf(i)) });
  let lease = await claimOne(store);
  for (let i = before;; i++) {
    const noted = await store.checkpoint(lease, nameOf(i)).catch((error) => {
      assert(error instanceof RangeError);
      assertStringIncludes(error.message, "bytes, over 32768");
    });
    if (!noted) return lease;
    lease = noted;
  }
}

testStoreInOneProcess(
  "an event that is full of progress can be tried again, and die",
  async (sut) => {
    const { store } = sut;
    const long = "\u{1F600}".repeat(5_000);
    const names = [
      "p".repeat(200),
      "p\u{1F600}".padEnd(600),
      "€".repeat(400),
      `"\n\u0001`.repeat(50),
    ];
    for (const name of names) {
      await store.accept(delivery("d1"));
      let lease = await noteAll(sut, (i) => `${name}${i}`);
      for (let attempt = 0; attempt < 11; attempt++) {
        assertEquals(await store.retry(lease, 0, new Error(long)), true);
        lease = await claimOne(store);
      }
      assertEquals(lease.record.attempts.length, 10);
      assertEquals(await store.bury(lease, new Error(long)), true);
    }
  },
);

Deno.test("an event that is full of progress is taken by its worker when it is redelivered", async () => {
  await using sut = await memoryStore();
  const { store } = sut;
  const text = JSON.stringify({ text: "x".repeat(32_750) });
  await store.accept(delivery("d1", text));
  const lease = await store.checkpoint(await claimOne(store), "p".repeat(32_760));
  await store.bury(lease!, new Error("no"));
  const taken: Lease[] = [];
  const take = (lease: Lease) => void taken.push(lease);
  const reserve = () => ({ owner: "worker", leaseMs: 30_000, take, cancel: () => {} });
  store.listen({ wake: () => {}, reserve }).catch(() => {});
  assertEquals(await store.accept(delivery("d1", text)), { id: "d1", duplicate: false });
  assertEquals(new TextDecoder().decode(await store.load(taken[0]!)), text);
  assertEquals(taken[0]!.record.progress?.[0]?.length, 32_760);
});

testStoreInOneProcess(
  "an event with more progress than can be noted now is still settled",
  async ({ kv, store }) => {
    await store.accept(delivery("d1"));
    await claimOne(store, 1);
    const progress = Array.from({ length: 4_500 }, (_, i) => `${i}`.padStart(7));
    await changeValue(kv, await recordKey(kv, "d1"), { progress });
    await later(5);
    const lease = await claimOne(store);
    assertEquals(lease.record.attempts.length, 1);
    assertEquals(await store.retry(lease, 0, new Error("a".repeat(1_000))), true);
    assertEquals(await store.cancel("d1"), true);
  },
);

testStore("EventStore.checkpoint() refuses a name that is no text", async ({ store }) => {
  await store.accept(delivery("d1"));
  const lease = await claimOne(store);
  for (const part of [undefined, null, 7, { part: "a" }]) {
    await assertRejects(() => store.checkpoint(lease, part as never), Error, "must be a text");
  }
});
