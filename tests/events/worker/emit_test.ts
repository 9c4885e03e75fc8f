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

/** Has a store not answer until it is told to, or has an event tried again: checkpoints are stored all the same, or are not. */
function silenced(store: EventStore, isStored: boolean): { begin(): void; end(): void } {
  let isSilent = false;
  const checkpoint = store.checkpoint.bind(store);
  store.checkpoint = async (...call) => {
    const lease = isSilent && !isStored ? null : await checkpoint(...call);
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
  return { begin: () => void (isSilent = true), end: () => void (isSilent = false) };
}

/** Reads the types of the events that were emitted, in their order. */
async function typesIn(store: EventStore): Promise<unknown[]> {
  const events = await Array.fromAsync(store.list({ ids: await emittedIn(store) }));
  return events.map((event) => event.state === "unreadable" ? undefined : event.type);
}

for (const [name, way] of Object.entries(WAYS)) {
  testStoreOnce(
    `checkpoint() stores what ${name} has emitted and woken so far, once`,
    async (sut) => {
      let runs = 0;
      const handler: EventHandler = async ({ id }, { emit, wake, progress, checkpoint }) => {
        if (id !== "d1") return;
        runs++;
        if (!progress.includes("asked")) {
          emit("jobs", "reminder", {});
          wake("name", "first");
          await checkpoint("asked");
        }
        emit("jobs", "late", {});
        wake("other", "late");
        if (runs === 1) throw new Error("after the part");
      };
      await handle(sut, way(handler));
      assertEquals([runs, await emittedIn(sut.store)], [2, ["jobs:d1/0001", "jobs:d1/0002"]]);
      const answers = await Array.fromAsync(
        sut.store.answers(),
        ({ name, value }) => [name, value],
      );
      assertEquals(answers, [["name", "first"], ["other", "late"]]);
    },
  );

  testStoreOnce(`checkpoint() stores what ${name} has emitted before it waits`, async (sut) => {
    const handler: EventHandler = async ({ id }, { emit, progress, checkpoint, waitFor }) => {
      if (id !== "d1") return;
      if (!progress.includes("asked")) {
        emit("jobs", "reminder", {});
        await checkpoint("asked");
      }
      await waitFor("approval");
    };
    await withWorker(sut, way(handler), {}, async () => {
      await sut.store.accept(delivery("d1"));
      await until(async () => (await sut.store.get("d1"))?.state === "parked");
      await sut.store.wake("approval");
      await until(async () => (await sut.store.get("d1"))?.state === "done");
      assertEquals(await emittedIn(sut.store), ["jobs:d1/0001"]);
    });
  });

  testStoreOnce(
    `checkpoint() of a part that fails beside others of ${name} stores each event once`,
    async (sut) => {
      const seen: unknown[] = [];
      const handler: EventHandler = async (
        { id, attempt },
        { emit, wake, progress, checkpoint },
      ) => {
        if (id !== "d1") return;
        seen.push([...progress]);
        await Promise.all(["a", "b"].map(async (part) => {
          if (progress.includes(part)) return;
          emit("jobs", part, {});
          wake(part, attempt);
          await checkpoint(part, () => {
            if (attempt === 1 && part === "a") throw new Error("no");
          });
        }));
      };
      await handle(sut, way(handler));
      assertEquals(seen, [[], ["b"]]);
      assertEquals(await typesIn(sut.store), ["b", "a"]);
      const answers = await Array.fromAsync(
        sut.store.answers(),
        ({ name, value }) => [name, value],
      );
      assertEquals(answers, [["a", 2], ["b", 1]]);
    },
  );

  testStoreOnce(
    `checkpoint() that fails when ${name} has ended leaves that to the settlement`,
    async (sut) => {
      const { store } = sut;
      const checkpoint = store.checkpoint.bind(store);
      store.checkpoint = async (...call) => {
        if (!call[1].endsWith("part")) return await checkpoint(...call);
        await new Promise((resolve) => setTimeout(resolve, 50));
        throw new TypeError("not stored");
      };
      const handler: EventHandler = ({ id }, { emit, wake, checkpoint }) => {
        if (id !== "d1") return;
        emit("jobs", "first", {});
        wake("name", 1);
        checkpoint("part").catch(() => {});
        emit("jobs", "second", {});
        wake("name", 2);
      };
      await handle(sut, way(handler));
      const types = await Array.fromAsync(
        store.list({ ids: ["jobs:d1/0001", "jobs:d1/0002"] }),
        (event) => event.state === "unreadable" ? undefined : event.type,
      );
      assertEquals(types, ["first", "second"]);
      const answers = await Array.fromAsync(store.answers(), ({ name, value }) => [name, value]);
      assertEquals(answers, [["name", 1]]);
    },
  );

  testStoreOnce(
    `checkpoint() that fails leaves what ${name} has emitted to the settlement`,
    async (sut) => {
      const handler: EventHandler = async ({ id }, { emit, wake, checkpoint }) => {
        if (id !== "d1") return;
        emit("jobs", "first", {});
        wake("name", 1);
        await assertRejects(() => checkpoint("x".repeat(40_000)), RangeError);
        emit("jobs", "second", {});
      };
      await handle(sut, way(handler));
      const types = await Array.fromAsync(
        sut.store.list({ ids: ["jobs:d1/0001", "jobs:d1/0002"] }),
        (event) => event.state === "unreadable" ? undefined : event.type,
      );
      assertEquals(types, ["first", "second"]);
      assertEquals(await Array.fromAsync(sut.store.answers(), ({ name }) => name), ["name"]);
    },
  );

  for (const isStored of [true, false]) {
    const standing = isStored ? "stored" : "not stored";

    testStoreOnce(
      `a checkpoint() of ${name} that was ${standing} and not answered is made up for by the next`,
      async (sut) => {
        const silence = silenced(sut.store, isStored);
        let runs = 0;
        const handler: EventHandler = async ({ id }, { emit, wake, checkpoint }) => {
          if (id !== "d1") return;
          runs++;
          emit("jobs", "first", {});
          wake("name", 1);
          silence.begin();
          await assertRejects(() => checkpoint("part"), Error, "connection lost");
          emit("jobs", "second", {});
          wake("name", 2);
          await assertRejects(() => checkpoint("part"), Error, "connection lost");
          silence.end();
          emit("jobs", "third", {});
          await checkpoint("part");
          emit("jobs", "fourth", {});
        };
        await handle(sut, way(handler));
        assertEquals(await typesIn(sut.store), ["first", "second", "third", "fourth"]);
        const answers = sut.store.answers();
        assertEquals(await Array.fromAsync(answers, ({ value }) => value), [1]);
        assertEquals(runs, 1);
      },
    );

    testStoreOnce(
      `a checkpoint() of ${name} that was ${standing} and not answered leaves the rest to the settlement`,
      async (sut) => {
        const silence = silenced(sut.store, isStored);
        let runs = 0;
        const handler: EventHandler = async ({ id }, { emit, checkpoint }) => {
          if (id !== "d1") return;
          runs++;
          emit("jobs", "first", {});
          silence.begin();
          await assertRejects(() => checkpoint("part"), Error, "connection lost");
          silence.end();
          emit("jobs", "second", {});
        };
        await handle(sut, way(handler));
        assertEquals(await typesIn(sut.store), ["first", "second"]);
        assertEquals(runs, 1);
      },
    );

    testStoreOnce(
      `an attempt of ${name} fails whose checkpoint() was ${standing} and is not answered to its end`,
      async (sut) => {
        const silence = silenced(sut.store, isStored);
        const seen: unknown[] = [];
        const handler: EventHandler = async ({ id, attempt }, { emit, progress, checkpoint }) => {
          if (id !== "d1") return;
          seen.push([attempt, progress]);
          if (!progress.includes("part")) {
            emit("jobs", "first", {});
            if (attempt === 1) silence.begin();
            await checkpoint("part").catch(() => {});
          }
          emit("jobs", "second", {});
        };
        await handle(sut, way(handler));
        assertEquals(seen, [[1, []], [2, isStored ? ["part"] : []]]);
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
