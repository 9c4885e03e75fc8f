import { assert, assertEquals, assertRejects } from "@std/assert";
import { type EventStore, exportEvents } from "../../../../events/mod.ts";
import { buryAll, claimAll, delivery, drain } from "../_events.ts";
import { contentOf, importLines, linesOf, storeAll } from "../_moving.ts";
import { repairGroups } from "../_tidying.ts";
import { testStore, testStoreOnce } from "./_contract.ts";

/** The ids of the events in lines, in their order. */
const idsIn = (lines: readonly string[]) => lines.map((line) => JSON.parse(line).record.id);

const NONE = { imported: 0, known: 0, expired: 0 };

testStore("an export has all of the events, and changes none", async ({ elsewhere, store }) => {
  await storeAll(store);
  const before = await contentOf(store);
  await using other = await elsewhere();
  const lines = await linesOf(store);
  const result = await importLines(other.store, lines);
  assertEquals(result, {
    ...{ imported: 11, known: 0, expired: 0, failed: 0, failures: [] },
    ...{ states: NONE, answers: NONE, questions: NONE, schedules: NONE },
  });
  assertEquals(await contentOf(other.store), before);
  assertEquals(await contentOf(store), before);
});

testStore("an import stores all of the events, and none twice", async ({ elsewhere, store }) => {
  await using other = await elsewhere();
  await storeAll(other.store);
  const lines = await linesOf(other.store);
  const { imported } = await importLines(store, lines);
  assertEquals(imported, 11);
  const content = await contentOf(other.store);
  assertEquals(await contentOf(store), content);
  const again = await importLines(store, lines);
  assertEquals([again.imported, again.known, again.failed], [0, 11, 0]);
  assertEquals(await contentOf(store), content);
});

testStore("an import keeps the order of ordering groups", async ({ elsewhere, store }) => {
  await using other = await elsewhere();
  await buryAll(other.store, ["k0"], "key");
  for (const id of ["k1", "k2", "x1"]) {
    await other.store.accept(delivery(id, "{}", id.startsWith("k") ? "key" : "other"));
  }
  // It was received first, and joins last.
  await other.store.replay("k0");
  await other.store.accept(delivery("k3", "{}", "key"));
  await store.accept(delivery("here", "{}", "key"));
  await importLines(store, await linesOf(other.store));
  const handled = await drain(store);
  assertEquals(handled.filter((id) => id !== "x1"), ["here", "k1", "k2", "k0", "k3"]);
  assertEquals(await repairGroups(store), 0);
});

testStore("imported events are known, replayed and purged as others are", async (sut) => {
  const { store } = sut;
  await using other = await sut.elsewhere();
  await storeAll(other.store);
  await importLines(store, await linesOf(other.store));
  assertEquals((await store.accept({ ...delivery("done"), intake: "forge" })).duplicate, true);
  assertEquals((await store.accept(delivery("a1", "{}", "a"))).duplicate, true);
  assertEquals((await store.accept({ ...delivery("ignored"), intake: "forge" })).duplicate, false);
  const dead = await Array.fromAsync(store.list({ state: "dead" }), ({ id }) => id);
  assertEquals(dead, ["forge:dead"]);
  assert(await store.replay("forge:dead"));
  assertEquals((await drain(store)).length, 8);
  assertEquals((await store.cancelAll({})).changed, 2);
  assertEquals((await store.purge({})).changed, 11);
  assertEquals((await store.stats()).unreadable, 0);
});

testStore(
  "an export names what it leaves out, and goes on",
  async ({ damages, store }) => {
    for (const id of ["d1", "d2", "d3"]) await store.accept(delivery(id));
    await damages.spoil("event", "d1");
    await damages.lose("payload", "d2");
    const left: { id: string; reason: string }[] = [];
    const lines = exportEvents(store, {}, { onLeftOut: (event) => void left.push(event) });
    assertEquals(idsIn(await Array.fromAsync(lines)), ["d3"]);
    assertEquals(left, [
      { id: "d1", reason: "this version cannot read its record" },
      { id: "d2", reason: "Cannot read the payload: 0 of 7 bytes are there" },
    ]);
    await assertRejects(
      () => linesOf(store),
      Error,
      "Cannot export event d1: this version cannot read its record",
    );
  },
  {},
  "damages",
);

testStoreOnce("an export takes an event as it is that is settled meanwhile", async (sut) => {
  const { store } = sut;
  for (const id of ["d1", "d2", "d3"]) await store.accept(delivery(id));
  const [first, second] = await claimAll(store);
  const load: EventStore["load"] = async (event) => {
    if (event.record.id === "d1") await store.complete(first!);
    if (event.record.id !== "d2") return await store.load(event);
    await store.bury(second!, new Error("no"));
    await store.purge({ ids: ["d2"] });
    return await store.load(event);
  };
  const lines = await Array.fromAsync(exportEvents({ ...store, load }));
  assertEquals(lines.map((line) => JSON.parse(line).record.state), ["done", "running"]);
});

testStoreOnce("an export takes a filter, and can be left", async (sut) => {
  const { store } = sut;
  await buryAll(store, ["d1", "d2"]);
  for (const id of ["d3", "d4", "d5"]) await store.accept(delivery(id));
  const dead = exportEvents(store, { state: "dead" });
  assertEquals(idsIn(await Array.fromAsync(dead)), ["d1", "d2"]);
  for await (const line of exportEvents(store)) {
    assertEquals(idsIn([line]), ["d1"]);
    break;
  }
});
