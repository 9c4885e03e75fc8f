/** Two versions of the code on one store: an event is handled by the one that has a handler for it. */
import { assert, assertEquals, assertGreater, assertLess } from "@std/assert";
import {
  createEventRouter,
  defineApp,
  type EventHandler,
  type EventRecord,
  type EventRouter,
  type EventStore,
  github,
  RetryLaterError,
  startWorker,
  type WorkerOptions,
} from "../../../mod.ts";
import { events } from "../../../app/mod.ts";
import { workerNoted } from "../../../events/worker/worker.ts";
import type { LogRecord } from "../../../middleware/mod.ts";

import { ON_DENO_2_5 } from "../../_deno_version.ts";
import { forgeDelivery, startTestBot } from "../../../testing/mod.ts";
import { delivery } from "../store/_events.ts";
import { simulatedKv, type StorePlace, testSimulated } from "./_worker.ts";

const MINUTE_MS = 60_000;

/** Number of processes of the old version. A turn of the event loop takes Deno 2.5 more than a millisecond. */
const OTHERS = ON_DENO_2_5 ? 2 : 9;

/** A version of a bot that runs: each has a store of its own, as in a process of its own. */
interface Running extends AsyncDisposable {
  readonly handled: string[];
  readonly logs: readonly LogRecord[];
  readonly store: EventStore;
  /** Resolves once it takes events. */
  readonly noted: Promise<void>;
}

type Handlers = (router: EventRouter, ok: EventHandler) => EventRouter;

async function run(
  { place }: { readonly place: Pick<StorePlace, "open"> },
  handlers: Handlers | Pick<EventRouter, "handle">,
  options: WorkerOptions = {},
): Promise<Running> {
  const [handled, logs]: [string[], LogRecord[]] = [[], []];
  const log = (record: LogRecord) => void logs.push(record);
  const store = await place.open({ log });
  const ok: EventHandler = ({ id }) => void handled.push(id);
  const router = "handle" in handlers ? handlers : handlers(createEventRouter(), ok);
  const worker = startWorker(store, router.handle, { log, ...options });
  const noted = workerNoted(worker);
  return { handled, logs, store, noted, [Symbol.asyncDispose]: () => worker.stop() };
}

const push: Handlers = (router, ok) => router.on("push", ok);
const star: Handlers = (router, ok) => router.on("push", ok).on("star", ok);

const starred = (id: string, orderingKey?: string) => ({
  ...delivery(id, "{}", orderingKey),
  type: "star",
});

const newBot = () => defineApp({ name: "bot", platform: github() });

/** Waits for a condition; the clock of the simulation turns by itself. */
async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 50));
}

async function settled(store: EventStore, id: string): Promise<EventRecord> {
  await until(async () => (await store.get(id))?.settledAt != null);
  return (await store.get(id))!;
}

/** Waits until processes have noted themselves. */
const noted = (store: EventStore, count: number) =>
  until(async () => (await store.processes()).length === count);

const putOffs = ({ logs }: Pick<Running, "logs">) =>
  logs.filter(({ message }) => message === "event put off").map(({ afterMs }) => Number(afterMs));

/** Notes a process that does not run, and has a handler for stars. */
async function noteAbsent(store: EventStore): Promise<void> {
  const now = Date.now();
  const handles = [{ names: ["star"] }];
  await store.noteProcess({ id: "absent", startedAt: now, seenAt: now, handles });
}

testSimulated(
  "an event that only another version handles is put off, and handled by that",
  async (sut) => {
    await using older = await run(sut, push);
    await using newer = await run(sut, star);
    await noted(sut.store, 2);
    await newer.noted;
    const ids = ["a", "b", "c", "d", "e", "f"];
    for (const id of ids) await older.store.accept(starred(id));
    const records = await Promise.all(ids.map((id) => settled(sut.store, id)));
    assertEquals([older.handled, newer.handled.toSorted()], [[], ids]);
    assertEquals(records.map(({ outcome, attempt }) => `${outcome} ${attempt}`), [
      ...ids.map(() => "handled 1"),
    ]);
    assertGreater(putOffs(older).length, 0);
    const reason = "No handler for star, another process may have one";
    assertEquals(records.find(({ putOff }) => putOff)?.putOff?.reason, reason);
  },
);

testSimulated("an event finds the one process that handles it among many others", async (sut) => {
  await using stack = new AsyncDisposableStack();
  const older: Running[] = [];
  for (let i = 0; i < OTHERS; i++) older.push(stack.use(await run(sut, push)));
  const newer = stack.use(await run(sut, star));
  await noted(sut.store, OTHERS + 1);
  await newer.noted;
  for (const id of ["a", "b", "c"]) {
    await older[0]!.store.accept(starred(id));
    await settled(sut.store, id);
  }
  assertEquals(newer.handled.toSorted(), ["a", "b", "c"]);
  // Each looks at an event once before any does so twice.
  assert(older.flatMap(putOffs).every((ms) => ms <= 1_250));
});

testSimulated(
  "an event that comes when a new version has just started is left to that",
  async (sut) => {
    await using older = await run(sut, push);
    for (const id of ["a", "b", "c", "d", "e", "f", "g", "h"].slice(0, OTHERS)) {
      // The older one has just read which others there are.
      await older.store.accept({ ...delivery(`ping-${id}`), type: "ping" });
      await settled(sut.store, `ping-${id}`);
      await using newer = await run(sut, star);
      await newer.noted;
      await older.store.accept(starred(id));
      assertEquals((await settled(sut.store, id)).outcome, "handled");
      assertEquals(newer.handled, [id]);
    }
  },
);

testSimulated("a process begins at once unless another version is awake", async (sut) => {
  const begin = async (handlers: Handlers) => {
    const start = Date.now();
    const running = await run(sut, handlers);
    await running.noted;
    return { running, tookMs: Date.now() - start };
  };
  const first = await begin(push);
  const same = await begin(push);
  const other = await begin(star);
  for (const { tookMs } of [first, same]) assertLess(tookMs, 500);
  assertGreater(other.tookMs, 999);
  for (const { running } of [first, same, other]) await running[Symbol.asyncDispose]();
});

testSimulated("an event that no version handles is ignored at once", async (sut) => {
  await using older = await run(sut, push);
  await using _newer = await run(sut, star);
  await noted(sut.store, 2);
  await older.store.accept({ ...delivery("d1"), type: "ping" });
  assertEquals((await settled(sut.store, "d1")).outcome, "ignored");
  assertEquals(putOffs(older), []);
});

testSimulated(
  "an event without a handler is ignored at once where no other version runs",
  async (sut) => {
    await using first = await run(sut, push);
    await using second = await run(sut, push);
    await noted(sut.store, 2);
    await first.store.accept(starred("d1"));
    assertEquals((await settled(sut.store, "d1")).outcome, "ignored");
    assertEquals([...putOffs(first), ...putOffs(second)], []);
  },
);

Deno.test("an event without a handler is put off for ten minutes, up to a minute each time, then ignored", async () => {
  const bot = newBot();
  bot.on("push", () => {});
  await using test = await startTestBot(bot);
  const { store, logs } = test;
  const now = Date.now();
  const handles = [{ names: ["star"] }];
  await store.noteProcess({ id: "absent", startedAt: now, seenAt: now, handles });
  // What the bot has read at its start counts for a second.
  let id = "";
  for (let i = 0; (await store.get(id))?.state !== "queued"; i++) {
    id = `github:d${i}`;
    await test.deliver(forgeDelivery("star", {}, { id: `d${i}` }));
  }
  const isSettled = async () => (await store.get(id))?.settledAt !== null;
  while (!await isSettled()) await test.advance(2_500);
  const { outcome, attempts, attempt, receivedAt, settledAt } = (await store.get(id))!;
  assertEquals([outcome, attempt, attempts.length], ["ignored", 1, 1]);
  const tookMs = settledAt! - receivedAt;
  assert(tookMs >= 10 * MINUTE_MS && tookMs < 10 * MINUTE_MS + 10_000, `after ${tookMs} ms`);
  const delays = putOffs({ logs });
  assert(delays[0]! >= 1_000 && delays[0]! <= 1_250);
  assertEquals(delays.findIndex((ms) => ms >= MINUTE_MS), 6);
  assertLess(Math.max(...delays), 1.25 * MINUTE_MS + 1);
});

testSimulated(
  "waitForHandlerMs limits the time for which an event without a handler is put off",
  async (sut) => {
    await using older = await run(sut, push, { waitForHandlerMs: 5_000 });
    await noteAbsent(sut.store);
    await older.store.accept(starred("d1"));
    const { receivedAt, settledAt, outcome } = await settled(sut.store, "d1");
    assertEquals(outcome, "ignored");
    assert(settledAt! - receivedAt >= 5_000 && settledAt! - receivedAt < 10_000);
  },
);

testSimulated("waitForHandlerMs of 0 has events without a handler ignored at once", async (sut) => {
  await using older = await run(sut, push, { waitForHandlerMs: 0 });
  await noteAbsent(sut.store);
  await older.store.accept(starred("d1"));
  assertEquals((await settled(sut.store, "d1")).outcome, "ignored");
  assertEquals(putOffs(older), []);
});

testSimulated(
  "an event that was put off is kept until a later process handles it, though none has been seen for a while",
  async (sut) => {
    await using older = await run(sut, push);
    await noteAbsent(sut.store);
    await older.store.accept(starred("d1"));
    await until(() => putOffs(older).length === 1);
    await sut.store.forgetProcess("absent");
    await until(() => putOffs(older).length === 3);
    await using newer = await run(sut, star);
    assertEquals((await settled(sut.store, "d1")).outcome, "handled");
    assertEquals(newer.handled, ["d1"]);
  },
);

Deno.test(
  "a note that cannot be read may be that of a process with a handler",
  simulatedKv(async (sut) => {
    await using older = await run(sut, push);
    await sut.kv.atomic().set(["events", "process", "next"], { v: 9 }).commit();
    assertEquals(
      (await sut.store.processes()).find(({ id }) => id === "next"),
      { id: "next", isUnreadable: true },
    );
    await older.store.accept(starred("d1"));
    await until(() => putOffs(older).length === 1);
    assertEquals((await sut.store.get("d1"))?.state, "queued");
  }),
);

testSimulated(
  "an event is put off while the notes of the processes cannot be read",
  async ({ place }) => {
    let isFailing = true;
    const open: typeof place.open = async (options) => {
      const store = await place.open(options);
      const processes = () => isFailing ? Promise.reject(new Error("no")) : store.processes();
      return { ...store, processes };
    };
    await using older = await run({ place: { ...place, open } }, push);
    await older.store.accept(starred("d1"));
    await until(() => putOffs(older).length === 1);
    assertEquals(older.logs.filter(({ level }) => level === "warn").map(({ message }) => message), [
      "other processes not known, event put off",
    ]);
    isFailing = false;
  },
);

testSimulated(
  "an event that a version has begun with is left to that, and not given up",
  async (sut) => {
    let fails = true;
    const failing: Handlers = (router) =>
      router.on("star", () => {
        if (fails) throw new Error("not yet");
      });
    await using newer = await run(sut, failing, { retry: { minDelayMs: 1_000 } });
    await using older = await run(sut, push);
    await noted(sut.store, 2);
    await newer.store.accept(starred("d1"));
    await until(() => putOffs(older).length > 0);
    fails = false;
    assertEquals((await settled(sut.store, "d1")).outcome, "handled");
  },
);

testSimulated(
  "the time without a handler begins anew when an event has met its handler",
  async (sut) => {
    const { store } = sut;
    const later: Handlers = (router) =>
      router.on("star", () => {
        throw new RetryLaterError("night", { afterMs: 1_000 });
      });
    await using older = await run(sut, push);
    await noteAbsent(store);
    await older.store.accept(starred("d1"));
    await until(() => putOffs(older).length === 1);
    assertEquals(typeof (await store.get("d1"))?.putOff?.unhandledSince, "number");
    await using _newer = await run(sut, later);
    await until(async () => (await store.get("d1"))?.putOff?.reason === "night");
    assertEquals((await store.get("d1"))?.putOff?.unhandledSince, undefined);
  },
);

for (const strict of [false, true]) {
  testSimulated(
    `an event that no version handles any more is ${
      strict ? "dead" : "ignored"
    } if strict is ${strict}`,
    async (sut) => {
      const router = createEventRouter({ strict }).on("push", () => {});
      await using older = await run(sut, router, { waitForHandlerMs: 5_000 });
      await noteAbsent(sut.store);
      await older.store.accept(starred("d1"));
      await until(() => putOffs(older).length === 1);
      const { state, outcome, attempts } = await settled(sut.store, "d1");
      assertEquals([state, outcome], strict ? ["dead", "failed"] : ["done", "ignored"]);
      assertEquals(attempts[0]?.error, strict ? "GiveUpError: No handler for star" : undefined);
    },
  );
}

testSimulated(
  "a handler for all events is one for those without a handler of their own",
  async (sut) => {
    await using older = await run(sut, push);
    await using newer = await run(sut, (router, ok) => router.on("push", () => {}).onOther(ok));
    await noted(sut.store, 2);
    await newer.noted;
    await older.store.accept(starred("d1"));
    assertEquals((await settled(sut.store, "d1")).outcome, "handled");
    assertEquals(newer.handled, ["d1"]);
  },
);

testSimulated(
  "an event without a handler holds its ordering group while it is put off",
  async (sut) => {
    await using older = await run(sut, push, { waitForHandlerMs: 10_000 });
    await noteAbsent(sut.store);
    await older.store.accept(starred("d1", "key"));
    await older.store.accept(delivery("d2", "{}", "key"));
    await until(() => putOffs(older).length === 3);
    assertEquals(older.handled, []);
    await settled(sut.store, "d2");
    assertEquals((await sut.store.get("d1"))?.outcome, "ignored");
  },
);

testSimulated(
  "a process is noted while it is awake, with its version and what it handles",
  async (sut) => {
    const { store } = sut;
    const inner = createEventRouter().on("issues.opened", () => {});
    const router = createEventRouter().on("star", () => {}).onAny(inner.handle);
    const key = async () => {
      const { value: [first] = [] } = { value: await store.processes() };
      return first && !("isUnreadable" in first) ? first : undefined;
    };
    {
      await using _running = await run(sut, router, { version: "1.2.3" });
      await noted(store, 1);
      const note = (await key())!;
      assertEquals([note.version, note.handles], ["1.2.3", [
        { names: ["star"] },
        { names: ["issues.opened"] },
      ]]);
      await until(async () => (await key())!.seenAt > note.seenAt);
      const { seenAt, startedAt } = (await key())!;
      assertEquals(startedAt, note.startedAt);
      assertGreater(seenAt, note.seenAt + 0.9 * MINUTE_MS);
    }
    assertEquals(await store.processes(), []);
  },
);

const jobs = events("jobs");

/** Makes the handler of an app. */
const appOf = (set: (bot: ReturnType<typeof newBot>) => void) => {
  const bot = newBot();
  set(bot);
  return { handle: bot.handlerWith({ env: {}, resources: undefined }) };
};

testSimulated("an event of a source that only another version has does not fail", async (sut) => {
  const handled: string[] = [];
  await using older = await run(sut, appOf((bot) => bot.on("push", () => {})));
  await using newer = await run(
    sut,
    appOf((bot) => bot.from(jobs).on("triage", ({ id }) => void handled.push(id))),
  );
  await noted(sut.store, 2);
  await newer.noted;
  for (const id of ["a", "b", "c"]) {
    await older.store.emit(jobs, "triage", {}, { id });
    const { outcome, attempt } = await settled(sut.store, `jobs:${id}`);
    assertEquals([outcome, attempt], ["handled", 1]);
  }
  assertEquals(handled, ["jobs:a", "jobs:b", "jobs:c"]);
  assertEquals(older.logs.filter(({ level }) => level === "warn"), []);
});

testSimulated("an event that a middleware leaves out is ignored at once", async (sut) => {
  await using older = await run(sut, appOf((bot) => bot.use(() => {}).on("star", () => {})));
  await noteAbsent(sut.store);
  await older.store.accept({ ...starred("d1"), intake: "github" });
  assertEquals((await settled(sut.store, "github:d1")).outcome, "ignored");
  assertEquals(putOffs(older), []);
});

Deno.test("an app notes what it handles, by intake", () => {
  const bot = defineApp({ name: "bot", platform: github() });
  bot.on(["push", "issues.opened"], () => {}).onDead(() => {});
  bot.from(jobs).onAny(() => {});
  bot.schedule("digest", "@daily", () => {});
  const handler = bot.handlerWith({ env: {}, resources: undefined });
  const [describe] = Object.getOwnPropertySymbols(handler)
    .map((symbol) => Reflect.get(handler, symbol) as () => unknown);
  assertEquals(describe!(), [
    { intake: "github", platform: "forge", names: ["issues.opened", "push"] },
    { intake: "dead", platform: "events", names: ["dead"] },
    { intake: "jobs", platform: "events", names: ["*"] },
    { intake: "schedule", platform: "schedule", names: ["digest"] },
  ]);
});
