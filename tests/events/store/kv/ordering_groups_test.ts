import { assert, assertEquals, assertRejects } from "@std/assert";
import type { EventStore, Lease } from "../../../../events/mod.ts";
import { UndecodableError } from "../../../../events/store/kv/_layout.ts";
import { testKv } from "../../../_kvs.ts";
import { claimAll, claimOne, delivery, drain, idsOf } from "../_events.ts";
import { repairGroups } from "../_tidying.ts";
import { assertNothingWaits, countReads, keysOf, recordKey } from "./_keys.ts";
import { loggedStore, withLoggedStore } from "./_stores.ts";
import { changeValue, damage, setNewer, setValue } from "./_values.ts";

const GROUP: Deno.KvKey = ["events", "lane", "key"];

const place = (seq: Deno.KvKeyPart): Deno.KvKey => ["events", "place", "key", seq];

/** Finds the place of an event of the group, counted from 0. */
async function placeAt(kv: Deno.Kv, index: number): Promise<Deno.KvKey> {
  return (await keysOf(kv, "place", "key"))[index]!;
}

const MENDED = "ordering group damaged, repaired";
const HELD = "ordering group held: a position cannot be read";

/** Takes in events of one key, one after the other. */
async function accept(store: EventStore, ...names: string[]): Promise<string[]> {
  return await acceptWith(store, "key", ...names);
}

async function acceptWith(store: EventStore, key: string, ...names: string[]): Promise<string[]> {
  const ids = [];
  for (const name of names) ids.push((await store.accept(delivery(name, "{}", key))).id);
  return ids;
}

const byId = (a: Lease, b: Lease) => a.record.id < b.record.id ? -1 : 1;

/** Values that no version has written for a group with two events. */
const UNKNOWN: readonly unknown[] = [
  ...[null, 5, "x", {}, [], { next: 2 }, { size: 2 }, { next: -1, size: 2 }],
  ...[{ next: 2, size: -1 }, { next: 2, size: null }, { next: 2, size: 1e15 }],
  ...[{ next: 2, size: 0.5 }, { next: "2", size: "2" }, { next: 2, size: 2, heldUntil: "x" }],
  ...[{ next: 2, size: 2, places: 3 }, { next: 2, size: 2, places: { count: 3, taken: 1 } }],
];

testKv("a group whose record cannot be read is joined and left once it can", async (kv) => {
  const { store } = await loggedStore(kv);
  const ids = await accept(store, "a", "b");
  const [other] = await acceptWith(store, "other", "o");
  const { value } = await kv.get(GROUP);
  const bytes = [setNewer, damage, ...UNKNOWN.map((each) => () => setValue(kv, GROUP, each))];
  const [first, ...others] = (await claimAll(store)).toSorted(byId);
  assertEquals([first!.record.id, ...idsOf(others)], [ids[0], other]);
  for (const spoil of bytes) {
    await kv.set(GROUP, value);
    await spoil(kv, GROUP);
    const before = await kv.get(GROUP);
    await assertRejects(() => accept(store, "c"), UndecodableError, "Cannot read an ordering grou");
    await assertRejects(() => store.complete(first!), UndecodableError, "Cannot read an ordering");
    assertEquals([await repairGroups(store), await kv.get(GROUP)], [0, before]);
  }
  assert(await store.complete(others[0]!));
  await kv.set(GROUP, value);
  ids.push(...await accept(store, "c"));
  assert(await store.complete(first!));
  assertEquals(await drain(store), ids.slice(1));
  await assertNothingWaits(kv);
});

Deno.test("an event leaves a group whose record is gone, and the next one goes on", () =>
  withLoggedStore(async ({ kv, store, messages }) => {
    const ids = await accept(store, "a", "b", "c");
    const first = await claimOne(store);
    await kv.delete(GROUP);
    assert(await store.complete(first));
    ids.push(...await accept(store, "d"));
    assertEquals(await drain(store), ids.slice(1));
    await assertNothingWaits(kv);
    assertEquals(messages, [MENDED]);
  }));

Deno.test("an event that has lost its place lets the next one go on", () =>
  withLoggedStore(async ({ kv, store, messages }) => {
    const ids = await accept(store, "a", "b", "c");
    await kv.delete(await placeAt(kv, 0));
    assertEquals(await drain(store), ids);
    await assertNothingWaits(kv);
    assertEquals(messages, [MENDED]);
  }));

Deno.test("a place that cannot be read holds its group, and no other", () =>
  withLoggedStore(async ({ kv, store, messages }) => {
    const ids = await accept(store, "a", "b", "c");
    const second = await placeAt(kv, 1);
    const { value } = await kv.get(second);
    const unknown = [null, 5, {}, { id: 5, receivedAt: 1 }, { id: "x", receivedAt: "y" }];
    const bytes = [setNewer, damage, ...unknown.map((each) => () => setValue(kv, second, each))];
    const first = await claimOne(store);
    for (const [i, spoil] of bytes.entries()) {
      await kv.set(second, value);
      await spoil(kv, second);
      const before = await kv.get(second);
      if (i === 0) assert(await store.complete(first));
      assertEquals(await repairGroups(store), 0);
      assertEquals(await claimAll(store), []);
      assertEquals(await kv.get(second), before);
    }
    const [other] = await acceptWith(store, "other", "o");
    assertEquals(await drain(store), [other!]);
    ids.push(...await accept(store, "d"));
    await kv.set(second, value);
    assertEquals(await repairGroups(store), 1);
    assertEquals(await drain(store), ids.slice(1));
    await assertNothingWaits(kv);
    assertEquals(new Set(messages), new Set([HELD, MENDED]));
  }));

Deno.test("an event whose own place cannot be read leaves its group once it can", () =>
  withLoggedStore(async ({ kv, store }) => {
    const ids = await accept(store, "a", "b");
    const first = await claimOne(store);
    const restore = await setNewer(kv, await placeAt(kv, 0));
    await assertRejects(() => store.complete(first), UndecodableError, "Cannot read a position");
    await restore();
    assert(await store.complete(first));
    assertEquals(await drain(store), ids.slice(1));
    await assertNothingWaits(kv);
  }));

Deno.test("places without their event are passed over", () =>
  withLoggedStore(async ({ kv, store, messages }) => {
    const [first] = await accept(store, "first");
    await setValue(kv, place("x"), null);
    const ids = await accept(store, "gone", "settled", "last");
    await kv.delete(await recordKey(kv, ids[0]!));
    const settled = await recordKey(kv, ids[1]!);
    await changeValue(kv, settled, { state: "done", settledAt: Date.now(), group: null });
    assertEquals(await drain(store), [first!, ids[2]!]);
    assertEquals(await keysOf(kv, "place"), [place("x")]);
    await kv.delete(place("x"));
    await assertNothingWaits(kv);
    assertEquals(messages, []);
  }));

Deno.test("joining and leaving a group that is as it should be takes few reads", () =>
  withLoggedStore(async ({ kv, store }) => {
    await accept(store, "a", "b");
    const first = await claimOne(store);
    const joining = countReads(kv);
    await accept(store, "c");
    assertEquals([joining.get, joining.getMany, joining.list], [1, 0, 0]);
    const leaving = countReads(kv);
    assert(await store.complete(first));
    assertEquals([leaving.get, leaving.getMany, leaving.list], [1, 1, 1]);
  }));

/** Damage after which the events of a key never start, while new ones join behind them. */
const STUCK: Readonly<Record<string, (kv: Deno.Kv, ids: readonly string[]) => Promise<unknown>>> = {
  "has more events in its record than places": async (kv) => {
    for (const { key } of await Array.fromAsync(kv.list({ prefix: ["events", "due"] }))) {
      await kv.delete(key);
    }
    for (const key of (await keysOf(kv, "place")).slice(0, 2)) await kv.delete(key);
  },
  "has a first place without its event": async (kv, [first]) => {
    await kv.delete((await keysOf(kv, "due"))[0]!);
    await kv.delete(await recordKey(kv, first!));
  },
  "has a first event that is not on the schedule": async (kv) => {
    await kv.delete((await keysOf(kv, "due"))[0]!);
  },
  "has no record": async (kv) => {
    await kv.delete((await keysOf(kv, "due"))[0]!);
    await kv.delete(GROUP);
  },
};

for (const [name, damage] of Object.entries(STUCK)) {
  Deno.test(`tidy() puts a group right that ${name}`, () =>
    withLoggedStore(async ({ kv, store, messages }) => {
      const ids = await accept(store, "a", "b");
      await damage(kv, ids);
      if (name !== "has no record") ids.push(...await accept(store, "c"));
      assertEquals(await claimAll(store), []);
      assertEquals(await repairGroups(store), 1);
      assertEquals(messages, [MENDED]);
      const lost = {
        "has more events in its record than places": 2,
        "has a first place without its event": 1,
      };
      assertEquals(await drain(store), ids.slice(lost[name as keyof typeof lost] ?? 0));
      await assertNothingWaits(kv);
      assertEquals(await repairGroups(store), 0);
    }));
}

Deno.test("tidy() leaves groups alone that are as they should be", () =>
  withLoggedStore(async ({ kv, store, messages }) => {
    await accept(store, "a", "b", "c");
    const all = () =>
      Array.fromAsync(
        kv.list({ prefix: ["events"] }),
        ({ key, versionstamp }) => ({ key, versionstamp }),
      );
    const isUntouched = async () => {
      const before = await all();
      assertEquals(await repairGroups(store), 0);
      assertEquals(await all(), before);
    };
    await isUntouched();
    const first = await claimOne(store);
    await isUntouched();
    assert(await store.retry(first, 60_000, "no"));
    await isUntouched();
    assert(await store.cancel(first.record.id));
    await isUntouched();
    const second = await claimOne(store, 60_000);
    assert(await store.cancel(second.record.id));
    await isUntouched();
    assert(await store.complete((await store.recover(second))!));
    await isUntouched();
    const key = await recordKey(kv, (await keysOf(kv, "due"))[0]!.at(-1) as string);
    await setNewer(kv, key);
    await isUntouched();
    assertEquals(messages, []);
  }));

Deno.test("tidy() starts no second event of a key while the first one runs", () =>
  withLoggedStore(async ({ kv, store }) => {
    const ids = await accept(store, "a", "b");
    const first = await claimOne(store);
    await kv.delete(GROUP);
    await repairGroups(store);
    assertEquals(await claimAll(store), []);
    assert(await store.complete(first));
    assertEquals(await drain(store), ids.slice(1));
  }));
