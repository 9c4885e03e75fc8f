import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import type { Delivery, EventRecord, EventStore, Lease } from "../../../../events/mod.ts";
import { exportEvents, importEvents } from "../../../../events/mod.ts";
import { emissionOf } from "../../../../events/store/emission.ts";
import { byLength } from "../../../_length.ts";
import {
  acceptAll,
  acceptTogether,
  batchOf,
  claimBatch,
  claimed,
  idsOf,
  quiet,
} from "../_batching.ts";
import { claimAll, delivery, later, listed } from "../_events.ts";
import { assertDeadWith, named, notingParts } from "../_batching.ts";
import {
  assertNothingWaits as assertNoneWaits,
  type StoreUnderTest,
  testStore,
  testStoreInOneProcess,
  testStoreOnce,
} from "./_contract.ts";

async function statesOf(store: EventStore, ...ids: string[]): Promise<(string | undefined)[]> {
  return await Promise.all(ids.map(async (id) => (await store.get(id))?.state));
}

/** Checks that no event waits, and no payload is left. */
async function assertNothingWaits(sut: Pick<StoreUnderTest, "place">): Promise<void> {
  await assertNoneWaits(sut);
  assertEquals((await sut.place.contents()).payloads, 0);
}

testStore("events of a key that come in quick succession are leased together", async (sut) => {
  const { place, store } = sut;
  await acceptAll(store, ["a", "b", "c"], { quietMs: 500 });
  assertEquals(await claimAll(store), []);
  const lease = await claimBatch(store, "a", "b", "c");
  assertEquals(lease.record.batch?.events, 3);
  assertEquals(await claimAll(store), []);
  assert(await store.complete(lease));
  for (const id of ["b", "c"]) {
    const { state, outcome, payload, handledWith, attempts } = (await store.get(id))!;
    assertEquals([state, outcome, payload, handledWith], ["done", "handled", null, "a"]);
    assertEquals(attempts.length, 1);
  }
  await assertNothingWaits({ place });
});

testStore("a member's payload is read as it was accepted", async ({ store }) => {
  const { body } = delivery("b", `{"text":"${"🙂".repeat(40_000)}"}`);
  await acceptTogether(store, ["a", "b"], { body });
  const lease = await claimed(store);
  const [member] = await store.members(lease);
  assertEquals(await store.load({ record: member! }), body);
});

testStore("an event waits again while others join, but not for ever", async ({ store }) => {
  const ids = ["a"];
  const start = performance.now();
  await store.accept(quiet("a", { quietMs: 150, maxWaitMs: 500 }));
  let lease: Lease | undefined;
  let longest = 0;
  let joinedAt = start;
  while (!lease && performance.now() - start < 30_000) {
    const id = `b${ids.length}`;
    const before = joinedAt;
    joinedAt = performance.now();
    await store.accept(quiet(id, { quietMs: 150, maxWaitMs: 500 }));
    ids.push(id);
    await later(60);
    [lease] = await claimAll(store);
    longest = Math.max(longest, performance.now() - before);
  }
  // Not before, unless a pause was long enough, on a busy machine.
  const took = performance.now() - start;
  assert(took >= 490 || longest >= 150, `${took} ms, ${longest} ms`);
  assertEquals((await batchOf(store, lease!)).slice(0, 3), ids.slice(0, 3));
});

testStore("what joins while a batch is handled is the next one", async ({ place, store }) => {
  await acceptTogether(store, ["a", "b"]);
  const first = await claimBatch(store, "a", "b");
  await acceptAll(store, ["c", "d"]);
  assertEquals(await claimAll(store), []);
  assertEquals(await batchOf(store, first), ["a", "b"]);
  assert(await store.complete(first));
  const second = await claimBatch(store, "c", "d");
  assert(await store.complete(second));
  assertEquals(await statesOf(store, "a", "b", "c", "d"), ["done", "done", "done", "done"]);
  await assertNothingWaits({ place });
});

testStore("a batch is tried again as it was", async ({ store }) => {
  await acceptTogether(store, ["a", "b"]);
  const first = await claimBatch(store, "a", "b");
  await acceptAll(store, ["c"]);
  assert(await store.retry(first, 0, new Error("no")));
  const again = await claimBatch(store, "a", "b");
  assertEquals(again.record.attempt, 2);
  assert(await store.release(again, { delayMs: 0, reason: "later" }));
  assert(await store.complete(await claimBatch(store, "a", "b")));
  assertEquals(await batchOf(store, await claimed(store)), ["c"]);
});

testStore("a batch whose lease expires is taken over as it was", async ({ store }) => {
  await acceptTogether(store, ["a", "b"]);
  let lease: Lease | undefined;
  while (!lease) {
    [lease] = await claimAll(store, 1);
    await later(10);
  }
  await acceptAll(store, ["c"]);
  const taken = await claimBatch(store, "a", "b");
  assertEquals(taken.takenOver, true);
  assertEquals(await store.complete(lease), false);
  assert(await store.complete(taken));
});

testStore("a batch dies together, and its events are replayed together", async (sut) => {
  const { place, store } = sut;
  await acceptTogether(store, ["a", "b"]);
  assert(await store.bury(await claimBatch(store, "a", "b"), new Error("no use")));
  const dead = await Array.fromAsync(store.list({ state: "dead" })) as EventRecord[];
  assertEquals(idsOf(dead), ["a", "b"]);
  assertEquals(
    dead.map(({ attempts }) => attempts.at(-1)?.error),
    ["no use", "no use"].map((text) => `Error: ${text}`),
  );
  assertEquals((await store.replayAll({})).changed, 2);
  const { batch, handledWith, attempt } = (await store.get("b"))!;
  assertEquals([batch, handledWith, attempt], [undefined, undefined, 0]);
  assert(await store.complete(await claimBatch(store, "a", "b")));
  await assertNothingWaits({ place });
});

testStore("the first event of a batch is cancelled with all of it", async ({ place, store }) => {
  await acceptTogether(store, ["a", "b"]);
  assert(await store.retry(await claimBatch(store, "a", "b"), 60_000, new Error("no")));
  await acceptAll(store, ["c"]);
  assert(await store.cancel("a"));
  assertEquals(await statesOf(store, "a", "b", "c"), ["dead", "dead", "queued"]);
  assertEquals((await store.get("b"))?.outcome, "cancelled");
  assert(await store.complete(await claimBatch(store, "c")));
  assertEquals(await listed(store, { state: "dead" }), ["a", "b"]);
  await store.purge({});
  await assertNothingWaits({ place });
});

testStore("a batch that is cancelled while it is handled dies with its handler", async (sut) => {
  const { place, store } = sut;
  await acceptTogether(store, ["a", "b"]);
  const lease = await claimBatch(store, "a", "b");
  assert(await store.cancel("a"));
  assertEquals(await statesOf(store, "a", "b"), ["running", "queued"]);
  assert(await store.complete((await store.recover(lease))!));
  assertEquals(await statesOf(store, "a", "b"), ["dead", "dead"]);
  await store.purge({});
  await assertNothingWaits({ place });
});

testStore("an event that waits to be quiet is cancelled alone", async ({ store }) => {
  await acceptTogether(store, ["a", "b", "c"]);
  assert(await store.cancel("a"));
  assert(await store.complete(await claimBatch(store, "b", "c")));
  assertEquals(await statesOf(store, "a", "b", "c"), ["dead", "done", "done"]);
});

testStore("a member that is cancelled leaves its batch", async ({ place, store }) => {
  await acceptTogether(store, ["a", "b", "c"]);
  const lease = await claimBatch(store, "a", "b", "c");
  assert(await store.cancel("c"));
  assertEquals(await batchOf(store, lease), ["a", "b"]);
  assert(await store.complete(lease));
  assertEquals(await statesOf(store, "a", "b", "c"), ["done", "done", "dead"]);
  await store.purge({});
  await assertNothingWaits({ place });
});

testStore("a member that is cancelled keeps what is done of its batch", async ({ store }) => {
  await acceptTogether(store, ["a", "b", "c"]);
  let lease = await claimBatch(store, "a", "b", "c");
  lease = (await store.note(lease, { is: "handler", name: "billed" }))!;
  assert(await store.cancel("b"));
  assert(await store.retry(lease, 0, new Error("no")));
  assertEquals((await store.cancelAll({ ids: ["c"] })).changed, 1);
  for (const id of ["b", "c"]) assertEquals((await store.get(id))?.progress, ["billed"]);
  assert(await store.complete(await claimBatch(store, "a")));
  for (const id of ["b", "c"]) {
    assert(await store.replay(id));
    const again = await claimBatch(store, id);
    assertEquals(again.record.progress, ["billed"]);
    assert(await store.complete(again));
  }
});

testStore("a batch with many parts is replayed as it was, where it failed", async ({ store }) => {
  await acceptTogether(store, ["a", "b", "c"]);
  const lease = await notingParts(store, await claimBatch(store, "a", "b", "c"), 10, 400);
  assert(await store.bury(lease, new Error("no use")));
  await assertDeadWith(store, ["a", "b", "c"], 10);
  assertEquals((await store.replayAll({})).changed, 3);
  const again = await claimBatch(store, "a", "b", "c");
  assertEquals(again.record.progress?.length, 10);
  assert(await store.complete(again));
});

for (const [end, reported] of [["dies", 100], ["is cancelled", 0]] as const) {
  testStoreOnce(
    `a full batch with all the parts that it can have ${end}, and keeps them`,
    async (sut) => {
      const { place, store } = sut;
      const ids = named(100);
      await acceptTogether(store, ids);
      const lease = await notingParts(store, await claimed(store), 32, 1_000);
      if (end === "is cancelled") assert(await store.cancel(lease.record.id));
      const held = (await store.recover(lease))!;
      assert(await store.bury(held, new Error("no"), { reports: true }));
      await assertDeadWith(store, ids, 32);
      const reports = await claimAll(store);
      assertEquals(reports.length, reported);
      for (const report of reports) assert(await store.complete(report));
      const outcome = end === "dies" ? "failed" : "cancelled";
      assertEquals((await store.replayAll({ outcome })).changed, 100);
      const again = await claimed(store);
      assertEquals([again.record.batch?.events, again.record.progress?.length], [100, 32]);
      assert(await store.complete(again));
      assertEquals((await Array.fromAsync(store.list({ ids, state: "done" }))).length, 100);
      await assertNothingWaits({ place });
    },
  );
}

testStore(
  "an export keeps what is done of a batch, and an import its events together",
  async ({ elsewhere, store }) => {
    await acceptTogether(store, ["a", "b"]);
    const lease = await notingParts(store, await claimBatch(store, "a", "b"), 10, 400);
    assert(await store.retry(lease, 0, new Error("no")));
    await using opened = await elsewhere();
    const other = opened.store;
    assertEquals((await importEvents(other, exportEvents(store))).imported, 2);
    const moved = await claimBatch(other, "a", "b");
    assertEquals(moved.record.progress, lease.record.progress);
    assertEquals((await other.get("b"))?.progress, lease.record.progress);
    await using third = await elsewhere();
    const alone = third.store;
    await importEvents(alone, exportEvents(store, { ids: ["b"] }));
    assertEquals((await alone.get("b"))?.progress, lease.record.progress);
  },
);

testStore("all events of batches are cancelled, and each is counted", async ({ store }) => {
  await acceptTogether(store, ["a", "b"]);
  assert(await store.retry(await claimBatch(store, "a", "b"), 60_000, new Error("no")));
  const { changed, left } = await store.cancelAll({ ids: ["a", "b"] });
  assertEquals([changed, left], [2, []]);
  assertEquals((await store.stats()).dead, 2);
});

testStore("a member that is delivered again is a duplicate", async ({ store }) => {
  await acceptTogether(store, ["a", "b"]);
  const lease = await claimBatch(store, "a", "b");
  assertEquals(await store.accept(quiet("b")), { id: "b", duplicate: true });
  assert(await store.complete(lease));
  assertEquals(await store.accept(quiet("b")), { id: "b", duplicate: true });
});

testStore("an event of another type or action begins the next batch", async ({ store }) => {
  await acceptTogether(store, ["a", "b"], { action: "opened" });
  await acceptAll(store, ["c"], { action: "labeled" });
  await acceptAll(store, ["d"], { type: "issues", action: "labeled" });
  await store.accept(delivery("e", "{}", "key"));
  await acceptAll(store, ["f"]);
  for (const ids of [["a", "b"], ["c"], ["d"], ["e"], ["f"]]) {
    assert(await store.complete(await claimBatch(store, ...ids)));
  }
});

/** Claims a batch with handlers that are told by the last letter of an event's type. */
async function claimedBy(store: EventStore, handlers: Readonly<Record<string, string>>) {
  const handlersOf = ({ type }: EventRecord) => [...handlers[type] ?? ""];
  const claim = { limit: 1, owner: crypto.randomUUID(), leaseMs: 30_000, handlersOf };
  for (;; await later(10)) {
    const [lease] = await store.claim(claim);
    if (lease) return [lease, await batchOf(store, lease)] as const;
  }
}

const MIXED = [["a", "x"], ["b", "y"], ["c", "x"], ["d", "z"]] as const;

/** Takes events of different types in, while another one of their key is handled. */
async function acceptMixed(store: EventStore, more?: Partial<Delivery>): Promise<void> {
  await store.accept(delivery("before", "{}", "key"));
  const lease = await claimed(store);
  for (const [id, type] of MIXED) await store.accept(quiet(id, { type, ...more }));
  assert(await store.complete(lease));
}

testStoreInOneProcess(
  "events of different types are leased together by one handler",
  async (sut) => {
    const { store } = sut;
    await acceptMixed(store, { together: "all" });
    const [first, ids] = await claimedBy(store, { x: "12", y: "12", z: "1" });
    assertEquals(ids, ["a", "b", "c"]);
    // Which events are handled together is known once the first attempt has begun, also without these handlers.
    assert(await store.retry(first, 0, new Error("no")));
    assertEquals((await claimBatch(store, "a", "b", "c")).record.attempt, 2);
  },
);

/** An event of a random group: its type, and whether it asks to be handled with others. */
interface Asking {
  readonly type: string;
  readonly together: "all" | undefined;
}

/** Splits events into batches: each goes with the first one of its batch by its name, or by their handlers. */
function split(events: readonly Asking[], handlers: Readonly<Record<string, string>>): string[][] {
  const batches: [first: Asking, ids: string[]][] = [];
  for (const [i, event] of events.entries()) {
    const [first, ids] = batches.at(-1) ?? [];
    const areBoth = first?.together && event.together && handlers[event.type] !== "" &&
      handlers[event.type] === handlers[first.type];
    if (first?.type === event.type || areBoth) ids!.push(`e${i}`);
    else batches.push([event, [`e${i}`]]);
  }
  return batches.map(([, ids]) => ids);
}

testStoreOnce("a group falls into batches as its events and the handlers say", async (sut) => {
  const type = fc.constantFrom("x", "y", "z");
  const together = fc.constantFrom("all" as const, "all" as const, undefined);
  const events = fc.array(fc.record({ type, together }), { minLength: 1, maxLength: 12 });
  const some = fc.constantFrom("", "1", "2", "12");
  const handlers = fc.record({ x: some, y: some, z: some });
  const property = fc.asyncProperty(events, handlers, async (events, handlers) => {
    await using opened = await sut.elsewhere();
    const { store } = opened;
    await store.accept(delivery("before", "{}", "key"));
    const lease = await claimed(store);
    for (const [i, each] of events.entries()) await store.accept(quiet(`e${i}`, each));
    assert(await store.complete(lease));
    const batches: string[][] = [];
    while (batches.flat().length < events.length) {
      const [lease, ids] = await claimedBy(store, handlers);
      batches.push(ids);
      assert(await store.complete(lease));
    }
    assertEquals(batches, split(events, handlers));
  });
  await fc.assert(property, { numRuns: byLength(200, 25) });
});

testStoreInOneProcess("a batch of different types is cut by other handlers", async ({ store }) => {
  await acceptMixed(store, { together: "all" });
  const all = { x: "1", y: "1", z: "1" };
  const [first, ids] = await claimedBy(store, all);
  assertEquals(ids, ["a", "b", "c", "d"]);
  assert(await store.retry(first, 0, new Error("no")));
  const [second, left] = await claimedBy(store, { ...all, z: "2" });
  assertEquals([left, second.record.batch?.events], [["a", "b", "c"], 3]);
  assert(await store.complete(second));
  assertEquals((await store.get("d"))?.state, "queued");
  assertEquals((await claimedBy(store, all))[1], ["d"]);
});

testStoreInOneProcess("events of different types are not leased together unasked", async (sut) => {
  const { store } = sut;
  const all = { x: "1", y: "1", z: "1" };
  await acceptMixed(store);
  assertEquals((await claimedBy(store, all))[1], ["a"]);
});

testStoreInOneProcess("events without handlers are not leased together", async ({ store }) => {
  await acceptMixed(store, { together: "all" });
  assertEquals((await claimedBy(store, {}))[1], ["a"]);
});

testStoreInOneProcess("a replay and an import keep that all types are together", async (sut) => {
  const { elsewhere, store } = sut;
  const all = { x: "1", y: "1", z: "1" };
  await acceptMixed(store, { together: "all" });
  assert(await store.bury((await claimedBy(store, all))[0], new Error("no")));
  await using opened = await elsewhere();
  await importEvents(opened.store, exportEvents(store, { state: "dead" }));
  for (const each of [store, opened.store]) {
    assertEquals((await each.replayAll({})).changed, 4);
    assertEquals((await claimedBy(each, all))[1], ["a", "b", "c", "d"]);
  }
});

testStore("the first event that waits is cancelled alone", async ({ store }) => {
  await acceptAll(store, ["a", "b"], { quietMs: 300 });
  assert(await store.cancel("a"));
  assert(await store.complete(await claimBatch(store, "b")));
  assertEquals(await statesOf(store, "a", "b"), ["dead", "done"]);
});

testStore("a batch has a hundred events at most", async ({ place, store }) => {
  const ids = Array.from({ length: 102 }, (_, i) => `d${String(i).padStart(3, "0")}`);
  await acceptTogether(store, ids);
  const first = await claimed(store);
  assertEquals((await batchOf(store, first)).length, 100);
  assert(await store.complete(first, { effects: place.effects.set("effect", 1) }));
  const second = await claimed(store);
  assertEquals((await batchOf(store, second)).length, 2);
  assert(await store.bury(second, new Error("x".repeat(2_000))));
  assertEquals(await store.stats().then(({ done, dead }) => [done, dead]), [100, 2]);
  await store.purge({});
  await assertNothingWaits({ place });
});

/** A text that takes three bytes for each character. */
const NAME = "名".repeat(700);

const LONG_NAMES: Partial<Delivery> = {
  repository: { id: 1, fullName: NAME, owner: NAME, name: NAME },
  sender: { id: 1, name: NAME, isBot: false },
};

testStore("a batch with names and errors that are not Latin dies, and is reported", async (sut) => {
  const { store } = sut;
  const ids = Array.from({ length: 100 }, (_, i) => `d${i}`);
  for (const error of ["名".repeat(1_000), "\0".repeat(1_000)]) {
    // An engine whose commits are large has settled all of them at once.
    if ((await store.stats()).queued === 0) await acceptTogether(store, ids, LONG_NAMES);
    const first = await claimed(store);
    const { length } = await batchOf(store, first);
    assert(length > 15, `${length}`);
    assert(await store.bury(first, new Error(error), { reports: true }));
    assertEquals(await settleReports(store), length);
    assertEquals((await store.purge({ state: "dead" })).changed, length);
  }
});

/** Completes the reports of deaths, and counts them. */
async function settleReports(store: EventStore): Promise<number> {
  const isReport = ({ record }: Lease) => record.intake === "dead";
  for (let count = 0;;) {
    const leases = await claimAll(store);
    for (const lease of leases.filter((lease) => !isReport(lease))) await store.release(lease);
    const reports = leases.filter(isReport);
    for (const lease of reports) assert(await store.complete(lease));
    count += reports.length;
    if (reports.length === 0) return count;
  }
}

testStore(
  "an unreadable record ends a batch",
  async ({ damages, store }) => {
    await acceptTogether(store, ["a", "b", "c"]);
    const restore = await damages.spoil("event", "b");
    assert(await store.complete(await claimBatch(store, "a")));
    assertEquals(await claimAll(store), []);
    assertEquals((await store.stats()).unreadable, 1);
    await restore();
    await damages.makeDue("b");
    assert(await store.complete(await claimBatch(store, "b", "c")));
  },
  {},
  "damages",
);

testStore(
  "an event that becomes unreadable while its batch is handled stays",
  async (sut) => {
    const { damages, store } = sut;
    await acceptTogether(store, ["a", "b", "c"]);
    const lease = await claimBatch(store, "a", "b", "c");
    const restore = await damages.spoil("event", "b");
    assert(await store.complete(lease));
    assertEquals(await statesOf(store, "a", "c"), ["done", "done"]);
    assertEquals((await store.stats()).unreadable, 1);
    await restore();
    await damages.makeDue("b");
    assert(await store.complete(await claimBatch(store, "b")));
  },
  {},
  "damages",
);

testStore("the death of each event of a batch is reported", async ({ store }) => {
  const ids = Array.from({ length: 100 }, (_, i) => `telegram:${300_000_000 + i}`);
  await acceptTogether(store, ids);
  const lease = await claimed(store);
  assertEquals((await batchOf(store, lease)).length, 100);
  assert(await store.bury(lease, new Error("x".repeat(1_000)), { reports: true }));
  const reports = [];
  for await (const { type, source, state } of store.list({ state: "queued" })) {
    reports.push([type, source, state].join());
  }
  assertEquals(reports, ids.map(() => "dead,dead,queued"));
});

testStore("a batch emits as many events as any other event", async ({ store }) => {
  const ids = Array.from({ length: 90 }, (_, i) => `telegram:${300_000_000 + i}`);
  await acceptTogether(store, ids);
  const lease = await claimed(store);
  const emits = ids.flatMap(() => [emissionOf("jobs", "x", {}), emissionOf("jobs", "y", {})]);
  assert(await store.complete(lease, { emits }));
  assertEquals((await store.stats()).queued, 180);
});

testStore("the payloads of a batch are kept, and each of its events is replayed", async (sut) => {
  const { place } = sut;
  const keepPayloads = { forMs: 60_000, maxBytes: 1_000_000 };
  const store = await place.open({ keepPayloads });
  const ids = Array.from({ length: 100 }, (_, i) => `d${i}`);
  await acceptTogether(store, ids);
  assert(await store.complete(await claimed(store)));
  assertEquals((await place.contents()).kept.payloads, 100);
  const record = (await store.get("d7"))!;
  assertEquals(await store.load({ record }), delivery("d7", "{}").body);
  assertEquals((await store.replayAll({ state: "done" })).changed, 100);
  const again = await claimed(store);
  assertEquals((await batchOf(store, again)).length, 100);
  assertEquals([again.record.keyRun, again.record.attempt], [1, 1]);
});
