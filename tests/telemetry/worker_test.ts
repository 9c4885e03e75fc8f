import { assertEquals } from "@std/assert";
import {
  type EventHandler,
  GiveUpError,
  RetryLaterError,
  startWorker,
  type WorkerOptions,
} from "../../events/mod.ts";
import { claimOne, delivery, later } from "../events/store/_events.ts";
import { memoryStore, type StoreUnderTest } from "../events/store/kv/_stores.ts";
import { reach, stealLease } from "../events/worker/_worker.ts";
import { recordTelemetry } from "./_recording.ts";

/** Outcomes of the attempts at one event. */
async function outcomesOf(
  handler: EventHandler,
  options: WorkerOptions = {},
  before: (sut: StoreUnderTest) => Promise<unknown> = ({ store }) => store.accept(delivery("d1")),
  during: (sut: StoreUnderTest) => Promise<unknown> = () => Promise.resolve(),
) {
  const sut = await memoryStore();
  using _ = sut.kv;
  await before(sut);
  const telemetry = recordTelemetry();
  const given = { log: () => {}, telemetry, pollMs: 10, ...options };
  const worker = startWorker(sut.store, handler, given);
  await during(sut);
  await worker.poll();
  await worker.stop({ graceMs: 0 });
  return telemetry.outcomes;
}

Deno.test("a worker reports an event that is handled", async () => {
  assertEquals(await outcomesOf(() => {}), [["handled"]]);
});

Deno.test("a worker reports each attempt that fails, and what it failed of", async () => {
  const retry = { minDelayMs: 0, maxAttempts: 2 };
  const outcomes = await outcomesOf(() => Promise.reject(new Error("no")), { retry });
  assertEquals(outcomes, [["retried", "no"], ["dead", "no"]]);
});

Deno.test("a worker reports an event that is given up", async () => {
  const giveUp = () => Promise.reject(new GiveUpError("no such chat"));
  assertEquals(await outcomesOf(giveUp), [["dead", "no such chat"]]);
});

Deno.test("a worker reports an event that is put off, which is no failure", async () => {
  const putOff = () => Promise.reject(new RetryLaterError("limit", { afterMs: 60_000 }));
  assertEquals(await outcomesOf(putOff), [["put_off"]]);
});

Deno.test("a worker reports effects that cannot be committed", async () => {
  const outcomes = await outcomesOf((_event, { settleWith }) =>
    settleWith(() => {
      throw new Error("no effect");
    })
  );
  assertEquals(outcomes, [["retried", "no effect"]]);
});

Deno.test("a worker reports an event whose lease was lost", async () => {
  const outcomes = await outcomesOf(
    async (_event, { signal }) => {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
    },
    { leaseMs: 2_000 },
    undefined,
    async (sut) => {
      await reach(sut.store, "d1", "running");
      await stealLease(sut, "d1");
    },
  );
  assertEquals(outcomes, [["lost"]]);
});

Deno.test("a worker reports an event that was cancelled while it ran", async () => {
  const outcomes = await outcomesOf(
    (_event, { signal }) =>
      new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve())),
    {},
    undefined,
    async ({ store }) => {
      await reach(store, "d1", "running");
      await store.cancel("d1");
    },
  );
  assertEquals(outcomes, [["cancelled"]]);
});

Deno.test("a worker reports an event that kills whoever handles it, once it is dead", async () => {
  const outcomes = await outcomesOf(() => {}, { retry: { maxAttempts: 1 } }, async ({ store }) => {
    await store.accept(delivery("d1"));
    await claimOne(store, 1);
    await later(10);
  });
  assertEquals(outcomes, [["dead"]]);
});

Deno.test("a worker reports an event that it gives back", async () => {
  const { kv, store } = await memoryStore();
  using _ = kv;
  await store.accept(delivery("d1"));
  const telemetry = recordTelemetry();
  const started = Promise.withResolvers<void>();
  const worker = startWorker(store, async (_event, { signal }) => {
    started.resolve();
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    throw signal.reason;
  }, { log: () => {}, telemetry });
  await started.promise;
  await worker.stop();
  assertEquals(telemetry.outcomes, [["returned", "The worker stops"]]);
});
