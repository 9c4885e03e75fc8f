import { assert, assertEquals } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { claimAll, delivery, idsOf } from "../_events.ts";
import { ahead } from "../_tidying.ts";
import { keysOf, makeDue } from "./_keys.ts";
import { memoryStore } from "./_stores.ts";
import { repairTimes } from "../_tidying.ts";
import { changeValue } from "./_values.ts";

const MINUTE_MS = 60_000;

Deno.test("tidy() brings an event forward that a clock ahead has put off", async () => {
  await using sut = await memoryStore();
  const { kv, store } = sut;
  await store.accept(delivery("d1"));
  const [own] = await keysOf(kv, "due");
  // As a claim puts off what it cannot lease: the record says another time than its entry.
  await changeValue(kv, own!, { delayMs: 60_000 });
  await makeDue(kv, "d1", Date.now() + 86_400_000);
  assertEquals(await repairTimes(store), 1);
  assertEquals(await repairTimes(store), 0);
  const [moved] = await keysOf(kv, "due");
  assert(Number(moved!.at(-2)) - Date.now() <= 60_000);
});

/** Counts the entries of the schedule that are read. */
function countDue(kv: Deno.Kv): { read: number } {
  const count = { read: 0 };
  const list = kv.list.bind(kv);
  kv.list = async function* (...args: Parameters<Deno.Kv["list"]>) {
    for await (const entry of list(...args)) {
      if (entry.key[1] === "due") count.read++;
      yield entry;
    }
  } as never;
  return count;
}

Deno.test("tidy() with a limit goes on where it ended, and reads no more than that", async () => {
  await using sut = await memoryStore();
  const { kv, store } = sut;
  for (let i = 1; i <= 30; i++) await store.emit("jobs", "later", {}, { delayMs: i * MINUTE_MS });
  const count = countDue(kv);
  const rounds: number[] = [];
  for (let i = 0; i < 4; i++) {
    const before = count.read;
    assertEquals(await repairTimes(store, 10), 0);
    rounds.push(count.read - before);
  }
  // One more tells where to go on; after the last entry, the first ones come again.
  assertEquals(rounds, [11, 11, 10, 11]);
});

Deno.test("tidy() with a limit finds each wrong entry, and then all of them at once", async () => {
  await using sut = await memoryStore();
  const { store } = sut;
  for (let i = 1; i <= 30; i++) await store.emit("jobs", "later", {}, { delayMs: i * MINUTE_MS });
  await ahead(25.5 * MINUTE_MS, () => store.accept(delivery("near")));
  await ahead(90 * MINUTE_MS, () => store.accept(delivery("far")));
  const repaired: number[] = [];
  for (let i = 0; i < 3; i++) repaired.push(await repairTimes(store, 10));
  assertEquals(repaired, [0, 0, 2]);
  assertEquals(idsOf(await claimAll(store)).toSorted(), ["far", "near"]);
});

Deno.test("tidy() with a limit passes any number of entries of one time", async () => {
  await using sut = await memoryStore();
  const { store } = sut;
  const start = Date.now();
  {
    using _ahead = new FakeTime(start + 2 * MINUTE_MS);
    await store.accept(delivery("d1"));
  }
  using _clock = new FakeTime(start);
  for (let i = 0; i < 25; i++) await store.emit("jobs", "later", {}, { delayMs: MINUTE_MS });
  assertEquals(await repairTimes(store, 3), 0);
  assertEquals(await repairTimes(store, 3), 1);
});
