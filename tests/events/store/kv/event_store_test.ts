import { assertEquals } from "@std/assert";
import { openEventStore } from "../../../../events/mod.ts";
import { claimOne, delivery, later } from "../_events.ts";
import { keysOf, recordKey } from "./_keys.ts";
import { deleteUploads } from "../_tidying.ts";
import { damage, setValue } from "./_values.ts";
import { memoryStore, testInMemory, testStore } from "./_stores.ts";
import { PART_BYTES } from "../../../../events/store/kv/_layout.ts";

testStore("tidy() deletes what a crashed upload left", async ({ kv, store }) => {
  await setValue(kv, ["events", "upload", "p1"], {
    startedAt: Date.now() - 1_000,
    size: 2 * PART_BYTES,
  });
  await kv.set(["events", "payload", "p1", 0], new Uint8Array(9));
  await kv.set(["events", "payload", "p1", 1], new Uint8Array(9));
  assertEquals(await deleteUploads(store, 60_000), 0);
  assertEquals(await deleteUploads(store, 500), 1);
  assertEquals(await keysOf(kv), []);
});

testInMemory(
  "claim() passes over a record that cannot be read, and reports it",
  async ({ kv }) => {
    const messages: string[] = [];
    const store = await openEventStore(kv, {
      notifier: "watch",
      log: ({ message }) => messages.push(message),
    });
    await store.accept(delivery("d1"));
    await later(2);
    await store.accept(delivery("d2"));
    const key = await recordKey(kv, "d1");
    await damage(kv, key);
    const before = await kv.get(key);
    assertEquals((await claimOne(store)).record.id, "d2");
    assertEquals(messages, ["event record unreadable, left unhandled"]);
    assertEquals(await kv.get(key), before);
  },
);

Deno.test("accept() notifies no more than once while a notification is on its way", async () => {
  await using sut = await memoryStore();
  const results = await Promise.all(
    Array.from({ length: 50 }, (_, i) => sut.store.accept(delivery(`d${i}`))),
  );
  assertEquals(results.length, 50);
  let heard = 0;
  const listening = sut.kv.listenQueue(() => void heard++);
  await later(200);
  sut.kv.close();
  await listening;
  assertEquals(heard, 1);
});

Deno.test("openEventStore() notifies through the queue where the KV has one", async () => {
  await using sut = await memoryStore();
  assertEquals(sut.store.notifier, "enqueue");
});
