import { assertEquals, assertRejects } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { type EventStore, type ListOptions, openEventStore } from "../../../events/mod.ts";
import { withFolder } from "../../_folder.ts";
import { testWith } from "../../_permissions.ts";
import { openSqlite } from "../../_sqlite.ts";
import { buryAll, claimAll, delivery, idsOf, keysOf, listed, makeDue } from "./_events.ts";

interface Sut {
  readonly kv: Deno.Kv;
  readonly store: EventStore;
  /** Writes bytes in the place of an event's record, or another entry, that V8 has not written. */
  readonly damage: (id: string, kind?: string) => void;
  /** Writes back what was there before. */
  readonly restore: (id: string, kind?: string) => void;
}

/** Handles all that is due, one after the other, and returns the ids in that order. */
async function drain(store: EventStore): Promise<string[]> {
  const handled = [];
  for (let leases = await claimAll(store); leases.length > 0; leases = await claimAll(store)) {
    handled.push(...idsOf(leases));
    for (const lease of leases) await store.complete(lease);
  }
  return handled;
}

function testFile(name: string, fn: (sut: Sut) => Promise<void>): void {
  testWith(["read", "write"], name, () =>
    withFolder(async (folder) => {
      using kv = await Deno.openKv(`${folder}/kv.db`);
      const store = await openEventStore(kv, { log: () => {} });
      using file = openSqlite(`${folder}/kv.db`);
      const isRecord = "hex(k) like '%' || hex(?) || '00%' || hex(?) || '00'";
      const update = file.database.prepare(
        `update kv set v = x'ff63', v_encoding = 1 where ${isRecord}`,
      );
      const select = file.database.prepare(`select v from kv where ${isRecord}`);
      const back = file.database.prepare(`update kv set v = ?, v_encoding = 3 where ${isRecord}`);
      const before = new Map<string, Uint8Array>();
      const damage = (id: string, kind = "event") => {
        before.set(`${kind}/${id}`, select.get(kind, id)!.v as Uint8Array);
        update.run(kind, id);
      };
      const restore = (id: string, kind = "event") => {
        back.run(before.get(`${kind}/${id}`)!, kind, id);
      };
      await fn({ kv, store, damage, restore });
    }));
}

async function idsIn(store: EventStore, options?: ListOptions): Promise<string[]> {
  return await Array.fromAsync(store.list(options), ({ id }) => id);
}

testFile("list() shows records that cannot be decoded, in order", async ({ store, damage }) => {
  using time = new FakeTime();
  for (const id of ["d3", "d2", "d5", "d1", "d4"]) {
    await buryAll(store, [id]);
    time.tick(1);
  }
  for (const id of ["d2", "d4"]) damage(id);
  assertEquals(await idsIn(store), ["d3", "d2", "d5", "d1", "d4"]);
  assertEquals(await idsIn(store, { order: "newest" }), ["d4", "d1", "d5", "d2", "d3"]);
  const behind = { order: "newest", cursor: `${Date.now() - 2}:d1` } as const;
  assertEquals(await idsIn(store, { ...behind, limit: 2 }), ["d5", "d2"]);
  assertEquals(await idsIn(store, { state: "dead", order: "newest" }), ["d1", "d5", "d3"]);
  assertEquals(await listed(store, { state: "unreadable" }), ["d2", "d4"]);
  assertEquals(await listed(store, { ids: ["d1", "d2", "d3"] }), ["d1", "d2", "d3"]);
  const { dead, unreadable } = await store.stats();
  assertEquals([dead, unreadable], [3, 2]);
});

testFile("list() shows each event once, however many are read before", async (sut) => {
  using _time = new FakeTime();
  const ids = Array.from({ length: 700 }, (_, i) => `d${1_000 + i}`);
  await Promise.all(ids.map((id) => sut.store.accept(delivery(id))));
  sut.damage("d1650");
  assertEquals(await idsIn(sut.store), ids);
  assertEquals(await idsIn(sut.store, { order: "newest" }), ids.toReversed());
});

testFile(
  "list() shows the newest dead events around a damaged index",
  async ({ store, damage }) => {
    using time = new FakeTime();
    for (const id of ["d1", "d2", "d3", "d4"]) {
      await buryAll(store, [id]);
      time.tick(1);
    }
    for (const id of ["d2", "d4"]) damage(id, "dead");
    await store.accept(delivery("queued"));
    const dead = { state: "dead" } as const;
    assertEquals(await idsIn(store, { ...dead, order: "newest" }), ["d4", "d3", "d2", "d1"]);
    assertEquals(await idsIn(store, dead), ["d1", "d2", "d3", "d4"]);
  },
);

testFile("a record that cannot be decoded holds its group, and no other", async (sut) => {
  const { kv, damage, restore } = sut;
  const store = await openEventStore(kv, { log: () => {} });
  for (const id of ["d1", "d2", "d3"]) await store.accept(delivery(id, "{}", "key"));
  for (const id of ["o1", "o2"]) await store.accept(delivery(id, "{}", "other"));
  damage("d2");
  assertEquals((await drain(store)).toSorted(), ["d1", "o1", "o2"]);
  await assertRejects(() => store.accept(delivery("d2")), Error, "unreadable");
  restore("d2");
  await makeDue(kv, "d2");
  assertEquals(await drain(store), ["d2", "d3"]);
});

testFile("claim() leaves alone what cannot be decoded", async ({ kv, damage }) => {
  const messages: string[] = [];
  const store = await openEventStore(kv, { log: ({ message }) => messages.push(message) });
  for (const id of ["d1", "d2", "d3"]) await store.accept(delivery(id));
  damage("d2");
  assertEquals(idsOf(await claimAll(store)), ["d1", "d3"]);
  assertEquals(messages, ["event record unreadable, left unhandled"]);
});

testFile("purge() deletes a record that cannot be decoded", async ({ kv, store, damage }) => {
  await buryAll(store, ["d1", "d2", "d3"]);
  damage("d2");
  assertEquals((await store.purge({ ids: ["d2"] })).changed, 0);
  assertEquals(await store.purge({ state: "unreadable" }), { changed: 1, left: [] });
  assertEquals(await listed(store), ["d1", "d3"]);
  assertEquals((await keysOf(kv, "id")).length, 2);
});

testFile("a record that cannot be decoded does not keep others", async ({ store, damage }) => {
  await buryAll(store, ["d1", "d2", "d3"]);
  damage("d2");
  assertEquals((await store.replayAll({})).changed, 2);
  assertEquals((await store.cancelAll({})).changed, 2);
  assertEquals((await store.purge({})).changed, 2);
  assertEquals(await listed(store), ["d2"]);
});

testFile("what cannot be decoded is claimed around, among however many", async (sut) => {
  const { kv, damage } = sut;
  const store = await openEventStore(kv, { log: () => {} });
  const ids = Array.from({ length: 40 }, (_, i) => `d${100 + i}`);
  await Promise.all(ids.map((id) => store.accept(delivery(id, JSON.stringify({ id })))));
  damage("d120");
  const leases = await claimAll(store);
  const claimed = leases.map(({ record, body }) => [record.id, new TextDecoder().decode(body)]);
  const others = ids.filter((id) => id !== "d120");
  assertEquals(claimed.toSorted(), others.map((id) => [id, JSON.stringify({ id })]));
  assertEquals(await claimAll(store), []);
});
