import { assert, assertEquals } from "@std/assert";
import { testKv } from "../../../_kvs.ts";
import { claimAll, delivery, idsOf } from "../_events.ts";
import { keysOf } from "./_keys.ts";
import { loggedStore, withLoggedStore } from "./_stores.ts";
import { repairTimes } from "../_tidying.ts";
import { setNewer, setValue } from "./_values.ts";

/** Values that no version up to this one has written as an entry of the schedule. */
const UNKNOWN_VALUES: readonly unknown[] = [
  ...[null, 5, "x", true],
  ...[{}, [], [1], { events: 5 }, { events: null }, { events: [null] }, { events: [{}] }],
  ...[{ events: [{ id: 5, receivedAt: 1 }] }, { events: [{ id: "a", receivedAt: "1" }] }],
  ...[{ events: [{ id: "a".repeat(5_000), receivedAt: 1 }] }, { events: [] }],
  ...[{ receivedAt: 1 }, { receivedAt: null, group: null }, { receivedAt: 1, group: 5 }],
  ...[{ receivedAt: "1", group: null }, { receivedAt: 1, group: { key: "a", position: -1 } }],
  ...[{ receivedAt: 1, group: null, events: [null] }, { receivedAt: 9e15, group: null }],
];

/** Keys below the schedule's that no version has written. */
const UNKNOWN_KEYS: readonly Deno.KvKey[] = [
  ...[[1], [-Infinity, "id"], [1, 5], [1, "id", "more"], [8.64e15 + 2, "id"]],
];

/** Such keys that are in no range of times, so that no reading meets them. */
const UNREAD_KEYS: readonly Deno.KvKey[] = [
  ...[[], ["1", "id"], [new Uint8Array(1), "id"], [NaN, "id"], [1n, "id"], [true, "id"]],
  [Infinity, "id"],
];

const due = (...parts: Deno.KvKeyPart[]): Deno.KvKey => ["events", "due", ...parts];

async function dump(kv: Deno.Kv, ...prefix: Deno.KvKey): Promise<Deno.KvEntry<unknown>[]> {
  return await Array.fromAsync(kv.list({ prefix: ["events", ...prefix] }));
}

testKv(
  "entries of an unknown shape stop no claim, stay as they are, and are logged once",
  async (kv) => {
    const { store, messages } = await loggedStore(kv);
    for (const [i, value] of UNKNOWN_VALUES.entries()) {
      await setValue(kv, due(1_000, `u${i}`), value);
    }
    const valid = { receivedAt: 1, group: null };
    for (const key of [...UNKNOWN_KEYS, ...UNREAD_KEYS]) await setValue(kv, due(...key), valid);
    for (const [i, value] of UNKNOWN_VALUES.entries()) {
      await setValue(kv, due(Date.now() + 60_000, `later${i}`), value);
    }
    const before = await dump(kv, "due");
    await store.accept(delivery("d1"));
    await store.accept(delivery("d2"));
    for (let i = 0; i < 2; i++) {
      const leases = await claimAll(store);
      assertEquals(idsOf(leases).length, i === 0 ? 2 : 0);
      for (const lease of leases) assert(await store.complete(lease));
      assertEquals(await store.oldestDueAt(), null);
      assertEquals(await repairTimes(store), 0);
    }
    assertEquals(await dump(kv, "due"), before);
    assertEquals(new Set(messages), new Set(["schedule entry unreadable, passed over"]));
    assertEquals(messages.length, 2 * UNKNOWN_VALUES.length + UNKNOWN_KEYS.length);
  },
);

Deno.test("an event whose entry has an unknown shape is found by its record", () =>
  withLoggedStore(async ({ kv, store, messages }) => {
    const ids = [];
    for (let i = 0; i < UNKNOWN_VALUES.length; i++) {
      ids.push((await store.accept(delivery(`d${i}`, "{}", i % 2 ? "key" + i : undefined))).id);
    }
    const keys = await keysOf(kv, "due");
    for (const [i, value] of UNKNOWN_VALUES.entries()) await setValue(kv, keys[i]!, value);
    assert(await store.oldestDueAt());
    const leases = await claimAll(store);
    assertEquals(idsOf(leases).toSorted(), ids.toSorted());
    for (const lease of leases) assert(await store.complete(lease));
    assertEquals([...await keysOf(kv, "due"), ...await keysOf(kv, "lane")], []);
    assertEquals(messages, []);
  }));

Deno.test("tidy() finds an event whose entry has an unknown shape", () =>
  withLoggedStore(async ({ kv, store }) => {
    const { now } = Date;
    try {
      Date.now = () => now() + 3_600_000;
      await store.accept(delivery("d1"));
    } finally {
      Date.now = now;
    }
    await setNewer(kv, (await keysOf(kv, "due"))[0]!);
    assertEquals(await repairTimes(store), 1);
    assertEquals((await claimAll(store)).length, 1);
  }));

Deno.test("entries whose ids make keys that cannot be read hold nobody up", () =>
  withLoggedStore(async ({ kv, store }) => {
    const refs = (id: string, n = 1) => Array.from({ length: n }, () => ({ id, receivedAt: 1 }));
    const shared = [refs("\u00e9".repeat(1_500)), refs("\0".repeat(1_500)), refs("a", 1_200)];
    for (const [i, events] of shared.entries()) {
      await setValue(kv, due(1_000, `g${i}`), { events, delayMs: 0 });
    }
    await setValue(kv, due(1_000, "x".repeat(2_020)), { receivedAt: 1, group: null });
    await store.accept(delivery("d1"));
    assertEquals(idsOf(await claimAll(store)), ["d1"]);
  }));
