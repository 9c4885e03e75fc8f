import { assert, assertEquals } from "@std/assert";
import { type EventStore, openEventStore } from "../../../events/mod.ts";
import { withFolder } from "../../_folder.ts";
import { testKv } from "../../_kvs.ts";
import { testWith } from "../../_permissions.ts";
import { openSqlite } from "../../_sqlite.ts";
import { claimAll, claimOne, delivery, idsOf, keysOf, recordKey } from "./_events.ts";

const GROUP: Deno.KvKey = ["events", "lane", "key"];

const place = (seq: Deno.KvKeyPart): Deno.KvKey => ["events", "place", "key", seq];

const MENDED = "ordering group damaged, put right";

interface Sut {
  readonly kv: Deno.Kv;
  readonly store: EventStore;
  readonly messages: string[];
}

async function sutOn(kv: Deno.Kv): Promise<Sut> {
  const messages: string[] = [];
  const log = ({ message }: { message: string }) => void messages.push(message);
  return { kv, store: await openEventStore(kv, { notifier: "watch", log }), messages };
}

async function withStore(fn: (sut: Sut) => Promise<void>): Promise<void> {
  using kv = await Deno.openKv(":memory:");
  await fn(await sutOn(kv));
}

/** Takes in events of one key, one after the other. */
async function accept(store: EventStore, ...names: string[]): Promise<string[]> {
  const ids = [];
  for (const name of names) ids.push((await store.accept(delivery(name, "{}", "key"))).id);
  return ids;
}

/** Claims and completes one event at a time until nothing is due, and tells the ids. */
async function drain(store: EventStore): Promise<string[]> {
  const order: string[] = [];
  for (;;) {
    const leases = await claimAll(store);
    if (leases.length === 0) return order;
    assertEquals(leases.length, 1);
    order.push(...idsOf(leases));
    for (const lease of leases) assert(await store.complete(lease));
  }
}

async function assertEmpty(kv: Deno.Kv): Promise<void> {
  const left = ["due", "lane", "place"].map((each) => keysOf(kv, each));
  assertEquals((await Promise.all(left)).flat(), []);
}

/** Values that no version has written for a group with two events. */
const DAMAGED: readonly unknown[] = [
  ...[null, undefined, 5, "x", {}, [], { next: 2 }, { size: 2 }, { next: -1, size: 2 }],
  ...[{ next: 2, size: -1 }, { next: 2, size: NaN }, { next: 2, size: 1e15 }, {
    next: 2,
    size: 0.5,
  }],
  ...[{ next: NaN, size: 2 }, { next: 2n, size: 2n }, { next: 2, size: 2, heldUntil: "x" }],
];

testKv("an event joins a group that is damaged, which is put right", async (kv) => {
  const { store, messages } = await sutOn(kv);
  for (const [i, value] of DAMAGED.entries()) {
    const ids = await accept(store, `a${i}`, `b${i}`);
    await kv.set(GROUP, value);
    ids.push(...await accept(store, `c${i}`));
    assertEquals(await drain(store), ids, Deno.inspect(value));
    await assertEmpty(kv);
    assertEquals(messages.splice(0), [MENDED]);
  }
});

Deno.test("an event leaves a group that is damaged, and the next one goes on", () =>
  withStore(async ({ kv, store, messages }) => {
    for (const [i, value] of DAMAGED.entries()) {
      const ids = await accept(store, `a${i}`, `b${i}`, `c${i}`);
      await kv.set(GROUP, value);
      assertEquals(await drain(store), ids, Deno.inspect(value));
      await assertEmpty(kv);
      assertEquals(messages.splice(0), [MENDED]);
    }
  }));

Deno.test("an event leaves a group whose record is gone, and the next one goes on", () =>
  withStore(async ({ kv, store, messages }) => {
    const ids = await accept(store, "a", "b", "c");
    const first = await claimOne(store);
    await kv.delete(GROUP);
    assert(await store.complete(first));
    ids.push(...await accept(store, "d"));
    assertEquals(await drain(store), ids.slice(1));
    await assertEmpty(kv);
    assertEquals(messages, [MENDED]);
  }));

Deno.test("an event that has lost its place lets the next one go on", () =>
  withStore(async ({ kv, store, messages }) => {
    const ids = await accept(store, "a", "b", "c");
    await kv.delete(place(0));
    assertEquals(await drain(store), ids);
    await assertEmpty(kv);
    assertEquals(messages, [MENDED]);
  }));

Deno.test("places of an unknown shape, or without their event, are passed over", () =>
  withStore(async ({ kv, store, messages }) => {
    const values = [null, 5, {}, { id: 5, receivedAt: 1 }, { id: "x", receivedAt: "y" }, undefined];
    const names = values.map((_, i) => `d${i}`);
    const [first] = await accept(store, "first", ...names);
    for (const [i, value] of values.entries()) await kv.set(place(i + 1), value);
    await kv.set(place("x"), null);
    const ids = await accept(store, "gone", "settled", "last");
    await kv.delete(await recordKey(kv, ids[0]!));
    const settled = await recordKey(kv, ids[1]!);
    const { value } = await kv.get<object>(settled);
    await kv.set(settled, { ...value, state: "done", settledAt: Date.now(), group: null });
    assertEquals(await drain(store), [first!, ids[2]!]);
    assertEquals(await keysOf(kv, "place"), [place("x")]);
    await kv.delete(place("x"));
    await assertEmpty(kv);
    assertEquals(new Set(messages), new Set([MENDED]));
  }));

/** Counts what is read of a KV. */
function countReads(kv: Deno.Kv): Record<"get" | "getMany" | "list", number> {
  const counts = { get: 0, getMany: 0, list: 0 };
  for (const name of ["get", "getMany", "list"] as const) {
    const read = kv[name].bind(kv) as (...args: unknown[]) => unknown;
    Object.assign(kv, { [name]: (...args: unknown[]) => (counts[name]++, read(...args)) });
  }
  return counts;
}

Deno.test("joining and leaving a group that is as it should be takes few reads", () =>
  withStore(async ({ kv, store }) => {
    await accept(store, "a", "b");
    const first = await claimOne(store);
    const joining = countReads(kv);
    await accept(store, "c");
    assertEquals(joining, { get: 1, getMany: 0, list: 0 });
    const leaving = countReads(kv);
    assert(await store.complete(first));
    assertEquals(leaving, { get: 1, getMany: 1, list: 1 });
  }));

/** Damage after which the events of a key never start, while new ones join behind them. */
const STUCK: Readonly<Record<string, (kv: Deno.Kv, ids: readonly string[]) => Promise<unknown>>> = {
  "has more events in its record than places": async (kv) => {
    for (const { key } of await Array.fromAsync(kv.list({ prefix: ["events", "due"] }))) {
      await kv.delete(key);
    }
    for (const seq of [0, 1]) await kv.delete(place(seq));
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
  Deno.test(`repairSchedule() puts a group right that ${name}`, () =>
    withStore(async ({ kv, store, messages }) => {
      const ids = await accept(store, "a", "b");
      await damage(kv, ids);
      if (name !== "has no record") ids.push(...await accept(store, "c"));
      assertEquals(await claimAll(store), []);
      assertEquals(await store.repairGroups(), 1);
      assertEquals(messages, [MENDED]);
      const lost = {
        "has more events in its record than places": 2,
        "has a first place without its event": 1,
      };
      assertEquals(await drain(store), ids.slice(lost[name as keyof typeof lost] ?? 0));
      await assertEmpty(kv);
      assertEquals(await store.repairGroups(), 0);
    }));
}

Deno.test("repairSchedule() leaves groups alone that are as they should be", () =>
  withStore(async ({ kv, store, messages }) => {
    await accept(store, "a", "b", "c");
    const all = async () => await Array.fromAsync(kv.list({ prefix: ["events"] }));
    const isUntouched = async () => {
      const before = await all();
      assertEquals(await store.repairGroups(), 0);
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
    const { value } = await kv.get<object>(key);
    await kv.set(key, { ...value, v: 99 });
    await isUntouched();
    assertEquals(messages, []);
  }));

Deno.test("repairSchedule() starts no second event of a key while the first one runs", () =>
  withStore(async ({ kv, store }) => {
    const ids = await accept(store, "a", "b");
    const first = await claimOne(store);
    await kv.set(GROUP, "damaged");
    await store.repairGroups();
    assertEquals(await claimAll(store), []);
    assert(await store.complete(first));
    assertEquals(await drain(store), ids.slice(1));
  }));

/** Writes bytes that V8 has not written in the place of what is stored of the key. */
function damageBytes(path: string, kind: "lane" | "place"): number {
  using file = openSqlite(path);
  const isOfKey = "hex(k) like '%' || hex(?) || '00%' || hex('key') || '00%'";
  const update = file.database.prepare(`update kv set v = x'ff63' where ${isOfKey}`);
  return Number(update.run(kind).changes);
}

function testFile(name: string, fn: (sut: Sut, path: string) => Promise<void>): void {
  testWith(["read", "write"], name, () =>
    withFolder(async (folder) => {
      using kv = await Deno.openKv(`${folder}/kv.db`);
      await fn(await sutOn(kv), `${folder}/kv.db`);
    }));
}

testFile("a group whose record cannot be decoded is put right", async (sut, path) => {
  const { kv, store, messages } = sut;
  const ids = await accept(store, "a", "b", "c");
  assertEquals(damageBytes(path, "lane"), 1);
  ids.push(...await accept(store, "d"));
  assertEquals(messages, [MENDED]);
  assertEquals(await drain(store), ids);
  await assertEmpty(kv);
});

testFile("places that cannot be decoded hold up no event behind them", async (sut, path) => {
  const { kv, store, messages } = sut;
  const ids = await accept(store, "a", "b", "c");
  assertEquals(damageBytes(path, "place"), 3);
  ids.push(...await accept(store, "d"));
  // The first one is on the schedule all the same; of the others none is known.
  assertEquals(await drain(store), [ids[0], ids[3]]);
  await assertEmpty(kv);
  for (const id of ids.slice(1, 3)) assert(await store.cancel(id) && await store.replay(id));
  assertEquals(await drain(store), ids.slice(1, 3));
  assertEquals(new Set(messages), new Set([MENDED]));
});
