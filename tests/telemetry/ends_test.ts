/** Ends of events that no running handler tells: each is counted, once. */
import { assertEquals } from "@std/assert";
import { startWorker } from "../../events/mod.ts";
import { claimOne, delivery } from "../events/store/_events.ts";
import { memoryStore } from "../events/store/kv/_stores.ts";
import { reach, until } from "../events/worker/_worker.ts";
import { recordTelemetry } from "./_recording.ts";

const CANCELLED = { is: "cancelled", platform: "forge", intake: undefined } as const;

Deno.test("an event that dies since its handler does not end after its time limit is counted once", async () => {
  await using sut = await memoryStore();
  const { store } = sut;
  const telemetry = recordTelemetry();
  const [held, limited] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const worker = startWorker(store, () => held.promise, {
    ...{ concurrency: 1, timeoutMs: 20, retry: { maxAttempts: 1 }, log: () => {}, telemetry },
    onStuck: () => limited.resolve(),
  });
  await store.accept(delivery("d1"));
  await limited.promise;
  await worker.stop({ graceMs: 0 });
  assertEquals((await store.get("d1"))?.state, "dead");
  const outcomes = [["dead", "Still running after its time limit of 20 ms"]];
  assertEquals(telemetry.outcomes, outcomes as typeof telemetry.outcomes);
  // It counts no more when the handler ends after all.
  held.resolve();
  for (let turn = 0; turn < 100; turn++) await undefined;
  assertEquals(telemetry.outcomes.length, 1);
});

Deno.test("a cancelled event whose handler does not end is counted when its process stops", async () => {
  await using sut = await memoryStore();
  const { store } = sut;
  const telemetry = recordTelemetry();
  const [held, begun] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const handler = () => (begun.resolve(), held.promise);
  const worker = startWorker(store, handler, { log: () => {}, telemetry });
  await store.accept(delivery("d1"));
  await begun.promise;
  await store.cancel("d1");
  await worker.stop({ graceMs: 0 });
  assertEquals((await store.get("d1"))?.outcome, "cancelled");
  assertEquals([telemetry.outcomes, telemetry.steps], [[["cancelled"]], []]);
  held.resolve();
});

Deno.test("a cancelled event whose process was killed is counted by the one that finds it", async () => {
  await using sut = await memoryStore();
  const { store } = sut;
  const telemetry = recordTelemetry();
  await store.accept(delivery("d1"));
  await store.claim({ limit: 1, owner: "killed", leaseMs: 1 });
  await store.cancel("d1");
  const worker = startWorker(store, () => {}, { log: () => {}, pollMs: 10, telemetry });
  await reach(store, "d1", "dead");
  await until(() => telemetry.steps.length > 0);
  await worker.stop();
  assertEquals(telemetry.steps, [{ ...CANCELLED, type: "push", count: 1 }]);
  assertEquals(telemetry.outcomes, []);
});

Deno.test("an event that is cancelled while it waits or is parked is counted, and a running one not", async () => {
  await using sut = await memoryStore();
  const { store } = sut;
  const steps: unknown[] = [];
  store.listen({ wake: () => {}, count: (step) => void steps.push(step) });
  await store.accept(delivery("d1"));
  await store.park(await claimOne(store), { name: "a", timeoutMs: 60_000 });
  await store.accept(delivery("d2"));
  await claimOne(store);
  await store.emit("jobs", "item", {}, { id: "d3", delayMs: 60_000 });
  steps.length = 0;
  for (const id of ["d1", "d2"]) await store.cancel(id);
  await store.cancelAll({ state: "queued" });
  assertEquals(steps, [
    { ...CANCELLED, type: "push", count: 1 },
    { ...CANCELLED, platform: "events", intake: "jobs", type: "item", count: 1 },
  ]);
});
