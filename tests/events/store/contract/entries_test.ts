/** Entries that a store has beside its events, on their way to another store. */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { type EventStore, exportEvents, importEvents } from "../../../../events/mod.ts";
import { claimOne, delivery, listed } from "../_events.ts";
import { contentOf, importLines, linesOf } from "../_moving.ts";
import { trimPayloads } from "../_tidying.ts";
import { type StoreUnderTest, testStore, testStoreOnce } from "./_contract.ts";

const HOUR_MS = 3_600_000;

const NOTE = { plan: "0 7 * * * UTC", at: 1_790_000_000_000 };

const draft = { text: "é\u200b\ud800", big: 2 ** 80, tags: ["a", null], ["__proto__"]: "b" };

/** Gives a store one entry of each kind, and two states. */
async function storeEntries({ store }: Pick<StoreUnderTest, "store">): Promise<void> {
  await (await store.state("chat:1")).set({ step: 2, text: "a" });
  const other = await store.state("chat:2", { intake: "telegram" });
  await other.set(draft, { expireAfterMs: HOUR_MS });
  await store.wake("early", { yes: true });
  await store.scheduleNotes.write("digest", NOTE, null);
}

const counts = (imported: number, known = 0) => ({ imported, known, expired: 0 });

async function valueOf(store: EventStore, key: string, intake?: string): Promise<unknown> {
  return (await store.state(key, { intake })).value;
}

testStore("states, answers and notes of schedules move with the events", async (sut) => {
  await storeEntries(sut);
  await using other = await sut.elsewhere();
  const lines = await linesOf(sut.store);
  assertEquals(lines.length, 4);
  const { states, answers, schedules, failures } = await importLines(other.store, lines);
  assertEquals([states, answers, schedules, failures], [counts(2), counts(1), counts(1), []]);
  assertEquals(await valueOf(other.store, "chat:1"), { step: 2, text: "a" });
  assertEquals(await valueOf(other.store, "chat:2", "telegram"), draft);
  assertEquals((await other.store.scheduleNotes.read("digest")).value, NOTE);
  await other.store.accept(delivery("d1"));
  const taken = await other.store.takeWake(await claimOne(other.store), "early");
  assertEquals(taken?.record.woken?.map(({ value }) => value), ['{"yes":true}']);
});

testStore(
  "an answer that comes from another store wakes the event that waits here",
  async (sut) => {
    const { store } = sut;
    await using other = await sut.elsewhere();
    await other.store.wake("early", { yes: true });
    const lines = await linesOf(other.store);
    await store.accept(delivery("d1"));
    await store.park(await claimOne(store), { name: "early", timeoutMs: HOUR_MS });
    assertEquals((await importLines(store, lines)).answers, counts(1));
    const lease = await claimOne(store);
    assertEquals(lease.record.woken?.map(({ value }) => value), ['{"yes":true}']);
    await store.complete(lease);
    await store.accept(delivery("d2"));
    await store.park(await claimOne(store), { name: "early", timeoutMs: HOUR_MS });
    assertEquals((await importLines(store, lines)).answers, counts(0, 1));
    assertEquals((await store.get("d2"))?.state, "parked");
  },
);

testStore(
  "entries that come from another store stay once, whatever becomes of them",
  async (sut) => {
    const { store } = sut;
    await using other = await sut.elsewhere();
    await storeEntries(other);
    const lines = await linesOf(other.store);
    await (await store.state("chat:1")).set("mine");
    const first = await importLines(store, lines);
    assertEquals([first.states, first.answers], [counts(1, 1), counts(1)]);
    await (await store.state("chat:2", { intake: "telegram" })).delete();
    for await (const answer of store.answers()) assert(await answer.delete());
    const again = await importLines(store, lines);
    assertEquals([again.states, again.answers], [counts(0, 2), counts(0, 1)]);
    assertEquals(again.schedules, counts(0, 1));
    assertEquals(await valueOf(store, "chat:1"), "mine");
    assertEquals(await Array.fromAsync(store.answers()), []);
  },
);

testStore("a state moves with what is left of its time", async (sut) => {
  await storeEntries(sut);
  await using other = await sut.elsewhere();
  const lines = await linesOf(sut.store);
  const [line] = lines.filter((each) => each.includes("telegram"));
  const past = line!.replace(/"expiresAt":\d+/, `"expiresAt":${Date.now() - 1}`);
  const { states } = await importLines(other.store, [past]);
  assertEquals(states, { imported: 0, known: 0, expired: 1 });
  await importLines(other.store, lines);
  const [moved] = await Array.fromAsync(other.store.states({ intake: "telegram" }));
  assert(moved!.expiresAt! > Date.now() && moved!.expiresAt! <= Date.now() + HOUR_MS);
});

testStore("a filter chooses events, and no entries", async (sut) => {
  await storeEntries(sut);
  await sut.store.accept(delivery("d1"));
  const lines = await Array.fromAsync(exportEvents(sut.store, { type: "push" }));
  assertEquals(lines.map((line) => JSON.parse(line).format), ["edge-base.event"]);
});

for (const filter of [{}, { state: "parked" }] as const) {
  const title = `the answer of a parked event moves with it, by the filter ${
    JSON.stringify(filter)
  }`;
  testStore(title, async ({ elsewhere, store }) => {
    await store.accept(delivery("d1", "{}", "chat"));
    assert(await store.park(await claimOne(store), { name: "n", timeoutMs: HOUR_MS }));
    await store.wake("n", { big: 2 ** 52 });
    await using other = await elsewhere();
    const { imported } = await importEvents(other.store, exportEvents(store, filter));
    assertEquals(imported, 1);
    const { record } = await claimOne(other.store);
    assertEquals(record.woken?.map(({ value }) => value), ['{"big":4503599627370496}']);
    assertEquals((await store.get("d1"))?.state, "parked");
    assertEquals((await other.place.contents()).names, 0);
  });
}

const keepPayloads = { forMs: HOUR_MS, maxBytes: 10_000_000 };

testStore(
  "the payload of a done event moves, and is replayed there",
  async ({ elsewhere, place, store }) => {
    await using other = await elsewhere({ keepPayloads });
    const large = JSON.stringify({ text: "é".repeat(900_000) });
    for (const [id, text] of [["d1", `{"a":1}`], ["d2", large]] as const) {
      await other.store.accept(delivery(id, text));
      assert(await other.store.complete(await claimOne(other.store)));
    }
    const { imported, failures } = await importLines(store, await linesOf(other.store));
    assertEquals([imported, failures], [2, []]);
    const [first, second] = await Promise.all(["d1", "d2"].map((id) => store.get(id)));
    const [text, rest] = await Promise.all([first, second].map(async (record) => (
      new TextDecoder().decode(await store.load({ record: record! }))
    )));
    assertEquals([text, rest === large], [`{"a":1}`, true]);
    const bytes = 7 + new TextEncoder().encode(large).length;
    assertEquals((await place.contents()).kept, { payloads: 2, bytes });
    assert(await store.replay("d1") && await store.replay("d2"));
    assertEquals((await listed(store, { state: "queued" })).length, 2);
    assertEquals((await place.contents()).kept, { payloads: 0, bytes: 0 });
  },
  { keepPayloads },
);

testStore(
  "a store that keeps no payloads drops those that were moved",
  async ({ elsewhere, place, store }) => {
    await using other = await elsewhere({ keepPayloads });
    await other.store.accept(delivery("d1"));
    assert(await other.store.complete(await claimOne(other.store)));
    await importLines(store, await linesOf(other.store));
    assertEquals(await trimPayloads(store), 1);
    const { kept, payloads } = await place.contents();
    assertEquals([kept.payloads, payloads], [0, 0]);
    assertEquals(Object.keys(await contentOf(store)), ["d1"]);
  },
);

const STATE = { format: "edge-base.state", version: 1, key: "k", value: 1 };

const WAKE = { format: "edge-base.answer", version: 1, name: "n", at: Date.now() };

const PLAN = { format: "edge-base.schedule", version: 1, name: "s", plan: "* * * * *", at: 1 };

const MISSING = "a member is missing, or has the wrong type";

const REFUSED: readonly [object, string][] = [
  [{ ...STATE, version: 2 }, "the state: the line must be of format version 1, got 2. A newer"],
  [{ ...STATE, key: 1 }, `the state: ${MISSING}`],
  [{ ...STATE, key: "" }, "the state: Cannot read the state: 'key' must be a text that is not"],
  [{ ...STATE, key: "k".repeat(300) }, "the state: Cannot read the state: 'key' and 'intake'"],
  [{ ...STATE, value: undefined }, "the state: it has no value"],
  [{ ...STATE, expiresAt: "soon" }, `the state: ${MISSING}`],
  [{ ...WAKE, name: "" }, "the answer: Cannot wake"],
  [{ ...WAKE, at: null }, `the answer: ${MISSING}`],
  [{ ...WAKE, value: "x".repeat(9_000) }, "the answer: Cannot wake"],
  [
    { ...PLAN, plan: "x".repeat(700) },
    "the schedule: its 'plan' must have 1 to 600 characters, got",
  ],
  [{ ...PLAN, at: "1" }, `the schedule: ${MISSING}`],
];

for (const [line, message] of REFUSED) {
  testStoreOnce(
    `an import refuses an entry, and goes on: ${message.slice(0, 60)}, ${
      JSON.stringify(line).slice(0, 90)
    }`,
    async (sut) => {
      const lines = [line, STATE].map((each) => `${JSON.stringify(each)}\n`);
      const { states, failures, failed } = await importLines(sut.store, lines);
      assertEquals([states.imported, failed, failures[0]?.line], [1, 1, 1]);
      assertStringIncludes(failures[0]!.reason, message);
    },
  );
}

testStoreOnce("an import notes a state that is too large", async (sut) => {
  const { stateBytes } = sut.store.room;
  const line = JSON.stringify({ ...STATE, value: "x".repeat(stateBytes) });
  const { failures } = await importLines(sut.store, [`${line}\n`, `${JSON.stringify(PLAN)}\n`]);
  assertEquals(failures.map(({ line }) => line), [1]);
  const message = `Cannot set the state: 'value' must take up to ${stateBytes} bytes`;
  assertStringIncludes(failures[0]!.reason, message);
});

testStoreOnce("restoreEntry() refuses what is no entry", async (sut) => {
  for (const entry of [undefined, null, 1, {}, { kind: "event" }, { kind: "toString" }]) {
    await assertRejects(
      () => sut.store.restoreEntry(entry as never),
      TypeError,
      "Cannot restore the entry: its kind must be state, answer, question or schedule, got ",
    );
  }
});

testStoreOnce(
  "an export names an entry that it cannot read, and has the others",
  async (sut) => {
    await storeEntries(sut);
    await (await sut.store.state("broken")).set(1);
    await sut.damages.spoilCell("state", "", "broken");
    const left: string[] = [];
    const lines = exportEvents(sut.store, {}, { onLeftOut: ({ id }) => left.push(id) });
    assertEquals((await Array.fromAsync(lines)).length, 4);
    assertEquals(left, ['the state "broken"']);
  },
  {},
  "damages",
);
