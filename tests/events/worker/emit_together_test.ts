/** Events that handlers emit, handled together: each is handled once, whatever dies on the way. */
import { assert, assertEquals } from "@std/assert";
import {
  createEventRouter,
  type EventHandler,
  type HandlerContext,
  type WebhookEvent,
} from "../../../mod.ts";
import { delivery } from "../store/_events.ts";
import { type Processes, settled, testProcesses, until } from "./_processes.ts";

/** Rule of the events that are emitted. */
const RULE = { group: "repo", quietMs: 200 } as const;

const isOwn = ({ platform }: WebhookEvent) => platform === "events";

/** Accepts pushes, each of which has its handler emit a build. */
async function push({ store }: Processes, ...ids: readonly string[]): Promise<void> {
  for (const id of ids) await store.accept(delivery(id, JSON.stringify({ id })));
}

/** Emits a build for each push, and hands builds on. */
function building(build: (event: WebhookEvent, context: HandlerContext) => unknown): EventHandler {
  return (event, context) => {
    if (isOwn(event)) return build(event, context);
    return context.emit("jobs", "build", { of: event.id }, RULE);
  };
}

const idsOf = ({ batch }: WebhookEvent) => batch.map(({ payload }) => payload.of);

/** Waits until nothing is open. */
const quiet = ({ store }: Processes) =>
  until(async () => {
    const { queued, running, parked } = await store.stats();
    return queued + running + parked === 0;
  });

testProcesses("events that several handlers emit are one call", async (processes) => {
  const calls: unknown[] = [];
  await push(processes, "a", "b", "c");
  await processes.start(building((event) => calls.push([event.id, ...idsOf(event)])));
  await quiet(processes);
  const [[id, ...of]] = calls as [string[]];
  assertEquals([calls.length, of.toSorted()], [1, ["a", "b", "c"]]);
  assertEquals(id, `jobs:${of[0]}/0001`);
  const record = await processes.store.get(id!);
  assertEquals([record?.causedBy, record?.batch?.events], [of[0], 3]);
});

testProcesses("events that a failed handler emits are not in a batch", async (processes) => {
  const calls: unknown[] = [];
  await push(processes, "a", "b");
  const handler = building((event) => calls.push(idsOf(event).toSorted()));
  await processes.start((event, context) => {
    const emitting = handler(event, context);
    if (event.id === "a" && event.attempt < 3) throw new Error("not yet");
    return emitting;
  }, { retry: { minDelayMs: 1, maxDelayMs: 1 } });
  await quiet(processes);
  assertEquals(calls.flat().toSorted(), ["a", "b"]);
});

testProcesses("a batch of emitted events is the same after its process has died", async (
  processes,
) => {
  const { store, start } = processes;
  const calls: [id: string, key: string, of: unknown[]][] = [];
  const note = (event: WebhookEvent) =>
    calls.push([event.id, event.idempotencyKey(), idsOf(event)]);
  await push(processes, "a", "b");
  const first = await start(building(async (event) => {
    note(event);
    await new Promise(() => {});
  }));
  await until(() => calls.length === 1);
  first.die();
  await push(processes, "c");
  await start(building(note));
  await quiet(processes);
  assertEquals(calls.length, 3);
  assertEquals(calls[1], calls[0]);
  assertEquals(calls[0]![2].toSorted(), ["a", "b"]);
  assertEquals(calls[2]![2], ["c"]);
  assert(calls[2]![0] !== calls[0]![0]);
  assertEquals(await settled(store, "jobs:c/0001"), ["done"]);
});

testProcesses("a process that dies while events wait for others loses none", async (processes) => {
  const calls: unknown[] = [];
  await push(processes, "a", "b");
  const first = await processes.start(building(() => {}));
  await settled(processes.store, "a", "b");
  // The builds have joined their group, or have not.
  first.die();
  await processes.start(building((event) => calls.push(...idsOf(event))));
  await quiet(processes);
  assertEquals(calls.toSorted(), ["a", "b"]);
});

testProcesses("emitted events of different types are together if both ask for it", async (
  processes,
) => {
  const calls: string[] = [];
  await push(processes, "a");
  const router = createEventRouter()
    .on("push", (_event, { emit }) => {
      // In the simulation, calls of one claim are made in any order.
      for (const [i, type] of ["build", "test", "lint"].entries()) {
        emit("jobs", type, {}, { ...RULE, delayMs: 50 * i, together: "all" });
      }
    })
    .on(["build", "test"], ({ batch }) => calls.push(batch.map(({ type }) => type).join()))
    .on("lint", ({ batch }) => calls.push(batch.map(({ type }) => type).join()));
  await processes.start(router.handle);
  await quiet(processes);
  assertEquals(calls, ["build,test", "lint"]);
});

testProcesses("the rule of an emitted event has its limits", async (processes) => {
  const calls: unknown[] = [];
  const start = Date.now();
  await processes.start(building((event) => {
    calls.push([idsOf(event).length > 1, Date.now() - start >= 500]);
  }));
  const { store } = processes;
  while (calls.length === 0) {
    await store.emit("jobs", "build", {}, { ...RULE, maxWaitMs: 500 });
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assertEquals(calls, [[true, true]]);
});
