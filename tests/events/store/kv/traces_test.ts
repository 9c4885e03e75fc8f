import { assertEquals } from "@std/assert";
import { delivery } from "../_events.ts";
import { memoryStore } from "./_stores.ts";

Deno.test("oldestDueAt() takes one reading of a few entries of the schedule", async () => {
  const { kv, store } = await memoryStore();
  using _ = kv;
  for (let i = 0; i < 20; i++) await store.accept(delivery(`d${i}`));
  const sizes: unknown[] = [];
  const list = kv.list.bind(kv);
  kv.list = (selector, options) => {
    sizes.push(options?.batchSize);
    return list(selector, options);
  };
  await store.oldestDueAt();
  assertEquals(sizes, [10]);
});
