import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { defineApp, github, openEventStore } from "../../../../mod.ts";
import { KvRateLimitStore } from "../../../../middleware/mod.ts";

Deno.test("openEventStore() and defineApp() refuse a namespace with half of a surrogate pair", async () => {
  using kv = await Deno.openKv(":memory:");
  const message = `'namespace' must be a well-formed text, got `;
  await assertRejects(() => openEventStore(kv, { namespace: "\ud800" }), TypeError, message);
  const options = { name: "bot", platform: github() };
  assertThrows(() => defineApp({ ...options, namespace: "\ud800" }), TypeError, message);
  assertThrows(() => defineApp({ ...options, name: "\ud800" }), TypeError, "well-formed text");
});

Deno.test("KvRateLimitStore counts each client on its own, and refuses a prefix that is not one", async () => {
  using kv = await Deno.openKv(":memory:");
  const store = new KvRateLimitStore(kv, { log: () => {} });
  const counts = [];
  for (const client of ["\ud800", "\ud801", "\ufffd", '"\\ud800"']) {
    counts.push((await store.increment(client, 86_400_000)).count);
  }
  assertEquals(counts, [1, 1, 1, 1]);
  for (const prefix of [["a", "\ud800"], "a"] as unknown as Deno.KvKey[]) {
    assertThrows(() => new KvRateLimitStore(kv, { prefix }), TypeError, "'prefix' must be a key");
  }
});
