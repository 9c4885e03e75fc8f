import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import {
  createEventRouter,
  type DeadEvent,
  type EventHandler,
  type EventRecord,
  type EventStore,
  GiveUpError,
  startWorker,
} from "../../../events/mod.ts";

import { NoTurnError } from "../../../events/store/engine.ts";
import { delivery } from "../store/_events.ts";
import { memoryStore } from "../store/kv/_stores.ts";
import { testFailing, testStoreOnce } from "../store/contract/_contract.ts";
import { handle, until, WAYS, withWorker } from "./_worker.ts";

/** The ids of all emitted events, in their order. */
async function emittedIn(store: EventStore): Promise<string[]> {
  const ids = [];
  for await (const { id } of store.list()) if (id !== "d1") ids.push(id);
  return ids.toSorted();
}

testStoreOnce(
  "emit() stores events with the settlement, which are handled at once",
  async (sut) => {
    const handled: unknown[] = [];
    const records = await handle(sut, ({ id, type, payload }, { emit }) => {
      if (id !== "d1") return void handled.push(id, type, payload);
      const item = { number: 1 };
      emit("jobs", "item", item);
      item.number = 2;
      emit("jobs", "item", item, { id: "last" });
    });
    assertEquals(handled.length, 6);
    assertEquals(handled.slice(0, 3), ["jobs:d1/0001", "item", { number: 1 }]);
    assertEquals(handled.slice(3), ["jobs:last", "item", { number: 2 }]);
    const [first] = records.filter(({ eventId }) => eventId === "d1");
    assertEquals([first?.message, first?.emitted], ["event handled", 2]);
  },
);

testStoreOnce("emit() wakes the worker for what is due", async (sut) => {
  const handled: string[] = [];
  const handler: EventHandler = ({ id }, { emit }) => {
    handled.push(id);
    if (id.length < 60) emit("jobs", "next", {});
  };
  await withWorker(sut, handler, { pollMs: 3_600_000 }, async () => {
    await sut.store.accept(delivery("d1"));
    await until(() => (handled.at(-1) ?? "").length >= 60);
  });
  assertEquals(handled[2], "jobs:jobs:d1/0001/0001");
});

testStoreOnce(
  "emit() of an attempt that fails stores nothing, and its retry each event once",
  async (sut) => {
    await handle(sut, ({ id, attempt }, { emit }) => {
      if (id !== "d1") return;
      for (let i = 0; i < 3; i++) emit("jobs", "item", { i });
      emit("jobs", "item", {}, { id: "x" });
      if (attempt < 3) throw new Error("not yet");
    });
    assertEquals(await emittedIn(sut.store), [
      ...["jobs:d1/0001", "jobs:d1/0002", "jobs:d1/0003", "jobs:x"],
    ]);
  },
);

/** Has a store not answer until it is told to, or has an event tried again: parts are stored all the same, or are not. */
function silenced(store: EventStore, isStored: boolean): { begin(): Promise<void>; end(): void } {
  let isSilent = false;
  const noting = new Set<Promise<unknown>>();
  const note = store.note.bind(store);
  store.note = async (...call) => {
    const noted = isSilent && !isStored ? Promise.resolve(null) : note(...call);
    noting.add(noted);
    const lease = await noted;
    if (isSilent) throw new Error("connection lost");
    return lease;
  };
  for (const method of ["renew", "recover", "complete"] as const) {
    const real = store[method].bind(store) as (...call: unknown[]) => Promise<never>;
    store[method] = async (...call: unknown[]) => {
      if (isSilent) throw new Error("connection lost");
      return await real(...call);
    };
  }
  const retry = store.retry.bind(store);
  store.retry = (...call) => {
    isSilent = false;
    return retry(...call);
  };
  return {
    async begin() {
      // Another handler, which has ended at once, is noted before.
      await new Promise((resolve) => setTimeout(resolve));
      await Promise.all(noting);
      isSilent = true;
    },
    end: () => void (isSilent = false),
  };
}

/** The answers that nobody has taken, as names and values. */
const answersIn = (store: EventStore) =>
  Array.fromAsync(store.answers(), ({ name, value }) => [name, value]);

/** Reads the types of the events that were emitted, in their order. */
async function typesIn(store: EventStore): Promise<unknown[]> {
  const events = await Array.fromAsync(store.list({ ids: await emittedIn(store) }));
  return events.map((event) => event.state === "unreadable" ? undefined : event.type);
}

for (const [name, way] of Object.entries(WAYS)) {
  testStoreOnce(
    `a step stores what it has emitted and woken, once, before ${name} fails`,
    async (sut) => {
      let runs = 0;
      const handler: EventHandler = async ({ id }, { emit, wake, step }) => {
        if (id !== "d1") return;
        runs++;
        emit("jobs", "late", {});
        wake("other", "late");
        await step("ask", ({ emit, wake }) => {
          emit("jobs", "reminder", {});
          wake("name", runs);
        });
        if (runs === 1) throw new Error("after the step");
      };
      await handle(sut, way(handler));
      assertEquals([runs, await typesIn(sut.store)], [2, ["reminder", "late"]]);
      assertEquals(await answersIn(sut.store), [["name", 1], ["other", "late"]]);
    },
  );

  testStoreOnce(`a step stores what it has emitted before ${name} waits`, async (sut) => {
    const handler: EventHandler = async ({ id }, { step, waitFor }) => {
      if (id !== "d1") return;
      await step("ask", ({ emit }) => emit("jobs", "reminder", {}));
      await waitFor("approval");
    };
    await withWorker(sut, way(handler), {}, async () => {
      await sut.store.accept(delivery("d1"));
      await until(async () => (await sut.store.get("d1"))?.state === "parked");
      assertEquals(await emittedIn(sut.store), ["jobs:d1/0001"]);
      await sut.store.wake("approval");
      await until(async () => (await sut.store.get("d1"))?.state === "done");
      assertEquals(await emittedIn(sut.store), ["jobs:d1/0001"]);
    });
  });

  testStoreOnce(
    `a step that fails beside others of ${name} stores each event once`,
    async (sut) => {
      const taken: unknown[] = [];
      const handler: EventHandler = async ({ id, attempt }, { step }) => {
        if (id !== "d1") return;
        await Promise.all(["a", "b"].map((part) =>
          step(part, ({ emit, wake, settleWith }) => {
            taken.push(`${part}${attempt}`);
            emit("jobs", part, {});
            wake(part, attempt);
            settleWith(() => {
              if (attempt === 1 && part === "a") throw new Error("no");
            });
          })
        ));
      };
      await handle(sut, way(handler));
      assertEquals(taken, ["a1", "b1", "a2"]);
      assertEquals(await typesIn(sut.store), ["b", "a"]);
      assertEquals(await answersIn(sut.store), [["a", 2], ["b", 1]]);
    },
  );

  testStoreOnce(
    `a step of ${name} that fails drops what it has added, and nothing else`,
    async (sut) => {
      const handler: EventHandler = async ({ id }, { emit, wake, step }) => {
        if (id !== "d1") return;
        emit("jobs", "first", {});
        wake("name", 1);
        await assertRejects(
          () =>
            step("call", ({ emit, wake }) => {
              emit("jobs", "dropped", {});
              wake("dropped");
              throw new Error("no");
            }),
          Error,
          "no",
        );
        emit("jobs", "second", {});
      };
      await handle(sut, way(handler));
      assertEquals(await typesIn(sut.store), ["first", "second"]);
      assertEquals(await answersIn(sut.store), [["name", 1]]);
    },
  );

  testStoreOnce(
    `a step that is refused when ${name} has ended leaves the rest to the settlement`,
    async (sut) => {
      const { store } = sut;
      const note = store.note.bind(store);
      store.note = async (...call) => {
        if (call[1].is !== "step") return await note(...call);
        await new Promise((resolve) => setTimeout(resolve, 50));
        throw new TypeError("not stored");
      };
      const handler: EventHandler = ({ id }, { emit, wake, step }) => {
        if (id !== "d1") return;
        emit("jobs", "first", {});
        wake("name", 1);
        step("part", ({ emit }) => emit("jobs", "dropped", {})).catch(() => {});
        emit("jobs", "second", {});
        wake("name", 2);
      };
      await handle(sut, way(handler));
      assertEquals(await typesIn(store), ["first", "second"]);
      assertEquals(await answersIn(store), [["name", 1]]);
    },
  );

  for (const isStored of [true, false]) {
    const standing = isStored ? "stored" : "not stored";

    testStoreOnce(
      `a step of ${name} that was ${standing} and not answered leaves the rest as it is`,
      async (sut) => {
        const silence = silenced(sut.store, isStored);
        let runs = 0;
        const handler: EventHandler = async ({ id }, { emit, step }) => {
          if (id !== "d1") return;
          runs++;
          await silence.begin();
          const first = () => step("first", ({ emit }) => emit("jobs", "first", {}));
          await assertRejects(first, Error, "connection lost");
          const second = () => step("second", ({ emit }) => emit("jobs", "second", {}));
          await assertRejects(second, Error, "connection lost");
          silence.end();
          await step("third", ({ emit }) => emit("jobs", "third", {}));
          emit("jobs", "last", {});
        };
        await handle(sut, way(handler));
        // The second one was never sent: it is not known then what has become of the first.
        assertEquals(await typesIn(sut.store), [...isStored ? ["first"] : [], "third", "last"]);
        assertEquals(runs, 1);
      },
    );

    testStoreOnce(
      `an attempt of ${name} fails whose step was ${standing} and is not answered to its end`,
      async (sut) => {
        const silence = silenced(sut.store, isStored);
        const taken: number[] = [];
        const results: number[] = [];
        const handler: EventHandler = async ({ id, attempt }, { emit, step }) => {
          if (id !== "d1") return;
          if (attempt === 1) await silence.begin();
          const taking = step("part", ({ emit }) => {
            taken.push(attempt);
            emit("jobs", "first", {});
            return attempt;
          });
          await taking.then((result) => results.push(result), () => {});
          emit("jobs", "second", {});
        };
        await handle(sut, way(handler));
        assertEquals([taken, results], isStored ? [[1], [1]] : [[1, 2], [2]]);
        assertEquals(await typesIn(sut.store), ["first", "second"]);
      },
    );
  }
}

testStoreOnce("emit() refuses too many events", async (sut) => {
  await handle(sut, ({ id }, { emit }) => {
    if (id !== "d1") return;
    for (let i = 0; i < 200; i++) emit("jobs", "item", {}, { delayMs: 60_000 });
    assertThrows(() => emit("jobs", "item", {}), RangeError, "at most 200");
  });
  assertEquals((await emittedIn(sut.store)).length, 200);
});

for (
  const [name, id] of [["short", "a".repeat(90)], ["long", "a".repeat(120)], [
    "of others",
    "é".repeat(60),
  ]] as const
) {
  Deno.test(`emit() takes as many ids of one's own as a commit holds: ${name}`, async () => {
    await using sut = await memoryStore();
    let emitted = 0;
    await handle(sut, (event, { emit }) => {
      if (event.id !== "d1") return;
      try {
        for (let i = 0; i < 200; i++) {
          const own = `${id}${String(i).padStart(3, "0")}`.slice(3);
          emit("jobs", "item", {}, { id: own, delayMs: 60_000 });
          emitted++;
        }
      } catch (error) {
        assert(error instanceof RangeError);
        assertStringIncludes(error.message, "the ids of the events of one commit may take");
      }
    });
    assertEquals((await sut.store.get("d1"))?.state, "done");
    assertEquals((await emittedIn(sut.store)).length, emitted);
    assertEquals(emitted === 200, name === "short");
    assert(emitted > 150);
  });
}

testStoreOnce("emit() in an event that is cancelled stores nothing", async (sut) => {
  await handle(sut, async (_event, { emit }) => {
    emit("jobs", "item", {});
    await sut.store.cancel("d1");
  });
  assertEquals(await emittedIn(sut.store), []);
  assertEquals((await sut.store.get("d1"))?.state, "dead");
});

Deno.test("emit() together with settleWith() is one commit", async () => {
  await using sut = await memoryStore();
  await handle(sut, ({ id }, { emit, settleWith }) => {
    if (id !== "d1") return;
    emit("jobs", "item", {}, { id: "x", delayMs: 60_000 });
    settleWith((commit) => commit.sum(["count"], 1n));
  });
  const { versionstamp } = await sut.kv.get(["count"]);
  const [record] = await Array.fromAsync(sut.kv.list({ prefix: ["events", "due"] }));
  assertEquals(record?.versionstamp, versionstamp);
});

testStoreOnce("each of several handlers emits with its own part", async (sut) => {
  const router = createEventRouter({})
    .on("push", (_event, { emit }) => emit("jobs", "a", {}, { id: "a", delayMs: 60_000 }))
    .on("push", ({ attempt }, { emit }) => {
      emit("jobs", "b", {}, { id: `b${attempt}`, delayMs: 60_000 });
      if (attempt === 1) throw new Error("not yet");
    }, { id: "second" })
    .onAny((_event, { emit }) => emit("jobs", "c", {}, { delayMs: 60_000 }));
  await handle(sut, router.handle);
  assertEquals(await emittedIn(sut.store), ["jobs:a", "jobs:b2", "jobs:d1/0001"]);
});

testStoreOnce("a router that is one of the handlers emits with its own parts", async (sut) => {
  const emitting = (id: string): EventHandler => (_event, { emit }) =>
    emit("jobs", "x", {}, { id, delayMs: 60_000 });
  const failing: EventHandler = ({ attempt }, { emit }) => {
    emit("jobs", "x", {}, { id: `f${attempt}`, delayMs: 60_000 });
    if (attempt === 1) throw new Error("not yet");
  };
  const inner = createEventRouter().on("push", emitting("in1")).onAny(failing);
  const outer = createEventRouter()
    .on("push", emitting("out"))
    .onAny(async (event, context) => {
      context.emit("jobs", "x", {}, { id: `own${event.attempt}`, delayMs: 60_000 });
      await inner.handle(event, context);
    });
  await handle(sut, outer.handle);
  assertEquals(await emittedIn(sut.store), ["f2", "in1", "out", "own2"].map((id) => `jobs:${id}`));
});

Deno.test("events that do not fit the settlement fail the attempt", async () => {
  await using sut = await memoryStore();

  const { store } = sut;
  await store.accept(delivery("d1", JSON.stringify({ text: "a".repeat(65_000 * 500) })));
  const worker = startWorker(store, (_event, { emit }) => {
    for (let i = 0; i < 200; i++) emit("jobs", "item", {});
  }, { log: () => {}, retry: { maxAttempts: 1 } });
  await worker.poll();
  await worker.stop();
  const record = await store.get("d1");
  assertEquals(record?.state, "dead");
  assert(record?.attempts[0]?.error?.startsWith("RangeError: Cannot emit the events"));
});

for (const fault of ["before", "after"] as const) {
  testFailing(
    fault,
    `events whose settlement fails ${fault} it is made are emitted once`,
    async ({ failing }) => {
      const { store } = failing;
      await handle(failing, ({ id, attempt }, { emit }) => {
        if (id !== "d1") return;
        emit("jobs", "item", { attempt }, { id: "x" });
        emit("jobs", "item", { attempt });
        failing.arm();
      });
      assertEquals(await emittedIn(store), ["jobs:d1/0001", "jobs:x"], fault);
      assertEquals((await store.get("d1"))?.state, "done");
    },
  );
}

testStoreOnce("reportDead has an event handled for each death by failure", async (sut) => {
  const deaths: DeadEvent[] = [];
  await handle(sut, ({ type, payload }) => {
    if (type === "dead") deaths.push(payload as unknown as DeadEvent);
    throw new GiveUpError("No use");
  }, { reportDead: true });
  assertEquals(deaths.map(({ id, type, platform }) => [id, type, platform]), [
    ["d1", "push", "forge"],
  ]);
  assertEquals(deaths[0]?.attempts.at(-1)?.error, "GiveUpError: No use");
  assertEquals((await sut.store.stats()).dead, 2);
});

testStoreOnce(
  "reportDead has an event handled for one whose lease expired too often",
  async (sut) => {
    const { store } = sut;
    await store.accept(delivery("d1"));
    await store.claim({ limit: 1, owner: "gone", leaseMs: 1 });
    const deaths: unknown[] = [];
    const worker = startWorker(store, ({ payload }) => void deaths.push(payload.id), {
      ...{ log: () => {}, retry: { maxAttempts: 1 }, reportDead: true, pollMs: 5 },
    });
    await until(() => deaths.length > 0);
    await worker.stop();
    assertEquals(deaths, ["d1"]);
  },
);

testStoreOnce(
  "a settlement that has had no turn is tried again, and its handler is not",
  async (sut) => {
    let tries = 0;
    let runs = 0;
    const complete: EventStore["complete"] = (lease, options) => {
      if (tries++ === 0) return Promise.reject(new NoTurnError("too many others"));
      return sut.store.complete(lease, options);
    };
    const records = await handle(
      { ...sut, store: { ...sut.store, complete } },
      (_, { settleWith }) => {
        settleWith(sut.place.effects.set("runs", ++runs));
      },
    );
    assertEquals([tries, runs], [2, 1]);
    const record = await sut.store.get("d1");
    assertEquals([record?.state, (record as EventRecord).attempts.length], ["done", 1]);
    assertEquals(records.filter(({ level }) => level === "warn").length, 0);
  },
);
