/** Events of different types that are handled together, where the same handlers take them: `together: "all"`. */
import { assert, assertEquals } from "@std/assert";
import {
  createEventRouter,
  defineApp,
  type Delivery,
  type EventHandler,
  type EventRecord,
  type EventRouter,
  type EventStore,
  github,
  type WebhookEvent,
} from "../../../mod.ts";
import { handlersOf } from "../../../events/worker/event.ts";
import { delivery } from "../store/_events.ts";
import { type Processes, settled, testProcesses, until } from "./_processes.ts";

/** A version of a bot. */
type Version = (router: EventRouter, handlers: Handlers) => EventRouter;

/** Handlers that note what they get. */
interface Handlers {
  /** Makes one. */
  ok(name: string): EventHandler;
  /** Makes one that fails in the first attempt of an event. */
  failing(name: string): EventHandler;
  /** Makes one whose first attempt of an event never ends. */
  hanging(name: string): EventHandler;
}

/** Calls of handlers: their names, with the id of the event and the ids of its batch. */
type Calls = string[];

/** A delivery of a pull request: its id has the first letter of its action, which begins the action's name. */
function pull(id: string, action: string, more: Partial<Delivery> = {}): Delivery {
  const type = { type: "pull_request", action };
  return { ...delivery(id, "{}", "7"), ...type, quietMs: 200, together: "all", ...more };
}

async function acceptAll({ store }: Processes, ...deliveries: readonly Delivery[]): Promise<void> {
  for (const each of deliveries) await store.accept(each);
}

function handlersInto(calls: Calls): Handlers {
  const note = (name: string, { id, batch }: WebhookEvent) =>
    calls.push(`${name} ${id}: ${batch.map((each) => each.id).join(" ")}`);
  const ending = (end: () => unknown) => (name: string): EventHandler => async (event) => {
    note(name, event);
    if (event.attempt === 1) await end();
  };
  return {
    ok: ending(() => {}),
    failing: ending(() => {
      throw new Error("not yet");
    }),
    hanging: ending(() => new Promise(() => {})),
  };
}

/** Handles events by one version, and returns the calls of its handlers. */
async function handling(
  processes: Processes,
  version: Version,
  ...deliveries: readonly Delivery[]
): Promise<Calls> {
  const calls: Calls = [];
  await acceptAll(processes, ...deliveries);
  await processes.start(version(createEventRouter(), handlersInto(calls)).handle);
  await settled(processes.store, ...deliveries.map(({ deliveryId }) => deliveryId!));
  return calls;
}

const OPENED_AND_PUSHED = [pull("a", "opened"), pull("b", "synchronize")] as const;

const BOTH = ["pull_request.opened", "pull_request.synchronize"] as const;

/** Versions whose handlers take both events, and those whose handlers do not. */
const VERSIONS: Readonly<Record<string, [Version, Calls]>> = {
  "one handler takes them": [
    (router, { ok }) => router.on(BOTH, ok("review")),
    ["review a: a b"],
  ],
  "a handler of the type takes them": [
    (router, { ok }) => router.on("pull_request", ok("review")),
    ["review a: a b"],
  ],
  "a handler of all events takes them": [
    (router, { ok }) => router.onAny(ok("any")),
    ["any a: a b"],
  ],
  "a handler of all other events takes them": [
    (router, { ok }) => router.on("push", ok("push")).onOther(ok("other")),
    ["other a: a b"],
  ],
  "the same two handlers take them": [
    (router, { ok }) => router.on(BOTH, ok("review"), { id: "r" }).onAny(ok("any")),
    ["review a: a b", "any a: a b"],
  ],
  "a router within takes them": [
    (router, { ok }) => router.onAny(createEventRouter().on(BOTH, ok("review")).handle),
    ["review a: a b"],
  ],
  "each has its handler": [
    (router, { ok }) =>
      router.on("pull_request.opened", ok("open")).on("pull_request.synchronize", ok("sync")),
    ["open a: a", "sync b: b"],
  ],
  "another one takes the second, too": [
    (router, { ok }) => router.on(BOTH, ok("review")).on(BOTH[1], ok("sync"), { id: "s" }),
    ["review a: a", "review b: b", "sync b: b"],
  ],
  "a router within has a handler for each": [
    (router, { ok }) =>
      router.onAny(createEventRouter().on(BOTH[0], ok("open")).on(BOTH[1], ok("sync")).handle),
    ["open a: a", "sync b: b"],
  ],
  "only the second has one": [(router, { ok }) => router.on(BOTH[1], ok("sync")), ["sync b: b"]],
  "only the first has one": [(router, { ok }) => router.on(BOTH[0], ok("open")), ["open a: a"]],
};

for (const [name, [version, expected]] of Object.entries(VERSIONS)) {
  testProcesses(`events of different actions: ${name}`, async (processes) => {
    assertEquals(await handling(processes, version, ...OPENED_AND_PUSHED), expected);
  });
}

testProcesses("a function takes all events of a batch", async ({ store, start }) => {
  const calls: Calls = [];
  await acceptAll({ store } as Processes, ...OPENED_AND_PUSHED);
  await start(handlersInto(calls).ok("fn"));
  await settled(store, "a", "b");
  assertEquals(calls, ["fn a: a b"]);
});

testProcesses("a router refuses events of different handlers that a function hands to it", async (
  { store, start },
) => {
  const calls: Calls = [];
  const { ok } = handlersInto(calls);
  const router = createEventRouter().on(BOTH[0], ok("open")).on(BOTH[1], ok("sync"));
  await acceptAll({ store } as Processes, ...OPENED_AND_PUSHED);
  const hiding: EventHandler = (event, context) => router.handle(event, context);
  const first = await start(hiding, { retry: { maxAttempts: 1 } });
  assertEquals(await settled(store, "a", "b"), ["dead", "dead"]);
  const error = (await store.get("a"))!.attempts[0]!.error!;
  const expected = "Error: Cannot handle pull_request.opened and pull_request.synchronize together";
  assertEquals([error.slice(0, expected.length), calls], [expected, []]);
  // A worker that knows the handlers cuts the batch.
  first.die();
  await store.replayAll({});
  await start(router.handle);
  await until(() => calls.length > 1);
  assertEquals(calls, ["open a: a", "sync b: b"]);
});

testProcesses("events of different types are cut where handlers begin to differ", async (
  processes,
) => {
  const review = { type: "pull_request_review", action: "submitted" };
  const deliveries = [
    ...[pull("a", "opened"), pull("b", "labeled", review), pull("c", "synchronize")],
    ...[pull("d", "closed"), pull("e", "opened"), pull("f", "opened")],
  ];
  const calls = await handling(
    processes,
    (router, { ok }) =>
      router.on([...BOTH, "pull_request_review"], ok("review"))
        .on("pull_request.closed", ok("close")),
    ...deliveries,
  );
  assertEquals(calls, ["review a: a b c", "close d: d", "review e: e f"]);
});

for (const [first, second] of [[undefined, "all"], ["all", undefined]] as const) {
  const asking = first ? "first" : "second";
  testProcesses(`events are not handled together if only the ${asking} one asks for it`, async (
    processes,
  ) => {
    const calls = await handling(
      processes,
      (router, { ok }) => router.on(BOTH, ok("review")),
      pull("a", "opened", { together: first }),
      pull("b", "synchronize", { together: second }),
    );
    assertEquals(calls, ["review a: a", "review b: b"]);
  });
}

testProcesses("a handler that is done stays so when the latest event is cancelled", async (
  processes,
) => {
  const { store, start } = processes;
  const calls: Calls = [];
  const version: Version = (router, { ok, failing }) =>
    router.on(BOTH, ok("steady")).on(BOTH, failing("shaky"), { id: "shaky" });
  await acceptAll(processes, ...OPENED_AND_PUSHED);
  const { handle } = version(createEventRouter(), handlersInto(calls));
  await start(handle, { retry: { minDelayMs: 5_000 } });
  await until(async () => (await store.get("a"))?.attempts.length === 1);
  await store.cancel("b");
  await settled(store, "a");
  assertEquals(calls, ["steady a: a b", "shaky a: a b", "shaky a: a"]);
});

testProcesses("a step of a batch is not repeated when the latest event is cancelled", async (
  processes,
) => {
  const { store, start } = processes;
  const calls: Calls = [];
  const router = createEventRouter().on(BOTH, async ({ id, batch }, { step }) => {
    const reviewed = await step("review", () => {
      calls.push(`review ${id}: ${batch.map((each) => each.id).join(" ")}`);
      return batch.length;
    });
    calls.push(`${reviewed} of ${batch.length}`);
    if (batch.length > 1) await new Promise(() => {});
  });
  // The key of a handler is part of the names of its steps only beside another one.
  router.onAny(() => {});
  await acceptAll(processes, ...OPENED_AND_PUSHED);
  const first = await start(router.handle);
  await until(() => calls.length === 2);
  first.die();
  await store.cancel("b");
  await start(router.handle);
  await settled(store, "a");
  assertEquals(calls, ["review a: a b", "2 of 2", "2 of 1"]);
});

/** Has a first version begin with two events and die, and others go on; returns the calls of each. */
async function versionsOf(
  processes: Processes,
  first: Version,
  second: Version,
  deliveries: readonly Delivery[] = OPENED_AND_PUSHED,
): Promise<[Calls, Calls]> {
  const { store, start } = processes;
  const calls: [Calls, Calls] = [[], []];
  await acceptAll(processes, ...deliveries);
  const older = await start(first(createEventRouter(), handlersInto(calls[0])).handle);
  await until(() => calls[0].length > 0);
  older.die();
  const options = { waitForHandlerMs: 1_000 };
  await start(second(createEventRouter(), handlersInto(calls[1])).handle, options);
  await settled(store, ...deliveries.map(({ deliveryId }) => deliveryId!));
  return calls;
}

const reviewing: Version = (router, { hanging }) => router.on(BOTH, hanging("review"));

testProcesses("a batch stays one in a version that takes it by another handler", async (
  processes,
) => {
  const [older, newer] = await versionsOf(
    processes,
    reviewing,
    (router, { ok }) => router.on("pull_request", ok("pulls")),
  );
  assertEquals([older, newer], [["review a: a b"], ["pulls a: a b"]]);
});

testProcesses("a batch is cut in a version that has a handler for each", async (processes) => {
  const deliveries = [...OPENED_AND_PUSHED, pull("c", "synchronize"), pull("d", "opened")];
  const [older, newer] = await versionsOf(
    processes,
    reviewing,
    (router, { ok }) => router.on(BOTH[0], ok("open")).on(BOTH[1], ok("sync")),
    deliveries,
  );
  assertEquals(older, ["review a: a b c d"]);
  assertEquals(newer, ["open a: a", "sync b: b c", "open d: d"]);
  const record = (await processes.store.get("a"))!;
  assertEquals([record.attempt, record.batch?.events], [2, 1]);
});

testProcesses("a batch is cut in a version that knows one of its types alone", async (
  processes,
) => {
  const [older, newer] = await versionsOf(
    processes,
    reviewing,
    (router, { ok }) => router.on(BOTH[1], ok("sync")),
  );
  assertEquals([older, newer], [["review a: a b"], ["sync b: b"]]);
  assertEquals((await processes.store.get("a"))?.state, "dead");
});

/** A version that has no handler for pull requests. */
const pushing: Version = (router, { ok }) => router.on("push", ok("push"));

/** Waits until an event is put off for want of a handler. */
const putOff = ({ store }: Processes, id: string) =>
  until(async () => ((await store.get(id)) as EventRecord).putOff !== undefined);

testProcesses("a batch that has begun stays whole in a version without a handler", async (
  processes,
) => {
  const { store, start } = processes;
  const calls: Calls = [];
  await acceptAll(processes, ...OPENED_AND_PUSHED);
  const first = await start(reviewing(createEventRouter(), handlersInto(calls)).handle);
  await until(() => calls.length === 1);
  first.die();
  await acceptAll(processes, pull("c", "opened"));
  await start(pushing(createEventRouter(), handlersInto(calls)).handle);
  await putOff(processes, "a");
  const version: Version = (router, { ok }) => router.on(BOTH, ok("review"));
  await start(version(createEventRouter(), handlersInto(calls)).handle);
  await settled(store, "a", "b", "c");
  assertEquals(calls, ["review a: a b", "review a: a b", "review c: c"]);
});

testProcesses("a version without a handler leaves it to others to begin a batch", async (
  processes,
) => {
  const { store, start } = processes;
  const calls: Calls = [];
  await noteAbsent(store, BOTH);
  await acceptAll(processes, ...OPENED_AND_PUSHED);
  await start(pushing(createEventRouter(), handlersInto(calls)).handle);
  await putOff(processes, "a");
  const version: Version = (router, { ok }) => router.on(BOTH, ok("review"));
  await start(version(createEventRouter(), handlersInto(calls)).handle);
  await settled(store, "a", "b");
  assertEquals(calls, ["review a: a b"]);
});

/** Notes a process that does not run, and has handlers for some events. */
async function noteAbsent(store: EventStore, names: readonly string[]): Promise<void> {
  const now = Date.now();
  await store.noteProcess({ id: "absent", startedAt: now, seenAt: now, handles: [{ names }] });
}

testProcesses("what no version handles yet is put off or ignored event by event", async (
  processes,
) => {
  const { store, start } = processes;
  await noteAbsent(store, [BOTH[1]]);
  await acceptAll(processes, ...OPENED_AND_PUSHED);
  await start(createEventRouter().on("push", () => {}).handle, { waitForHandlerMs: 60_000 });
  await settled(store, "a");
  await putOff(processes, "b");
  const [a, b] = await Promise.all(["a", "b"].map((id) => store.get(id)));
  assertEquals([a?.outcome, b?.state], ["ignored", "queued"]);
});

Deno.test("an app lists the handlers of an event of its platforms and sources", () => {
  const app = defineApp({ name: "bot", platform: github() });
  app.on(BOTH, () => {}).on("push", () => {});
  const handler = app.handlerWith({ env: {}, resources: undefined });
  const of = (intake: string, type: string, action?: string) =>
    handlersOf(handler, { intake, platform: "forge", type, action });
  const opened = of("github", "pull_request", "opened");
  assertEquals(opened.length > 0, true);
  assertEquals(of("github", "pull_request", "synchronize"), opened);
  assert(of("github", "push")[0] !== opened[0]);
  assertEquals([of("github", "star"), of("gitlab", "push")], [[], []]);
});
