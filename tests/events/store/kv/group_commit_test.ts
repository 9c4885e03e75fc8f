import { CommitMarks } from "../../../../core/kv_commits.ts";
import { assertEquals, assertLess, assertRejects } from "@std/assert";
import { changedKv } from "../../../../dev/harness/faulty_kv.ts";
import { openEventStore } from "../../../../events/mod.ts";
import { GroupCommit } from "../../../../events/store/kv/_group_commit.ts";
import { storeKeys } from "../../../../events/store/kv/_layout.ts";
import { SharedEntries, Write } from "../../../../events/store/kv/_write.ts";
import { createNotifier } from "../../../../events/store/kv/notifier.ts";
import { encodeValue } from "../../../../events/store/kv/value_codec.ts";
import { claimAll, delivery } from "../_events.ts";
import { limitChecks } from "./_commits.ts";

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

function groupCommit(kv: Deno.Kv): GroupCommit {
  const keys = storeKeys("events");
  const marks = new CommitMarks(kv, keys.commitMarks);
  const notifier = createNotifier("watch", kv, "events");
  return new GroupCommit(kv, marks, notifier, new SharedEntries(keys));
}

/** Commits five changes of four checks each at once, and tells how many were made. */
async function commitFive(kv: Deno.Kv): Promise<number> {
  const commits = groupCommit(kv);
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
  // Four, and that of the mark.
  limitChecks(kv, 5);
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
    () => store.complete(lease!, { effects: (commit) => commit.check(...checks) }),
    Error,
    "Cannot commit the change: too many checks",
  );
  assertEquals(commits.tried, 1);
});

Deno.test("the checks of writes that are refused together are read ten at a time", async () => {
  using kv = await Deno.openKv(":memory:");
  let reads = 0;
  const counted = changedKv(kv, {
    get: (key: Deno.KvKey) => (reads++, kv.get(key)),
    getMany: (keys: Deno.KvKey[]) => (reads++, kv.getMany(keys)),
  });
  const commits = groupCommit(counted);
  const numbers = Array.from({ length: 30 }, (_, i) => i);
  for (const i of numbers.slice(0, -1)) await kv.set(["own", i], true);
  const results = await Promise.all(numbers.map((i) => {
    const key = ["own", i];
    return commits.commit(new Write().check({ key, versionstamp: null }).set(key, encodeValue(1)));
  }));
  assertEquals(results.filter((version) => version === null).length, 29);
  // The mark of the commit, and the versions that were checked.
  assertEquals(reads, 4);
});
