import { assertEquals, assertRejects } from "@std/assert";
import { withOperations } from "../../../../dev/harness/faulty_kv.ts";
import { importEvents, openEventStore } from "../../../../events/mod.ts";
import { lineOf } from "../../../../events/store/portable_event.ts";
import { buryAll, claimAll, delivery } from "../_events.ts";
import { event, importLines, line } from "../_moving.ts";
import { limitChecks } from "./_commits.ts";
import { withExpiringKv } from "./_expiring_kv.ts";
import { keysOf } from "./_keys.ts";
import { memoryStore, testInMemory } from "./_stores.ts";
import { setValue } from "./_values.ts";

Deno.test("an event whose id outlasts its record is imported", async () => {
  await withExpiringKv(async ({ kv }) => {
    const store = await openEventStore(kv);
    await setValue(kv, ["events", "id", "d1"], 5);
    assertEquals(await store.restore(event()), "restored");
    assertEquals((await store.get("d1"))?.receivedAt, 1_000);
  });
});

testInMemory("an event that the store knows is left as it is", async ({ kv, store }) => {
  await buryAll(store, ["d1"]);
  await store.accept(delivery("d2"));
  const before = await Array.fromAsync(store.list());
  for (const id of ["d1", "d2"]) assertEquals(await store.restore(event({ id })), "known");
  assertEquals(await Array.fromAsync(store.list()), before);
  const { receivedAt } = before[1]!;
  await kv.delete(["events", "id", "d2"]);
  // Without the entry of its id, too: it has the same key.
  assertEquals(await store.restore(event({ id: "d2", receivedAt })), "known");
});

testInMemory("a second import reads, and writes nothing", async ({ kv, store }) => {
  const large = event({ id: "large" }, JSON.stringify("x".repeat(1_600_000)));
  const all = [
    event(),
    event({ id: "d2", group: { key: "a", position: 0 }, orderingKey: "a" }),
    large,
  ];
  for (const each of all) assertEquals(await store.restore(each), "restored");
  const commits = limitChecks(kv, Infinity);
  for (const each of all) assertEquals(await store.restore(each), "known");
  assertEquals(commits.tried, 0);
});

testInMemory("of imports at the same time one stores an event", async ({ kv, store }) => {
  const large = event({ id: "large" }, JSON.stringify("x".repeat(1_600_000)));
  const small = event({ group: { key: "key", position: 7 }, orderingKey: "key" });
  const both = [large, small, large, small, large, small].map((each) => store.restore(each));
  const outcomes = await Promise.all(both);
  assertEquals(outcomes.filter((each) => each === "restored").length, 2);
  assertEquals(outcomes.filter((each) => each === "known").length, 4);
  assertEquals((await claimAll(store)).length, 2);
  assertEquals(await keysOf(kv, "upload"), []);
  assertEquals((await keysOf(kv, "payload")).length, 26);
});

Deno.test("restore() refuses what is too large for a store", async () => {
  await using sut = await memoryStore();
  const { store } = sut;
  const long = "x".repeat(70_000);
  const group = { group: { key: "a", position: 0 }, orderingKey: "a" };
  for (const changes of [{ type: long }, { intake: long, ...group }]) {
    const message = "Cannot restore the event: it is too large for the store: ";
    await assertRejects(() => store.restore(event(changes)), RangeError, message);
  }
  const body = new Uint8Array(store.maxPayloadBytes + 1);
  await assertRejects(() => store.restore({ ...event(), body }), RangeError, "58500001 bytes");
  assertEquals(await keysOf(sut.kv), []);
});

Deno.test("importEvents() tells of each line why it was not imported, and goes on", async () => {
  await using sut = await memoryStore();
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
    [await lineOf(event({ id: "d3", type: "x".repeat(70_000) })), undefined],
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
});

Deno.test("importEvents() ends with the KV's failure, and goes on when run again", async () => {
  using kv = await Deno.openKv(":memory:");
  let commits = 0;
  // As Deno's KV on a full disk has it.
  const failure = new TypeError("database or disk is full");
  const failing = withOperations(kv, (operation) => {
    const commit = operation.commit.bind(operation);
    operation.commit = () => ++commits === 4 ? Promise.reject(failure) : commit();
  });
  const group = { group: { key: "key", position: 0 }, orderingKey: "key" };
  const ids = Array.from({ length: 9 }, (_, i) => `d${i}`);
  const lines = await Promise.all(ids.map((id) => lineOf(event({ id, ...group }))));
  const text = [lines.join("\n")];
  const broken = await openEventStore(failing, { notifier: "watch" });
  assertEquals(await assertRejects(() => importLines(broken, text)), failure);
  const store = await openEventStore(kv, { notifier: "watch" });
  const { imported, known } = await importLines(store, text);
  assertEquals([imported + known, known > 0, imported > 0], [9, true, true]);
  const handled: string[] = [];
  for (let lease; ([lease] = await claimAll(store)), lease;) {
    handled.push(lease.record.id);
    await store.complete(lease);
  }
  assertEquals(handled, ids);
});
