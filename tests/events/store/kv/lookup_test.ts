import { assert, assertEquals, assertRejects } from "@std/assert";
import type { EventStore } from "../../../../events/mod.ts";
import { UndecodableError } from "../../../../events/store/kv/_layout.ts";
import { claimAll, claimOne, delivery } from "../_events.ts";
import { keysOf } from "./_keys.ts";
import { memoryStore } from "./_stores.ts";
import { damage, setNewer, setValue } from "./_values.ts";

/** Checks that nothing is done for an id whose entry cannot be read, and that this is left as it is. */
async function assertStops(kv: Deno.Kv, store: EventStore, id: string): Promise<void> {
  const [key] = await keysOf(kv, "id");
  const before = await kv.get(key!);
  const operations = [
    () => store.get(id),
    () => store.cancel(id),
    () => store.replay(id),
    () => store.accept(delivery("d1")),
  ];
  for (const operation of operations) {
    await assertRejects(operation, UndecodableError, `Cannot read the entry of the id ${id}: `);
  }
  assertEquals(await kv.get(key!), before);
}

/** Values that no version has written as the entry of an id. */
const UNKNOWN = [null, "x", {}, [], true, { receivedAt: 5 }];

Deno.test("what needs the entry of an id rejects while that cannot be read", async () => {
  await using sut = await memoryStore();
  const { kv, store } = sut;
  const { id } = await store.accept(delivery("d1"));
  const [key] = await keysOf(kv, "id");
  const { value } = await kv.get(key!);
  const bytes = [setNewer, damage, ...UNKNOWN.map((each) => () => setValue(kv, key!, each))];
  for (const spoil of bytes) {
    await kv.set(key!, value);
    await spoil(kv, key!);
    await assertStops(kv, store, id);
  }
  assertEquals((await store.accept(delivery("d2"))).duplicate, false);
  await kv.set(key!, value);
  assertEquals(await store.accept(delivery("d1")), { id, duplicate: true });
  assertEquals((await claimAll(store)).length, 2);
});

Deno.test("an event whose id's entry cannot be read is handled, and purged", async () => {
  await using sut = await memoryStore();
  const { kv, store } = sut;
  await store.accept(delivery("d1"));
  await setNewer(kv, (await keysOf(kv, "id"))[0]!);
  assert(await store.complete(await claimOne(store)));
  assertEquals((await store.purge({})).changed, 1);
  assertEquals(await keysOf(kv, "event"), []);
});

Deno.test("a lease is recovered although the entry of its id is gone, or another event's", async () => {
  await using sut = await memoryStore();
  await sut.store.accept(delivery("d1"));
  const lease = await claimOne(sut.store);
  const [key] = await keysOf(sut.kv, "id");
  await sut.kv.delete(key!);
  assertEquals((await sut.store.recover(lease))?.version, lease.version);
  await setValue(sut.kv, key!, 5);
  assertEquals((await sut.store.recover(lease))?.version, lease.version);
});
