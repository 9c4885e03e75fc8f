import { assert, assertEquals, assertRejects } from "@std/assert";
import { changedKv } from "../../../dev/harness/faulty_kv.ts";
import { type EventStore, exportEvents, openEventStore } from "../../../events/mod.ts";
import { withFolder } from "../../_folder.ts";
import { buryAll, claimAll, delivery, drain, recordKey } from "./_events.ts";
import { testDenokv } from "./kv/_denokv.ts";
import { contentOf, importLines, linesOf, storeAll } from "./_moving.ts";
import { memoryStore, testStore } from "./_stores.ts";
import { repairGroups } from "./_tidying.ts";
import { setNewer } from "./_values.ts";

/** The ids of the events in lines, in their order. */
const idsIn = (lines: readonly string[]) => lines.map((line) => JSON.parse(line).record.id);

const NONE = { imported: 0, known: 0, expired: 0 };

testStore("an export has all of the events, and changes none", async ({ store }) => {
  await storeAll(store);
  const before = await contentOf(store);
  await using other = await memoryStore();
  const lines = await linesOf(store);
  const result = await importLines(other.store, lines);
  assertEquals(result, {
    ...{ imported: 11, known: 0, expired: 0, failed: 0, failures: [] },
    ...{ states: NONE, answers: NONE, schedules: NONE },
  });
  assertEquals(await contentOf(other.store), before);
  assertEquals(await contentOf(store), before);
});

testStore("an import stores all of the events, and none twice", async ({ store }) => {
  await using other = await memoryStore();
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

testDenokv(
  ["net", "read", "write", "run", "env"],
  "events go from a file over denokv to a namespace in memory, and stay the same",
  (url) =>
    withFolder(async (folder) => {
      using file = await Deno.openKv(`${folder}/kv.db`);
      using remote = await Deno.openKv(url);
      using memory = await Deno.openKv(":memory:");
      const stores = [
        await openEventStore(file),
        await openEventStore(remote, { namespace: "b" }),
        await openEventStore(memory, { namespace: "c", notifier: "watch" }),
      ] as const;
      await storeAll(stores[0]);
      const content = await contentOf(stores[0]);
      for (const i of [1, 2] as const) {
        await importLines(stores[i], await linesOf(stores[i - 1]!));
        assertEquals(await contentOf(stores[i]), content);
      }
      assertEquals((await drain(stores[2])).filter((id) => /[ab]\d$/.test(id)).length, 5);
    }),
);

testStore("an import keeps the order of ordering groups", async ({ store }) => {
  await using other = await memoryStore();
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
  await using other = await memoryStore();
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

testStore("an export names what it leaves out, and goes on", async ({ kv, store }) => {
  for (const id of ["d1", "d2", "d3"]) await store.accept(delivery(id));
  await setNewer(kv, await recordKey(kv, "d1"));
  const { payload } = (await store.get("d2"))!;
  await kv.delete(["events", "payload", payload!.id, 0]);
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
});

Deno.test("an export takes an event as it is that is settled meanwhile", async () => {
  await using sut = await memoryStore();
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

Deno.test("an export ends with the failure of its KV", async () => {
  using kv = await Deno.openKv(":memory:");
  const gone = () => Promise.reject(new Error("connection lost"));
  const store = await openEventStore(kv);
  for (let i = 0; i < 50; i++) await store.accept(delivery(`d${i}`));
  const list = (selector: Deno.KvListSelector, options: Deno.KvListOptions) => {
    if ("prefix" in selector && selector.prefix[1] === "payload") {
      throw new Error("connection lost");
    }
    return kv.list(selector, options);
  };
  const broken = await openEventStore(changedKv(kv, { get: gone, getMany: gone, list }), {
    notifier: "watch",
  });
  const lines = exportEvents(broken, {}, { onLeftOut: () => {} });
  await assertRejects(() => Array.fromAsync(lines), Error, "connection lost");
});

Deno.test("an export takes a filter, and can be left", async () => {
  await using sut = await memoryStore();
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

Deno.test("events of a group whose id's entry is lost are exported all the same", async () => {
  await using sut = await memoryStore();
  const { kv, store } = sut;
  for (const id of ["d1", "d2"]) await store.accept(delivery(id, "{}", "key"));
  await kv.delete(["events", "id", "d1"]);
  assertEquals(idsIn(await linesOf(store)), ["d1", "d2"]);
});
