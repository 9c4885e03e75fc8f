import { assert, assertEquals } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { type EventStore, openEventStore } from "../../../events/mod.ts";
import { withFolder } from "../../_folder.ts";
import { testKv } from "../../_kvs.ts";
import { testWith } from "../../_permissions.ts";
import { openSqlite } from "../../_sqlite.ts";
import { claimAll, delivery, idsOf, keysOf } from "./_events.ts";
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
  ...[[], [1], ["1", "id"], [new Uint8Array(1), "id"], [-Infinity, "id"], [NaN, "id"], [1n, "id"]],
  ...[[true, "id"], [1, 5], [1, "id", "more"], [Infinity, "id"], [8.64e15 + 2, "id"]],
];

const due = (...parts: Deno.KvKeyPart[]): Deno.KvKey => ["events", "due", ...parts];

async function dump(kv: Deno.Kv, ...prefix: Deno.KvKey): Promise<Deno.KvEntry<unknown>[]> {
  return await Array.fromAsync(kv.list({ prefix: ["events", ...prefix] }));
}

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

testKv(
  "entries of an unknown shape stop no claim, stay as they are, and are logged once",
  async (kv) => {
    const { store, messages } = await sutOn(kv);
    for (const [i, value] of UNKNOWN_VALUES.entries()) {
      await setValue(kv, due(1_000, `u${i}`), value);
    }
    const valid = { receivedAt: 1, group: null };
    for (const key of UNKNOWN_KEYS) await setValue(kv, due(...key), valid);
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
      assertEquals(await store.repairSchedule(), 0);
    }
    assertEquals(await dump(kv, "due"), before);
    assertEquals(new Set(messages), new Set(["schedule entry unreadable, passed over"]));
    assertEquals(messages.length, 2 * UNKNOWN_VALUES.length + UNKNOWN_KEYS.length);
  },
);

Deno.test("an event whose entry has an unknown shape is found by its record", () =>
  withStore(async ({ kv, store, messages }) => {
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

Deno.test("repairSchedule() finds an event whose entry has an unknown shape", () =>
  withStore(async ({ kv, store }) => {
    const { now } = Date;
    try {
      Date.now = () => now() + 3_600_000;
      await store.accept(delivery("d1"));
    } finally {
      Date.now = now;
    }
    await setNewer(kv, (await keysOf(kv, "due"))[0]!);
    assertEquals(await store.repairSchedule(), 1);
    assertEquals((await claimAll(store)).length, 1);
  }));

interface FileSut extends Sut {
  /** Writes bytes in the place of an entry of the schedule that V8 has not written. */
  readonly damage: (id: string) => void;
}

function testFile(name: string, fn: (sut: FileSut) => Promise<void>): void {
  testWith(["read", "write"], name, () =>
    withFolder(async (folder) => {
      using kv = await Deno.openKv(`${folder}/kv.db`);
      const sut = await sutOn(kv);
      using file = openSqlite(`${folder}/kv.db`);
      const isEntry = "hex(k) like '%' || hex('due') || '00%' || hex(?) || '00'";
      const update = file.database.prepare(
        `update kv set v = x'ff63', v_encoding = 1 where ${isEntry}`,
      );
      const damage = (id: string) => assertEquals(Number(update.run(id).changes), 1);
      await fn({ ...sut, damage });
    }));
}

testFile("entries that cannot be decoded stop no claim, and are logged once", async (sut) => {
  const { store, messages, damage } = sut;
  using time = new FakeTime();
  const ids = Array.from({ length: 300 }, (_, i) => `d${1_000 + i}`);
  for (const id of ids) {
    await store.accept(delivery(id));
    // Several in a millisecond, and none in most.
    time.tick(id.endsWith("9") ? 5_000 : id.endsWith("5") ? 1 : 0);
  }
  const damaged = ["d1000", "d1003", "d1125", "d1126", "d1250", "d1299"];
  for (const id of damaged) damage(id);
  assertEquals(await store.oldestDueAt(), Date.now() - 30 * 5_001);
  const claimed: string[] = [];
  for (let i = 0; i < 4; i++) {
    const leases = await claimAll(store);
    claimed.push(...leases.map(({ record }) => record.id));
    for (const lease of leases) assert(await store.complete(lease));
  }
  // What lies between two of the same millisecond cannot be told from them.
  const hidden = ["d1001", "d1002"];
  assertEquals(
    claimed.map((id) => id.split(":").at(-1)),
    ids.filter((id) => !damaged.includes(id) && !hidden.includes(id)),
  );
  assertEquals(messages, damaged.slice(0, 5).map(() => "schedule entry unreadable, passed over"));
  assertEquals(await store.oldestDueAt(), null);
  assertEquals(await store.repairSchedule(), 0);
});

testFile("an entry that cannot be decoded costs few reads once it is known", async (sut) => {
  const { kv, store, damage } = sut;
  using time = new FakeTime();
  for (const id of ["d1", "d2"]) await store.accept(delivery(id));
  damage("d1");
  time.tick(1_000_000);
  let lists = 0;
  const list = kv.list.bind(kv);
  kv.list = (...args: Parameters<typeof list>) => (lists++, list(...args)) as never;
  assertEquals((await claimAll(store)).length, 1);
  const first = lists;
  assertEquals(await claimAll(store), []);
  assert(lists - first < 6, `${lists - first} lists`);
});

testFile("an event whose entry cannot be decoded is cancelled and replayed", async (sut) => {
  const { store, damage } = sut;
  const { id } = await store.accept(delivery("d1"));
  damage("d1");
  assertEquals(await claimAll(store), []);
  assert(await store.cancel(id));
  assert(await store.replay(id));
  assertEquals(idsOf(await claimAll(store)), [id]);
});

Deno.test("entries whose ids make keys that cannot be read hold nobody up", () =>
  withStore(async ({ kv, store }) => {
    const refs = (id: string, n = 1) => Array.from({ length: n }, () => ({ id, receivedAt: 1 }));
    const shared = [refs("\u00e9".repeat(1_500)), refs("\0".repeat(1_500)), refs("a", 1_200)];
    for (const [i, events] of shared.entries()) {
      await setValue(kv, due(1_000, `g${i}`), { events, delayMs: 0 });
    }
    await setValue(kv, due(1_000, "x".repeat(2_020)), { receivedAt: 1, group: null });
    await store.accept(delivery("d1"));
    assertEquals(idsOf(await claimAll(store)), ["d1"]);
  }));
