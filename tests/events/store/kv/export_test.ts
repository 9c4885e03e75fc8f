import { assertEquals, assertRejects } from "@std/assert";
import { changedKv } from "../../../../dev/harness/faulty_kv.ts";
import { exportEvents, openEventStore } from "../../../../events/mod.ts";
import { withFolder } from "../../../_folder.ts";
import { delivery, drain } from "../_events.ts";
import { testDenokv } from "./_denokv.ts";
import { contentOf, importLines, linesOf, storeAll } from "../_moving.ts";
import { memoryStore } from "./_stores.ts";

/** The ids of the events in lines, in their order. */
const idsIn = (lines: readonly string[]) => lines.map((line) => JSON.parse(line).record.id);

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

Deno.test("events of a group whose id's entry is lost are exported all the same", async () => {
  await using sut = await memoryStore();
  const { kv, store } = sut;
  for (const id of ["d1", "d2"]) await store.accept(delivery(id, "{}", "key"));
  await kv.delete(["events", "id", "d1"]);
  assertEquals(idsIn(await linesOf(store)), ["d1", "d2"]);
});
