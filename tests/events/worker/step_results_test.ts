/** Names and results of steps, and what is committed with them, over every engine. */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import {
  type EventHandler,
  GiveUpError,
  type HandlerContext,
  StateConflictError,
} from "../../../events/mod.ts";
import { testAging, testStoreOnce } from "../store/contract/_contract.ts";
import { assertNoResults } from "../store/_stepping.ts";
import { errorsOf, handleAt } from "./_attempts.ts";

type Step = HandlerContext["step"];

/** Makes a handler whose first attempt fails after its steps. */
const twice =
  (handle: (step: Step, context: HandlerContext) => Promise<unknown>): EventHandler =>
  async ({ attempt }, context) => {
    await handle(context.step, context);
    if (attempt === 1) throw new Error("again");
  };

class Own {
  readonly a = 1;
}

const cyclic: Record<string, unknown> = {};
cyclic.self = [cyclic];

const broken = {
  get answer() {
    throw new Error("no answer");
  },
};

const nested = Array.from({ length: 20_000 }).reduce<unknown>((inner) => [inner], 0);

const NO_JSON: readonly (readonly [unknown, string])[] = [
  [() => {}, "'result' is of type function"],
  [Symbol("a"), "'result' is of type symbol"],
  [1n, "'result' is of type bigint"],
  [NaN, "'result' is NaN"],
  [-Infinity, "'result' is -Infinity"],
  [new Date(0), "'result' is a Date"],
  [{ at: new Map() }, "'result.at' is a Map"],
  [[1, [undefined]], "'result[1][0]' is of type undefined"],
  [new Own(), "'result' is a Own"],
  [new Uint8Array(1), "'result' is a Uint8Array"],
  [cyclic, "'result.self[0]' is part of itself"],
  [broken, "reading it throws Error: no answer"],
  [nested, "reading it throws RangeError: Maximum call stack size exceeded"],
];

testStoreOnce("a result that is not JSON is refused, and its step not stored", async (sut) => {
  const calls: number[] = [];
  const { state } = await handleAt(sut.store, async (_event, { step }) => {
    for (const [i, [value, wrong]] of NO_JSON.entries()) {
      const name = `s${i}`;
      await assertRejects(
        () => step(name, () => (calls.push(i), value)),
        GiveUpError,
        `Cannot store the step "${name}": its result must be JSON, and ${wrong}`,
      );
    }
  });
  assertEquals([state, calls.length], ["done", NO_JSON.length]);
  assertEquals(await sut.store.steps("d1"), []);
});

testStoreOnce("a result that is too large is refused, and names its step", async ({ store }) => {
  const seen: number[] = [];
  await handleAt(
    store,
    twice(async (step) => {
      const message =
        `Cannot store the step "large": its result takes 524289 bytes as JSON, over ` +
        "524288. Return less, or where it is kept";
      const large = () => step("large", () => "x".repeat(524_287));
      await assertRejects(large, GiveUpError, message);
      seen.push((await step("as large", () => "x".repeat(524_286))).length);
    }),
  );
  assertEquals(seen, [524_286, 524_286]);
});

testStoreOnce(
  "a step that a commit has no room for gives its event up, and says why",
  async (sut) => {
    const { store } = sut;
    let calls = 0;
    const record = await handleAt(store, async ({ id }, { step }) => {
      if (id !== "d1") return;
      await step("large", ({ emit }) => {
        calls++;
        for (let i = 0; i < 10; i++) emit("own", "part", { text: "x".repeat(58_000) });
        return "x".repeat(500_000);
      });
    });
    const emitted = (await Array.fromAsync(store.list({ source: "own" }))).length;
    // A transaction of a SQLite file has room for both.
    if (record.state === "done") return assertEquals([calls, emitted], [1, 10]);
    assertEquals([calls, emitted, errorsOf(record)], [1, 0, [
      'GiveUpError: Cannot store the step "large": its result of 500002 bytes, the 580110 bytes of the ' +
      "events that it emits, and its effects do not fit one commit. Return less, or emit in a later step",
    ]]);
    await assertNoResults(sut);
  },
);

testStoreOnce("a step that its event's record has no room for gives it up", async ({ store }) => {
  const calls: number[] = [];
  const dead = await handleAt(store, async (_event, { step }) => {
    for (let i = 0;; i++) await step(`${i}/`.padEnd(200, "漢"), () => void calls.push(i));
  });
  assertEquals(dead.state, "dead");
  assertEquals([...new Set(calls)], calls);
  assertMatch(errorsOf(dead)[0]!, /^GiveUpError: Cannot store the step ".*\b32768\. Take larger/);
});

const RESULTS: readonly unknown[] = [
  ...[undefined, null, 0, -0, 1e21, true, "", "\u0000\u2028\ud83d", [], {}, [[], {}]],
  { missing: undefined, "": 1, __proto__: null, "1": "one", deep: [{ a: [null] }] },
  `${"x".repeat(19_998)}\u{1F642}\u{1F642}`,
];

testStoreOnce("a result is the same in each attempt, as JSON has it", async (sut) => {
  const attempts: unknown[][] = [];
  const handler = twice(async (step) => {
    const results: unknown[] = [];
    for (const [i, value] of RESULTS.entries()) results.push(await step(`s${i}`, () => value));
    attempts.push(results);
  });
  assertEquals((await handleAt(sut.store, handler)).state, "done");
  const expected = RESULTS.map((value) => value === undefined ? value : fromJson(value));
  assertEquals(attempts, [expected, expected]);
  await assertNoResults(sut);
});

const fromJson = (value: unknown) => JSON.parse(JSON.stringify(value));

testStoreOnce(
  "what is done with a result changes what is stored of it no more",
  async ({ store }) => {
    const seen: unknown[] = [];
    await handleAt(
      store,
      twice(async (step) => {
        const value = { list: [1] };
        const result = await step("a", () => value);
        seen.push(result === value, [...result.list]);
        value.list.push(2);
        result.list.push(3);
      }),
    );
    assertEquals(seen, [false, [1], false, [1]]);
  },
);

testStoreOnce("a name is used once in an attempt, and each attempt anew", async ({ store }) => {
  const calls: string[] = [];
  const handler = twice(async (step) => {
    const message = `Cannot take the step "a": this attempt has one of that name already. ` +
      "Give each its own";
    const second = () => step("a", () => void calls.push("second"));
    const first = step("a", () => void calls.push("first"));
    await assertRejects(second, TypeError, message);
    await first;
    await assertRejects(second, TypeError, message);
    const failing = () => step("b", () => Promise.reject(new Error("no")));
    await assertRejects(failing, Error, "no");
    await assertRejects(failing, TypeError, "has one of that name already");
  });
  assertEquals((await handleAt(store, handler)).state, "done");
  assertEquals(calls, ["first"]);
});

const WRONG: readonly (readonly [(step: Step) => unknown, string])[] = [
  ...[undefined, null, 7, "", "\ud83d", "x".repeat(201), ["a"]].map((name) =>
    [(step: Step) => step(name as string, () => {}), "the name must be a well-formed text"] as const
  ),
  [(step) => step("a", undefined as never), `Cannot take the step "a": 'fn' must be a function`],
  [(step) => step("a", () => {}, null as never), `Cannot take the step "a": the options`],
  [(step) => step("a", () => {}, { unknown: "guess" as never }), "'unknown' must be"],
  [(step) => step("a", () => {}, { retries: 1 } as never), `there is no option "retries"`],
];

testStoreOnce("step() refuses what is no step, and then takes one of that name", async (sut) => {
  const calls: string[] = [];
  const handler: EventHandler = async (_event, { step }) => {
    for (const [call, message] of WRONG) {
      await assertRejects(async () => await call(step), TypeError, message);
    }
    await step("a", () => void calls.push("a"));
    await step("x".repeat(200), () => void calls.push("long"));
  };
  assertEquals(errorsOf(await handleAt(sut.store, handler)), []);
  assertEquals(calls, ["a", "long"]);
});

testStoreOnce("of steps beside each other one that fails leaves the others stored", async (sut) => {
  const calls: string[] = [];
  const handler: EventHandler = async ({ attempt }, { step }) => {
    await Promise.all(["a", "b", "c", "d"].map((name, i) =>
      step(name, async () => {
        calls.push(`${name}${attempt}`);
        await new Promise((resolve) => setTimeout(resolve, 5 * i));
        if (name === "b" && attempt === 1) throw new Error("no");
      })
    ));
  };
  assertEquals(errorsOf(await handleAt(sut.store, handler)), ["Error: no"]);
  assertEquals(calls, ["a1", "b1", "c1", "d1", "b2"]);
});

testStoreOnce(
  "a step can be taken within another one, and is stored by itself",
  async ({ store }) => {
    const calls: string[] = [];
    const handler: EventHandler = async ({ attempt }, { step }) => {
      const sum = await step("outer", async () => {
        calls.push(`outer ${attempt}`);
        const inner = await step("inner", () => (calls.push(`inner ${attempt}`), 1));
        if (attempt === 1) throw new Error("no");
        return inner + 1;
      });
      assertEquals(sum, 2);
    };
    assertEquals((await handleAt(store, handler)).state, "done");
    assertEquals(calls, ["outer 1", "inner 1", "outer 2"]);
  },
);

testStoreOnce("a step adds nothing once it has ended", async ({ store }) => {
  const handler: EventHandler = async (_event, { step }) => {
    let late: Parameters<Parameters<Step>[1]>[0];
    await step("a", (own) => void (late = own));
    const ended = "the handler has ended";
    for (
      const call of [
        () => late.emit("jobs", "item", {}),
        () => late.wake("name"),
        () => late.settleWith(() => {}),
        () => late.state("a"),
      ]
    ) await assertRejects(async () => await call(), TypeError, ended);
  };
  assertEquals(errorsOf(await handleAt(store, handler)), []);
});

testStoreOnce("steps change states one after the other, each once", async ({ store }) => {
  const count = (step: Step, name: string) =>
    step(name, async ({ state }) => {
      const own = await state<number>("count");
      own.set((own.value ?? 0) + 1);
      return own.value;
    });
  const seen: unknown[] = [];
  const handler = twice(async (step, { state }) => {
    seen.push(await count(step, "a"), await count(step, "b"));
    seen.push((await state("count")).value);
  });
  assertEquals((await handleAt(store, handler)).state, "done");
  assertEquals(seen, [1, 2, 2, 1, 2, 2]);
  assertEquals((await store.state("count")).value, 2);
});

testStoreOnce("a conflict of a state keeps the result, and fails the attempt", async (sut) => {
  const { store, place } = sut;
  const calls: number[] = [];
  const results: unknown[] = [];
  const handler: EventHandler = async ({ attempt, id }, { step }) => {
    if (id !== "d1") return;
    const result = step("pay", async ({ state, emit, wake, settleWith }) => {
      const own = await state<string>("chat");
      own.set("mine");
      emit("jobs", "item", {}, { delayMs: 3_600_000 });
      wake("name", attempt);
      settleWith(place.effects.add("paid", 1));
      assert(await (await store.state("chat")).set("another's"));
      return calls.push(attempt);
    });
    results.push(await result.catch((error) => error));
    await result;
  };
  const record = await handleAt(store, handler);
  assertEquals([record.state, calls], ["done", [1]]);
  assert(results[0] instanceof StateConflictError);
  assertEquals(results.slice(1), [1]);
  assertEquals(errorsOf(record).length, 1);
  assertEquals((await store.state("chat")).value, "another's");
  assertEquals(await place.effects.get("paid"), 1);
  const answers = await Array.fromAsync(store.answers(), ({ name, value }) => [name, value]);
  assertEquals(answers, [["name", 1]]);
  const emitted = await Array.fromAsync(store.list({ type: "item" }));
  assertEquals(emitted.length, 1);
});

testStoreOnce(
  "a step of a dead event is repeated once it is forgotten, with those after it",
  async (sut) => {
    const calls: string[] = [];
    let isMended = false;
    const handler: EventHandler = async (_event, { step }) => {
      for (const name of ["a", "b", "c"]) await step(name, () => void calls.push(name));
      if (!isMended) throw new Error("no");
    };
    assertEquals((await handleAt(sut.store, handler)).state, "dead");
    isMended = true;
    assert(await sut.store.forgetStep("d1", "b"));
    assert(await sut.store.replay("d1"));
    assertEquals((await handleAt(sut.store, handler)).state, "done");
    assertEquals(calls, ["a", "b", "c", "b", "c"]);
    await assertNoResults(sut);
  },
);

for (const [how, fresh, expected] of [["goes on", false, 1], ["begins anew", true, 2]] as const) {
  testStoreOnce(`a dead event that is replayed ${how} with its steps`, async (sut) => {
    let [calls, isMended] = [0, false];
    const keys = new Set<string>();
    const handler: EventHandler = async ({ idempotencyKey }, { step }) => {
      keys.add(idempotencyKey());
      await step("a", () => void calls++);
      if (!isMended) throw new Error("no");
    };
    await handleAt(sut.store, handler);
    isMended = true;
    assert(await sut.store.replay("d1", { fresh }));
    assertEquals((await handleAt(sut.store, handler)).state, "done");
    assertEquals([calls, keys.size], [expected, expected]);
    await assertNoResults(sut);
  });
}

testAging(
  "a step whose result is not kept any more is taken again, and stored",
  async ({ place, store }) => {
    const seen: unknown[] = [];
    let calls = 0;
    const handler: EventHandler = async ({ attempt }, { step }) => {
      seen.push(
        await step("a", ({ settleWith }) => {
          settleWith(place.effects.add("paid", 1));
          return ++calls;
        }),
      );
      if (seen.length < 6) throw new Error(`no ${attempt}`);
    };
    assertEquals((await handleAt(store, handler)).state, "dead");
    await place.pass(401 * 86_400_000);
    assert(await store.replay("d1"));
    assertEquals((await handleAt(store, handler)).state, "done");
    assertEquals(seen, [1, 1, 1, 1, 2, 2]);
    assertEquals(await place.effects.get("paid"), 2);
  },
);
