import { assertEquals } from "@std/assert";
import { openEventStore } from "../../../../events/mod.ts";
import { WallClock } from "../../../_wall_clock.ts";
import { claimOne, delivery, listed } from "../_events.ts";
import { memoryStore } from "./_stores.ts";

Deno.test("replayAll() leaves an event that died again meanwhile", async () => {
  await using sut = await memoryStore();
  const { kv, store } = sut;
  await store.accept(delivery("first", "{}", "key"));
  await store.bury(await claimOne(store), "no");
  await store.accept(delivery("again", "{}", "key"));
  await store.bury(await claimOne(store), "no");
  const settledBefore = (await store.get("again"))!.settledAt! + 1;
  const other = await openEventStore(kv);
  using clock = new WallClock();
  // The first reading of dead events writes a mark.
  assertEquals(await listed(store, { state: "dead" }), ["again", "first"]);
  const { atomic } = kv;
  kv.atomic = () => {
    const operation = atomic.call(kv);
    const { commit } = operation;
    operation.commit = async () => {
      kv.atomic = atomic;
      clock.advance(10);
      await other.replay("again");
      await other.bury(await claimOne(other), "no");
      return await commit.call(operation);
    };
    return operation;
  };
  assertEquals((await store.replayAll({ settledBefore })).changed, 1);
  assertEquals(await listed(store, { state: "dead" }), ["again"]);
});
