import { assert, assertEquals, assertRejects } from "@std/assert";
import { until } from "../../../../dev/harness/until.ts";
import { type EventStore, importEvents, type PortableEvent } from "../../../../events/mod.ts";
import { lineOf } from "../../../../events/store/portable_event.ts";
import { buryAll, claimAll, claimOne, delivery } from "../_events.ts";
import { event, line } from "../_moving.ts";
import { importLines, linesOf } from "../_moving.ts";
import { repairTimes } from "../_tidying.ts";
import { assertEmpty, testAging, testStore, testStoreOnce } from "./_contract.ts";

const encoder = new TextEncoder();

const DAY_MS = 86_400_000;

const done = (id: string, settledAt: number) =>
  event({ id, state: "done", outcome: "handled", settledAt, dueAt: null }, null);

testStore("an event that ran comes queued, and its attempt does not count", async ({ store }) => {
  const running = { state: "running", attempt: 3, dueAt: Date.now() + 30_000 };
  const lease = { owner: "me", until: Date.now() + 30_000, ms: 30_000, startedAt: 1 };
  assertEquals(
    await store.restore(event({ ...running, lease, engine: { theirs: "x" } })),
    "restored",
  );
  const { record } = await claimOne(store);
  assertEquals([record.attempt, record.isBegun, record.lease?.owner === "me"], [3, true, false]);
  assertEquals(Object(record.engine).theirs, undefined);
});

testStore("an event that was cancelled while it ran comes dead", async ({ store }) => {
  const flagged = { state: "running", attempt: 1, cancelRequestedAt: 2_000 };
  await store.restore(event(flagged));
  const record = (await store.get("d1"))!;
  assertEquals([record.state, record.outcome], ["dead", "cancelled"]);
  assert(await store.replay("d1"));
});

/** A parked event from elsewhere. */
function parkedEvent(id: string, name: string): PortableEvent {
  const [since, until] = [Date.now(), Date.now() + DAY_MS];
  const waiting = { dueAt: until, delayMs: DAY_MS, waitingFor: { name, since, until } };
  return event({ id, state: "parked", isBegun: true, progress: ["asked"], ...waiting });
}

testStore("a parked event waits for its name here", async ({ store }) => {
  await store.restore(parkedEvent("d1", "a"));
  assertEquals((await store.get("d1"))?.state, "parked");
  assertEquals(await claimAll(store), []);
  await store.accept(delivery("d2"));
  const wait = { name: "a", timeoutMs: DAY_MS };
  const other = await claimOne(store);
  await assertRejects(() => store.park(other, wait), Error, "event d1 waits for it already");
  assertEquals(await store.wake("a", 1), { outcome: "woken", eventId: "d1" });
  const { record } = await claimOne(store);
  assertEquals([record.id, record.progress, record.woken?.[0]?.value], ["d1", ["asked"], "1"]);
});

testStore(
  "a parked event whose name is woken or taken here is queued",
  async ({ place, store }) => {
    await store.wake("a", 1);
    await store.restore(parkedEvent("d1", "a"));
    const { record } = await claimOne(store);
    assertEquals([record.waitingFor, record.woken?.[0]?.value], [undefined, "1"]);
    assertEquals((await place.contents()).names, 0);
    await store.restore(parkedEvent("d2", "b"));
    await store.restore(parkedEvent("d3", "b"));
    const taken = (await claimOne(store)).record;
    assertEquals([taken.id, taken.waitingFor, taken.woken], ["d3", undefined, undefined]);
    assertEquals((await store.wake("b")).eventId, "d2");
  },
);

testStore("an event keeps the rest of its delay, and no more than was planned", async (sut) => {
  const { store } = sut;
  const now = Date.now();
  await store.restore(event({ dueAt: now + 3_600_000, delayMs: 7_200_000 }));
  // By a clock that was a day ahead.
  await store.restore(event({ id: "d2", dueAt: now + DAY_MS, delayMs: 1_000 }));
  await store.restore(event({ id: "d3", dueAt: now - 5_000, delayMs: 1_000 }));
  assertEquals((await store.get("d1"))?.dueAt, now + 3_600_000);
  assert((await store.get("d2"))!.dueAt! <= Date.now() + 1_000);
  assertEquals((await claimOne(store)).record.id, "d3");
  assertEquals(await repairTimes(store), 0);
});

testAging("a done event is remembered for the rest of its retention", async ({ place, store }) => {
  const now = Date.now();
  assertEquals(await store.restore(done("d1", now - 6 * DAY_MS)), "restored");
  assertEquals(await store.restore(done("d2", now - 7 * DAY_MS)), "expired");
  // By a clock that was ahead.
  assertEquals(await store.restore(done("d3", now + 30 * DAY_MS)), "restored");
  assertEquals((await store.accept(delivery("d1"))).duplicate, true);
  await place.pass(DAY_MS + 1);
  assertEquals(await store.get("d1"), null);
  assertEquals((await store.get("d3"))?.state, "done");
  assertEquals((await store.accept(delivery("d1"))).duplicate, false);
  await place.pass(7 * DAY_MS);
  assertEquals(await store.get("d3"), null);
});

testAging(
  "the id of an imported event is kept until it is settled, and forgotten with it",
  async ({ place, store }) => {
    await store.restore(event());
    await place.pass(30 * DAY_MS);
    assertEquals((await store.accept(delivery("d1"))).duplicate, true);
    await store.complete(await claimOne(store));
    await store.restore(event({ id: "d2", receivedAt: Date.now() - 1 }));
    await store.complete(await claimOne(store));
    await place.pass(8 * DAY_MS);
    await assertEmpty({ place });
  },
);

testStore("an event that the store knows is left as it is", async ({ store }) => {
  await buryAll(store, ["d1"]);
  await store.accept(delivery("d2"));
  const before = await Array.fromAsync(store.list());
  for (const id of ["d1", "d2"]) assertEquals(await store.restore(event({ id })), "known");
  assertEquals(await Array.fromAsync(store.list()), before);
});

testStore("of imports at the same time one stores an event", async ({ place, store }) => {
  const large = event({ id: "large" }, JSON.stringify("x".repeat(1_600_000)));
  const small = event({ group: { key: "key", position: 7 }, orderingKey: "key" });
  const both = [large, small, large, small, large, small].map((each) => store.restore(each));
  const outcomes = await Promise.all(both);
  assertEquals(outcomes.filter((each) => each === "restored").length, 2);
  assertEquals(outcomes.filter((each) => each === "known").length, 4);
  assertEquals((await claimAll(store)).length, 2);
  assertEquals((await place.contents()).uploads, 0);
  assertEquals((await place.contents()).payloads, 2);
});

testStore(
  "fields that this version does not know go with an event",
  async ({ elsewhere, store }) => {
    const unknown = { loud: { until: 5 }, keptUntil: 7, waitsFor: ["d9"], causedBy: "d8" };
    await importLines(store, [`${await lineOf(event(unknown))}\n`]);
    await using other = await elsewhere();
    await importLines(other.store, await linesOf(store));
    const { loud, keptUntil, waitsFor, causedBy } = await other.store.get("d1") as never;
    assertEquals({ loud, keptUntil, waitsFor, causedBy }, unknown);
  },
);

testStoreOnce("an import wakes the worker for what is due", async (sut) => {
  let woken = 0;
  const listening = sut.store.listen({ wake: () => void woken++ });
  await sut.store.restore(done("d0", Date.now()));
  await sut.store.restore(event({ dueAt: Date.now() + 60_000, delayMs: 60_000 }));
  assertEquals(woken, 0);
  await sut.store.restore(event({ id: "d2" }));
  await until(() => woken > 0, 1_000);
  sut.place.close();
  await listening;
});

/** Wrong fields of a record, and what is said of them. */
const WRONG: readonly [changes: Record<string, unknown>, reason: string, text?: string | null][] = [
  [{ id: "" }, `its 'id' is not valid, got ""`],
  [{ id: "x".repeat(601) }, `its 'id' is not valid, got "${"x".repeat(40)}"…`],
  [{ id: "\ud800" }, String.raw`its 'id' is not valid, got "\ud800"`],
  [{ type: 5 }, "its 'type' is not valid, got 5"],
  [{ type: undefined }, "its 'type' is not valid, got undefined"],
  [{ state: "asleep" }, `its 'state' is not valid, got "asleep"`],
  [{ receivedAt: -1 }, "its 'receivedAt' must not be negative, got -1"],
  [{ receivedAt: -0 }, "its 'receivedAt' must not be negative, got 0"],
  [
    { attempt: Number.MAX_SAFE_INTEGER },
    "its 'attempt' and 'run' must be at most 1000000000, got 9007199254740991 and 0",
  ],
  [{ receivedAt: 9e15 }, "its 'receivedAt' is not valid, got 9000000000000000"],
  [{ attempts: [{}] }, "its 'attempts' is not valid, got an array"],
  [{ attempt: 1.5 }, "its 'attempt' is not valid, got 1.5"],
  [{ repository: {} }, "its 'repository' is not valid, got an object"],
  [{ settledAt: 5 }, "its 'settledAt' does not fit its state queued, got 5"],
  [{ state: "dead" }, "its 'settledAt' does not fit its state dead, got null"],
  [{}, "it is queued, and has no payload", null],
  [{ group: { key: "a", position: 0 } }, "its 'orderingKey' is not valid, got null"],
  [
    { group: { key: "a", position: 0 }, orderingKey: "x".repeat(257) },
    `its 'orderingKey' is not valid, got "${"x".repeat(40)}"…`,
  ],
  [
    { group: { key: "a", position: 0 }, orderingKey: "a", joinsLater: true },
    "it is in its ordering group, which it is to join later",
  ],
  [
    { group: { key: "a", position: 0 }, orderingKey: "a", state: "parked" },
    "it is in its ordering group, which it is to join later",
  ],
  [{ state: "parked" }, "its 'waitingFor' does not fit its state parked, got undefined"],
  [
    { state: "parked", waitingFor: { name: "n", since: 1, until: 2 }, dueAt: null },
    "its 'dueAt' does not fit its state parked, got null",
  ],
];

testStoreOnce("restore() refuses what is no event, and says why", async (sut) => {
  for (const [changes, reason, text] of WRONG) {
    const message = `Cannot restore the event: ${reason}`;
    const restoring = () => sut.store.restore(event(changes, text));
    assertEquals((await assertRejects(restoring, TypeError)).message, message);
  }
  for (const wrong of [null, undefined, {}, { record: [] }, { record: "x", body: null }]) {
    await assertRejects(() => sut.store.restore(wrong as never), TypeError, "must be an object");
  }
  await assertEmpty(sut);
});

testStoreOnce(
  "importEvents() tells of each line why it was not imported, and goes on",
  async (sut) => {
    const good = await lineOf(event());
    const read = "Cannot read the event: ";
    const lines: readonly [string, string | undefined][] = [
      [good.slice(0, 60), `${read}the line is not JSON`],
      ["", undefined],
      ["[]", `${read}the line is no exported one`],
      ["null", `${read}the line is no exported one`],
      [
        await line({ version: 2 }),
        `${read}the line must be of format version 1, got 2. A newer version of this package reads it`,
      ],
      [await line({ version: "1" }), `${read}the line must be of format version 1, got "1"`],
      [
        good.replace(/{}}$/, "{ }}"),
        `${read}its payload is not the one that was exported. To take it as it is now, remove ` +
        "'payloadSha256' from the line",
      ],
      [await line({ payloadText: "{}" }), `${read}it has several payloads`],
      [
        await line({ payload: undefined, payloadText: 5 }),
        `${read}its payload must be a text, got 5`,
      ],
      [
        await line({ payload: undefined, payloadBase64: "*" }),
        `${read}its payload is not base64`,
      ],
      [
        await line({ record: null }),
        "Cannot restore the event: its record must be an object, got null",
      ],
      [
        await line({ payload: undefined }),
        "Cannot restore the event: it is queued, and has no payload",
      ],
      ["  \r", undefined],
      [await lineOf(event({ id: "d2" })) + "\r", undefined],
      [await lineOf(event({ id: "d3", type: 5 })), undefined],
      [await line({ payloadSha256: undefined }), undefined],
    ];
    const result = await importEvents(
      sut.store,
      ReadableStream.from([
        lines.map(([text]) => text).join("\n"),
      ]),
    );
    assertEquals([result.imported, result.failed], [2, 12]);
    const expected = lines.flatMap(([, reason], i) => reason ? [{ line: i + 1, reason }] : []);
    assertEquals(result.failures.slice(0, 11), expected);
    assertEquals(result.failures[11]?.line, 15);
  },
);

testStoreOnce(
  "importEvents() sees by the first line that it is no export",
  async ({ elsewhere }) => {
    const files = ["SQLite format 3\0\nx", "[\n1\n]", `{"id":1}\n`, "\xff\xfe{", "\n\n{}"];
    await using sut = await elsewhere();
    for (const text of files) {
      const chunks = ReadableStream.from([Uint8Array.from(text, (c) => c.charCodeAt(0))]);
      const error = await assertRejects(() => importEvents(sut.store, chunks), SyntaxError);
      const beginning =
        `Cannot import events: this is no export of events, whose lines begin with ` +
        `{"format":"edge-base.event". Line `;
      assert(error.message.startsWith(beginning), error.message);
    }
    const nothing = await importEvents(sut.store, ReadableStream.from([""]));
    assertEquals([nothing.imported, nothing.failed], [0, 0]);
  },
);

testStoreOnce("importEvents() describes 100 failures, and counts the others", async (sut) => {
  const lines = [await lineOf(event()), ...Array.from({ length: 150 }, () => "{}")];
  const { imported, failed, failures } = await importLines(sut.store, [lines.join("\n")]);
  assertEquals([imported, failed, failures.length], [1, 150, 100]);
});

testStoreOnce("importEvents() ends at a signal, also while it waits for more", async (sut) => {
  const ending = new AbortController();
  const first = await lineOf(event());
  const source = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(encoder.encode(`${first}\n`)),
  });
  const seen: number[] = [];
  const onProgress = ({ seen: lines, changed }: { seen: number; changed: number }) => {
    seen.push(lines, changed);
    ending.abort();
  };
  const result = await importEvents(sut.store, source, { signal: ending.signal, onProgress });
  assertEquals([result.imported, seen], [1, [1, 1]]);
});

testStoreOnce("options of exports and imports that are something else are refused", async (sut) => {
  const wrong = (options: unknown) =>
    importEvents(sut.store, ReadableStream.from([]), options as never);
  await assertRejects(() => wrong(5), TypeError, "Cannot import events: the options must be");
  await assertRejects(() => wrong({ onProgress: 1 }), TypeError, "'onProgress' must be a function");
});

/** A store that keeps events waiting until it has a number of them at once, and notes the most that it had. */
function slowStore(
  wanted: number,
): { store: Pick<EventStore, "restore" | "restoreEntry">; most: () => number } {
  let [now, most] = [0, 0];
  const store: Pick<EventStore, "restore" | "restoreEntry"> = {
    restoreEntry: () => Promise.resolve("restored"),
    async restore() {
      most = Math.max(most, ++now);
      await until(() => most >= wanted, 5_000);
      now--;
      return "restored";
    },
  };
  return { store, most: () => most };
}

Deno.test("importEvents() stores some at the same time, and large ones alone", async () => {
  const linesWith = async (text: string, count: number) => {
    const each = `${await lineOf(event({}, JSON.stringify(text)))}\n`;
    return Array.from({ length: count }, () => each);
  };
  const [small, large] = [slowStore(32), slowStore(1)];
  await importEvents(small.store, ReadableStream.from(await linesWith("x", 100)));
  assertEquals(small.most(), 32);
  await importEvents(large.store, ReadableStream.from(await linesWith("x".repeat(5e6), 4)));
  assertEquals(large.most(), 1);
});

testStore("a queued event that waited for others is due if it is alone here", async ({ store }) => {
  const waiting = { dueAt: null, group: { key: "key", position: 3 }, orderingKey: "key" };
  await store.restore(event(waiting));
  assertEquals((await claimOne(store)).record.group?.key, "key");
  await store.restore(event({ id: "d2", dueAt: null }));
  assertEquals((await claimOne(store)).record.group, null);
});
