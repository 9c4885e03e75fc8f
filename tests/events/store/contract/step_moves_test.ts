/** Steps of events that move to another store, with their results. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import type { EventStore } from "../../../../events/mod.ts";
import { testWith } from "../../../_permissions.ts";
import { claimAll, claimOne, delivery } from "../_events.ts";
import { acceptTogether, claimBatch } from "../_batching.ts";
import { event, importLines, linesOf } from "../_moving.ts";
import { assertNoResults, noteStep, stepsOf } from "../_stepping.ts";
import { IN_CONTRACT } from "../engines/mod.ts";
import { openStore, testStore, testStoreOnce } from "./_contract.ts";

/** Results by the names of their steps. */
const RESULTS: Readonly<Record<string, string>> = {
  "push/a": "1",
  "push/__proto__": JSON.stringify({ a: [null, "\ud83d", ""], "1": 0 }),
  "push/large": JSON.stringify("\u{1F642}".repeat(131_071)),
  "push/quotes": JSON.stringify('"'.repeat(262_143)),
  "push/text": JSON.stringify("\u2028 \u0000 ä"),
};

/** Takes in an event that has taken steps, and leaves one begun. */
async function leaveSteps(store: EventStore, id = "d1") {
  await store.accept(delivery(id));
  let lease = await claimOne(store);
  for (const [name, json] of Object.entries(RESULTS)) {
    lease = (await noteStep(store, lease, name, json))!;
  }
  lease = (await store.note(lease, { is: "step", name: "none", json: undefined }))!;
  return (await store.note(lease, { is: "begun", name: "begun" }))!;
}

/** Checks that an event can go on with its steps. */
async function assertSteps(store: EventStore): Promise<void> {
  const lease = await claimOne(store);
  assertEquals(stepsOf(lease), [...Object.keys(RESULTS), "none", "begun"]);
  for (const [name, json] of Object.entries(RESULTS)) {
    assertEquals(await store.readStep(lease, name), json, name);
  }
  assertEquals(await store.readStep(lease, "none"), undefined);
  assertEquals(await store.readStep(lease, "begun"), null);
  assertEquals((await store.steps("d1")).at(-1)?.isBegun, true);
  assert(await store.complete(lease));
}

const STATES: Readonly<Record<string, (store: EventStore) => Promise<unknown>>> = {
  queued: async (store) => await store.retry(await leaveSteps(store), 0, "no"),
  running: leaveSteps,
  "in its third run": async (store) => {
    for (let run = 0; run < 2; run++) {
      if (run === 0) await store.bury(await leaveSteps(store), "no");
      else await store.bury(await claimOne(store), "no");
      await store.replay("d1");
    }
  },
};

for (const [state, leave] of Object.entries(STATES)) {
  for (const from of IN_CONTRACT) {
    for (const to of IN_CONTRACT) {
      const needs = [...from.kinds[0].needs, ...to.kinds[0].needs];
      testWith(
        needs,
        `an event that is ${state} moves with its steps [${from.name} to ${to.name}]`,
        async () => {
          await using first = await openStore(from);
          await using second = await openStore(to);
          await leave(first.store);
          const lines = await linesOf(first.store);
          assertEquals((await importLines(second.store, lines)).imported, 1);
          // Again: it is known.
          assertEquals((await importLines(second.store, lines)).imported, 0);
          await assertSteps(second.store);
          await assertNoResults(second);
        },
        from.kinds[0].missing ?? to.kinds[0].missing,
      );
    }
  }
}

testStore("an event that is dead or parked moves with its steps", async ({ store, elsewhere }) => {
  for (const end of ["dead", "parked"]) {
    const lease = await leaveSteps(store);
    if (end === "dead") assert(await store.bury(lease, "no"));
    else assert(await store.park(lease, { name: "a", timeoutMs: 60_000 }));
    await using other = await elsewhere();
    assertEquals((await importLines(other.store, await linesOf(store))).imported, 1);
    if (end === "dead") assert(await other.store.replay("d1"));
    else assertEquals((await other.store.wake("a")).outcome, "woken");
    await assertSteps(other.store);
    await assertNoResults(other);
    await store.cancelAll({});
    await store.purge({});
  }
});

testStoreOnce("a done event moves without results", async (sut) => {
  assert(await sut.store.complete(await leaveSteps(sut.store)));
  await assertNoResults(sut);
  const lines = await linesOf(sut.store);
  assertEquals(lines.some((line) => line.includes('"results":{"')), false);
  await using other = await sut.elsewhere();
  assertEquals((await importLines(other.store, lines)).failed, 0);
  await assertNoResults(other);
});

testStoreOnce("an event that is known does not get the results of another one", async (sut) => {
  const { store } = sut;
  await store.accept(delivery("d1"));
  const lease = (await noteStep(store, await claimOne(store), "push/a", "2"))!;
  await using other = await sut.elsewhere();
  await leaveSteps(other.store);
  assertEquals((await importLines(store, await linesOf(other.store))).imported, 0);
  assertEquals(await store.readStep(lease, "push/a"), "2");
  assert(await store.complete(lease));
  await assertNoResults(sut);
});

testStoreOnce("a step that comes without its result has none, and is taken again", async (sut) => {
  const steps = [{ name: "a", at: 1, parts: 1 }, { name: "b", at: 1, parts: 2 }];
  await sut.store.restore({ ...event({ steps }), results: { b: "short", c: 1 } });
  const lease = await claimOne(sut.store);
  assertEquals(await sut.store.readStep(lease, "a"), null);
  assertEquals(await sut.store.readStep(lease, "b"), null);
  assert(await sut.store.complete(lease));
  await assertNoResults(sut);
});

testStoreOnce("results that are not JSON, or too large, are refused", async ({ store }) => {
  const steps = [{ name: "a", at: 1, parts: 1 }];
  const wrong: unknown[] = [{ a: new Date() }, { a: "x".repeat(524_287) }, [1n], [1], "text"];
  for (const results of wrong) {
    const restoring = () => store.restore({ ...event({ steps }), results } as never);
    await assertRejects(restoring, Error);
    assertEquals(await store.get("d1"), null);
  }
});

testStore("the events of a batch move without its steps, and are one there", async (sut) => {
  const { store } = sut;
  await acceptTogether(store, ["a", "b"]);
  const lease = (await noteStep(store, await claimBatch(store, "a", "b"), "s0"))!;
  assert(await store.retry(lease, 0, "no"));
  await using other = await sut.elsewhere();
  assertEquals((await importLines(other.store, await linesOf(store))).imported, 2);
  const batch = await claimBatch(other.store, "a", "b");
  assertEquals(stepsOf(batch), []);
  assert(await other.store.complete(batch));
  assertEquals(await claimAll(other.store), []);
  await assertNoResults(other);
});
