import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import {
  createEventRouter,
  type EventHandler,
  RetryLaterError,
  StateConflictError,
} from "../../../events/mod.ts";
import { claimOne, delivery, later } from "../store/_events.ts";
import { WallClock } from "../../_wall_clock.ts";
import { testStoreInOneProcess, testStoreOnce } from "../store/contract/_contract.ts";
import { memoryStore } from "../store/kv/_stores.ts";
import { type OpenedStore, reach, until, withWorker } from "./_worker.ts";
import { damage, setNewer, setValue } from "../store/kv/_values.ts";

const RETRY = { retry: { minDelayMs: 1, maxDelayMs: 1, maxAttempts: 3 } };

/** Handles events, to their end, and then checks what is stored. */
async function handleThen(
  sut: OpenedStore,
  handler: EventHandler,
  check: () => Promise<void>,
  state: "done" | "dead" = "done",
  ids: readonly string[] = ["d1"],
): Promise<void> {
  await withWorker(sut, handler, RETRY, async () => {
    for (const id of ids) {
      await sut.store.accept(delivery(id));
      await reach(sut.store, id, state);
    }
    await check();
  });
}

/** Handles events, to their end. */
async function handle(sut: OpenedStore, handler: EventHandler, ...ids: string[]): Promise<void> {
  await handleThen(sut, handler, () => Promise.resolve(), "done", ids);
}

async function valueOf(sut: Pick<OpenedStore, "store">, key = "chat"): Promise<unknown> {
  return (await sut.store.state(key)).value;
}

testStoreInOneProcess(
  "state() is committed with the event, and read by the next one",
  async (sut) => {
    const seen: unknown[] = [];
    const handler: EventHandler = async (_, { state }) => {
      const chat = await state<{ n: number }>("chat");
      seen.push(chat.value);
      chat.set({ n: (chat.value?.n ?? 0) + 1 });
      seen.push(chat.value, (await sut.store.state("chat")).value);
    };
    await handle(sut, handler, "d1", "d2");
    assertEquals(seen, [undefined, { n: 1 }, undefined, { n: 1 }, { n: 2 }, { n: 1 }]);
  },
);

testStoreInOneProcess("state() can be deleted", async (sut) => {
  await (await sut.store.state("chat")).set("x");
  await handleThen(sut, async (_, { state }) => (await state("chat")).delete(), async () => {
    assertEquals(await valueOf(sut), undefined);
    assertEquals((await sut.store.state("chat")).version, null);
  });
});

testStoreInOneProcess(
  "state() is not committed if the handler fails or is put off",
  async (sut) => {
    let calls = 0;
    const handler: EventHandler = async (_, { state }) => {
      const chat = await state<number>("chat");
      assertEquals(chat.value, undefined);
      chat.set(1);
      if (++calls === 1) throw new RetryLaterError("later", { afterMs: 0 });
      throw new Error("no");
    };
    await handleThen(sut, handler, async () => {
      assertEquals([calls, await valueOf(sut)], [4, undefined]);
    }, "dead");
  },
);

testStoreInOneProcess("state() is not committed if the event is cancelled", async (sut) => {
  const handler: EventHandler = async ({ id }, { state }) => {
    (await state("chat")).set(1);
    await sut.store.cancel(id);
  };
  await handleThen(sut, handler, async () => assertEquals(await valueOf(sut), undefined), "dead");
});

testStoreInOneProcess("state() that is changed meanwhile fails the attempt", async (sut) => {
  const other = await sut.place.open();
  const seen: unknown[] = [];
  const handler: EventHandler = async (_, { state }) => {
    const chat = await state<string>("chat");
    seen.push(chat.value);
    if (seen.length === 1) assert(await (await other.state("chat")).set("theirs"));
    chat.set(`${chat.value}, mine`);
  };
  await handleThen(sut, handler, async () => {
    assertEquals(seen, [undefined, "theirs"]);
    assertEquals(await valueOf(sut), "theirs, mine");
    const { attempts } = (await sut.store.get("d1"))!;
    assertEquals(attempts.map(({ outcome }) => outcome), ["failed", "handled"]);
    assertEquals(
      attempts[0]!.error,
      "StateConflictError: A state that the handler has changed was changed by another one meanwhile",
    );
  });
});

testStoreOnce("state() that is changed meanwhile repeats no step", async (sut) => {
  let paid = 0;
  const handler: EventHandler = async (_, { state, step }) => {
    const chat = await state<string>("chat");
    const answer = await step("model", () => Promise.resolve(`answer ${++paid}`));
    if (chat.value === undefined) assert(await (await sut.store.state("chat")).set("theirs"));
    chat.set(`${chat.value}, ${answer}`);
  };
  await handleThen(sut, handler, async () => {
    assertEquals(await valueOf(sut), "theirs, answer 1");
  });
});

testStoreInOneProcess(
  "state() that is only read is not checked, and settles as ever",
  async (sut) => {
    const handler: EventHandler = async (_, { state }) => {
      await state("chat");
      assert(await (await sut.store.state("chat")).set("theirs"));
    };
    await handleThen(sut, handler, async () => {
      assertEquals((await sut.store.get("d1"))!.attempts.length, 1);
    });
  },
);

testStoreInOneProcess(
  "state() of two handlers of one event: the second sees the first",
  async (sut) => {
    const router = createEventRouter();
    let calls = 0;
    for (const name of ["a", "b"]) {
      router.onAny(async (_, { state }) => {
        calls++;
        const chat = await state<string[]>("chat");
        // Both have read it before one is noted.
        await later(20);
        chat.set([...chat.value ?? [], name]);
      }, { id: name });
    }
    await handleThen(sut, router.handle, async () => {
      assertEquals((await valueOf(sut) as string[]).toSorted(), ["a", "b"]);
      // The one that was second has run again, and the first one has not.
      assertEquals(calls, 3);
      assert((await sut.store.get("d1"))!.attempts[0]!.error!.includes("StateConflictError"));
    });
  },
);

testStoreInOneProcess("state() of each handler commits with its own part", async (sut) => {
  const router = createEventRouter();
  let fails = true;
  router.onAny(async (_, { state }) => (await state("first")).set(1), { id: "first" });
  router.onAny(async (_, { state }) => {
    (await state("second")).set(2);
    await later(20);
    if (fails) assertEquals((await sut.store.state("first")).value, 1);
    if (fails) {
      fails = false;
      throw new Error("no");
    }
  }, { id: "second" });
  await handleThen(sut, router.handle, async () => {
    assertEquals([await valueOf(sut, "first"), await valueOf(sut, "second")], [1, 2]);
  });
});

testStoreOnce("state() of routers that are called one after the other is one", async (sut) => {
  const router = createEventRouter();
  router.onAny(async (_, { state }) => {
    const chat = await state<number>("chat");
    chat.set((chat.value ?? 0) + 1);
  });
  const handler: EventHandler = async (event, context) => {
    const chat = await context.state<number>("chat");
    chat.set(10);
    await router.handle(event, context);
    await router.handle(event, context);
    assertEquals(chat.value, 12);
  };
  await handleThen(sut, handler, async () => assertEquals(await valueOf(sut), 12));
});

Deno.test("state() of a router within a router is that of the handler around both", async () => {
  for (const isOpened of [false, true]) {
    await using sut = await memoryStore();
    const inner = createEventRouter().onAny(async (_, { state }) => {
      const chat = await state<number>("chat");
      chat.set(chat.value! + 1);
    });
    const outer = createEventRouter().onAny(async (event, context) => {
      if (isOpened) assertEquals((await context.state("chat")).value, 10);
      await inner.handle(event, context);
      await inner.handle(event, context);
    });
    const handler: EventHandler = async (event, context) => {
      (await context.state<number>("chat")).set(10);
      await outer.handle(event, context);
    };
    await handleThen(sut, handler, async () => assertEquals(await valueOf(sut), 12));
  }
});

testStoreOnce(
  "state() of routers that are called beside each other is in conflict",
  async (sut) => {
    const router = createEventRouter();
    router.onAny(async (_, { state }) => {
      const chat = await state<number>("chat");
      await later(5);
      chat.set(1);
    });
    let error: unknown;
    const handler: EventHandler = async (event, context) => {
      try {
        await Promise.all([router.handle(event, context), router.handle(event, context)]);
      } catch (thrown) {
        error = thrown;
        throw thrown;
      }
    };
    await handleThen(sut, handler, async () => assertEquals(await valueOf(sut), undefined), "dead");
    assert(error instanceof StateConflictError);
    assertEquals(error.key, "chat");
  },
);

testStoreOnce("state() of each intake is its own", async (sut) => {
  const handler: EventHandler = async ({ intake }, { state }) => {
    (await state("chat")).set(intake);
    assertEquals(await state("chat"), await state("chat", { intake }));
    (await state("of all", { intake: "" })).set(intake);
  };
  await withWorker(sut, handler, {}, async () => {
    for (const intake of ["one", "two"]) {
      await sut.store.accept({ ...delivery("d1"), intake });
      await reach(sut.store, `${intake}:d1`, "done");
    }
    const of = async (intake: string) => (await sut.store.state("chat", { intake })).value;
    assertEquals([await of("one"), await of("two"), await valueOf(sut)], ["one", "two", undefined]);
    assertEquals(await valueOf(sut, "of all"), "two");
  });
});

testStoreOnce(
  "state() refuses at the call what JSON would change, or the store cannot hold",
  async (sut) => {
    const errors: unknown[] = [];
    const handler: EventHandler = async (_, { state }) => {
      const chat = await state<unknown>("chat");
      const refused = (
        value: unknown,
        type: typeof TypeError | typeof RangeError,
        message: string,
      ) => assertThrows(() => chat.set(value), type, `Cannot set the state: 'value' ${message}`);
      const { stateBytes } = sut.store.room;
      const most = `must take up to ${stateBytes} bytes`;
      refused("a".repeat(stateBytes - 1), RangeError, `${most}, takes ${stateBytes + 1}`);
      refused("ä€".repeat(40_000), RangeError, `${most}, takes 200002`);
      refused(undefined, TypeError, "must not be undefined: delete the state");
      const wrong: readonly (readonly [unknown, string])[] = [
        [() => {}, "'value' is of type function"],
        [{ at: [new Date(0)] }, "'value.at[0]' is a Date"],
        [new Map(), "'value' is a Map"],
        [{ n: NaN }, "'value.n' is NaN"],
        [5n, "'value' is of type bigint"],
      ];
      for (const [value, what] of wrong) {
        const message = `Cannot set the state: it must be JSON, and ${what}`;
        assertThrows(() => chat.set(value), TypeError, message);
      }
      assertThrows(
        () => chat.set(1, { expireAfterMs: 0 }),
        RangeError,
        "'expireAfterMs' must be a whole",
      );
      chat.set(Array.from({ length: 2_000 }, (_, i) => ({ i, left: undefined })));
      for (const key of ["b", "c"]) await state(key);
      const fourth = "Cannot read the state: an event can have up to 3, got 4.";
      await assertRejects(() => state("d"), RangeError, fourth);
      const text = "Cannot read the state: 'key' must be a text that is not empty, got ";
      await assertRejects(() => state(1 as never), TypeError, `${text}1`);
      await assertRejects(() => state(""), TypeError, `${text}""`);
      await assertRejects(() => state("x".repeat(257)), RangeError, "up to 256 characters");
      errors.push("none");
    };
    await handleThen(sut, handler, async () => {
      assertEquals(errors, ["none"]);
      assertEquals((await valueOf(sut) as object[])[1_999], { i: 1_999 });
    });
  },
);

testStoreOnce("state() takes the largest value that is allowed, of each kind", async (sut) => {
  for (const value of ["a".repeat(64_998), "€".repeat(21_666), Array(32_499).fill(1)]) {
    assert(await (await sut.store.state("chat")).set(value));
    assertEquals((await sut.store.state<typeof value>("chat")).value?.length, value.length);
  }
});

testStoreOnce("set() of a state copies the value", async (sut) => {
  const handler: EventHandler = async (_, { state }) => {
    const chat = await state<number[]>("chat");
    const value = [1];
    chat.set(value);
    value.push(2);
  };
  await handleThen(sut, handler, async () => assertEquals(await valueOf(sut), [1]));
});

testStoreOnce("a state expires", async (sut) => {
  using clock = new WallClock();
  const handler: EventHandler = async (_, { state }) =>
    (await state("chat")).set(1, { expireAfterMs: 20_000 });
  await handleThen(sut, handler, async () => {
    assertEquals(await valueOf(sut), 1);
    // A machine under load reads late: the last second passes by itself.
    clock.advance(19_000);
    await until(async () => await valueOf(sut) === undefined);
    // The entry may still be there, and can be replaced.
    assert(await (await sut.store.state("chat")).set(2));
    await later(300);
    assertEquals(await valueOf(sut), 2);
  });
});

testStoreOnce("a state that expires stays for its time from the commit on", async (sut) => {
  using clock = new WallClock();
  const handler: EventHandler = async (_, { state }) => {
    (await state("chat")).set([1], { expireAfterMs: 60_000 });
    clock.advance(90_000);
  };
  await handleThen(sut, handler, async () => {
    assertEquals(await valueOf(sut), [1]);
    clock.advance(60_000);
    assertEquals(await valueOf(sut), undefined);
  });
});

testStoreInOneProcess(
  "a store's state is set unless it was changed meanwhile",
  async ({ place, store }) => {
    const other = await place.open();
    const [mine, theirs] = [await store.state<number>("chat"), await other.state<number>("chat")];
    assert(await mine.set(1));
    assertEquals([await theirs.set(2), theirs.value], [false, undefined]);
    assert(await mine.set(3));
    assertEquals([mine.value, (await other.state("chat")).value], [3, 3]);
    assertEquals(await theirs.delete(), false);
    assert(await mine.delete());
    assert(await mine.set(4));
  },
);

Deno.test("a state that cannot be read says so", async () => {
  await using sut = await memoryStore();
  const key = ["events", "state", "", "chat"];
  const wrong = ["text", { until: 1 }, { value: 1 }, { until: "x", value: 1 }]
    .map((value) => () => setValue(sut.kv, key, value));
  for (const spoil of [setNewer, damage, ...wrong]) {
    await setValue(sut.kv, key, { until: null, value: 1 });
    await spoil(sut.kv, key);
    const before = await sut.kv.get(key);
    await assertRejects(
      () => sut.store.state("chat"),
      Error,
      "Cannot read the state: another version wrote it, or it is damaged",
    );
    assertEquals(await sut.kv.get(key), before);
  }
});

testStoreOnce("states outlive their events", async (sut) => {
  await (await sut.store.state("chat")).set(1);
  await sut.store.accept(delivery("d1"));
  await sut.store.complete(await claimOne(sut.store));
  await sut.store.purge({});
  assertEquals(await valueOf(sut), 1);
});
