/** Reports of events that fail again and again. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import type { EventStore, Lease } from "../../../../events/mod.ts";
import type { FailingEvent, FailingRule } from "../../../../events/store/mod.ts";
import { WallClock } from "../../../_wall_clock.ts";
import { claimAll, claimOne, delivery } from "../_events.ts";
import { testFailing, testStore, testStoreOnce } from "./_contract.ts";

const AFTER_TWO: readonly FailingRule[] = [{ afterAttempts: 2 }];

/** Has an attempt fail, and the next one due at once. */
function fail(store: EventStore, lease: Lease, reports = AFTER_TWO, delayMs = 0) {
  return store.retry(lease, delayMs, new Error("no"), { reports });
}

/** Claims what is due; returns the leases of reports, and that of the other event. */
async function claimed(store: EventStore) {
  const leases = await claimAll(store);
  const [event] = leases.filter(({ record }) => record.source !== "failing");
  return { reports: leases.filter(({ record }) => record.source === "failing"), event };
}

async function payloadOf(store: EventStore, lease: Lease): Promise<FailingEvent> {
  return JSON.parse(new TextDecoder().decode(await store.load(lease)));
}

testStore("retry() reports an event once, in the commit of the attempt", async ({ store }) => {
  await store.accept(delivery("d1"));
  const first = await claimOne(store);
  assert(await fail(store, first));
  const second = await claimOne(store);
  assert(await fail(store, second, AFTER_TWO, 60_000));
  const { reports: [report, ...others], event } = await claimed(store);
  assertEquals([others, event], [[], undefined]);
  const { receivedAt } = first.record;
  const { id, type, action, causedBy } = report!.record;
  assertEquals([id, type, action, causedBy], [
    ...[`failing:d1/${receivedAt}/0/attempt-2`, "failing", "attempt-2", "d1"],
  ]);
  const failing = await store.get("d1");
  const payload = await payloadOf(store, report!);
  assertEquals([payload.id, payload.attempt, payload.attempts], ["d1", 2, failing!.attempts]);
  assertEquals(payload.nextAttemptAt, failing!.dueAt);
  assertEquals(payload.since, failing!.attempts[0]!.endedAt);
});

testStore("a report is made once in each run", async ({ store }) => {
  await store.accept(delivery("d1"));
  for (let run = 0; run < 2; run++) {
    let count = 0;
    for (let attempt = 1; attempt <= 4; attempt++) {
      const { event, reports } = await claimed(store);
      count += reports.length;
      for (const report of reports) await store.complete(report);
      await fail(store, event!);
    }
    assertEquals(count, 1);
    const { event } = await claimed(store);
    await store.bury(event!, "no");
    assert(await store.replay("d1"));
    assertEquals((await store.get("d1"))?.failing, undefined);
  }
  assertEquals((await store.stats({ source: "failing" })).done, 2);
});

for (const fault of ["before", "after"] as const) {
  testFailing(
    fault,
    `a report is stored once if the commit fails ${fault} it is made`,
    async ({ failing: { store, arm } }) => {
      await store.accept(delivery("d1"));
      await fail(store, await claimOne(store));
      const lease = await claimOne(store);
      arm();
      await assertRejects(() => fail(store, lease));
      assertEquals(await fail(store, lease), fault === "before");
      assertEquals((await store.stats({ source: "failing" })).queued, 1);
      const { event } = await claimed(store);
      await fail(store, event!);
      assertEquals((await store.stats({ source: "failing" })).running, 1);
      assertEquals((await store.get("d1"))?.failing?.reported, ["attempt-2"]);
    },
  );
}

testStore("a worker that has lost its lease reports nothing", async ({ store }) => {
  await store.accept(delivery("d1"));
  const lease = await claimOne(store);
  await store.release(lease);
  assertEquals(await fail(store, lease, [{ afterAttempts: 1 }]), false);
  assertEquals((await store.stats({ source: "failing" })).queued, 0);
});

testStoreOnce("an event is reported by several rules, each when it is due", async ({ store }) => {
  using clock = new WallClock();
  /** Completes the reports that are due, and lists their rules. */
  const rulesOf = async ({ reports }: Awaited<ReturnType<typeof claimed>>) => {
    for (const report of reports) assert(await store.complete(report));
    return reports.map(({ record }) => record.action);
  };
  await store.accept(delivery("d1"));
  const rules = [{ afterAttempts: 1 }, { afterMs: 600_000 }, { afterMs: 1_500_000 }];
  await fail(store, await claimOne(store), rules, 480_000);
  assertEquals(await rulesOf(await claimed(store)), ["attempt-1"]);
  clock.advance(480_000);
  const second = await claimed(store);
  assertEquals(await rulesOf(second), []);
  await fail(store, second.event!, rules, 1_200_000);
  const { failing, dueAt } = (await store.get("d1"))!;
  clock.advance(114_000);
  assertEquals(await claimAll(store), []);
  // Before the next attempt, which is too late for it.
  clock.advance(12_000);
  const third = await claimed(store);
  const { since, nextAttemptAt } = await payloadOf(store, third.reports[0]!);
  assertEquals([since, nextAttemptAt], [failing!.since, dueAt!]);
  assertEquals([await rulesOf(third), third.event], [["after-600000ms"], undefined]);
  clock.advance(888_000);
  assertEquals(await claimAll(store), []);
  clock.advance(12_000);
  assertEquals(await rulesOf(await claimed(store)), ["after-1500000ms"]);
});

testStoreOnce(
  "neither reports are reported nor what comes of them, nor cancelled events",
  async ({ store }) => {
    const rules = [{ afterAttempts: 1 }];
    const emits = [{
      source: "jobs",
      type: "job",
      delayMs: 0,
      body: new TextEncoder().encode("{}"),
    }];
    await store.accept(delivery("d1"));
    await fail(store, await claimOne(store), rules, 60_000);
    const report = await claimOne(store);
    await fail(store, report, rules);
    await store.complete(await claimOne(store), { emits });
    const job = await claimOne(store);
    assertEquals([job.record.source, job.record.isUnreported], ["jobs", true]);
    await fail(store, job, rules);
    await store.bury(await claimOne(store), "no", { reports: true });
    await store.accept(delivery("d2"));
    const cancelled = await claimOne(store);
    await store.cancel("d2");
    await fail(store, (await store.recover(cancelled))!, rules);
    assertEquals((await store.get("d2"))?.outcome, "cancelled");
    assertEquals(await claimAll(store), []);
  },
);

testStoreOnce(
  "release() reports an event whose process has died, if asked to",
  async ({ store }) => {
    const rules = [{ afterAttempts: 1 }];
    await store.accept(delivery("d1"));
    await store.release(await claimOne(store), { delayMs: 0 });
    assertEquals((await claimed(store)).reports, []);
    assertEquals((await store.get("d1"))?.failing, undefined);
    using clock = new WallClock();
    clock.advance(60_000);
    const { event } = await claimed(store);
    assertEquals([event?.takenOver, event?.record.attempt], [true, 2]);
    await store.release(event!, { delayMs: 60_000, reports: rules });
    const { reports: [report] } = await claimed(store);
    const payload = await payloadOf(store, report!);
    assertEquals([payload.attempt, payload.attempts[0]?.outcome], [1, "expired"]);
  },
);

testStoreOnce("an event with long errors is reported", async ({ store }) => {
  await store.accept({ ...delivery("d1"), action: "a".repeat(100), intake: "forge" });
  const error = new Error("\u{1f600}".repeat(500));
  for (let attempt = 1; attempt <= 12; attempt++) {
    const { event } = await claimed(store);
    assert(await store.retry(event!, 0, error, { reports: [{ afterAttempts: 12 }] }));
  }
  const { reports: [report] } = await claimed(store);
  const { attempts } = await payloadOf(store, report!);
  assertEquals(attempts.at(-1)?.attempt, 12);
});
