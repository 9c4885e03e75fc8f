import { assertEquals, assertRejects } from "@std/assert";
import { openEventStore } from "../../../../events/mod.ts";
import { UndecodableError } from "../../../../events/store/engine.ts";
import { ask } from "../_limited.ts";
import { setNewer, setValue } from "./_values.ts";

const RULE = { limit: 5, perMs: 60_000 } as const;

const KEY = ["events", "limit", "service", ""];

Deno.test("a limit of another version is left alone, and others go on", async () => {
  using kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv);
  await ask(store, RULE);
  const restore = await setNewer(kv, KEY);
  await assertRejects(() => ask(store, RULE), UndecodableError, 'the limit "service/"');
  assertEquals(await ask(store, RULE, { name: "another" }), undefined);
  const pages = await Array.fromAsync(store.check());
  assertEquals(pages.flatMap(({ findings }) => findings), [
    { is: "unreadable", kind: "limit", name: "service/", at: ["limit", "service", ""] },
  ]);
  await restore();
  assertEquals(await ask(store, RULE), undefined);
  await setValue(kv, KEY, { taken: "many" });
  await assertRejects(() => ask(store, RULE), UndecodableError);
});
