/**
 * Operations on a store none of whose commits is answered at its first try: a KV's client repeats it, and hears that
 * it is refused. Each tells what was made as made, also if others have changed it in the meantime.
 */
import { assert, assertEquals } from "@std/assert";
import { repeating } from "../../../../dev/harness/faulty_kv.ts";
import {
  exportEvents,
  importEvents,
  type KvCommit,
  openEventStore,
} from "../../../../events/mod.ts";
import { encodeValue } from "../../../../events/store/kv/value_codec.ts";
import type { KvStore } from "../../../_kv_handlers.ts";
import { testKv } from "../../../_kvs.ts";
import { buryAll, claimAll, claimOne, delivery, idsOf } from "../_events.ts";
import { deleteUploads, repairGroups, trimPayloads } from "../_tidying.ts";
import { keysOf } from "./_keys.ts";

const options = {
  notifier: "watch",
  log: () => {},
  keepPayloads: { forMs: 604_800_000, maxBytes: 10_000_000 },
} as const;

const WAIT = { name: "a", timeoutMs: 60_000 };

/** A store whose commits are repeated, and one of another process. */
interface Stores {
  readonly kv: Deno.Kv;
  readonly store: KvStore;
  readonly other: KvStore;
  /** Has the other process do something between a commit and its repetition, once. */
  meanwhile(act: () => Promise<unknown>): void;
}

/** Registers a test on a store of which each commit is repeated. */
function testRepeated(name: string, fn: (stores: Stores) => Promise<void>): void {
  testKv(`${name} if its commit is repeated`, async (kv) => {
    let act: (() => Promise<unknown>) | undefined;
    const between = async () => {
      const now = act;
      act = undefined;
      await now?.();
    };
    const store = await openEventStore(repeating(kv, between), options);
    const other = await openEventStore(kv, options);
    await fn({ kv, store, other, meanwhile: (wanted) => void (act = wanted) });
  });
}

testRepeated("set() of a state tells that it wrote", async ({ store, other, meanwhile }) => {
  for (let n = 1; n <= 5; n++) {
    const state = await store.state<number>("counter");
    assert(await state.set((state.value ?? 0) + 1));
    // The same one again: it knows the version that it has made.
    assertEquals([await state.set(n), (await other.state("counter")).value], [true, n]);
  }
  const state = await store.state<number>("counter");
  meanwhile(async () => {
    const theirs = await other.state<number>("counter");
    assert(await theirs.set(theirs.value! + 1));
  });
  assert(await state.set(state.value! + 1));
  assertEquals((await other.state("counter")).value, 7);
  assertEquals(await state.set(0), false);
});

testRepeated("delete() of a state tells that it deleted", async ({ store, other, meanwhile }) => {
  const state = await store.state("a");
  await state.set(1);
  meanwhile(async () => assert(await (await other.state("a")).set(2)));
  assertEquals([await state.delete(), (await other.state("a")).value], [true, 2]);
  const [listed] = await Array.fromAsync(store.states());
  const [again] = await Array.fromAsync(store.states());
  assertEquals([await listed!.delete(), await again!.delete()], [true, false]);
  const created = await store.state("b");
  meanwhile(async () => assert(await (await other.state("b")).delete()));
  assertEquals([await created.set(1), (await other.state("b")).value], [true, undefined]);
});

testRepeated("replay() tells that it put back", async ({ store, other, meanwhile }) => {
  await buryAll(store, ["d1", "d2"]);
  await buryAll(store, ["g1", "g2"], "group");
  meanwhile(async () => assertEquals(idsOf(await claimAll(other)), ["d1"]));
  for (const id of ["d1", "d2", "g1", "g2"]) {
    assertEquals([await store.replay(id), await store.replay(id)], [true, false], id);
  }
});

testRepeated("replay() of a done event tells that it put back", async ({ store }) => {
  await store.accept(delivery("d1"));
  assert(await store.complete(await claimOne(store)));
  assertEquals([await store.replay("d1"), await store.replay("d1")], [true, false]);
});

testRepeated("operations on many count what they changed", async ({ kv, store }) => {
  const ids = Array.from({ length: 25 }, (_, i) => `d${i}`);
  for (const id of ids) await store.accept(delivery(id, "{}", Number(id.slice(1)) % 3 ? "g" : id));
  assertEquals((await store.cancelAll({})).changed, ids.length);
  assertEquals((await store.replayAll({ outcome: "cancelled" })).changed, ids.length);
  assertEquals((await store.replayAll({ outcome: "cancelled" })).changed, 0);
  assertEquals((await store.cancelAll({})).changed, ids.length);
  assertEquals((await store.purge({})).changed, ids.length);
  const left = (await keysOf(kv)).map((key) => key[1]);
  assertEquals(left.filter((name) => name !== "notifier"), []);
});

testRepeated("cancel() tells that it cancelled", async ({ store, other, meanwhile }) => {
  for (const id of ["queued", "replayed"]) await store.accept(delivery(id));
  assertEquals([await store.cancel("queued"), await store.cancel("queued")], [true, false]);
  meanwhile(async () => assert(await other.replay("replayed")));
  assertEquals(await store.cancel("replayed"), true);
  assertEquals((await other.get("replayed"))?.state, "queued");
  const lease = await claimOne(other);
  meanwhile(() => other.release(lease));
  assertEquals(await store.cancel("replayed"), true);
});

testRepeated("wake() tells what became of its value", async ({ store, other, meanwhile }) => {
  meanwhile(async () => {
    for await (const answer of other.answers()) assert(await answer.delete());
  });
  assertEquals(await store.wake("a", 1), { outcome: "kept" });
  assertEquals(await store.wake("a", 2), { outcome: "kept" });
  assertEquals(await store.wake("a", 3), { outcome: "late" });
  const [answer] = await Array.fromAsync(store.answers());
  assertEquals([await answer!.delete(), await answer!.delete()], [true, false]);
  await store.accept(delivery("d1"));
  assert(await store.park(await claimOne(store), WAIT));
  meanwhile(async () => assert(await other.complete(await claimOne(other))));
  assertEquals(await store.wake("a", 4), { outcome: "woken", eventId: "d1" });
  assertEquals(await store.wake("a", 5), { outcome: "kept" });
});

testRepeated("accept() tells that it stored", async ({ store, other, meanwhile }) => {
  for (const [id, key] of [["d1", undefined], ["d2", "group"]] as const) {
    meanwhile(async () => assertEquals(idsOf(await claimAll(other)), [id]));
    const sent = delivery(id, "{}", key);
    assertEquals(await store.accept(sent), { id, duplicate: false });
    assertEquals(await store.accept(sent), { id, duplicate: true });
  }
  meanwhile(async () => {
    assert(await other.complete(await claimOne(other)));
    assertEquals((await other.purge({})).changed, 1);
  });
  assertEquals(await store.accept(delivery("d3")), { id: "d3", duplicate: false });
  assertEquals(await store.get("d3"), null);
  const large = "1".repeat(2_000_000);
  assertEquals(await store.accept(delivery("d4", large)), { id: "d4", duplicate: false });
  assertEquals(await store.accept(delivery("d4", large)), { id: "d4", duplicate: true });
  const lease = await claimOne(store);
  assertEquals((await store.load(lease)).byteLength, large.length);
});

testRepeated("accept() finds an event in the replay window", async ({ store }) => {
  const replayed = { replayWindowMs: 60_000 };
  assertEquals(await store.accept(delivery("d1"), replayed), { id: "d1", duplicate: false });
  assertEquals(await store.accept(delivery("d2"), replayed), { id: "d1", duplicate: true });
});

testRepeated("emit() tells that it emitted", async ({ store, other, meanwhile }) => {
  meanwhile(async () => void await claimOne(other));
  const first = await store.emit("jobs", "x", {}, { id: "a" });
  assertEquals(first, { id: "jobs:a", duplicate: false });
  assertEquals((await store.emit("jobs", "x", {}, { id: "a" })).duplicate, true);
  meanwhile(async () => void await claimOne(other));
  assertEquals((await store.emit("jobs", "x", {})).duplicate, false);
  assertEquals((await Array.fromAsync(store.list())).length, 2);
});

testRepeated("an import tells that it imported", async ({ store, other, meanwhile }) => {
  using from = await Deno.openKv(":memory:");
  const source = await openEventStore(from, options);
  for (const id of ["done", "dead", "parked"]) await source.accept(delivery(id));
  for (const lease of await claimAll(source)) {
    if (lease.record.id === "done") await source.complete(lease);
    else if (lease.record.id === "dead") await source.bury(lease, "no");
    else await source.park(lease, WAIT);
  }
  await source.accept(delivery("queued"));
  await source.accept(delivery("group", "{}", "group"));
  await source.accept(delivery("large", "1".repeat(2_000_000)));
  await (await source.state("a")).set(1);
  await source.wake("b", 1);
  await source.scheduleNotes.write("s", { v: 1, plan: "p", at: 1 }, null);
  const lines = await Array.fromAsync(exportEvents(source));
  // The state comes first: what comes with it might be committed before it.
  meanwhile(async () => void await (await other.state("a")).set(2));
  const state = await importEvents(store, ReadableStream.from(lines.slice(0, 1)));
  assertEquals([state.states.imported, state.states.known], [1, 0]);
  const first = await importEvents(store, ReadableStream.from(lines.slice(1)));
  assertEquals([first.imported, first.known, first.failed], [6, 0, 0]);
  assertEquals([first.answers.imported, first.schedules.imported], [1, 1]);
  const again = await importEvents(store, ReadableStream.from(lines));
  assertEquals([again.imported, again.known, again.failed], [0, 6, 0]);
});

testRepeated("an answer from elsewhere wakes", async ({ store }) => {
  await store.accept(delivery("d1"));
  await store.park(await claimOne(store), WAIT);
  const answer = { kind: "answer", name: "a", at: Date.now(), value: 1 } as const;
  assertEquals(await store.restoreEntry(answer), "restored");
  assertEquals(await store.restoreEntry(answer), "known");
  assertEquals((await claimOne(store)).record.woken?.[0]?.value, "1");
});

testRepeated("a worker's changes of its events tell that they were made", async (stores) => {
  const { store, other, meanwhile } = stores;
  const ids = ["completed", "retried", "released", "buried", "parked", "checked", "renewed"];
  for (const id of ids) await store.accept(delivery(id));
  const leases = new Map((await claimAll(store)).map((lease) => [lease.record.id, lease]));
  assertEquals([...leases.keys()].toSorted(), ids.toSorted());
  const of = (id: string) => leases.get(id)!;
  meanwhile(async () => assert(await other.replay("completed")));
  assertEquals(await store.complete(of("completed")), true);
  assertEquals(await store.retry(of("retried"), 60_000, "no"), true);
  meanwhile(async () => void await claimAll(other));
  assertEquals(await store.release(of("released")), true);
  meanwhile(async () => void await other.purge({ state: "dead" }));
  assertEquals(await store.bury(of("buried"), "no"), true);
  meanwhile(() => other.wake("a", 1));
  assertEquals(await store.park(of("parked"), WAIT), true);
  meanwhile(() => other.cancel("checked"));
  const checked = await store.note(of("checked"), { is: "handler", name: "part" });
  assertEquals(checked?.record.progress, ["part"]);
  const renewed = await store.renew(of("renewed"), 60_000);
  assert(renewed && await store.complete(renewed));
});

testRepeated("effects are made once, and tell that they were", async ({ kv, store }) => {
  await store.accept(delivery("d1"));
  const lease = await claimOne(store);
  const sum = (commit: KvCommit) => void commit.sum(["n"], 1n);
  const checked = await store.note(lease, { is: "handler", name: "part" }, sum);
  assert(await store.complete(checked!, { effects: sum }));
  assertEquals((await kv.get<Deno.KvU64>(["n"])).value?.value, 2n);
});

testRepeated("the upkeep counts what it did", async ({ kv, store }) => {
  await store.accept(delivery("d1", "{}", "group"));
  await kv.delete(["events", "lane", "group"]);
  assertEquals([await repairGroups(store), await repairGroups(store)], [1, 0]);
  for (const id of ["a", "b"]) {
    await kv.set(["events", "upload", id], encodeValue({ startedAt: 1, size: 1 }));
  }
  assertEquals(await deleteUploads(store, 1_000), 2);
  await store.complete(await claimOne(store));
  const none = await openEventStore(repeating(kv), { notifier: "watch" });
  assertEquals(await trimPayloads(none), 1);
});

testRepeated("a note of slots has the version that it was written with", async ({ store }) => {
  const notes = store.scheduleNotes;
  const version = await notes.write("s", 1, null);
  assertEquals(version, (await notes.read("s")).version);
  assert(await notes.write("s", 2, version));
  assertEquals(await notes.write("s", 3, version), null);
});

testRepeated("a record of the console is created once", async ({ store }) => {
  const records = store.consoleRecords;
  const record = { kind: "act", number: 1, id: "a", value: 1, forMs: 60_000 } as const;
  const version = await records.replace(record, null);
  assertEquals(version, (await records.readVersion(record)).version);
  assertEquals(await records.replace(record, null), null);
});
