/** Stores that move from one engine to another, and back, with all that is open. */
import { assert, assertEquals } from "@std/assert";
import type { EventStore } from "../../../../events/mod.ts";
import { testWith } from "../../../_permissions.ts";
import { byLength } from "../../../_length.ts";
import { acceptAll } from "../_batching.ts";
import { claimAll, claimOne, delivery, drain } from "../_events.ts";
import { assertMoves, forAll } from "../_histories.ts";
import { contentOf, importLines, linesOf, storeAll } from "../_moving.ts";
import { park } from "../_parking.ts";
import { repairGroups, repairTimes } from "../_tidying.ts";
import type { EngineUnderTest } from "../engines/_engine.ts";
import { IN_CONTRACT } from "../engines/mod.ts";
import { openStore } from "./_contract.ts";

const OPTIONS = { log: () => {}, keepPayloads: { forMs: 604_800_000, maxBytes: 10_000_000 } };

/** The events that are due at once where they arrive, one of which is replayed there. */
const HANDLED = [
  ...[
    "a1",
    "a2",
    "a3",
    "answered",
    "forge:b1",
    "forge:b2",
    "forge:done",
    "large",
    "p1",
    "p2",
    "p3",
    "waits",
  ],
];

/** Registers a test for each engine and each other one. */
function testPairs(
  name: string,
  fn: (from: EngineUnderTest, to: EngineUnderTest) => Promise<void>,
): void {
  for (const from of IN_CONTRACT) {
    for (const to of IN_CONTRACT.filter((each) => each !== from)) {
      const needs = [...from.kinds[0].needs, ...to.kinds[0].needs];
      const missing = from.kinds[0].missing ?? to.kinds[0].missing;
      testWith(needs, `${name} [${from.name} to ${to.name}]`, () => fn(from, to), missing);
    }
  }
}

/** Leaves something open of each kind. */
async function leaveOpen(store: EventStore): Promise<void> {
  await storeAll(store);
  await claimAll(store);
  await park(store, "waits", "waiting");
  for (const id of ["p1", "p2", "p3"]) {
    await store.accept({ ...delivery(id, "{}", "places"), places: 2 });
  }
  assertEquals((await claimAll(store)).length, 2);
  await store.accept(delivery("answered"));
  assert(await store.park(await claimOne(store), { name: "answer:1", timeoutMs: 3_600_000 }));
  await store.wake("answer:1", { yes: "✓" });
  await store.wake("early", 7);
  await acceptAll(store, ["q1", "q2", "q3"], { quietMs: 3_600_000, maxWaitMs: 7_200_000 });
  await store.emit("jobs", "item", { n: 1 }, { id: "later", delayMs: 3_600_000, group: "g" });
  await (await store.state("count", { intake: "forge" })).set({ n: [1, null, "é"] });
  await (await store.state("short")).set(2, { expireAfterMs: 3_600_000 });
  const plan = "0 * * * * UTC";
  await store.scheduleNotes.write("digest", { plan, at: 1_700_000_000_000 }, null);
}

/** Leaves out the time of a batch: where it arrives it waits anew until it is quiet. */
function withoutQuiet(event: object): object {
  if (!("quiet" in event)) return event;
  return { ...event, quiet: undefined, dueAt: undefined };
}

/** Reads all that moves. */
async function allOf(store: EventStore): Promise<unknown> {
  const events = Object.values(await contentOf(store)) as object[];
  const entries = await Array.fromAsync(store.portableEntries());
  const notes = await Array.fromAsync(store.scheduleNotes.list());
  return { events: events.map(withoutQuiet), entries, notes };
}

testPairs("all that is open moves to another engine and back", async (from, to) => {
  await using first = await openStore(from, OPTIONS);
  await using second = await openStore(to, OPTIONS);
  await using third = await openStore(from, OPTIONS);
  await leaveOpen(first.store);
  for (const [before, after] of [[first, second], [second, third]] as const) {
    const result = await importLines(after.store, await linesOf(before.store));
    assertEquals([result.failed, result.failures], [0, []]);
  }
  const [moved, back] = [await allOf(second.store), await allOf(third.store)];
  assertEquals(back, moved);
  const { kept, events } = await first.place.contents();
  for (const { store, place } of [second, third]) {
    const contents = await place.contents();
    assertEquals([contents.kept, contents.events], [kept, events]);
    assertEquals([await repairGroups(store), await repairTimes(store)], [0, 0]);
    for await (const { findings } of store.check()) assertEquals(findings, []);
    assertEquals((await store.wake("approval:1", true)).outcome, "woken");
    assert(await store.replay("forge:done"));
  }
  for (const { store } of [second, third]) {
    const handled = await drain(store);
    assertEquals(handled.filter((id) => /^a\d/.test(id)), ["a1", "a2", "a3"]);
    assertEquals(handled.toSorted(), HANDLED);
  }
});

testPairs("an import makes in another engine what an export has read", async (from, to) => {
  await forAll(byLength(150, 15), () => openStore(from), async ({ store }) => {
    await using other = await openStore(to);
    await assertMoves(store, other.store);
  });
});
