import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { type Fault, withOperations } from "../../../dev/harness/faulty_kv.ts";
import {
  type CommitEffects,
  type EventHandler,
  GiveUpError,
  type HandlerContext,
  openEventStore,
  type StepContext,
} from "../../../events/mod.ts";
import { NoTurnError } from "../../../events/store/engine.ts";
import { createKvRouter, type KvHandler } from "../../_kv_handlers.ts";
import { testFailing, testStoreOnce } from "../store/contract/_contract.ts";
import { memoryStore, type StoreUnderTest } from "../store/kv/_stores.ts";
import { handle, type OpenedStore, stealLease, testSimulated, until } from "./_worker.ts";

const later = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Effects that types refuse: asynchronous ones. */
const ASYNC_EFFECTS = (() => Promise.resolve()) as unknown as CommitEffects;

/** Makes what a step does that counts its effects. */
const countingIn =
  ({ place: { effects } }: Pick<OpenedStore, "place">) => ({ settleWith }: StepContext) =>
    settleWith(effects.add("count", 1));

/** Reads the attempt and steps of the event that is done, and the count of its effects. */
async function standing({ place: { effects }, store }: OpenedStore) {
  const [event] = await Array.fromAsync(store.list({ state: "done" }));
  const steps = event?.steps?.map(({ name }) => name);
  return { attempt: event?.attempt, steps, count: await effects.get("count") };
}

testStoreOnce("step() keeps its result for the next attempts, its effects once", async (sut) => {
  const counting = countingIn(sut);
  const seen: unknown[] = [];
  await handle(sut, async ({ attempt }, { step }) => {
    seen.push(await step("a", (own) => (counting(own), { attempt })));
    if (attempt < 3) throw new Error("not yet");
  });
  assertEquals(seen, [{ attempt: 1 }, { attempt: 1 }, { attempt: 1 }]);
  assertEquals(await standing(sut), { attempt: 3, steps: ["a"], count: 1 });
});

testSimulated("step() goes together with the renewals of a long handler", async (sut) => {
  const handler: EventHandler = async (_event, { step, signal }) => {
    for (let i = 0; i < 20; i++) {
      await Promise.all([step(`a${i}`, () => later(30)), step(`b${i}`, () => {}), later(50)]);
    }
    assertEquals(signal.aborted, false);
  };
  const records = await handle(sut, handler, { leaseMs: 600 });
  const { state, attempt, steps } = (await sut.store.get("d1"))!;
  assertEquals([state, attempt, steps?.length], ["done", 1, 40]);
  assertEquals(records.map(({ message }) => message), ["event handled"]);
});

Deno.test("step() rejects once the event is another's, and its effects are not committed", async () => {
  await using sut = await memoryStore();
  const noted = Promise.withResolvers<unknown>();
  let aborted = false;
  await handle(sut, async (_event, { step, signal }) => {
    await stealLease(sut, "d1");
    await step("a", countingIn(sut)).then(noted.resolve, noted.resolve);
    aborted = signal.aborted;
  });
  assertEquals(String(await noted.promise), "Error: Cannot note progress: the lease was lost");
  assertEquals(aborted, true);
  assertEquals(await sut.place.effects.get("count"), null);
  assertEquals(await sut.store.steps("d1"), []);
});

testStoreOnce(
  "step() rejects when its effects cannot be committed, and the lease is kept",
  async (sut) => {
    const { effects } = sut.place;
    await handle(sut, async ({ attempt }, { step }) => {
      if (attempt > 1) throw new GiveUpError("It has failed before");
      await assertRejects(
        () => step("a", ({ settleWith }) => settleWith(effects.refused())),
        Error,
        effects.refusal,
      );
      if (!sut.store.awaitsEffects) {
        await assertRejects(
          () => step("b", ({ settleWith }) => settleWith(ASYNC_EFFECTS)),
          TypeError,
          "synchronous",
        );
      }
      await step("c", () => {});
    });
    assertEquals(await standing(sut), { attempt: 1, steps: ["c"], count: null });
  },
);

testFailing(
  "after",
  "step() whose answer was lost is noted once, and the lease is kept",
  async ({ failing, ...sut }) => {
    const records = await handle(failing, async (_event, { step }) => {
      failing.arm();
      await step("a", countingIn(sut));
      await step("b", countingIn(sut));
    });
    assertEquals(await standing(sut), { attempt: 1, steps: ["a", "b"], count: 2 });
    assertEquals(records.map(({ message }) => message), ["event handled"]);
  },
);

testFailing(
  "before",
  "step() that was not committed rejects, and the next attempt takes it",
  async ({ failing, ...sut }) => {
    const counting = countingIn(sut);
    let calls = 0;
    await handle(failing, async (_event, { step }) => {
      if (calls === 0) failing.arm();
      await step("a", (own) => (calls++, counting(own)));
    });
    assertEquals(await standing(sut), { attempt: 2, steps: ["a"], count: 1 });
    assertEquals(calls, 2);
  },
);

testStoreOnce("step() finds a lease again whose renewal was not answered", async (sut) => {
  const { store } = sut;
  const records = await handle(sut, async ({ id }, { step }) => {
    const lease = await store.recover({ record: (await store.get(id))!, version: "" });
    await store.renew(lease!, 30_000);
    await step("a", countingIn(sut));
  });
  assertEquals(await standing(sut), { attempt: 1, steps: ["a"], count: 1 });
  assertEquals(records.map(({ message }) => message), ["event handled"]);
});

testStoreOnce(
  "step() that gets no turn is stored once it gets one, and not taken again",
  async (sut) => {
    const counting = countingIn(sut);
    const { store } = sut;
    const note = store.note.bind(store);
    let [calls, refused] = [0, 0];
    store.note = async (...args) => {
      if (refused++ < 2) throw new NoTurnError("other changes were before it");
      return await note(...args);
    };
    await handle(sut, async (_event, { step }) => {
      await step("a", (own) => (calls++, counting(own)));
    });
    assertEquals(await standing(sut), { attempt: 1, steps: ["a"], count: 1 });
    assertEquals([calls, refused], [1, 3]);
  },
);

testStoreOnce(
  "step() that is committed after its time is there for the next attempt",
  async (sut) => {
    const counting = countingIn(sut);
    const { store } = sut;
    const [open, late] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const [note, renew] = [store.note.bind(store), store.renew.bind(store)];
    store.renew = (...args) => late.promise.then(() => renew(...args));
    store.note = async (lease, part, effects, options) => {
      await open.promise;
      // It is on its way: one that waits for its turn is given up.
      const onItsWay = { ...options, signal: undefined };
      return await note(lease, part, effects, onItsWay).finally(() => late.resolve());
    };
    let calls = 0;
    const handler: EventHandler = async ({ id, attempt }, { step, signal }) => {
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
    assertEquals(await standing(sut), { attempt: 2, steps: ["a"], count: 1 });
    assertEquals(calls, 1);
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

Deno.test("step() whose answer was lost is there for the next attempt, beside another one", async () => {
  await using sut = await memoryStore();
  const counting = countingIn(sut);
  await handleOnFaults(sut, (fail) => async ({ attempt }, { step }) => {
    // The commit is stored, and looking for it fails.
    if (attempt === 1) fail("after", "before");
    const [first, second] = await Promise.allSettled([step("a", counting), step("b", counting)]);
    const expected = attempt === 1 ? "rejected" : "fulfilled";
    assertEquals([first.status, second.status], [expected, "fulfilled"]);
    if (attempt === 1) throw new Error("no");
  });
  assertEquals(await standing(sut), { attempt: 2, steps: ["a", "b"], count: 2 });
});

for (const [fault, does] of [["before", "is taken again"], ["after", "is not"]] as const) {
  Deno.test(`step() that is lost ${fault} its commit ${does}, while another handler is noted`, async () => {
    await using sut = await memoryStore();
    const counting = countingIn(sut);
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
    assertEquals([(await standing(sut)).count, calls], [1, fault === "before" ? 2 : 1]);
  });
}

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

/** Ways to add something with a handler's context, and what its error calls that. */
const ADDING: Readonly<Record<string, (context: HandlerContext) => unknown>> = {
  "emit the event": ({ emit }) => emit("own", "lost", {}),
  "wake an event": ({ wake }) => wake("lost"),
  "settle with effects": ({ settleWith }) => settleWith(() => {}),
  "read the state": ({ state }) => state("lost"),
};

for (const [doing, add] of Object.entries(ADDING)) {
  testStoreOnce(`step() refuses to ${doing} with the handler's context`, async (sut) => {
    await handle(sut, async ({ id }, context) => {
      if (id !== "d1") return;
      await context.step("a", async (own) => {
        await later(1);
        const error = await assertRejects(async () => await add(context), TypeError);
        const message = `Cannot ${doing} in the step "a" with its handler's context: `;
        assertEquals(error.message.slice(0, message.length), message);
        await add({ ...context, ...own });
      });
      await add(context);
    });
    assertEquals((await sut.store.get("d1"))?.outcome, "handled");
  });
}

testStoreOnce("step() refuses to set a state of the handler's", async (sut) => {
  await handle(sut, async (_event, { step, state }) => {
    const count = await state("count");
    await step("a", () => {
      assertThrows(() => count.set(1), TypeError, "Cannot set the state in the step");
    });
    count.set(2);
  });
  assertEquals((await sut.store.state("count")).value, 2);
});

testStoreOnce("step() refuses to wait: it would begin anew", async (sut) => {
  await handle(sut, async (_event, { step, sleep, waitFor, ask }) => {
    await step("a", async () => {
      for (const wait of [() => sleep("b", 1), () => waitFor("c"), () => ask("d", () => {})]) {
        await assertRejects(wait, TypeError, 'Cannot wait in the step "a"');
      }
    });
  });
  assertEquals((await sut.store.get("d1"))?.outcome, "handled");
});

testStoreOnce("a step within a step adds with its own context", async (sut) => {
  const counting = countingIn(sut);
  await handle(sut, async ({ attempt }, { step }) => {
    await step("outer", async (outer) => {
      await step("inner", (inner) => {
        assertThrows(() => outer.wake("lost"), TypeError, 'in the step "inner"');
        counting(inner);
      });
      counting(outer);
    });
    if (attempt === 1) throw new Error("not yet");
  });
  assertEquals(await standing(sut), { attempt: 2, steps: ["inner", "outer"], count: 2 });
});
