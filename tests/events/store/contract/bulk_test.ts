import { assert, assertEquals, assertLess } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import type { BulkOptions, BulkResult, EventStore } from "../../../../events/mod.ts";
import { buryAll, claimAll, claimOne, delivery, idsOf, listed, oneOfEach } from "../_events.ts";
import { testStore, testStoreOnce } from "./_contract.ts";

const numbered = (count: number) => Array.from({ length: count }, (_, i) => `d${i + 10}`);

async function acceptAll(store: EventStore, ids: readonly string[], key?: string): Promise<void> {
  for (const id of ids) await store.accept(delivery(id, "{}", key));
}

interface Way {
  /** Makes events that it changes. */
  readonly make: (store: EventStore, ids: readonly string[]) => Promise<void>;
  readonly run: (store: EventStore, options: BulkOptions) => Promise<BulkResult>;
}

const WAYS: Readonly<Record<string, Way>> = {
  replayAll: { make: buryAll, run: (store, options) => store.replayAll({}, options) },
  cancelAll: { make: acceptAll, run: (store, options) => store.cancelAll({}, options) },
  purge: { make: buryAll, run: (store, options) => store.purge({}, options) },
};

testStore("replayAll() puts dead events back, and no others", async ({ store }) => {
  await oneOfEach(store);
  await store.cancel("queued");
  assertEquals(await store.replayAll({ type: "issues" }), { changed: 1, left: [] });
  const { record } = await claimOne(store);
  assertEquals([record.id, record.attempt, record.attempts.length], ["dead", 1, 1]);
  assertEquals(await listed(store, { state: "dead" }), ["queued"]);
});

testStore("replayAll() leaves what was cancelled, unless it is named", async ({ store }) => {
  for (const id of ["c1", "c2", "d1"]) await store.accept(delivery(id));
  for (const id of ["c1", "c2"]) assert(await store.cancel(id));
  await store.bury(await claimOne(store), new Error("no"));
  assertEquals(await store.replayAll({ type: "push" }), { changed: 1, left: [] });
  assertEquals(await store.replayAll({ state: "dead" }), { changed: 0, left: [] });
  assertEquals(await store.replayAll({ ids: ["c1"] }), { changed: 1, left: [] });
  assertEquals((await store.replayAll({ outcome: "cancelled" })).changed, 1);
});

testStore("a dry run of replayAll(), cancelAll() and purge() only counts", async ({ store }) => {
  await store.accept(delivery("d1"));
  await store.bury(await claimOne(store), new Error("no"));
  for (const id of ["d2", "d3"]) await store.accept(delivery(id));
  const before = await store.stats();
  const dryRun = { dryRun: true };
  const ids = ["d1", "d2", "d3", "d4"];
  const left = ["d2", "d3", "d4"];
  assertEquals(await store.replayAll({ ids }, dryRun), { changed: 1, left });
  assertEquals(await store.purge({ ids }, dryRun), { changed: 1, left });
  assertEquals(await store.cancelAll({ ids }, dryRun), { changed: 2, left: ["d1", "d4"] });
  assertEquals(await store.stats(), before);
});

testStore("replayAll() tells which of the ids it could not put back", async ({ store }) => {
  await oneOfEach(store);
  const ids = ["done", "dead", "running", "queued", "unknown"];
  const left = ["done", "running", "queued", "unknown"];
  assertEquals(await store.replayAll({ ids }), { changed: 1, left });
  assertEquals((await store.replayAll({ ids, state: "queued" })).changed, 0);
});

testStore("replayAll() puts more events back than share a commit", async ({ store }) => {
  const ids = numbered(25);
  await buryAll(store, ids);
  assertEquals((await store.replayAll({})).changed, 25);
  assertEquals(idsOf(await claimAll(store)).toSorted(), ids);
});

testStoreOnce("replayAll() keeps the order in which events of a key were received", async (sut) => {
  using time = new FakeTime();
  const ids = ["d3", "d1", "d4", "d2"];
  for (const id of ids) {
    await buryAll(sut.store, [id], "key");
    time.tick(1);
  }
  await sut.store.replayAll({});
  const handled = [];
  for (const _ of ids) {
    const lease = await claimOne(sut.store);
    handled.push(lease.record.id);
    await sut.store.complete(lease);
  }
  assertEquals(handled, ids);
});

testStore("cancelAll() gives up what waits or runs, and no more", async ({ place, store }) => {
  await oneOfEach(store);
  assertEquals(await store.cancelAll({ type: "issues" }), { changed: 0, left: [] });
  const { changed, left } = await store.cancelAll({ ids: ["running", "queued", "done"] });
  assertEquals([changed, left], [2, ["done"]]);
  assertEquals(await listed(store, { state: "dead" }), ["dead", "queued"]);
  assertEquals(typeof (await store.get("running"))?.cancelRequestedAt, "number");
  assertEquals((await place.contents()).times, 1);
});

testStore("cancelAll() flags an event that runs, which never becomes done", async ({ store }) => {
  await store.accept(delivery("d1"));
  const lease = await claimOne(store);
  assertEquals((await store.cancelAll({})).changed, 1);
  assertEquals([await store.renew(lease, 1_000), await store.complete(lease)], [null, false]);
  assert(await store.complete((await store.recover(lease))!));
  assertEquals((await store.get("d1"))?.outcome, "cancelled");
});

testStore("cancelAll() gives up all that stand in line", async ({ store }) => {
  await acceptAll(store, numbered(5), "key");
  assertEquals((await store.cancelAll({})).changed, 5);
  await acceptAll(store, ["d1"], "key");
  assertEquals((await claimOne(store)).record.id, "d1");
});

testStore("purge() deletes more events than share a commit", async ({ place, store }) => {
  await buryAll(store, numbered(25));
  assertEquals((await store.purge({})).changed, 25);
  const { events, payloads } = await place.contents();
  assertEquals([events, payloads], [0, 0]);
});

for (const [name, { make, run }] of Object.entries(WAYS)) {
  testStoreOnce(`${name}() tells how far it has come`, async (sut) => {
    await make(sut.store, numbered(25));
    const progress: { seen: number; changed: number }[] = [];
    await run(sut.store, { onProgress: (each) => progress.push(each) });
    assertEquals(progress.at(-1), { seen: 25, changed: 25 });
    const steps = progress.map(({ changed }) => changed);
    assertEquals(steps, steps.toSorted((a, b) => a - b));
  });

  testStoreOnce(`${name}() ends between two commits, and keeps what was done`, async (sut) => {
    await make(sut.store, numbered(400));
    const ending = new AbortController();
    const onProgress = ({ changed }: { changed: number }) => {
      if (changed >= 20) ending.abort();
    };
    const { changed } = await run(sut.store, { onProgress, signal: ending.signal });
    assertLess(changed, 400);
    assertEquals((await run(sut.store, {})).changed, 400 - changed);
  });
}
