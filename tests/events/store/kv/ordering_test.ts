import { assert, assertEquals, assertLess } from "@std/assert";
import { changedKv } from "../../../../dev/harness/faulty_kv.ts";
import { type EventStore, openEventStore } from "../../../../events/mod.ts";
import { claimOne, delivery, drain, later } from "../_events.ts";
import { testStoreInOneProcess } from "./_stores.ts";

async function acceptInOrder(store: EventStore, orderingKey: string, ...ids: string[]) {
  for (const id of ids) await store.accept(delivery(id, "{}", orderingKey));
}

testStoreInOneProcess(
  "complete() does not wait for those that join its key meanwhile",
  async ({ store }) => {
    await acceptInOrder(store, "repo", "d1");
    const lease = await claimOne(store);
    let joined = 0;
    // Two of them fit a commit.
    const text = JSON.stringify({ text: "a".repeat(240_000) });
    const joins = Array.from({ length: 40 }, async (_, i) => {
      await store.accept(delivery(`j${i}`, text, "repo"));
      joined++;
    });
    assert(await store.complete(lease));
    assertLess(joined, 20);
    await Promise.all(joins);
    assertEquals((await drain(store)).length, 40);
  },
);

/** A KV whose every answer to a reading takes a while, as a remote one's does. */
function farAway(kv: Deno.Kv): Deno.Kv {
  const far = (name: "get" | "getMany") => async (...args: never[]) => {
    await later(5);
    return await (kv[name] as (...args: never[]) => unknown)(...args);
  };
  return changedKv(kv, { get: far("get"), getMany: far("getMany") });
}

Deno.test("complete() comes to it while other processes join its key all the time", async () => {
  using kv = await Deno.openKv(":memory:");
  const [near, far] = [await openEventStore(kv), await openEventStore(farAway(kv))];
  await near.accept(delivery("d1", "{}", "repo"));
  const lease = await claimOne(far);
  let [settled, joined] = [false, 0];
  const joining = (async () => {
    while (!settled) await near.accept(delivery(`j${joined++}`, "{}", "repo"));
  })();
  assert(await far.complete(lease).finally(() => settled = true));
  await joining;
  assertEquals((await drain(near)).length, joined);
});
