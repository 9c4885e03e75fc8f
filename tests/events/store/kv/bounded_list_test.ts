import { assert, assertEquals } from "@std/assert";
import { buryAll, claimAll, claimOne, delivery, idsOf, listed, pagesOf } from "../_events.ts";
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

Deno.test("a page of the waiting events of a problem passes over a bounded number of dead ones", async () => {
  await using sut = await memoryStore();
  const { store } = sut;
  await buryAll(store, Array.from({ length: 50 }, (_, i) => `d${i}`));
  await store.accept(delivery("late"));
  await store.retry(await claimOne(store), 60_000, new Error("no"));
  const { problems: [problem] } = await store.inspect.problems();
  const choice = { problem: problem!.id, state: "queued", maxReads: 1 } as const;
  const page = store.list(choice);
  assertEquals(await Array.fromAsync(page), []);
  assert(page.cursor !== undefined && page.reachedAt !== undefined);
  const pages = await pagesOf(store, choice);
  assertEquals([pages.flat(), pages.length], [["late"], 3]);
});
