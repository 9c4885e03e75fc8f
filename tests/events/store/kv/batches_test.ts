import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { withOperations } from "../../../../dev/harness/faulty_kv.ts";
import type { EventStore } from "../../../../events/mod.ts";
import { openEventStore } from "../../../../events/mod.ts";
import { acceptAll, acceptTogether, batchOf, claimBatch, claimed } from "../_batching.ts";
import { claimAll, claimOne, delivery, listed } from "../_events.ts";
import { assertDeadWith, named, notingParts } from "../_batching.ts";
import { assertNothingWaits, keysOf } from "./_keys.ts";
import { testStore, testStoreInOneProcess } from "./_stores.ts";
import { repairGroups } from "../_tidying.ts";

/** Completes all that is due, and tells how many parts each event had as done when it was leased. */
async function completingAll(store: EventStore): Promise<Map<string, number>> {
  const parts = new Map<string, number>();
  for (let leases = await claimAll(store); leases.length > 0; leases = await claimAll(store)) {
    for (const lease of leases) {
      for (const id of await batchOf(store, lease)) {
        parts.set(id, lease.record.progress?.length ?? 0);
      }
      assert(await store.complete(lease));
    }
  }
  return parts;
}

testStoreInOneProcess(
  "a batch whose process is killed while it dies goes on",
  async ({ kv, store }) => {
    const ids = named(30);
    await acceptTogether(store, ids);
    let commits = Infinity;
    const failing = withOperations(kv, (operation) => {
      const commit = operation.commit.bind(operation);
      operation.commit = () => commits-- > 0 ? commit() : Promise.reject(new Error("killed"));
    });
    const dying = await openEventStore(failing, { notifier: "watch" });
    const lease = await notingParts(dying, await claimed(dying), 32, 1_000);
    // One notes the problem, and two are of the batch.
    commits = 3;
    await assertRejects(() => dying.bury(lease, "no", { reports: true }), Error, "killed");
    const ahead = await listed(store, { state: "dead" });
    assertEquals(ahead.length, 12);
    assertEquals(ahead.includes(lease.record.id), false);
    // The latest one stays: its payload is what the handler gets.
    const left = await batchOf(store, lease);
    assertEquals([left.length, left.at(-1)], [18, "e29"]);
    await assertDeadWith(store, ahead, 32);
    const reports = await claimAll(store);
    assertEquals(reports.length, 12);
    for (const report of reports) assert(await store.complete(report));
    // Another worker takes the rest over, which is done. The others are replayed.
    assert(await store.complete((await store.recover(lease))!));
    assertEquals((await store.replayAll({})).changed, 12);
    assertEquals(await completingAll(store), new Map(ahead.map((id) => [id, 32])));
    assertEquals((await Array.fromAsync(store.list({ ids, state: "done" }))).length, 30);
    assertEquals(await repairGroups(store), 0);
  },
);

testStoreInOneProcess(
  "an event that joins a repaired group is not settled with a batch that is handled without it",
  async ({ kv, store }) => {
    await acceptTogether(store, ["a", "b"]);
    const batch = await claimBatch(store, "a", "b");
    const [, lost] = await keysOf(kv, "place");
    await kv.delete(lost!);
    for (const group of await keysOf(kv, "lane")) await kv.delete(group);
    assertEquals(await batchOf(store, batch), ["a"]);
    assertEquals(await repairGroups(store), 1);
    await acceptAll(store, ["c"]);
    for await (const _ of store.check());
    assertEquals(await claimAll(store), []);
    assertEquals(await batchOf(store, batch), ["a"]);
    assert(await store.complete(batch));
    assertEquals(await listed(store, { state: "done" }), ["a"]);
    assert(await store.complete(await claimBatch(store, "c", "b")));
    await assertNothingWaits(kv);
  },
);

testStoreInOneProcess(
  "an event that joins a group whose record is lost is not settled with a batch that is handled without it",
  async ({ kv, store }) => {
    await acceptTogether(store, ["a", "b"]);
    for (const group of await keysOf(kv, "lane")) await kv.delete(group);
    await acceptAll(store, ["c"]);
    const batches = await claimAll(store);
    await acceptAll(store, ["d"]);
    for (const batch of batches) await store.complete(batch);
    assertEquals((await store.get("d"))?.state, "queued");
    for await (const _ of store.check({ discard: true }));
    assert((await completingAll(store)).has("d"));
    await assertNothingWaits(kv);
  },
);

testStore(
  "as many events die in one commit as it holds, with long ids and errors",
  async ({ store }) => {
    const ids = Array.from({ length: 60 }, (_, i) => `${"é".repeat(400)}${i}`);
    // On a remote KV each of those that come at the same time waits for the others.
    for (let i = 0; i < 60; i += 20) await acceptTogether(store, ids.slice(i, i + 20));
    const first = await claimed(store);
    const { length } = await batchOf(store, first);
    assert(length > 10 && length < 60, `${length}`);
    assert(await store.bury(first, new Error("🙂".repeat(1_000)), { reports: true }));
    assertEquals((await listed(store, { state: "dead" })).length, length);
  },
);

testStoreInOneProcess("an event dies whose record has no room for its error", async ({ store }) => {
  const filler = "a".repeat(64_000);
  await store.accept({ ...delivery("d1"), sender: { id: 1, name: filler, isBot: false } });
  const error = new Error("名".repeat(1_000));
  assert(await store.retry(await claimOne(store), 0, error));
  assert(await store.release(await claimOne(store), { reason: error }));
  assert(await store.bury(await claimOne(store), error, { reports: true }));
  const record = await store.get("d1");
  assert(record?.state === "dead");
  assertStringIncludes(record.attempts.at(-1)!.error!, "Error: 名名");
  const report = await claimOne(store);
  const { id, sender } = JSON.parse(new TextDecoder().decode(await store.load(report)));
  assertEquals([id, sender], ["d1", undefined]);
});

testStoreInOneProcess("a batch has eight megabytes at most", async ({ store }) => {
  const { body } = delivery("x", `{"text":"${"a".repeat(3_000_000)}"}`);
  await acceptTogether(store, ["a", "b", "c"], { body });
  assert(await store.complete(await claimBatch(store, "a", "b")));
  assert(await store.complete(await claimBatch(store, "c")));
});
