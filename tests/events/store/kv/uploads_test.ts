import { assertEquals } from "@std/assert";
import { keysOf } from "./_keys.ts";
import { memoryStore } from "./_stores.ts";
import { deleteUploads } from "../_tidying.ts";
import { changeValue, setValue, valueAt } from "./_values.ts";

/** Values that no version has written as the mark of an upload. */
const UNKNOWN = [null, 5, "x", {}, { startedAt: 1 }, { startedAt: 1, size: 1e9 }];

Deno.test("tidy() leaves marks of an unknown shape, and polls the others", async () => {
  await using sut = await memoryStore();
  for (const [i, value] of UNKNOWN.entries()) {
    await setValue(sut.kv, ["events", "upload", `a${i}`], value);
  }
  await setValue(sut.kv, ["events", "upload", "b"], { startedAt: 1, size: 1 });
  await sut.kv.set(["events", "payload", "b", 0], new Uint8Array(1));
  assertEquals(await deleteUploads(sut.store, 0), 1);
  assertEquals((await keysOf(sut.kv, "upload")).length, UNKNOWN.length);
  assertEquals(await keysOf(sut.kv, "payload"), []);
});

Deno.test("a record with a larger payload than there are is one that cannot be read", async () => {
  await using sut = await memoryStore();
  const { kv, store } = sut;
  await store.accept({
    ...{ platform: "forge", source: "github", type: "push", deliveryId: "d1", payload: {} },
    body: new Uint8Array(1),
  });
  const [key] = await keysOf(kv, "event");
  const { payload } = await valueAt<{ payload: object }>(kv, key!);
  await changeValue(kv, key!, { payload: { ...payload, size: 1e12 } });
  assertEquals((await store.stats()).unreadable, 1);
  // Without the deletion of as many parts.
  assertEquals((await store.purge({ state: "unreadable" })).changed, 1);
});
