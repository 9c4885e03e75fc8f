import { assertEquals } from "@std/assert";
import { createEventRouter } from "../../../events/mod.ts";
import { notesOf } from "../../../events/store/kv/_layout.ts";
import { memoryStore } from "../store/kv/_stores.ts";
import { testStoreOnce } from "../store/contract/_contract.ts";
import { delivery } from "../store/_events.ts";
import { keysOf } from "../store/kv/_keys.ts";
import { reach, until, withWorker } from "./_worker.ts";

const keepPayloads = { forMs: 60_000, maxBytes: 1_000_000 };

Deno.test("a payload that is kept is written once, beside its record", async () => {
  await using sut = await memoryStore({ keepPayloads });
  const { kv, store } = sut;
  const held: unknown[] = [];
  const handler = async () => {
    const record = (await store.get("d1"))!;
    held.push(notesOf(record).holdsPayload, await keysOf(kv, "payload"));
  };
  await withWorker(sut, handler, {}, async () => {
    await store.accept(delivery("d1"));
    await reach(store, "d1", "done");
    assertEquals(held, [undefined, await keysOf(kv, "payload")]);
    assertEquals((await keysOf(kv, "kept")).length, 1);
  });
});

Deno.test("a worker drops payloads that are kept for too long", async () => {
  await using sut = await memoryStore({ keepPayloads: { forMs: 1, maxBytes: 1_000_000 } });
  const { kv, store } = sut;
  await withWorker(sut, () => {}, { leaseMs: 1_000 }, async () => {
    await store.accept(delivery("d1"));
    await reach(store, "d1", "done");
    await until(async () => (await keysOf(kv, "kept")).length === 0);
    assertEquals(await keysOf(kv, "payload"), []);
  });
});

testStoreOnce(
  "an event that is replayed without a handler is ignored, not given up",
  async (sut) => {
    const { store } = sut;
    await store.accept(delivery("d1"));
    await withWorker(sut, createEventRouter().handle, {}, async () => {
      await reach(store, "d1", "done");
      await store.replay("d1");
      await until(async () => {
        const record = await store.get("d1");
        return record?.run === 1 && record.settledAt !== null;
      });
      assertEquals((await store.get("d1"))?.outcome, "ignored");
    });
  },
  { keepPayloads },
);
