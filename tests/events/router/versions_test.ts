import { assertEquals, assertThrows } from "@std/assert";
import { TestClock } from "../../../testing/_test_clock.ts";
import { createEventRouter, type EventRouter } from "../../../events/router/mod.ts";
import { type EventHandler, type EventRecord, startWorker } from "../../../events/mod.ts";
import type { JsonObject } from "../../../core/parse_json.ts";
import { subjectsOf } from "../../../webhook/forge.ts";
import { delivery } from "../store/_events.ts";
import { memoryStore } from "../store/kv/_stores.ts";

/** Makers of a version's handlers, which note each call and may fail. */
interface Handlers {
  ok(name: string): EventHandler;
  fails(name: string): EventHandler;
}

type Version = (router: EventRouter, handlers: Handlers) => EventRouter;

interface Outcome {
  /** Handlers that each version has called. */
  readonly called: readonly string[][];
  readonly record: EventRecord;
}

/** Has the versions of a bot try an event, one after the other and each once. */
async function tryIn(versions: readonly Version[], type = "push", payload = {}): Promise<Outcome> {
  await using sut = await memoryStore();
  using clock = new DisposableStack();
  const time = clock.adopt(new TestClock(), (each) => each.restore());
  const { store } = sut;
  const { id } = await store.accept({
    ...delivery("d1", JSON.stringify(payload)),
    type,
    action: subjectsOf(payload as JsonObject).action,
  });
  const called: string[][] = [];
  for (const version of versions) {
    const names: string[] = [];
    called.push(names);
    const { handle } = version(createEventRouter(), {
      ok: (name) => () => void names.push(name),
      fails: (name) => () => {
        names.push(name);
        throw new Error("not yet");
      },
    });
    const worker = startWorker(store, handle, { log: () => {}, retry: { minDelayMs: 60_000 } });
    await worker.poll();
    await worker.stop();
    // What is to be tried again is due by then.
    time.advance(7_200_000);
  }
  return { called, record: (await store.get(id))! };
}

const before: Version = (router, { ok, fails }) =>
  router.on("push", ok("steady")).on("push", fails("shaky"), { id: "shaky" });

Deno.test("a version with its handlers in another order runs those that have failed", async () => {
  const { called, record } = await tryIn([
    before,
    (router, { ok }) => router.on("push", ok("shaky"), { id: "shaky" }).on("push", ok("steady")),
  ]);
  assertEquals(called, [["steady", "shaky"], ["shaky"]]);
  assertEquals([record.state, record.attempt], ["done", 2]);
});

Deno.test("a version with a new handler runs that, and those that have failed", async () => {
  const { called } = await tryIn([
    before,
    (router, { ok }) =>
      router.on("push", ok("new"), { id: "new" })
        .on("push", ok("steady"))
        .on("push", ok("shaky"), { id: "shaky" })
        .onAny(ok("any")),
  ]);
  assertEquals(called[1], ["new", "shaky", "any"]);
});

Deno.test("a version without a handler that has succeeded runs those that have failed", async () => {
  const { called, record } = await tryIn([
    before,
    (router, { ok }) => router.on("push", ok("shaky"), { id: "shaky" }),
  ]);
  assertEquals([called[1], record.state], [["shaky"], "done"]);
});

Deno.test("a version without the handler that has failed has nothing left to do", async () => {
  const { called, record } = await tryIn([
    before,
    (router, { ok }) => router.on("push", ok("steady")),
  ]);
  assertEquals([called[1], record.state], [[], "done"]);
});

Deno.test("a version without any handler of an event that was begun gives it up", async () => {
  const { called, record } = await tryIn([before, (router, { ok }) => router.on("star", ok("a"))]);
  assertEquals([called[1], record.state], [[], "dead"]);
  assertEquals(record.attempts.at(-1)?.error, "GiveUpError: No handler for push");
});

Deno.test("a version whose functions have other names runs the same handlers", async () => {
  const named = (name: string, handler: EventHandler): EventHandler =>
    Object.defineProperty(handler, "name", { value: name });
  const { called, record } = await tryIn([
    (router, { ok, fails }) =>
      router.on("push", named("label", ok("on"))).onAny(named("audit", fails("any"))),
    (router, { ok, fails }) =>
      router.on("push", named("t", fails("on"))).onAny(named("label", ok("any"))),
  ]);
  assertEquals([called, record.state], [[["on", "any"], ["any"]], "done"]);
});

Deno.test("a handler that is given another id runs again", async () => {
  const { called } = await tryIn([
    (router, { ok, fails }) => router.on("push", ok("a"), { id: "v1" }).onAny(fails("any")),
    (router, { ok }) => router.on("push", ok("a"), { id: "v2" }).onAny(ok("any")),
  ]);
  assertEquals(called[1], ["a", "any"]);
});

Deno.test("a handler with an id is the same, whatever it is registered for", async () => {
  const { called } = await tryIn([
    (router, { ok, fails }) =>
      router.on("push", ok("a"), { id: "a" }).on("push", ok("b"), { id: "b" }).onAny(fails("any")),
    (router, { ok }) =>
      router.onAny(ok("a"), { id: "a" }).onOther(ok("b"), { id: "b" }).onAny(ok("any")),
  ]);
  assertEquals(called[1], ["any"]);
});

Deno.test("a handler of several names is the same with more of them, fewer, or in another order", async () => {
  const versions: (readonly string[])[] = [
    ["issues.opened"],
    ["issues.opened", "issues.closed"],
    ["issues.reopened", "issues.closed", "issues.opened"],
    ["issues.opened"],
  ];
  const { called } = await tryIn(
    versions.map((names) => (router, { ok, fails }) =>
      router.on(names as readonly "issues.opened"[], ok("a")).onAny(fails("any"))
    ),
    "issues",
    { action: "opened" },
  );
  assertEquals(called, [["a", "any"], ["any"], ["any"], ["any"]]);
});

Deno.test("a handler for what no other is named for is apart from one for all events", async () => {
  const { called } = await tryIn([
    (router, { ok, fails }) => router.onOther(ok("other")).onAny(fails("any")),
    (router, { ok }) => router.onAny(ok("any")).onOther(ok("other")),
  ]);
  assertEquals(called[1], ["any"]);
});

Deno.test("no part of a handler is taken for another handler, or for a part of it", async () => {
  const keys = ["on(push)", "id(b)", "onAny", "push", "b"];
  const parts = keys.flatMap((key) => [key, `${key}/x`, `/${key}`, `)/${key}`, `../${key}/x`]);
  const names = parts.filter((part) => part !== "");
  const taken: string[] = [];
  const again: (handler: EventHandler) => EventHandler = (handler) => async (event, context) => {
    for (const name of names) await context.step(name, () => void taken.push(name));
    await handler(event, context);
  };
  const { called } = await tryIn([
    (router, { fails }) =>
      router.on("push", fails("on")).on("push", fails("b"), { id: "b" }).onAny(fails("any"))
        .on("push", async (_event, { step }) => {
          for (const name of names) await step(name, () => {});
        }, { id: "a" }),
    (router, { ok }) =>
      router.on("push", again(ok("on"))).on("push", again(ok("b")), { id: "b" })
        .onAny(again(ok("any"))),
  ]);
  assertEquals(called[1], ["on", "b", "any"]);
  assertEquals(taken.length, 3 * names.length);
});

Deno.test("createEventRouter() refuses a second handler for a name without an id", () => {
  const handler = () => {};
  const router = createEventRouter().on("push", handler, { id: "first" }).on("push", handler)
    .on(["issues.opened", "issues.opened"], handler).onAny(handler).onOther(handler);
  const refused = (register: () => unknown, what: string) =>
    assertThrows(
      register,
      TypeError,
      `Cannot register the handler: there is one for ${what} already, and a retry could not tell ` +
        'them apart. Give this one an id of its own: { id: "..." }',
    );
  refused(() => router.on("push", handler), "on(push)");
  refused(() => router.on(["star", "issues.opened"], handler), "on(issues.opened)");
  refused(() => router.onAny(handler), "onAny");
  refused(() => router.onOther(handler), "onOther");
  // What was refused is not there in parts.
  router.on("star", handler).on("push", handler, { id: "push" });
});

Deno.test("createEventRouter() refuses ids that are none, or another handler's", () => {
  const router = createEventRouter().on("push", () => {}, { id: "a:b.c_d-1" });
  const ids = ["", " ", "a/b", "a b", "a)", "ä", "x".repeat(65), "a\n", null, 7, {}];
  for (const id of ids as string[]) {
    assertThrows(() => router.on("star", () => {}, { id }), TypeError, "the id must be");
    assertThrows(() => router.onAny(() => {}, { id }), TypeError, "the id must be");
    assertThrows(() => router.onOther(() => {}, { id }), TypeError, "the id must be");
  }
  assertThrows(
    () => router.onAny(() => {}, { id: "a:b.c_d-1" }),
    TypeError,
    "is another handler's",
  );
  router.on("push", () => {}, { id: "x".repeat(64) }).on("push", () => {}, { id: undefined });
});

Deno.test("createEventRouter() splits a name with several dots at each of them", () => {
  for (const [type, action] of [["invoice.paid", "late"], ["invoice", "paid.late"]] as const) {
    assertThrows(
      () => createEventRouter().on([type, "invoice.paid.late"], () => {}),
      TypeError,
      `an event of the type ${type} with the action ${action} has both of the names ${type} and ` +
        "invoice.paid.late, and a later version",
    );
  }
  // No event has both of these names: they end in no action, or begin with another type.
  for (const other of ["invoice.", ".invoice", "invoices.paid"]) {
    createEventRouter().on(["invoice", other], () => {});
  }
});

Deno.test("createEventRouter() refuses a handler for a type and its action without an id", () => {
  for (const names of [["issues", "issues.opened"], ["issues.opened", "push", "issues"]] as const) {
    assertThrows(
      () => createEventRouter().on(names as readonly "issues"[], () => {}),
      TypeError,
      "both of the names issues and issues.opened",
    );
    createEventRouter().on(names as readonly "issues"[], () => {}, { id: "all" });
  }
});
