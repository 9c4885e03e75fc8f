import { assert, assertEquals, assertRejects } from "@std/assert";
import { type Fault, withOperations } from "../../../dev/harness/faulty_kv.ts";
import {
  type CommitEffects,
  type EventHandler,
  GiveUpError,
  openEventStore,
} from "../../../events/mod.ts";
import { createKvRouter, type KvHandler } from "../../_kv_handlers.ts";
import { testFailing, testStoreOnce } from "../store/contract/_contract.ts";
import { memoryStore, type StoreUnderTest } from "../store/kv/_stores.ts";
import { handle, type OpenedStore, stealLease, testSimulated, until } from "./_worker.ts";

/** Adds to the count. */
const countOne = ({ place: { effects } }: OpenedStore) => effects.add("count", 1);

const later = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

testStoreOnce(
  "checkpoint() keeps what is done for the next attempt, its effects once",
  async (sut) => {
    const seen: (readonly string[])[] = [];
    await handle(sut, async ({ attempt }, { progress, checkpoint }) => {
      seen.push(progress);
      if (!progress.includes("a")) await checkpoint("a", countOne(sut));
      if (attempt < 3) throw new Error("not yet");
    });
    assertEquals(seen, [[], ["a"], ["a"]]);
    assertEquals(await sut.place.effects.get("count"), 1);
    assertEquals((await sut.store.get("d1"))?.state, "done");
  },
);

testSimulated("checkpoint() goes together with the renewals of a long handler", async (sut) => {
  const handler: EventHandler = async (_event, { checkpoint, signal }) => {
    for (let i = 0; i < 20; i++) {
      await Promise.all([checkpoint(`a${i}`), checkpoint(`b${i}`), later(50)]);
    }
    assertEquals(signal.aborted, false);
  };
  const records = await handle(sut, handler, { leaseMs: 600 });
  const { state, attempt, progress } = (await sut.store.get("d1"))!;
  assertEquals([state, attempt, progress?.length], ["done", 1, 40]);
  assertEquals(records.map(({ message }) => message), ["event handled"]);
});

Deno.test("checkpoint() rejects once the event is another's, and its effects are not committed", async () => {
  await using sut = await memoryStore();
  const noted = Promise.withResolvers<unknown>();
  let aborted = false;
  await handle(sut, async (_event, { checkpoint, signal }) => {
    await stealLease(sut, "d1");
    await checkpoint("a", (commit) => commit.set(["a"], 1)).then(noted.resolve, noted.resolve);
    aborted = signal.aborted;
  });
  assertEquals(String(await noted.promise), "Error: Cannot note progress: the lease was lost");
  assertEquals(aborted, true);
  assertEquals((await sut.kv.get(["a"])).value, null);
});

testStoreOnce(
  "checkpoint() rejects when its effects cannot be committed, and the lease is kept",
  async (sut) => {
    const { place: { effects } } = sut;
    const later = (async () => await Promise.resolve()) as unknown as CommitEffects;

    await handle(sut, async ({ attempt }, { checkpoint }) => {
      if (attempt > 1) throw new GiveUpError("It has failed before");
      await assertRejects(() => checkpoint("a", effects.refused()), Error, effects.refusal);
      await assertRejects(() => checkpoint("a", later), TypeError, "synchronous");
      await checkpoint("b");
    });
    const { state, attempt, progress } = (await sut.store.get("d1"))!;
    assertEquals([state, attempt, progress], ["done", 1, ["b"]]);
  },
);

/** Reads the attempt and progress of the event that is done, and the count of its effects. */
async function standing({ place: { effects }, store }: OpenedStore) {
  const [event] = await Array.fromAsync(store.list({ state: "done" }));
  const count = await effects.get("count");
  return { attempt: event?.attempt, progress: event?.progress, count };
}

testFailing(
  "after",
  "checkpoint() whose answer was lost is noted once, and the lease is kept",
  async ({ failing, ...sut }) => {
    const records = await handle(failing, async (_event, { checkpoint }) => {
      failing.arm();
      await checkpoint("a", countOne(sut));
      await checkpoint("b", countOne(sut));
    });
    assertEquals(await standing(sut), { attempt: 1, progress: ["a", "b"], count: 2 });
    assertEquals(records.map(({ message }) => message), ["event handled"]);
  },
);

testFailing(
  "before",
  "checkpoint() that was not committed rejects, and can be tried again",
  async ({ failing, ...sut }) => {
    await handle(failing, async (_event, { checkpoint }) => {
      failing.arm();
      await assertRejects(() => checkpoint("a", countOne(sut)), Error, "connection lost");
      await checkpoint("a", countOne(sut));
    });
    assertEquals(await standing(sut), { attempt: 1, progress: ["a"], count: 1 });
  },
);

testStoreOnce("checkpoint() finds a lease again whose renewal was not answered", async (sut) => {
  const { store } = sut;
  const records = await handle(sut, async ({ id }, { checkpoint }) => {
    const lease = await store.recover({ record: (await store.get(id))!, version: "" });
    await store.renew(lease!, 30_000);
    await checkpoint("a", countOne(sut));
  });
  assertEquals(await standing(sut), { attempt: 1, progress: ["a"], count: 1 });
  assertEquals(records.map(({ message }) => message), ["event handled"]);
});

testStoreOnce(
  "checkpoint() that is committed after its time is not noted a second time",
  async (sut) => {
    const { store } = sut;
    const [open, late] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const [checkpoint, renew] = [store.checkpoint.bind(store), store.renew.bind(store)];
    let calls = 0;
    store.renew = (...args) => late.promise.then(() => renew(...args));
    store.checkpoint = async (...args) => {
      if (++calls > 1) return await checkpoint(...args);
      await open.promise;
      return await checkpoint(...args).finally(() => late.resolve());
    };
    const handler: EventHandler = async ({ id }, { checkpoint, signal }) => {
      await assertRejects(() => checkpoint("a", countOne(sut)), Error, "No answer");
      const { until } = (await store.get(id))!.lease!;
      open.resolve();
      // The renewal finds the lease as that has left it.
      while ((await store.get(id))!.lease!.until === until) await later(1);
      await checkpoint("a", countOne(sut));
      assertEquals(signal.aborted, false);
    };
    await handle(sut, handler, { leaseMs: 600 });
    assertEquals(await standing(sut), { attempt: 1, progress: ["a"], count: 1 });
  },
);

/** Handles an event on a KV whose commits fail as is told: none of them is answered then. */
async function handleOnFaults(
  sut: Pick<StoreUnderTest, "kv">,
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
  await handle({ store }, handlerOf((...more) => void faults.push(...more)));
}

Deno.test("checkpoint() whose answer was lost is not noted again after another one", async () => {
  await using sut = await memoryStore();
  await handleOnFaults(sut, (fail) => async (_event, { checkpoint }) => {
    // The commit is stored, and looking for it fails.
    fail("after", "before");
    const [first, second] = await Promise.allSettled([
      checkpoint("a", countOne(sut)),
      checkpoint("b", countOne(sut)),
    ]);
    assertEquals([first.status, second.status], ["rejected", "fulfilled"]);
    await checkpoint("a", countOne(sut));
  });
  assertEquals(await standing(sut), { attempt: 1, progress: ["a", "b"], count: 2 });
});

Deno.test("checkpoint() is repeated while another handler is noted, and stores what was emitted", async () => {
  await using sut = await memoryStore();
  const failed = Promise.withResolvers<void>();
  await handleOnFaults(sut, (fail) =>
    createKvRouter()
      .on("push", async (_event, { emit, checkpoint, waitFor }) => {
        emit("jobs", "reminder", {}, { delayMs: 3_600_000 });
        fail("before", "before");
        await assertRejects(() => checkpoint("a", countOne(sut)), Error, "connection lost");
        failed.resolve();
        await later(5);
        await checkpoint("a", countOne(sut));
        await waitFor("answer");
      })
      .on("push", () => failed.promise, { id: "other" }).handle);
  const { state, progress } = (await sut.store.get("d1"))!;
  assertEquals([state, progress?.toSorted()], ["parked", ["id(other)", "on(push)/a"]]);
  assertEquals((await Array.fromAsync(sut.store.list())).map(({ id }) => id).toSorted(), [
    "d1",
    "jobs:d1/0001",
  ]);
  assertEquals(await sut.place.effects.get("count"), 1);
});

Deno.test("checkpoint() whose answer was lost is not noted again after another handler was noted", async () => {
  await using sut = await memoryStore();
  const failed = Promise.withResolvers<void>();
  const isNoted = async () => (await sut.store.get("d1"))!.progress?.includes("id(other)") ?? false;
  await handleOnFaults(sut, (fail) =>
    createKvRouter()
      .on("push", async (_event, { checkpoint }) => {
        fail("after", "before");
        await assertRejects(() => checkpoint("a", countOne(sut)), Error, "connection lost");
        failed.resolve();
        await until(isNoted);
        await checkpoint("a", countOne(sut));
      })
      .on("push", () => failed.promise, { id: "other" }).handle);
  assertEquals((await standing(sut)).count, 1);
});

testStoreOnce("GiveUpError has the event given up at once, and kept", async (sut) => {
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
