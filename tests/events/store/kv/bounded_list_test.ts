import { assertEquals } from "@std/assert";
import { claimAll, delivery, idsOf, listed, pagesOf } from "../_events.ts";
import { memoryStore, testStoreInOneProcess } from "./_stores.ts";
import { setValue } from "./_values.ts";

Deno.test("an unreadable event matches no filter by what its record would tell", async () => {
  await using sut = await memoryStore();
  await setValue(sut.kv, ["events", "event", 5, "x"], { source: "github" });
  assertEquals(await listed(sut.store, { state: "unreadable" }), ["x"]);
  for (
    const filter of [{ source: "github" }, { repository: "a/b" }, { chat: 1 }, { orderingKey: "k" }]
  ) {
    assertEquals(await listed(sut.store, filter), []);
  }
});

testStoreInOneProcess("list() finds events that share a schedule entry", async ({ store }) => {
  const ids = ["a", "b", "c", "d"];
  await Promise.all(ids.map((id) => store.accept(delivery(id))));
  assertEquals(idsOf(await claimAll(store)).toSorted(), ids);
  assertEquals((await pagesOf(store, { state: "running", maxReads: 4 })).flat().toSorted(), ids);
});

Deno.test("list() finds open events although the schedule cannot be read", async () => {
  await using sut = await memoryStore();
  await sut.store.accept(delivery("a"));
  await setValue(sut.kv, ["events", "due", 5, "x"], { v: 99 });
  assertEquals(await pagesOf(sut.store, { state: "queued", maxReads: 1 }), [["a"]]);
});
