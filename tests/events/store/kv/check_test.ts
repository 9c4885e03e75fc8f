import { assertEquals } from "@std/assert";
import type { CheckedPage, EventStore } from "../../../../events/mod.ts";
import { claimAll, claimOne, delivery, drain } from "../_events.ts";
import { keysOf } from "./_keys.ts";
import { type StoreUnderTest, testStoreInOneProcess } from "./_stores.ts";
import { repairGroups } from "../_tidying.ts";

/** Checks the whole store. */
async function check(store: EventStore): Promise<CheckedPage["findings"][number][]> {
  return (await Array.fromAsync(store.check())).flatMap(({ findings }) => findings);
}

async function deleteAll(kv: Deno.Kv, ...prefix: string[]): Promise<void> {
  for (const key of await keysOf(kv, ...prefix)) await kv.delete(key);
}

const IDS = ["d1", "d2", "d3"];

async function acceptAll(store: EventStore, key?: string): Promise<void> {
  for (const id of IDS) await store.accept(delivery(id, "{}", key));
}

interface Damage {
  readonly name: string;
  readonly key?: string;
  /** Deletes what leads to events. */
  readonly damage: (sut: StoreUnderTest) => Promise<void>;
}

const DAMAGES: readonly Damage[] = [
  { name: "schedule entries", damage: ({ kv }) => deleteAll(kv, "due") },
  { name: "the entry of the first of a group", key: "k", damage: ({ kv }) => deleteAll(kv, "due") },
  { name: "the positions of a group", key: "k", damage: ({ kv }) => deleteAll(kv, "place") },
  { name: "the record of a group", key: "k", damage: ({ kv }) => deleteAll(kv, "lane") },
  {
    name: "all that a group has",
    key: "k",
    damage: async ({ kv }) => {
      for (const kind of ["lane", "place", "due"]) await deleteAll(kv, kind);
    },
  },
  {
    name: "the position of one in the middle of a group",
    key: "k",
    damage: async ({ kv }) => {
      await kv.delete((await keysOf(kv, "place"))[1]!);
    },
  },
];

for (const { name, key, damage } of DAMAGES) {
  testStoreInOneProcess(`check() puts events back that have lost ${name}`, async (sut) => {
    const { store } = sut;
    await acceptAll(store, key);
    await damage(sut);
    await repairGroups(store);
    await check(store);
    assertEquals((await drain(store)).toSorted(), IDS);
    assertEquals(await check(store), []);
    for (const kind of ["due", "lane", "place"]) assertEquals(await keysOf(sut.kv, kind), []);
  });
}

testStoreInOneProcess("check() keeps the order of a group that it puts back", async (sut) => {
  const { kv, store } = sut;
  await acceptAll(store, "k");
  for (const kind of ["lane", "place", "due"]) await deleteAll(kv, kind);
  await check(store);
  assertEquals(await drain(store), IDS);
});

testStoreInOneProcess("check() puts an event back whose worker has died", async ({ kv, store }) => {
  await store.accept(delivery("d1"));
  await store.claim({ limit: 1, owner: "dead", leaseMs: 1 });
  await deleteAll(kv, "due");
  assertEquals(await check(store), [{ is: "put_back", eventId: "d1" }]);
  const lease = await claimOne(store);
  assertEquals([lease.record.id, lease.takenOver], ["d1", true]);
});

testStoreInOneProcess("check() ends a wait that nothing would end", async ({ kv, store }) => {
  await store.accept(delivery("d1"));
  await store.park(await claimOne(store), { name: "answer", timeoutMs: 1 });
  await deleteAll(kv, "due");
  assertEquals(await claimAll(store), []);
  assertEquals(await check(store), [{ is: "put_back", eventId: "d1" }]);
  assertEquals((await claimOne(store)).record.woken?.[0]?.timedOut, true);
});

testStoreInOneProcess("check() lists a dead event again", async ({ kv, store }) => {
  await store.accept(delivery("d1"));
  await store.bury(await claimOne(store), new Error("no"));
  await deleteAll(kv, "dead");
  assertEquals(await check(store), [{ is: "put_back", eventId: "d1" }]);
  assertEquals((await keysOf(kv, "dead")).length, 1);
});

testStoreInOneProcess("check() names what cannot be decoded, and changes nothing", async (sut) => {
  const { kv, store } = sut;
  await acceptAll(store, "k");
  await (await store.state("s")).set(1);
  await store.wake("early", 1);
  const kinds = ["waiter", "state", "id", "due", "lane", "place", "event"];
  const keys = await Promise.all(kinds.map(async (kind) => (await keysOf(kv, kind))[0]!));
  for (const key of keys) await kv.set(key, new Uint8Array([99, 1]));
  const all = async () => {
    const entries = await Array.fromAsync(kv.list({ prefix: ["events"] }));
    // The outcome is noted, in a commit with a mark.
    return entries.filter(({ key }) => key[1] !== "checked" && key[1] !== "commit");
  };
  const before = await all();
  const findings = await check(store);
  assertEquals(
    findings.map((finding) => [finding.is, "kind" in finding && finding.kind]),
    [
      ["unreadable", "name"],
      ["unreadable", "state"],
      ["unreadable", "id"],
      ["unreadable", "schedule entry"],
      ["unreadable", "ordering group"],
      ["unreadable", "position"],
      ["unreadable", "event"],
    ],
  );
  const [waiter, state, ...others] = keys;
  assertEquals(
    findings.map((finding) => "at" in finding && finding.at),
    [waiter!.slice(1), state!.slice(1), ...others],
  );
  assertEquals(await all(), before);
});
