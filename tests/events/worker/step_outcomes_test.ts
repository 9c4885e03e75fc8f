/** Steps of which it is not known what has come of them, after an error. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import {
  createEventRouter,
  type EventHandler,
  type EventStore,
  NotDoneError,
  type StepOptions,
} from "../../../events/mod.ts";
import { testStoreOnce } from "../store/contract/_contract.ts";
import { assertNoResults } from "../store/_stepping.ts";
import { errorsOf, handleAt } from "./_attempts.ts";

const LOST = new Error("connection lost");

/** A handler with one step, which throws in the first attempt, and notes what is called. */
function commenting(
  options: StepOptions<string> | undefined,
  calls: string[],
  error: unknown = LOST,
): EventHandler {
  return async ({ attempt }, { step }) => {
    const result = await step("comment", () => {
      calls.push(`fn ${attempt}`);
      if (attempt === 1) throw error;
      return `written ${attempt}`;
    }, options);
    calls.push(`result ${result}`);
    if (attempt < 3) throw new Error("again");
  };
}

const OUTCOMES: Readonly<
  Record<string, readonly [(calls: string[]) => StepOptions<string> | undefined, string[]]>
> = {
  "without an option is taken again": [
    () => undefined,
    ["fn 1", "fn 2", "result written 2", "result written 2"],
  ],
  "with repeat is taken again": [
    () => ({ unknown: "repeat" }),
    ["fn 1", "fn 2", "result written 2", "result written 2"],
  ],
  "with skip counts as taken": [
    () => ({ unknown: "skip" }),
    ["fn 1", "result undefined", "result undefined"],
  ],
  "that is found is not taken again": [
    (calls) => ({ unknown: () => (calls.push("look"), "found") }),
    ["fn 1", "look", "result found", "result found"],
  ],
  "that is found later on is not taken again": [
    (calls) => ({ unknown: async () => (calls.push("look"), await Promise.resolve("found")) }),
    ["fn 1", "look", "result found", "result found"],
  ],
  "that is not found is taken again": [
    (calls) => ({ unknown: () => void calls.push("look") }),
    ["fn 1", "look", "fn 2", "result written 2", "result written 2"],
  ],
};

for (const [does, [optionsOf, expected]] of Object.entries(OUTCOMES)) {
  testStoreOnce(`a step that has thrown ${does}`, async (sut) => {
    const calls: string[] = [];
    const { state } = await handleAt(sut.store, commenting(optionsOf(calls), calls));
    assertEquals([state, calls], ["done", expected]);
    await assertNoResults(sut);
  });
}

testStoreOnce("a step with an outcome to fail gives its event up", async ({ store }) => {
  const calls: string[] = [];
  const handler = commenting({ unknown: "fail" }, calls);
  const dead = await handleAt(store, handler);
  const reason = "GiveUpError: unknown outcome of step 'comment'";
  assertEquals([dead.state, calls], ["dead", ["fn 1"]]);
  assertEquals(errorsOf(dead), ["Error: connection lost", reason]);
  // A replay knows no more, unless somebody has looked.
  assert(await store.replay("d1"));
  assertEquals(errorsOf(await handleAt(store, handler)).slice(2), [reason]);
  const steps = await store.steps("d1");
  assertEquals(steps.map(({ name, isBegun }) => [name, isBegun]), [["comment", true]]);
  assert(await store.forgetStep("d1", "comment"));
  assert(await store.replay("d1"));
  const again: string[] = [];
  const written: EventHandler = async (_event, { step }) =>
    void again.push(await step("comment", () => "written", { unknown: "fail" }));
  assertEquals((await handleAt(store, written)).state, "done");
  assertEquals(again, ["written"]);
});

testStoreOnce(
  "an unknown step that somebody has set has happened, with its result",
  async (sut) => {
    const { store } = sut;
    const calls: string[] = [];
    const handler = commenting({ unknown: "fail" }, calls);
    await handleAt(store, handler);
    for (const [id, name] of [["d2", "comment"], ["d1", "other"]] as const) {
      assertEquals(await store.setStep(id, name), false);
    }
    const noJson = () => store.setStep("d1", "comment", new Date());
    await assertRejects(
      noJson,
      TypeError,
      'Cannot set the step "comment": its result must be JSON',
    );
    assert(await store.setStep("d1", "comment", "known"));
    assertEquals(await store.setStep("d1", "comment", "late"), false);
    assert(await store.replay("d1"));
    const { state } = await handleAt(store, handler);
    assertEquals([state, ...new Set(calls)], ["done", "fn 1", "result known"]);
    assertEquals(await store.setStep("d1", "comment"), false);
    await assertNoResults(sut);
  },
);

testStoreOnce("a step that was not done is taken again without a look", async ({ store }) => {
  const calls: string[] = [];
  const unknown = () => (calls.push("look"), "found");
  await handleAt(store, commenting({ unknown }, calls, new NotDoneError("Too many requests")));
  assertEquals(calls, ["fn 1", "fn 2", "result written 2", "result written 2"]);
});

testStoreOnce("a step whose look fails is looked for again, and not taken", async ({ store }) => {
  const calls: string[] = [];
  const unknown = () => {
    calls.push("look");
    if (calls.length < 3) throw new Error("no answer");
    return "found";
  };
  const record = await handleAt(store, commenting({ unknown }, calls));
  assertEquals(calls, ["fn 1", "look", "look", "result found"]);
  assertEquals(errorsOf(record), ["Error: connection lost", "Error: no answer"]);
});

testStoreOnce("what a look finds must be JSON, and it has the signal", async ({ store }) => {
  const signals: unknown[] = [];
  const unknown = ({ signal }: { readonly signal: AbortSignal }) => {
    signals.push(signal instanceof AbortSignal);
    return new Date(0) as unknown as string;
  };
  const record = await handleAt(store, commenting({ unknown }, []));
  const refused = `GiveUpError: Cannot store the step "comment": its result must be JSON, and ` +
    "'result' is a Date";
  assertEquals(errorsOf(record).slice(1), [refused]);
  assertEquals(signals, [true]);
});

testStoreOnce(
  "a version without the option takes a step again that has begun",
  async ({ store }) => {
    const calls: string[] = [];
    const options = (attempt: number) => attempt === 1 ? { unknown: "fail" } as const : undefined;
    const handler: EventHandler = (event, context) =>
      commenting(options(event.attempt), calls)(event, context);
    assertEquals((await handleAt(store, handler)).state, "done");
    assertEquals(calls, ["fn 1", "fn 2", "result written 2", "result written 2"]);
  },
);

testStoreOnce("a step that is stored is never looked for", async ({ store }) => {
  const calls: string[] = [];
  const handler: EventHandler = async ({ attempt }, { step }) => {
    const unknown = () => (calls.push("look"), "found");
    calls.push(await step("a", () => "written", { unknown }));
    if (attempt < 3) throw new Error("again");
  };
  await handleAt(store, handler);
  assertEquals(calls, ["written", "written", "written"]);
});

testStoreOnce("steps of two handlers and of the event are each looked for alone", async (sut) => {
  const calls: string[] = [];
  const of = (name: string): EventHandler => async ({ attempt }, { step }) => {
    await step("a", () => {
      calls.push(`${name} ${attempt}`);
      if (attempt === 1 && name !== "first") throw LOST;
    }, { unknown: () => void calls.push(`look ${name}`) });
  };
  const router = createEventRouter().on("push", of("first")).on("push", of("second"), { id: "b" });
  const handler: EventHandler = async (event, context) => {
    await Promise.resolve(of("around")(event, context)).catch(() => {});
    await router.handle(event, context);
  };
  assertEquals((await handleAt(sut.store, handler)).state, "done");
  assertEquals(calls.slice(0, 3), ["around 1", "first 1", "second 1"]);
  assertEquals(calls.slice(3).toSorted(), ["around 2", "look around", "look second", "second 2"]);
});

/** Counts the parts that are noted. */
function counted(store: EventStore): { readonly parts: string[] } {
  const parts: string[] = [];
  const note = store.note.bind(store);
  store.note = (...call) => {
    parts.push(call[1].is);
    return note(...call);
  };
  return { parts };
}

testStoreOnce(
  "a step takes one commit, two with a note, none if it is known",
  async ({ store }) => {
    const { parts } = counted(store);
    await handleAt(store, async ({ attempt }, { step }) => {
      await step("plain", () => 1);
      await step("noted", () => 2, { unknown: "repeat" });
      if (attempt < 3) throw new Error("again");
    });
    assertEquals(parts, ["step", "begun", "step"]);
  },
);
