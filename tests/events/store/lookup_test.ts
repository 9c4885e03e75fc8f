import { assert, assertEquals } from "@std/assert";
import { openEventStore } from "../../../events/mod.ts";
import { withFolder } from "../../_folder.ts";
import { testWith } from "../../_permissions.ts";
import { openSqlite } from "../../_sqlite.ts";
import { claimAll, claimOne, delivery, idsOf, keysOf } from "./_events.ts";
import { memoryStore } from "./_stores.ts";

/** Values that no version has written as an event's id. */
const UNKNOWN = [null, undefined, "x", {}, [], 5n, true, new Date(0), { receivedAt: 5 }, NaN, -1];

Deno.test("a delivery is accepted whose id has an entry of an unknown shape", async () => {
  await using sut = await memoryStore();
  const { kv, store } = sut;
  for (const value of UNKNOWN) {
    const { id } = await store.accept(delivery("d1"));
    const [key] = await keysOf(kv, "id");
    await kv.set(key!, value);
    assertEquals(await store.get(id), null);
    assertEquals([await store.cancel(id), await store.replay(id)], [false, false]);
    assertEquals(await store.purge({ ids: [id] }), { changed: 0, left: [id] });
    assertEquals(await Array.fromAsync(store.list({ ids: [id] })), []);
    const again = await store.accept({ ...delivery("d1"), payload: {} });
    assertEquals(again, { id, duplicate: false }, Deno.inspect(value));
    assertEquals((await store.get(id))?.state, "queued");
    assertEquals(await store.accept(delivery("d1")), { id, duplicate: true });
    for (const lease of await claimAll(store)) await store.complete(lease);
    await store.purge({});
    await kv.delete(key!);
  }
});

Deno.test("an event whose id's entry has an unknown shape is handled, and purged", async () => {
  await using sut = await memoryStore();
  const { kv, store } = sut;
  await store.accept(delivery("d1"));
  await kv.set((await keysOf(kv, "id"))[0]!, "x");
  assert(await store.bury(await claimOne(store), "no"));
  // That it has died is written with its id.
  assertEquals((await store.replayAll({})).changed, 1);
  await kv.set((await keysOf(kv, "id"))[0]!, "x");
  assertEquals((await store.cancelAll({})).changed, 1);
  assertEquals((await store.purge({})).changed, 1);
  assertEquals([await keysOf(kv, "event"), await keysOf(kv, "id")], [[], []]);
});

testWith(
  ["read", "write"],
  "a delivery is accepted whose id cannot be decoded",
  () =>
    withFolder(async (folder) => {
      using kv = await Deno.openKv(`${folder}/kv.db`);
      const store = await openEventStore(kv, { notifier: "watch", log: () => {} });
      using file = openSqlite(`${folder}/kv.db`);
      const damage = (kind: string, name: string) => {
        const isEntry = "hex(k) like '%' || hex(?) || '00%' || hex(?) || '00'";
        const update = file.database.prepare(`update kv set v = x'ff63' where ${isEntry}`);
        assertEquals(Number(update.run(kind, name).changes), 1);
      };
      const { id } = await store.accept(delivery("d1"));
      const [lease] = await claimAll(store);
      damage("id", "d1");
      assertEquals(await store.get(id), null);
      assertEquals([await store.cancel(id), await store.replay(id)], [false, false]);
      assert(await store.complete(lease!));
      // That it is done is written with its id.
      assertEquals(await store.accept(delivery("d1")), { id, duplicate: true });
      damage("id", "d1");
      assertEquals(await store.accept(delivery("d1")), { id, duplicate: false });
      assertEquals(idsOf(await claimAll(store)), [id]);
      // A record that cannot be decoded either has events read by their ids.
      for (const each of ["d2", "d3", "d4"]) await store.accept(delivery(each));
      damage("id", "d3");
      damage("event", "d3");
      const listed = await Array.fromAsync(store.list({ state: "queued" }), (event) => event.id);
      assertEquals(listed.map((each) => each.split(":").at(-1)), ["d2", "d4"]);
    }),
);
