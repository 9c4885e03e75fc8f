import { assert, assertEquals, assertRejects } from "@std/assert";
import { failingOnce, type Fault, withOperations } from "../../../dev/harness/faulty_kv.ts";
import {
  GiveUpError,
  type KvCommit,
  openEventStore,
  type StepContext,
} from "../../../events/mod.ts";
import type { LogRecord } from "../../../middleware/mod.ts";
import {
  asyncEffects,
  createKvRouter,
  type KvContext,
  type KvHandler,
} from "../../_kv_handlers.ts";
import { memoryStore } from "../store/kv/_stores.ts";
import { handle, type OpenedStore, simulated, stealLease, until } from "./_worker.ts";

const later = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

const countOne = (commit: KvCommit) => commit.sum(["count"], 1n);

/** Counts the effects of its step. */
const counting = ({ settleWith }: StepContext<KvCommit>) => settleWith(countOne);

/** Reads the attempt and steps of the event that is done, and the count of its effects. */
async function standing({ kv, store }: OpenedStore) {
  const [event] = await Array.fromAsync(store.list({ state: "done" }));
  const count = (await kv.get<Deno.KvU64>(["count"])).value?.value;
  return { attempt: event?.attempt, steps: event?.steps?.map(({ name }) => name), count };
}

Deno.test("step() keeps its result for the next attempts, its effects once", async () => {
  await using sut = await memoryStore();
  const seen: unknown[] = [];
  await handle(sut, async ({ attempt }, { step }) => {
    seen.push(await step("a", ({ settleWith }) => (settleWith(countOne), { attempt })));
    if (attempt < 3) throw new Error("not yet");
  });
  assertEquals(seen, [{ attempt: 1 }, { attempt: 1 }, { attempt: 1 }]);
  assertEquals(await standing(sut), { attempt: 3, steps: ["a"], count: 1n });
});

Deno.test(
  "step() goes together with the renewals of a long handler",
  simulated(async (sut) => {
    const handler: KvHandler = async (_event, { step, signal }) => {
      for (let i = 0; i < 20; i++) {
        await Promise.all([step(`a${i}`, () => later(30)), step(`b${i}`, () => {}), later(50)]);
      }
      assertEquals(signal.aborted, false);
    };
    const records = await handle(sut, handler, { leaseMs: 600 });
    const { state, attempt, steps } = (await sut.store.get("d1"))!;
    assertEquals([state, attempt, steps?.length], ["done", 1, 40]);
    assertEquals(records.map(({ message }) => message), ["event handled"]);
  }),
);

Deno.test("step() rejects once the event is another's, and its effects are not committed", async () => {
  await using sut = await memoryStore();
  const noted = Promise.withResolvers<unknown>();
  let aborted = false;
  await handle(sut, async (_event, { step, signal }) => {
    await stealLease(sut, "d1");
    await step("a", counting).then(noted.resolve, noted.resolve);
    aborted = signal.aborted;
  });
  assertEquals(String(await noted.promise), "Error: Cannot note progress: the lease was lost");
  assertEquals(aborted, true);
  assertEquals((await sut.kv.get(["count"])).value, null);
  assertEquals(await sut.store.steps("d1"), []);
});

Deno.test("step() rejects when its effects cannot be committed, and the lease is kept", async () => {
  await using sut = await memoryStore();
  await sut.kv.set(["taken"], 1);
  await handle(sut, async ({ attempt }, { step }) => {
    if (attempt > 1) throw new GiveUpError("It has failed before");
    const taken = { key: ["taken"], versionstamp: null };
    await assertRejects(
      () => step("a", (own) => own.settleWith((commit) => commit.check(taken))),
      Error,
      "check",
    );
    await assertRejects(
      () => step("b", (own) => own.settleWith(asyncEffects(async () => await Promise.resolve()))),
      TypeError,
      "synchronous",
    );
    await step("c", () => {});
  });
  assertEquals(await standing(sut), { attempt: 1, steps: ["c"], count: undefined });
});

/** Handles an event on a KV of which one commit fails, by a handler that is told to arm that. */
async function handleOnFailing(
  fault: Fault,
  sut: OpenedStore,
  handler: (context: KvContext, arm: () => void) => Promise<void>,
): Promise<LogRecord[]> {
  const failing = failingOnce(sut.kv, fault);
  const store = await openEventStore(failing.kv);
  return await handle({ ...sut, store }, (_event, context) => handler(context, failing.arm));
}

Deno.test("step() whose answer was lost is noted once, and the lease is kept", async () => {
  await using sut = await memoryStore();
  const records = await handleOnFailing("after", sut, async ({ step }, arm) => {
    arm();
    await step("a", counting);
    await step("b", counting);
  });
  assertEquals(await standing(sut), { attempt: 1, steps: ["a", "b"], count: 2n });
  assertEquals(records.map(({ message }) => message), ["event handled"]);
});

Deno.test("step() that was not committed rejects, and the next attempt takes it", async () => {
  await using sut = await memoryStore();
  let calls = 0;
  await handleOnFailing("before", sut, async ({ step }, arm) => {
    if (calls === 0) arm();
    await step("a", (own) => (calls++, counting(own)));
  });
  assertEquals(await standing(sut), { attempt: 2, steps: ["a"], count: 1n });
  assertEquals(calls, 2);
});

Deno.test("step() finds a lease again whose renewal was not answered", async () => {
  await using sut = await memoryStore();
  const { store } = sut;
  const records = await handle(sut, async ({ id }, { step }) => {
    const lease = await store.recover({ record: (await store.get(id))!, version: "" });
    await store.renew(lease!, 30_000);
    await step("a", counting);
  });
  assertEquals(await standing(sut), { attempt: 1, steps: ["a"], count: 1n });
  assertEquals(records.map(({ message }) => message), ["event handled"]);
});

Deno.test("step() that is committed after its time is there for the next attempt", async () => {
  await using sut = await memoryStore();
  const { store } = sut;
  const [open, late] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const [note, renew] = [store.note.bind(store), store.renew.bind(store)];
  store.renew = (...args) => late.promise.then(() => renew(...args));
  store.note = async (...args) => {
    await open.promise;
    return await note(...args).finally(() => late.resolve());
  };
  let calls = 0;
  const handler: KvHandler = async ({ id, attempt }, { step, signal }) => {
    const taking = () => step("a", (own) => (calls++, counting(own)));
    if (attempt > 1) return void await taking();
    await assertRejects(taking, Error, "No answer");
    const { until } = (await store.get(id))!.lease!;
    open.resolve();
    // The renewal finds the lease as that has left it.
    while ((await store.get(id))!.lease!.until === until) await later(1);
    assertEquals(signal.aborted, false);
    throw new Error("no");
  };
  await handle(sut, handler, { leaseMs: 600 });
  assertEquals(await standing(sut), { attempt: 2, steps: ["a"], count: 1n });
  assertEquals(calls, 1);
});

/** Handles an event on a KV whose commits fail as is told: none of them is answered then. */
async function handleOnFaults(
  sut: OpenedStore,
  handlerOf: (fail: (...faults: readonly Fault[]) => void) => KvHandler,
): Promise<void> {
  const faults: Fault[] = [];
  const kv = withOperations(sut.kv, (operation) => {
    const commit = operation.commit.bind(operation);
    operation.commit = async () => {
      const fault = faults.shift();
      if (fault === "before") throw new Error("connection lost");
      await later(20);
      const result = await commit();
      if (fault === "after") throw new Error("connection lost");
      return result;
    };
  });
  const store = await openEventStore(kv);
  await handle({ ...sut, store }, handlerOf((...more) => void faults.push(...more)));
}

Deno.test("step() whose answer was lost is there for the next attempt, beside another one", async () => {
  await using sut = await memoryStore();
  await handleOnFaults(sut, (fail) => async ({ attempt }, { step }) => {
    // The commit is stored, and looking for it fails.
    if (attempt === 1) fail("after", "before");
    const [first, second] = await Promise.allSettled([step("a", counting), step("b", counting)]);
    const expected = attempt === 1 ? "rejected" : "fulfilled";
    assertEquals([first.status, second.status], [expected, "fulfilled"]);
    if (attempt === 1) throw new Error("no");
  });
  assertEquals(await standing(sut), { attempt: 2, steps: ["a", "b"], count: 2n });
});

for (const [fault, does] of [["before", "is taken again"], ["after", "is not"]] as const) {
  Deno.test(`step() that is lost ${fault} its commit ${does}, while another handler is noted`, async () => {
    await using sut = await memoryStore();
    const failed = Promise.withResolvers<void>();
    const isNoted = async () =>
      (await sut.store.get("d1"))!.progress?.includes("id(other)") ?? false;
    let calls = 0;
    await handleOnFaults(sut, (fail) =>
      createKvRouter()
        .on("push", async ({ attempt }, { step }) => {
          if (attempt === 1) fail(fault, "before");
          const taking = () => step("a", (own) => (calls++, counting(own)));
          if (attempt > 1) return void await taking();
          await assertRejects(taking, Error, "connection lost");
          failed.resolve();
          await until(isNoted);
          throw new Error("no");
        })
        .on("push", () => failed.promise, { id: "other" }).handle);
    assertEquals([(await standing(sut)).count, calls], [1n, fault === "before" ? 2 : 1]);
  });
}

Deno.test("GiveUpError has the event given up at once, and kept", async () => {
  await using sut = await memoryStore();
  const records = await handle(sut, () => {
    throw new GiveUpError("Nothing to do");
  });
  const { state, attempt, attempts, payload } = (await sut.store.get("d1"))!;
  assertEquals([state, attempt, attempts[0]?.error], ["dead", 1, "GiveUpError: Nothing to do"]);
  assert(payload);
  assertEquals(records.map(({ level, message }) => `${level}: ${message}`), [
    "warn: event given up, now dead",
  ]);
});
