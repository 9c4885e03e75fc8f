import { assertEquals } from "@std/assert";
import { buryAll, claimAll, claimOne, delivery, idsOf, listed } from "../_events.ts";
import { keysOf, recordKey } from "./_keys.ts";
import { changeValue, damage, setNewer, setValue } from "./_values.ts";
import { memoryStore, testInMemory, testStore } from "./_stores.ts";
import { PART_BYTES } from "../../../../events/store/kv/_layout.ts";

/** Makes an event's record one of another version. Returns what makes it again of this one. */
async function makeNewer(kv: Deno.Kv, id: string): Promise<() => Promise<void>> {
  return await setNewer(kv, await recordKey(kv, id));
}

testInMemory("list() and stats() show records that cannot be read", async ({ kv, store }) => {
  await buryAll(store, ["d1", "d2", "d3"]);
  await makeNewer(kv, "d2");
  await damage(kv, await recordKey(kv, "d3"));
  const found = await Array.fromAsync(store.list({ state: "unreadable" }));
  const times = (await keysOf(kv, "event")).map((key) => Number(key.at(-2)));
  assertEquals(found, [
    { id: "d2", receivedAt: times[1]!, state: "unreadable" },
    { id: "d3", receivedAt: times[2]!, state: "unreadable" },
  ]);
  assertEquals(await listed(store), ["d1", "d2", "d3"]);
  const { dead, unreadable } = await store.stats();
  assertEquals([dead, unreadable], [1, 2]);
});

/** Members that are missing or wrong in a record which claims to be of this version. */
const DAMAGES: readonly Readonly<Record<string, unknown>>[] = [
  { state: "asleep" },
  { id: "other" },
  { receivedAt: NaN },
  { receivedAt: 1 },
  { receivedAt: 1e16 },
  { type: undefined },
  { attempts: [{ attempt: 1 }] },
  { attempts: [{ attempt: 1, startedAt: 1, endedAt: 2, outcome: "odd" }] },
  { attempts: null },
  { outcome: "odd" },
  { causedBy: 1 },
  { cancelRequestedAt: "now" },
  { payload: { id: "a", size: 900 * PART_BYTES + 1 } },
  { payload: {} },
  { engine: { sharedEntry: 1 } },
  { engine: { holdsPayload: 1 } },
  { group: { key: "key" } },
  { dueAt: "now" },
];

Deno.test("a damaged record counts as one that cannot be read", async () => {
  await using sut = await memoryStore();
  await buryAll(sut.store, ["d1"]);
  const key = await recordKey(sut.kv, "d1");
  const { value } = await sut.kv.get(key);
  for (const members of DAMAGES) {
    await changeValue(sut.kv, key, members);
    assertEquals((await sut.store.stats()).unreadable, 1, JSON.stringify(members));
    await sut.kv.set(key, value);
  }
  assertEquals((await sut.store.stats()).unreadable, 0);
});

testInMemory(
  "purge() leaves what it cannot read, unless just that is meant",
  async ({ kv, store }) => {
    await buryAll(store, ["d1", "d2"]);
    await changeValue(kv, await recordKey(kv, "d2"), { state: "asleep" });
    assertEquals(await store.purge({ ids: ["d2"] }), { changed: 0, left: ["d2"] });
    assertEquals(await store.purge({}), { changed: 1, left: [] });
    assertEquals(await listed(store), ["d2"]);
    assertEquals(await store.purge({ state: "unreadable" }), { changed: 1, left: [] });
    assertEquals(await keysOf(kv, "event"), []);
    assertEquals(await keysOf(kv, "payload"), []);
  },
);

Deno.test("replayAll() and cancelAll() leave what they cannot read", async () => {
  await using sut = await memoryStore();
  await buryAll(sut.store, ["d1"]);
  await makeNewer(sut.kv, "d1");
  const key = await recordKey(sut.kv, "d1");
  const before = await sut.kv.get(key);
  assertEquals(await sut.store.replayAll({ ids: ["d1"] }), { changed: 0, left: ["d1"] });
  assertEquals(await sut.store.cancelAll({ ids: ["d1"] }), { changed: 0, left: ["d1"] });
  assertEquals(await sut.kv.get(key), before);
});

testStore("an entry of what still waits in its group starts nothing", async ({ kv, store }) => {
  for (const id of ["d1", "d2"]) await store.accept(delivery(id, "{}", "key"));
  const lease = await claimOne(store);
  const { receivedAt } = (await store.get("d2"))!;
  const entry = { receivedAt, group: null, delayMs: 0 };
  await setValue(kv, ["events", "due", Date.now() - 1, "d2"], entry);
  assertEquals(await claimAll(store), []);
  await store.complete(lease);
  assertEquals(idsOf(await claimAll(store)), ["d2"]);
});
