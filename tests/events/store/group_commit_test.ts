import { assertEquals, assertLess, assertRejects } from "@std/assert";
import { changedKv } from "../../../dev/harness/faulty_kv.ts";
import { openEventStore } from "../../../events/mod.ts";
import { encodeValue } from "../../../events/store/value_codec.ts";
import { accepted } from "../../../events/store/arrival.ts";
import { newPayloadRef } from "../../../events/store/kv/_payload.ts";
import { SharedEntries, Write } from "../../../events/store/kv/_write.ts";
import { storeKeys } from "../../../events/store/kv/_layout.ts";
import { GroupCommit } from "../../../events/store/kv/_group_commit.ts";
import { createNotifier } from "../../../events/store/kv/notifier.ts";
import { limitChecks } from "./_commits.ts";
import { claimAll, delivery } from "./_events.ts";
import { valueAt } from "./_values.ts";

/** Notes what becomes of the commits of a KV, as they are made. */
function watchCommits(kv: Deno.Kv): string[] {
  const outcomes: string[] = [];
  const atomic = kv.atomic.bind(kv);
  kv.atomic = () => {
    const operation = atomic();
    const commit = operation.commit.bind(operation);
    operation.commit = async () => {
      try {
        const result = await commit();
        outcomes.push(result.ok ? "made" : "stale");
        return result;
      } catch (error) {
        outcomes.push(String(error));
        throw error;
      }
    };
    return operation;
  };
  return outcomes;
}

Deno.test("deliveries that come together fill commits, and none is too large", async () => {
  using kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv, { notifier: "watch" });
  const outcomes = watchCommits(kv);
  const ids = Array.from({ length: 500 }, (_, i) => `d${i}`);
  await Promise.all(ids.map((id) => store.accept(delivery(id))));
  assertEquals(new Set(outcomes), new Set(["made"]));
  assertLess(outcomes.length, 10);
});

/** Has the commits of a KV wait until they are let go. */
function holdCommits(kv: Deno.Kv): (() => void)[] {
  const held: (() => void)[] = [];
  const atomic = kv.atomic.bind(kv);
  kv.atomic = () => {
    const operation = atomic();
    const commit = operation.commit.bind(operation);
    operation.commit = async () => {
      await new Promise<void>((resolve) => held.push(resolve));
      return await commit();
    };
    return operation;
  };
  return held;
}

/** Checks if a promise is settled once all that can happen by now has happened. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  promise.then(() => settled = true);
  await new Promise((resolve) => setTimeout(resolve, 5));
  return settled;
}

Deno.test("a delivery waits for no commit of work, and takes no more of it along", async () => {
  // A commit that takes 25 ms is slow, and others pass it: a busy machine needs some tries.
  for (let tries = 0; !await passesWork(20); tries++) assertLess(tries, 100);
});

/** Looks whether a delivery passes a commit of work; false if that took longer than a time. */
async function passesWork(withinMs: number): Promise<boolean> {
  using kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv, { notifier: "watch" });
  await Promise.all(["a", "b", "c"].map((id) => store.accept(delivery(id))));
  const [first, ...others] = await claimAll(store);
  const held = holdCommits(kv);
  const start = performance.now();
  const settling = store.complete(first!);
  await isSettled(settling);
  const waiting = Promise.all(others.map((lease) => store.complete(lease)));
  const passing = store.accept(delivery("d"));
  const next = store.accept(delivery("e"));
  await isSettled(passing);
  const last = store.accept(delivery("f"));
  await isSettled(last);
  const commits = held.length;
  const isInTime = performance.now() - start < withinMs;
  if (isInTime) {
    assertEquals(commits, 2);
    held[1]!();
    await Promise.all([passing, next]);
    assertEquals(await Promise.all([settling, waiting].map(isSettled)), [false, false]);
  }
  const all = Promise.all([settling, waiting, last]);
  while (!await isSettled(all)) for (const release of held) release();
  await all;
  assertEquals((await store.stats()).done, 3);
  return isInTime;
}

/** Has the first commit of a KV meet the lock of another process, and notes when each was tried. */
function lockOnce(kv: Deno.Kv): { startedAt: number; endedAt: number }[] {
  const tries: { startedAt: number; endedAt: number }[] = [];
  const atomic = kv.atomic.bind(kv);
  kv.atomic = () => {
    const operation = atomic();
    const commit = operation.commit.bind(operation);
    operation.commit = async () => {
      const startedAt = performance.now();
      const result = tries.length === 0 ? undefined : await commit();
      tries.push({ startedAt, endedAt: performance.now() });
      if (!result) throw new Error("database is locked");
      return result;
    };
    return operation;
  };
  return tries;
}

/** Checks if a store leaves the KV free for a moment after each commit once another process has locked it. */
async function leavesGaps(): Promise<boolean> {
  using kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv, { notifier: "watch" });
  const tries = lockOnce(kv);
  const accepted: Promise<unknown>[] = [];
  for (let i = 0; i < 6; i++) {
    accepted.push(store.accept(delivery(`d${i}`)));
    await new Promise((resolve) => setTimeout(resolve));
  }
  await Promise.all(accepted);
  await new Promise((resolve) => setTimeout(resolve, 10));
  const [locked, first, ...others] = tries;
  assertLess(locked!.endedAt, first!.startedAt);
  assertLess(0, others.length);
  return others.every((each, i) => [first!, ...others][i]!.endedAt + 0.9 < each.startedAt);
}

Deno.test("commits leave a file that is shared with another process free in between", async () => {
  // On a busy machine a commit may take so long that the next one does not wait for it.
  for (let left = 5; !await leavesGaps(); left--) assertLess(0, left);
});

/** Commits five changes of four checks each at once, and tells how many were made. */
async function commitFive(kv: Deno.Kv): Promise<number> {
  const notifier = createNotifier("watch", kv, "events");
  const keys = storeKeys("events");
  const commits = new GroupCommit(kv, keys, notifier, new SharedEntries(keys));
  const writes = Array.from({ length: 5 }, (_, i) => {
    const keys = Array.from({ length: 4 }, (_, j) => ["own", 10 * i + j]);
    const write = new Write().set(["own", i], encodeValue(true));
    for (const key of keys) write.check({ key, versionstamp: null });
    return write;
  });
  const results = await Promise.all(writes.map((write) => commits.commit(write)));
  return results.filter((version) => version !== null).length;
}

Deno.test("changes of four checks each are written by a KV that takes ten", async () => {
  using kv = await Deno.openKv(":memory:");
  const commits = limitChecks(kv, 10);
  assertEquals(await commitFive(kv), 5);
  // All at once, then two at a time.
  assertEquals(commits.tried, 4);
});

Deno.test("changes are written one by one by a KV that takes even fewer checks", async () => {
  using kv = await Deno.openKv(":memory:");
  limitChecks(kv, 4);
  assertEquals(await commitFive(kv), 5);
});

Deno.test("effects with more checks than the KV takes fail once, and say so", async () => {
  using kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv, { notifier: "watch" });
  await store.accept(delivery("d1"));
  const [lease] = await claimAll(store);
  const commits = limitChecks(kv, 10);
  const checks = Array.from({ length: 10 }, (_, i) => ({ key: ["own", i], versionstamp: null }));
  await assertRejects(
    () => store.complete(lease!, (commit) => commit.check(...checks)),
    Error,
    "Cannot commit the change: too many checks",
  );
  assertEquals(commits.tried, 1);
});

/** Commits writes of which all but the last one are refused, each of which would store an event. */
async function commitRefused(kv: Deno.Kv, count: number): Promise<PromiseSettledResult<unknown>[]> {
  const keys = storeKeys("events");
  const notifier = createNotifier("watch", kv, "events");
  const commits = new GroupCommit(kv, keys, notifier, new SharedEntries(keys));
  const ids = Array.from({ length: count }, (_, i) => `d${i}`);
  for (const id of ids.slice(0, -1)) await kv.set(["own", id], true);
  return await Promise.allSettled(ids.map((id) => {
    const write = new Write().check({ key: ["own", id], versionstamp: null })
      .set(["own", id], encodeValue(1));
    const { body } = delivery(id);
    write.proof = accepted(delivery(id), id, newPayloadRef(body), Date.now());
    return commits.commit(write);
  }));
}

Deno.test("the records of writes that are refused together are read ten at a time", async () => {
  using kv = await Deno.openKv(":memory:");
  let reads = 0;
  const results = await commitRefused(
    changedKv(kv, {
      get: (key: Deno.KvKey) => (reads++, kv.get(key)),
      getMany: (keys: Deno.KvKey[]) => (reads++, kv.getMany(keys)),
    }),
    30,
  );
  const refused = results.filter((result) => result.status === "fulfilled" && !result.value);
  // The versions that were checked, and the records.
  assertEquals([refused.length, reads], [29, 6]);
});

Deno.test("a write is made although the KV fails to read whether those beside it were", async () => {
  using kv = await Deno.openKv(":memory:");
  const isOwn = ([first]: Deno.KvKey) => first === "own";
  const lost = () => Promise.reject(new Error("connection lost"));
  const get = (key: Deno.KvKey) => isOwn(key) ? kv.get(key) : lost();
  const getMany = (keys: Deno.KvKey[]) => keys.every(isOwn) ? kv.getMany(keys) : lost();
  const results = await commitRefused(changedKv(kv, { get, getMany }), 3);
  assertEquals(results.map(({ status }) => status), ["rejected", "rejected", "fulfilled"]);
  assertEquals(await valueAt(kv, ["own", "d2"]), 1);
});

Deno.test("a refused write that would leave its record as it is was not made", async () => {
  using kv = await Deno.openKv(":memory:");
  const keys = storeKeys("events");
  const notifier = createNotifier("watch", kv, "events");
  const commits = new GroupCommit(kv, keys, notifier, new SharedEntries(keys));
  const record = accepted(delivery("d1"), "d1", newPayloadRef(delivery("d1").body), Date.now());
  const key = keys.event(record);
  const { versionstamp } = await kv.set(key, encodeValue(record));
  await kv.set(["own"], true);
  const write = new Write().check({ key, versionstamp }).set(key, encodeValue(record));
  write.check({ key: ["own"], versionstamp: null });
  write.proof = record;
  assertEquals(await commits.commit(write), null);
});
