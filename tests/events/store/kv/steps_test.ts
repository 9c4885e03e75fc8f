import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { Lease } from "../../../../events/mod.ts";
import { claimOne, delivery, later } from "../_events.ts";
import { noteHandler } from "../_stepping.ts";
import { recordKey } from "./_keys.ts";
import { type StoreUnderTest, testStoreInOneProcess } from "./_stores.ts";
import { changeValue } from "./_values.ts";

/** Notes handlers with names of a kind until that is refused, after most of them were noted at once. */
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
    const noted = await noteHandler(store, lease, nameOf(i)).catch((error) => {
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
