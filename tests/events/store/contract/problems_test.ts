/** Events that have failed, by the problems of their errors. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import type { EventStore } from "../../../../events/mod.ts";
import { buryAll, claimAll, claimOne, delivery, listed, pagesOf } from "../_events.ts";
import { importLines, linesOf } from "../_moving.ts";
import { assertProblemsAreExact, problemsOf } from "../_problems.ts";
import { testAging, testFailing, testStore, testStoreOnce } from "./_contract.ts";

/** Takes an event in, and has an attempt fail: the next one comes in a minute. */
async function fail(store: EventStore, id: string, error: unknown, key?: string): Promise<void> {
  await store.accept(delivery(id, "{}", key));
  assert(await store.retry(await claimOne(store), 60_000, error));
}

/** The id of the only problem. */
async function onlyProblem(store: EventStore): Promise<string> {
  const { problems } = await store.inspect.problems();
  assertEquals(problems.length, 1);
  return problems[0]!.id;
}

testStore("events with the same error are counted together", async ({ store }) => {
  await fail(store, "a", new Error("no issue 17"));
  await fail(store, "b", new Error("no issue 18"));
  await buryAll(store, ["c"]);
  await store.accept(delivery("d"));
  await store.bury(await claimOne(store), new Error("no issue 19"));
  assertEquals(await problemsOf(store), {
    "Error: no issue 17": { dead: 1, retrying: 2, attempts: 3 },
    "Error: no": { dead: 1, retrying: 0, attempts: 1 },
  });
  await assertProblemsAreExact(store);
  const { problems: [first], count } = await store.inspect.problems({ limit: 1 });
  assertEquals(count, { count: 2, isMore: false });
  const { id, handler, source, firstAt, lastAt, versions } = first!;
  assertEquals([handler, source, versions], ["push", "github", []]);
  assert(firstAt <= lastAt && lastAt <= Date.now());
  assertEquals(await listed(store, { problem: id }), ["a", "b", "d"]);
  assertEquals(await listed(store, { problem: id, state: "dead" }), ["d"]);
  assertEquals(await listed(store, { problem: id, state: "queued" }), ["a", "b"]);
  assertEquals(await listed(store, { problem: id, state: "done" }), []);
  const newest = store.list({ problem: id, order: "newest" });
  assertEquals(await Array.fromAsync(newest, ({ id }) => id), ["d", "b", "a"]);
  const only = await store.inspect.problems({ id });
  assertEquals(only.problems.map(({ id }) => id), [id]);
  assertEquals((await store.inspect.problems({ id, max: 1 })).problems[0]!.retrying, {
    ...{ count: 1, isMore: true },
  });
  assertEquals((await store.inspect.problems({ id: "0".repeat(16) })).problems, []);
  await assertRejects(() => listed(store, { problem: "../x" }), TypeError, "'problem' must be");
});

testStore("an event leaves its problem when it has not failed any more", async ({ store }) => {
  const leave: Record<string, (id: string) => Promise<unknown>> = {
    done: async (id) => await store.complete((await again(store, id))!),
    cancelled: (id) => store.cancel(id),
    parked: async (id) => {
      await store.park((await again(store, id))!, { name: id, timeoutMs: 60_000 });
    },
    other: async (id) => await store.retry((await again(store, id))!, 60_000, new Error("other")),
  };
  for (const id of Object.keys(leave)) {
    await store.accept(delivery(id));
    await store.retry(await claimOne(store), 0, new Error("no"));
    assertEquals((await problemsOf(store))["Error: no"]?.retrying, 1, id);
    await leave[id]!(id);
    assertEquals((await problemsOf(store))["Error: no"], undefined, id);
    await assertProblemsAreExact(store);
  }
  for (const id of ["replayed", "purged", "sent again"]) {
    await buryAll(store, [id]);
    assertEquals((await problemsOf(store))["Error: no"]?.dead, 1, id);
    if (id === "replayed") await store.replay(id);
    if (id === "purged") await store.purge({ ids: [id] });
    if (id === "sent again") await store.accept(delivery(id));
    assertEquals((await problemsOf(store))["Error: no"], undefined, id);
    await assertProblemsAreExact(store);
    for (const lease of await claimAll(store)) await store.complete(lease);
  }
});

/** Leases the event that is tried again at once. */
async function again(store: EventStore, id: string) {
  return (await claimAll(store)).find(({ record }) => record.id === id);
}

testStoreOnce("an attempt whose lease has expired has failed", async ({ store }) => {
  await store.accept(delivery("a"));
  await claimOne(store, 1);
  await new Promise((resolve) => setTimeout(resolve, 5));
  const lease = await claimOne(store);
  const [error] = Object.keys(await problemsOf(store));
  assert(error!.startsWith("Lease expired"), error);
  await assertProblemsAreExact(store);
  await store.bury(lease, "no");
  assertEquals(await problemsOf(store), { no: { dead: 1, retrying: 0, attempts: 1 } });
});

testStoreOnce("the events of a batch and of a group are counted", async ({ store }) => {
  const quiet = { quietMs: 0, maxWaitMs: 0 };
  for (const id of ["a", "b", "c"]) await store.accept({ ...delivery(id, "{}", "k"), ...quiet });
  const first = await claimOne(store);
  assert(await store.retry(first, 0, new Error("no")));
  await assertProblemsAreExact(store);
  assertEquals(await problemsOf(store), { "Error: no": { dead: 0, retrying: 1, attempts: 1 } });
  assert(await store.bury(await claimOne(store), new Error("no"), { reports: true }));
  assertEquals(await problemsOf(store), { "Error: no": { dead: 3, retrying: 0, attempts: 2 } });
  await assertProblemsAreExact(store);
});

testStoreOnce("all events of a problem are replayed, cancelled and purged", async ({ store }) => {
  await buryAll(store, ["a", "b"]);
  const problem = await onlyProblem(store);
  await store.accept(delivery("other"));
  await store.bury(await claimOne(store), new Error("other"));
  assertEquals((await store.replayAll({ problem })).changed, 2);
  assertEquals(Object.keys(await problemsOf(store)), ["Error: other"]);
  for (const lease of await claimAll(store)) await store.retry(lease, 60_000, new Error("no"));
  assertEquals((await store.cancelAll({ problem })).changed, 2);
  assertEquals((await store.purge({ problem })).changed, 0);
  await store.replay("a");
  await store.bury(await claimOne(store), new Error("no"));
  assertEquals((await store.purge({ problem })).changed, 1);
  assertEquals(await store.get("a"), null);
  assertEquals(await listed(store, { state: "dead" }), ["b", "other"]);
});

testStoreOnce("the events of a problem come by pages", async ({ store }) => {
  await buryAll(store, ["a", "b", "c"]);
  await fail(store, "d", new Error("no"));
  const problem = await onlyProblem(store);
  const newest = { problem, order: "newest", limit: 2 } as const;
  assertEquals(await pagesOf(store, newest), [["d", "c"], ["b", "a"]]);
  assertEquals(await pagesOf(store, { ...newest, maxReads: 2, state: "dead" }), [["c", "b"], [
    "a",
  ]]);
});

testStoreOnce("equal errors of two handlers are two problems", async ({ store }) => {
  for (const handler of ["one", "two"]) {
    await store.accept(delivery(handler));
    await store.bury(await claimOne(store), new Error("no"), { handler });
    await store.accept(delivery(`${handler} again`));
    await store.retry(await claimOne(store), 60_000, new Error("no"), { handler });
  }
  const { problems } = await store.inspect.problems();
  const found = problems.map((
    { handler, dead, retrying },
  ) => [handler, dead.count, retrying.count]);
  assertEquals(found.toSorted(), [["one", 1, 1], ["two", 1, 1]]);
});

testStoreOnce("an event fails and dies however many handlers have failed", async ({ store }) => {
  const handler = "id(handler), ".repeat(6_000);
  await store.accept(delivery("a"));
  assert(await store.retry(await claimOne(store), 0, new Error("no"), { handler }));
  assert(await store.bury(await claimOne(store), new Error("no"), { handler }));
  const { problems: [problem] } = await store.inspect.problems();
  assert(problem!.handler !== "" && handler.startsWith(problem!.handler));
  assertEquals([problem!.dead.count, problem!.error], [1, "Error: no"]);
});

testStoreOnce("an import brings the problems of its events", async ({ store, elsewhere }) => {
  await fail(store, "a", new Error("no"));
  await buryAll(store, ["b"]);
  await using other = await elsewhere();
  const lines = await linesOf(store);
  for (let times = 0; times < 2; times++) await importLines(other.store, lines);
  assertEquals(await problemsOf(other.store), {
    "Error: no": { dead: 1, retrying: 1, attempts: 0 },
  });
  await assertProblemsAreExact(other.store);
});

testStoreOnce("a check leaves the problems as they are", async ({ store }) => {
  await fail(store, "a", new Error("no"));
  await buryAll(store, ["b"]);
  for await (const { findings } of store.check()) assertEquals(findings, []);
  await assertProblemsAreExact(store);
});

for (const fault of ["before", "after"] as const) {
  testFailing(
    fault,
    `an attempt is counted once if the commit fails ${fault} it is made`,
    async ({ failing: { store, arm } }) => {
      await fail(store, "a", new Error("no"));
      await store.accept(delivery("b"));
      const lease = await claimOne(store);
      arm();
      await assertRejects(() => store.bury(lease, new Error("no")));
      assertEquals(await store.bury(lease, new Error("no")), fault === "before");
      assertEquals(await problemsOf(store), { "Error: no": { dead: 1, retrying: 1, attempts: 2 } });
      await assertProblemsAreExact(store);
    },
  );
}

const HOUR_MS = 3_600_000;

testAging("a problem without events is forgotten, and so are old attempts", async (sut) => {
  const { store, place } = sut;
  const cells = async () => (await store.tidy({ problems: true })).problems;
  await buryAll(store, ["a"]);
  await place.pass(73 * HOUR_MS);
  assertEquals(await cells(), 0);
  assertEquals(await problemsOf(store), { "Error: no": { dead: 1, retrying: 0, attempts: 0 } });
  await place.pass(200 * HOUR_MS);
  assertEquals(await cells(), 0);
  await store.purge({ state: "dead" });
  assertEquals(await cells(), 1);
  assertEquals(await problemsOf(store), {});
});

testAging(
  "a problem is new for an hour, and anew when it comes back after it was over",
  async (sut) => {
    const { store, place } = sut;
    const news = async () =>
      (await store.alertNotes.problems([])).map(({ isBack, hasDead, failed }) => [
        ...[isBack, hasDead, failed],
      ]);
    await fail(store, "a", new Error("no"));
    await buryAll(store, ["b"]);
    assertEquals(await news(), [[false, true, 2]]);
    const id = await onlyProblem(store);
    const told = async () => (await store.alertNotes.problems([id])).map(({ isNew }) => isNew);
    await place.pass(HOUR_MS);
    assertEquals([await news(), await told()], [[], [false]]);
    // It has events still, so it is not new.
    await store.cancel("a");
    await buryAll(store, ["c"]);
    assertEquals([await news(), await told()], [[], [false]]);
    await store.purge({ state: "dead" });
    assertEquals([await news(), await told()], [[], [false]]);
    // Without events it is over only after an hour.
    await place.pass(HOUR_MS - 60_000);
    assertEquals(await told(), [false]);
    await place.pass(120_000);
    assertEquals(await told(), []);
    await fail(store, "d", new Error("no"));
    assertEquals([await news(), await told()], [[[true, false, 1]], [true]]);
    const since = async () => (await store.alertNotes.problems([])).map((each) => each.since);
    const before = await since();
    await fail(store, "e", new Error("no"));
    assertEquals(await since(), before);
    await assertProblemsAreExact(store);
  },
);
