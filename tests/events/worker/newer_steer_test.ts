import { assert, assertEquals, assertRejects } from "@std/assert";
import {
  createEventRouter,
  type EventHandler,
  type EventStore,
  GiveUpError,
  type WebhookEvent,
} from "../../../events/mod.ts";
import { hearing, idsOf, urgent } from "./_newer.ts";
import { reach, testSimulated, until, withWorker } from "./_worker.ts";

const STEER = { newer: "steer", interrupt: undefined } as const;
const steered = (id: string) => urgent(id, STEER);
const idsIn = (events: readonly WebhookEvent[]) => events.map(({ id }) => id);

testSimulated("takeNewer() takes what has come, which is settled with the event", async (sut) => {
  const { store } = sut;
  const taken: string[][] = [];
  const { runs, logs } = await hearing(sut, ["a", "b", "c", "d"], async (run, _, context) => {
    if (run > 1) return;
    taken.push(idsIn(await context.takeNewer()));
    for (const id of ["b", "c"]) await store.accept(steered(id));
    const newer = await context.takeNewer();
    taken.push(idsIn(newer), newer.map(({ payload }) => String(payload.text)));
    assertEquals((await store.get("a"))!.batch?.events, 3);
    taken.push(idsIn(await context.takeNewer()));
    await store.accept(steered("d"));
    assertEquals(context.signal.aborted, false);
  }, STEER);
  assertEquals(taken, [[], ["b", "c"], ["b", "c"], []]);
  assertEquals(runs, [["a"], ["d"]]);
  for (const id of ["b", "c"]) assertEquals((await store.get(id))!.handledWith, "a");
  const handled = logs.filter(({ message }) => message === "event handled");
  assertEquals(handled.map(({ eventId }) => eventId), ["a", "b", "c", "d"]);
});

testSimulated("a later attempt has all that was taken, and the latest payload", async (sut) => {
  const payloads: unknown[] = [];
  const { runs } = await hearing(sut, ["a", "b", "c"], async (run, event, { takeNewer }) => {
    payloads.push(event.payload.text);
    if (run === 1) {
      await sut.store.accept(steered("b"));
      assertEquals(idsIn(await takeNewer()), ["b"]);
      throw new Error("not yet");
    }
    if (run === 2) {
      await sut.store.accept(steered("c"));
      assertEquals(idsIn(await takeNewer()), ["c"]);
    }
  }, STEER);
  assertEquals([runs, payloads], [[["a"], ["a", "b"]], ["a", "b"]]);
  assertEquals((await sut.store.get("a"))!.attempt, 2);
});

testSimulated(
  "what was taken dies with its event, and keeps its steps out of a replay",
  async (sut) => {
    const { store } = sut;
    let isMended = false;
    const runs: string[][] = [];
    const handler: EventHandler = async (event, { takeNewer, step }) => {
      runs.push(idsOf(event));
      if (isMended) return;
      await step("once", () => 1);
      await store.accept(steered("b"));
      await takeNewer();
      throw new GiveUpError("no use");
    };
    await store.accept(steered("a"));
    await withWorker(sut, handler, {}, async () => {
      for (const id of ["a", "b"]) await reach(store, id, "dead");
      isMended = true;
      assertEquals((await store.replayAll({})).changed, 2);
      for (const id of ["a", "b"]) await reach(store, id, "done");
    });
    assertEquals(runs.flat(), ["a", "a", "b"]);
  },
);

testSimulated(
  "steps stay when newer events are taken, and when the run is repeated",
  async (sut) => {
    let taken = 0;
    await hearing(sut, ["a", "b"], async (run, _event, { takeNewer, step }) => {
      await step("once", () => ++taken);
      if (run > 1) return;
      await sut.store.accept(steered("b"));
      assertEquals((await takeNewer()).length, 1);
      throw new Error("not yet");
    }, STEER);
    assertEquals(taken, 1);
  },
);

testSimulated("takeNewer() is refused outside of a group with steer", async (sut) => {
  let error: unknown;
  await hearing(sut, ["a"], async (_run, _event, { takeNewer }) => {
    error = await assertRejects(() => takeNewer(), TypeError);
  });
  assert(String(error).includes('its group must have newer: "steer"'), String(error));
});

testSimulated(
  "takeNewer() is refused to one of several handlers, and nothing is lost",
  async (sut) => {
    const { store } = sut;
    const seen: string[] = [];
    const router = createEventRouter()
      .onAny(async (event, { takeNewer }) => {
        if (event.id === "a") await store.accept(steered("b"));
        const wanted = "the event has several handlers";
        await assertRejects(() => takeNewer(), TypeError, wanted);
        seen.push(`one ${idsOf(event)}`);
      }, { id: "one" })
      .onAny((event) => void seen.push(`two ${idsOf(event)}`), { id: "two" });
    await store.accept(steered("a"));
    await withWorker(sut, router.handle, {}, () => reach(store, "b", "done"));
    assertEquals(seen.toSorted(), ["one a", "one b", "two a", "two b"]);
  },
);

testSimulated("takeNewer() is given to the only handler of a router", async (sut) => {
  const { store } = sut;
  const taken: string[][] = [];
  const inner = createEventRouter().on("push", async (event, { takeNewer }) => {
    if (event.id === "a") await store.accept(steered("b"));
    taken.push(idsIn(await takeNewer()));
  });
  const router = createEventRouter().onAny(inner.handle).on("edit", () => {});
  await store.accept(steered("a"));
  await withWorker(sut, router.handle, {}, () => reach(store, "b", "done"));
  assertEquals(taken, [["b"]]);
});

testSimulated(
  "takeNewer() rejects once the event is cancelled, and what is not taken comes next",
  async (sut) => {
    const { store } = sut;
    const runs: string[][] = [];
    const handler: EventHandler = async (event, { takeNewer }) => {
      if (runs.push(idsOf(event)) > 1) return;
      await store.accept(steered("b"));
      await store.cancel("a");
      await assertRejects(() => takeNewer(), Error, "was cancelled");
    };
    await store.accept(steered("a"));
    await withWorker(sut, handler, {}, () => reach(store, "b", "done"));
    assertEquals([runs, (await store.get("a"))!.outcome], [[["a"], ["b"]], "cancelled"]);
  },
);

testSimulated("events cannot wait once newer ones are taken", async (sut) => {
  const { store } = sut;
  const handler: EventHandler = async (_event, { takeNewer, waitFor }) => {
    await store.accept(steered("b"));
    await takeNewer();
    await waitFor("answer");
  };
  await store.accept(steered("a"));
  await withWorker(sut, handler, {}, () => reach(store, "b", "dead"));
  const { attempts } = (await store.get("a"))!;
  assert(attempts.at(-1)!.error!.includes("handled together with others"));
});

testSimulated("nobody is asked once newer events are taken, and it is said how", async (sut) => {
  const { store } = sut;
  let sent = 0;
  const handler: EventHandler = async (_event, { takeNewer, ask }) => {
    await store.accept(steered("b"));
    await takeNewer();
    await ask("approval", () => void sent++);
  };
  await store.accept(steered("a"));
  await withWorker(sut, handler, {}, () => reach(store, "b", "dead"));
  const { attempts, steps } = (await store.get("a"))!;
  assertEquals([sent, attempts.length, steps], [0, 1, undefined]);
  const { error } = attempts[0]!;
  assert(error!.includes("Emit an event, and ask or wait in the handler of that one"), error);
});

testSimulated("an answer is still known once newer events are taken", async (sut) => {
  const { store } = sut;
  const values: unknown[] = [];
  let name: string | undefined;
  const handler: EventHandler = async (_event, { takeNewer, ask }) => {
    const { value } = await ask("approval", (own) => void (name = own));
    if (values.push(value) > 1) return;
    await store.accept(steered("b"));
    await takeNewer();
    throw new Error("not yet");
  };
  await store.accept(steered("a"));
  await withWorker(sut, handler, { retry: { minDelayMs: 10 } }, async () => {
    await reach(store, "a", "parked");
    await store.answer(name, "yes");
    await reach(store, "b", "done");
  });
  assertEquals(values, ["yes", "yes"]);
});

testSimulated("an event that was woken takes newer ones, too", async (sut) => {
  const { store } = sut;
  const taken: string[][] = [];
  const handler: EventHandler = async (event, { takeNewer, waitFor }) => {
    if (event.id !== "a") return;
    await waitFor("answer");
    await store.accept(steered("b"));
    taken.push(idsIn(await takeNewer()));
  };
  await store.accept(steered("a"));
  await withWorker(sut, handler, {}, async () => {
    await reach(store, "a", "parked");
    await store.wake("answer");
    await reach(store, "b", "done");
  });
  assertEquals(taken, [["b"]]);
  assertEquals((await store.get("b"))!.handledWith, "a");
});

testSimulated("takeNewer() rejects once the handler has ended", async (sut) => {
  let late: (() => Promise<unknown>) | undefined;
  await hearing(sut, ["a"], (_run, _event, { takeNewer }) => void (late = takeNewer), STEER);
  await until(() => late !== undefined);
  await assertRejects(() => late!(), TypeError, "the handler has ended");
});

for (const how of ["returns", "fails"] as const) {
  testSimulated(
    `what was taken comes next if the answer is lost, and the handler ${how}`,
    async (sut) => {
      const { store } = sut;
      const runs: string[][] = [];
      const handler: EventHandler = async (event, { takeNewer, step }) => {
        if (runs.push(idsOf(event)) > 1) return;
        await store.accept(steered("b"));
        await assertRejects(() => takeNewer(), Error, "The answer is lost");
        assertEquals((await store.get("a"))!.batch?.events, 2);
        await step("more", () => 1);
        if (how === "fails") throw new Error("not yet");
      };
      let isLost = false;
      const losing: EventStore = {
        ...store,
        async takeNewer(...args) {
          const taken = await store.takeNewer(...args);
          if (isLost) return taken;
          isLost = true;
          throw new Error("The answer is lost");
        },
      };
      await store.accept(steered("a"));
      const retry = { minDelayMs: 10 };
      await withWorker(
        { ...sut, store: losing },
        handler,
        { retry },
        () => reach(store, "b", "done"),
      );
      const expected = how === "returns" ? [["a"], ["b"]] : [["a"], ["a"], ["b"]];
      assertEquals(runs, expected);
    },
  );
}
