/** Steps in the life of events beside deliveries and attempts, as a worker, a scheduler and code count them. */
import { assert, assertEquals, assertGreater, assertLess } from "@std/assert";
import { type HandlerContext, openEventStore, startWorker } from "../../events/mod.ts";
import type { AttemptedEvent, CountedStep } from "../../telemetry/telemetry.ts";
import { testWith } from "../_permissions.ts";
import { APP_NEEDS } from "../apps/_app.ts";
import { startCollector, telemetryOf, totalOf } from "../apps/_collector.ts";
import { HOUR, HOUR_MS, schedulerOf } from "../events/schedules/_schedulers.ts";
import { claimOne, delivery } from "../events/store/_events.ts";
import { memoryStore, type StoreUnderTest } from "../events/store/kv/_stores.ts";
import { trimPayloads } from "../events/store/_tidying.ts";
import { reach, until } from "../events/worker/_worker.ts";
import { recordTelemetry } from "./_recording.ts";

/** Runs a worker with a telemetry while `fn` runs, and returns what it has counted. */
async function counted(
  sut: StoreUnderTest,
  handler: (id: string, context: HandlerContext) => unknown,
  fn: () => Promise<unknown>,
): Promise<CountedStep[]> {
  const telemetry = recordTelemetry();
  const options = { log: () => {}, pollMs: 10, retry: { minDelayMs: 0 }, telemetry };
  const worker = startWorker(sut.store, ({ id }, context) => handler(id, context), options);
  await fn();
  await worker.poll();
  await worker.stop();
  return telemetry.steps;
}

Deno.test("events of an app's own are counted once they are stored, known ones not", async () => {
  await using sut = await memoryStore();
  const steps = await counted(sut, (id, { emit }) => {
    if (id !== "d1") return;
    emit("jobs", "report.due", {}, { id: "a" });
    emit("mails", "sent", {});
  }, async () => {
    await sut.store.accept(delivery("d1"));
    await reach(sut.store, "d1", "done");
    for (const id of ["a", "b"]) await sut.store.emit("jobs", "report.due", {}, { id });
  });
  assertEquals(steps.toSorted((a, b) => JSON.stringify(a) < JSON.stringify(b) ? -1 : 1), [
    { is: "emitted", source: "jobs", type: "report.due" },
    { is: "emitted", source: "jobs", type: "report.due" },
    { is: "emitted", source: "mails", type: "sent" },
  ]);
});

Deno.test("an event is counted once, however often its commit is tried", async () => {
  await using sut = await memoryStore();
  const other = await openEventStore(sut.kv);
  const ids = Array.from({ length: 20 }, (_, i) => `job-${i}`);
  const steps = await counted(sut, () => {}, async () => {
    // The commits of both stores check the same key.
    await Promise.all(ids.flatMap((id) => [
      sut.store.emit("jobs", "item", {}, { id }),
      other.emit("mails", "item", {}, { id }),
    ]));
  });
  assertEquals(steps.length, ids.length);
});

Deno.test("what a failed attempt has emitted is not counted", async () => {
  await using sut = await memoryStore();
  let attempts = 0;
  const steps = await counted(sut, (id, { emit }) => {
    if (id !== "d1") return;
    emit("jobs", "item", {});
    if (++attempts < 3) throw new Error("no");
  }, async () => {
    await sut.store.accept(delivery("d1"));
    await reach(sut.store, "d1", "done");
  });
  assertEquals(steps, [{ is: "emitted", source: "jobs", type: "item" }]);
});

Deno.test("the ends of waits are counted", async () => {
  await using sut = await memoryStore();
  const { store } = sut;
  const steps = await counted(
    sut,
    (id, { waitFor }) => waitFor(id, { timeoutMs: id === "late" ? 1 : 60_000 }),
    async () => {
      await store.accept(delivery("woken"));
      await reach(store, "woken", "parked");
      await store.wake("woken");
      await reach(store, "woken", "done");
      await store.wake("early", 1);
      await store.accept(delivery("early"));
      await reach(store, "early", "done");
      await store.accept(delivery("late"));
      await reach(store, "late", "done");
    },
  );
  const ended = (outcome: "woken" | "early" | "timed_out") =>
    ({ is: "wait_ended", platform: "forge", outcome }) as const;
  assertEquals(steps, [ended("woken"), ended("early"), ended("timed_out")]);
});

Deno.test("waits for room under a limit are counted by its name, and calls with room not", async () => {
  await using sut = await memoryStore();
  const { store } = sut;
  const steps = await counted(sut, async (id, { take }) => {
    if (id === "d1") {
      for (const closedMs of [0, 200]) {
        await take.later("quick", { untilMs: Date.now() + closedMs });
        await take("quick", { limit: 10, perMs: 60_000 });
      }
    } else await take("slow", { key: "Ada", limit: 1, perMs: 3_600_000 });
  }, async () => {
    for (const id of ["d1", "d2"]) {
      await store.accept(delivery(id));
      await reach(store, id, "done");
    }
    await store.accept(delivery("d3"));
    await until(async () => (await store.get("d3"))?.putOff !== undefined);
  });
  assertEquals(steps, [
    { is: "limited", limit: "quick", outcome: "waited" },
    { is: "limited", limit: "slow", outcome: "put_off" },
  ]);
});

Deno.test("payloads that are dropped are counted, with the reason", async () => {
  const steps: CountedStep[] = [];
  for (const keepPayloads of [{ forMs: 60_000, maxBytes: 10 }, { forMs: 1, maxBytes: 1_000 }]) {
    await using sut = await memoryStore({ keepPayloads });
    const { store } = sut;
    steps.push(
      ...await counted(sut, () => {}, async () => {
        for (const id of ["d1", "d2"]) await store.accept(delivery(id));
        for (const id of ["d1", "d2"]) await reach(store, id, "done");
        const { settledAt } = (await store.get("d2"))!;
        await until(() => Date.now() > settledAt! + 1);
        // A trim that is under way may have looked before.
        for (let i = 0; i < 2; i++) await trimPayloads(store);
      }),
    );
  }
  const sum = (reason: string) =>
    steps.reduce(
      (sum, step) =>
        step.is === "payloads_dropped" && step.reason === reason ? sum + step.count : sum,
      0,
    );
  assertEquals([sum("size"), sum("age")], [1, 2]);
});

Deno.test("slots are counted as made, made up or left out", async () => {
  await using sut = await memoryStore();
  const steps: CountedStep[] = [];
  const count = (step: CountedStep) => void steps.push(step);
  await schedulerOf(sut).scheduler.tick(HOUR - 1);
  const { scheduler } = schedulerOf(sut, { count });
  await scheduler.tick(HOUR);
  await scheduler.tick(HOUR + 3 * HOUR_MS + 600_000);
  const slots = (outcome: "made" | "made_up" | "left_out", count: number) =>
    ({ is: "slots", schedule: "digest", outcome, count }) as const;
  assertEquals(steps, [slots("made", 1), slots("made_up", 1), slots("left_out", 2)]);
});

Deno.test("a slot that another instance has made is not counted", async () => {
  await using sut = await memoryStore();
  const steps: CountedStep[] = [];
  const count = (step: CountedStep) => void steps.push(step);
  const schedulers = Array.from({ length: 3 }, () => schedulerOf(sut, { count }).scheduler);
  for (const now of [HOUR - 1, HOUR]) await Promise.all(schedulers.map((each) => each.tick(now)));
  assertEquals(steps.length, 1);
});

/** Runs a worker, and returns the facts that its first attempt is told of the event. */
async function attempted(sut: StoreUnderTest): Promise<AttemptedEvent> {
  const { promise, resolve } = Promise.withResolvers<AttemptedEvent>();
  const recording = recordTelemetry();
  const attempt: typeof recording.attempt = (event) => {
    resolve(event);
    return recording.attempt(event);
  };
  const telemetry = { ...recording, attempt };
  const worker = startWorker(sut.store, () => {}, { log: () => {}, pollMs: 10, telemetry });
  const event = await promise;
  await worker.stop();
  return event;
}

const PLANS: Readonly<Record<string, (sut: StoreUnderTest) => Promise<unknown>>> = {
  "was delayed": ({ store }) => store.emit("jobs", "item", {}, { delayMs: 30 }),
  "was put off": async ({ store }) => {
    await store.accept(delivery("d1"));
    await store.release(await claimOne(store), { delayMs: 30, reason: "night" });
  },
  "was parked": async ({ store }) => {
    await store.accept(delivery("d1"));
    await store.park(await claimOne(store), { name: "a", timeoutMs: 30 });
  },
  "waited until it was quiet": ({ store }) =>
    store.accept({ ...delivery("d1", "{}", "key"), quietMs: 30 }),
  "waited until it was quiet, before it was parked": async ({ store }) => {
    await store.accept({ ...delivery("d1", "{}", "key"), quietMs: 30 });
    const { dueAt } = (await store.get("d1"))!;
    await until(() => Date.now() >= dueAt!);
    await store.park(await claimOne(store), { name: "a", timeoutMs: 1 });
  },
  "was replayed": async ({ store }) => {
    await store.accept(delivery("d1"));
    await store.bury(await claimOne(store), new Error("no"));
    const { receivedAt } = (await store.get("d1"))!;
    await until(() => Date.now() >= receivedAt + 30);
    await store.replay("d1");
  },
};

for (const [way, plan] of Object.entries(PLANS)) {
  Deno.test(`an attempt is told for how long an event ${way}`, async () => {
    await using sut = await memoryStore();
    await plan(sut);
    const { plannedMs = 0, quiet } = await attempted(sut);
    const waitedMs = plannedMs + (quiet?.waitedMs ?? 0);
    assertGreater(waitedMs, 29);
    assertLess(waitedMs, 60_000);
  });
}

Deno.test("an event that was due at once has no planned wait, also when it is retried", async () => {
  await using sut = await memoryStore();
  await sut.store.accept(delivery("d1"));
  await sut.store.retry(await claimOne(sut.store), 30, new Error("no"));
  const { plannedMs, quiet } = await attempted(sut);
  assertEquals([plannedMs, quiet], [undefined, undefined]);
});

testWith(
  APP_NEEDS,
  "steps are exported with bounded labels, and planned waits left out",
  async () => {
    await using collector = startCollector();
    const script = new URL("./_counting.ts", import.meta.url).href;
    const process = new Deno.Command(Deno.execPath(), {
      args: ["run", "--cached-only", "--quiet", "--no-prompt", script],
      env: telemetryOf(collector.url),
      stdout: "null",
    }).spawn();
    try {
      const total = (name: string, labels = {}) => totalOf(collector, `edge_base.${name}`, labels);
      await collector.until(() => total("catch_up.deliveries") === 6);
      const source = { "messaging.destination.name": "events", "edge_base.event.source": "jobs" };
      assertEquals(total("events.emitted", { ...source, "edge_base.event.type": "item" }), 1);
      assertEquals(total("events.emitted", { "edge_base.event.source": "_OTHER" }), 50);
      const wait = { "messaging.destination.name": "forge", "edge_base.wait.outcome": "early" };
      assertEquals(total("waits", wait), 1);
      const limited = { "edge_base.limit.name": "github", "edge_base.limit.outcome": "put_off" };
      assertEquals(total("limit.waits", limited), 1);
      const slot = { "edge_base.schedule.name": "digest", "edge_base.slot.outcome": "left_out" };
      assertEquals(total("schedule.slots", slot), 2);
      assertEquals(total("kept_payloads.dropped", { "edge_base.drop.reason": "size" }), 4);
      assertEquals(total("events.put_back"), 1);
      assertEquals(collector.metrics.get("edge_base.store.unreadable")?.points[0]?.value, 3);
      assertEquals(total("catch_up.deliveries", { "edge_base.catch_up.outcome": "asked" }), 6);
      const [duration] = collector.metrics.get("edge_base.event.duration")!.points;
      assert(duration!.sum >= 1 && duration!.sum < 60, String(duration!.sum));
    } finally {
      process.kill("SIGKILL");
      await process.status;
    }
  },
);
