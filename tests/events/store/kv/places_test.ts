/** Ordering groups with several places, of which something is lost in the KV. */
import { assert, assertEquals } from "@std/assert";
import type { CommitEffects, EventStore } from "../../../../events/mod.ts";
import type { KvCommit } from "../../../../events/store/kv/_kv_guard.ts";
import { claimAll, delivery, drain, idsOf, later } from "../_events.ts";
import { repairGroups } from "../_tidying.ts";
import { limitChecks } from "./_commits.ts";
import { assertNothingWaits, countReads, keysOf } from "./_keys.ts";
import { withLoggedStore } from "./_stores.ts";

const GROUP: Deno.KvKey = ["events", "lane", "key"];

const MENDED = "ordering group damaged, repaired";

/** Accepts events of one key: `d0`, `d1` and so on. */
async function accept(store: EventStore, count: number, places?: number): Promise<string[]> {
  const ids = Array.from({ length: count }, (_, i) => `d${i}`);
  for (const id of ids) await store.accept({ ...delivery(id, "{}", "key"), places });
  return ids;
}

Deno.test("a group whose record is lost goes on, one event at a time at first", () =>
  withLoggedStore(async ({ kv, store, messages }) => {
    const ids = await accept(store, 6, 3);
    const [first, ...running] = await claimAll(store);
    await kv.delete(GROUP);
    assert(await store.complete(first!));
    await store.accept({ ...delivery("late", "{}", "key"), places: 3 });
    assertEquals(await claimAll(store), []);
    const order: string[] = [];
    for (let lease; (lease = running.shift());) {
      assert(await store.complete(lease));
      const next = await claimAll(store);
      order.push(...idsOf(next));
      running.push(...next);
      assert(running.length <= 3);
    }
    assertEquals(order, [...ids.slice(3), "late"]);
    await assertNothingWaits(kv);
    assertEquals(new Set(messages), new Set([MENDED]));
  }));

Deno.test("an event that joins a group whose record is lost gives no place to all others", () =>
  withLoggedStore(async ({ kv, store }) => {
    const ids = await accept(store, 110, 3);
    const running = await claimAll(store);
    await kv.delete(GROUP);
    // Positions begin at the time again: by then it is behind those that were given.
    await later(ids.length);
    await store.accept({ ...delivery("late", "{}", "key"), places: 3 });
    assertEquals(await repairGroups(store), 1);
    running.push(...await claimAll(store));
    assertEquals(idsOf(running), ["d0", "d1", "d2", "late"]);
    for (const lease of running) assert(await store.complete(lease));
    assertEquals((await drain(store)).toSorted(), ids.slice(3).toSorted());
    await assertNothingWaits(kv);
  }));

for (const ownChecks of [0, 3]) {
  Deno.test(`places are filled over a KV that takes few checks, ${ownChecks} of effects`, () =>
    withLoggedStore(async ({ kv, store }) => {
      await accept(store, 2);
      const [first] = await claimAll(store);
      for (let i = 0; i < 20; i++) {
        await store.accept({ ...delivery(`e${i}`, "{}", "key"), places: 20 });
      }
      limitChecks(kv, 10);
      const own = Array.from({ length: ownChecks }, (_, i) => ["own", i]);
      const effects: CommitEffects<KvCommit> | undefined = ownChecks === 0
        ? undefined
        : (tx) => own.forEach((key) => tx.check({ key, versionstamp: null }));
      assert(await store.complete(first!, { effects }));
      assertEquals((await drain(store)).length, 21);
      await assertNothingWaits(kv);
    }));
}

for (const lost of [0, 1, 2, 3]) {
  Deno.test(`a group that has lost its position ${lost} goes on`, () =>
    withLoggedStore(async ({ kv, store }) => {
      const ids = await accept(store, 5, 3);
      await kv.delete((await keysOf(kv, "place"))[lost]!);
      const handled = await drain(store);
      await repairGroups(store);
      for await (const _ of store.check());
      handled.push(...await drain(store));
      assertEquals(handled.toSorted(), ids);
      await assertNothingWaits(kv);
    }));
}

Deno.test("tidy() puts each event back on the schedule that has a place", () =>
  withLoggedStore(async ({ kv, store, messages }) => {
    const ids = await accept(store, 5, 3);
    for (const key of await keysOf(kv, "due")) {
      if (key.at(-1) !== "d0") await kv.delete(key);
    }
    assertEquals([await repairGroups(store), await repairGroups(store)], [1, 0]);
    assertEquals(idsOf(await claimAll(store)).toSorted(), ["d0", "d1", "d2"]);
    assertEquals(messages, [MENDED]);
    assertEquals(ids.length, 5);
  }));

Deno.test("the end of an event reads no more of a group with several places", () =>
  withLoggedStore(async ({ kv, store }) => {
    const reads = [];
    for (const places of [undefined, 3]) {
      await accept(store, 20, places);
      const [lease] = await claimAll(store);
      const counts = countReads(kv);
      assert(await store.complete(lease!));
      reads.push({ ...counts });
      await store.cancelAll({});
      await store.purge({});
      for (const name of ["get", "getMany", "list"]) Reflect.deleteProperty(kv, name);
      await claimAll(store);
    }
    assert(reads[1]!.records <= reads[0]!.records, JSON.stringify(reads));
    assert(reads[1]!.list + reads[1]!.get <= reads[0]!.list + reads[0]!.get, JSON.stringify(reads));
  }));
