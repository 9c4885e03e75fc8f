import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import type { EventStore, Lease } from "../../../../events/mod.ts";
import { corrected, foundAgain } from "../../../../events/store/arrival.ts";
import type { Scan } from "../../../../events/store/engine.ts";
import { notesOf, UndecodableError } from "../../../../events/store/kv/_layout.ts";
import { Write } from "../../../../events/store/kv/_write.ts";
import { WallClock } from "../../../_wall_clock.ts";
import { buryAll, claimAll, claimOne, delivery, oneOfEach } from "../_events.ts";
import { countReads, keysOf, makeDue, recordKey } from "./_keys.ts";
import { reading } from "./_reading.ts";
import { memoryStore } from "./_stores.ts";
import { changeValue, damage, groupSize, setValue, valueAt } from "./_values.ts";

const LEASE_MS = 20_000;

/** Opens a store in memory, and the reading side of an engine on the same KV. */
async function open() {
  const sut = await memoryStore({ log: () => {} });
  return { ...sut, ...await reading(sut.kv) };
}

/** Has deliveries leased in the commit that stores them. */
async function lease(store: EventStore, ids: readonly string[]): Promise<Lease[]> {
  const leases: Lease[] = [];
  const reservation = { owner: "worker", leaseMs: LEASE_MS, cancel: () => {} };
  const reserve = () => ({ ...reservation, take: (lease: Lease) => void leases.push(lease) });
  store.listen({ wake: () => {}, reserve }).catch(() => {});
  await Promise.all(ids.map((id) => store.accept(delivery(id))));
  return leases;
}

const text = (body: Uint8Array | undefined) => body && new TextDecoder().decode(body);

Deno.test("get() returns events in the order of their ids, and null for others", async () => {
  await using sut = await open();
  for (const id of ["d1", "d2"]) await sut.store.accept(delivery(id));
  const found = await sut.engine.get(["d2", "no", "d1", "d2"]);
  assertEquals(found.map((each) => each?.record?.id), ["d2", undefined, "d1", "d2"]);
  assertEquals(found[1], null);
  const { versionstamp } = await sut.kv.get(await recordKey(sut.kv, "d1"));
  assertEquals(found[2]?.version, versionstamp);
});

Deno.test("get() returns what is left of a record that cannot be read", async () => {
  await using sut = await open();
  await sut.store.accept(delivery("d1", "{}", "key"));
  const key = await recordKey(sut.kv, "d1");
  const { group, payload, receivedAt } = (await sut.store.get("d1"))!;
  await changeValue(sut.kv, key, { state: "asleep" });
  const { versionstamp: version } = await sut.kv.get(key);
  const remains = { group: group!, payload: payload! };
  const left: unknown[] = [{ id: "d1", receivedAt, version: version!, remains }];
  assertEquals(await sut.engine.get(["d1"]), left);
});

Deno.test("get() rejects for an id whose entry cannot be decoded", async () => {
  await using sut = await open();
  await sut.store.accept(delivery("d1"));
  await damage(sut.kv, (await keysOf(sut.kv, "id"))[0]!);
  await assertRejects(() => sut.engine.get(["d1"]), UndecodableError);
});

Deno.test("ids() returns the last ids before a text, by their bytes", async () => {
  await using sut = await open();
  for (const id of ["b", "a:2", "\u{1f600}", "a:1", "\uffee"]) await sut.store.accept(delivery(id));
  const { engine } = sut;
  assertEquals(await engine.ids({ limit: 9 }), ["\u{1f600}", "\uffee", "b", "a:2", "a:1"]);
  assertEquals(await engine.ids({ limit: 2 }), ["\u{1f600}", "\uffee"]);
  assertEquals(await engine.ids({ before: "b", limit: 9 }), ["a:2", "a:1"]);
  assertEquals(await engine.ids({ before: "a:1", limit: 9 }), []);
});

Deno.test("due() returns events page by page, the longest-waiting first", async () => {
  await using sut = await open();
  const now = Date.now();
  for (const [i, id] of ["a", "b", "c"].entries()) {
    await sut.store.accept(delivery(id, `"${id}"`));
    await makeDue(sut.kv, id, now - 10 + (i >> 1));
  }
  const first = await sut.engine.due({ until: now, limit: 2 });
  assertEquals(first.events.map(({ id }) => id), ["a", "b"]);
  assertEquals(first.events.map(({ at }) => at), [now - 10, now - 10]);
  assertEquals((await first.bodies).map(text), [`"a"`, `"b"`]);
  const rest = await sut.engine.due({ until: now, limit: 2, cursor: first.cursor });
  assertEquals(rest.events.map(({ event }) => event?.record?.id), ["c"]);
  assertEquals(rest.cursor, undefined);
  await rest.bodies;
  assertEquals((await sut.engine.due({ until: now - 11, limit: 2 })).events, []);
});

Deno.test("due() has events by entries that their records do not name, and those that are gone", async () => {
  await using sut = await open();
  for (const id of ["d1", "d2", "gone"]) await sut.store.accept(delivery(id));
  await makeDue(sut.kv, "d2", 1_000);
  await sut.kv.delete(await recordKey(sut.kv, "gone"));
  const { events, bodies } = await sut.engine.due({ until: Date.now(), limit: 9 });
  const found = events.map((
    { id, at, event },
  ) => [id, event?.record?.dueAt === at, event !== undefined]);
  assertEquals(found.toSorted(), [["d1", true, true], ["d2", false, true], ["gone", false, false]]);
  await bodies;
});

Deno.test("due() takes a shared entry apart once it is due", async () => {
  using clock = new WallClock();
  await using sut = await open();
  const leases = await lease(sut.store, ["d1", "d2", "d3", "d4"]);
  assert(await sut.store.complete(leases.find(({ record }) => record.id === "d1")!));
  const key = await recordKey(sut.kv, "d2");
  const record = await valueAt<object>(sut.kv, key);
  await setValue(sut.kv, key, { ...record, state: "asleep" });
  const [shared] = await keysOf(sut.kv, "due");
  assertEquals((await sut.engine.due({ until: Date.now(), limit: 2 })).events, []);
  assertEquals(await keysOf(sut.kv, "due"), [shared]);
  clock.advance(LEASE_MS + 100);
  const first = await sut.engine.due({ until: Date.now(), limit: 2 });
  assertEquals(first.events.map(({ id, event }) => [id, event?.record?.id]), [
    ["d2", undefined],
    ["d3", "d3"],
  ]);
  assertEquals((await first.bodies).map(text), [undefined, `{"a":1}`]);
  const { events, bodies } = await sut.engine.due({
    ...{ until: Date.now(), limit: 2, cursor: first.cursor },
  });
  assertEquals(events.map(({ id, at }) => [id, at]), [["d4", shared!.at(-2)]]);
  await bodies;
  assertEquals((await keysOf(sut.kv, "due")).map((key) => key.at(-1)), ["d2", "d3", "d4"]);
  assertEquals((await sut.engine.count(9)).running.count, 3);
  assertEquals((await claimAll(sut.store)).length, 2);
});

Deno.test("a shared entry behind a cursor leads to all of its events", async () => {
  using clock = new WallClock();
  await using sut = await open();
  await lease(sut.store, ["d1", "d2"]);
  const [shared] = await keysOf(sut.kv, "due");
  const dueAt = Number(shared!.at(-2));
  await sut.store.accept(delivery("e"));
  await makeDue(sut.kv, "e", dueAt);
  // The ids of its events come before the cursor.
  const { value } = await sut.kv.get(shared!);
  await sut.kv.atomic().delete(shared!).set(["events", "due", dueAt, "f"], value).commit();
  for (const id of ["d1", "d2"]) {
    await changeValue(sut.kv, await recordKey(sut.kv, id), { engine: { sharedEntry: "f" } });
  }
  clock.advance(LEASE_MS + 100);
  const found: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await sut.engine.due({ until: Date.now(), limit: 1, cursor });
    found.push(...page.events.map(({ id }) => id));
    cursor = page.cursor;
    await page.bodies;
  } while (cursor !== undefined);
  assertEquals(found, ["e", "d1", "d2", "e"]);
});

Deno.test("a shared entry is taken apart once by processes that find it together", async () => {
  using clock = new WallClock();
  await using sut = await open();
  await lease(sut.store, ["d1", "d2"]);
  clock.advance(LEASE_MS + 100);
  const options = { until: Date.now(), limit: 9 };
  const pages = await Promise.all(
    [1, 2].map(async () => (await reading(sut.kv)).engine.due(options)),
  );
  for (const { events, bodies } of pages) {
    assertEquals(events.map(({ id }) => id), ["d1", "d2"]);
    await bodies;
  }
  assertEquals((await keysOf(sut.kv, "due")).map((key) => key.at(-1)), ["d1", "d2"]);
});

Deno.test("due() with a limit of 0 reads the first time, also a later one", async () => {
  await using sut = await open();
  const nothing = { until: 0, limit: 0 };
  assertEquals((await sut.engine.due(nothing)).next, null);
  await sut.store.accept(delivery("d1"));
  await makeDue(sut.kv, "d1", 5e12);
  const { events, next } = await sut.engine.due(nothing);
  assertEquals([events, next], [[], 5e12]);
});

Deno.test("group() reads a part of a group", async () => {
  await using sut = await open();
  for (const id of ["a", "b", "c", "d", "e"]) await sut.store.accept(delivery(id, "{}", "key"));
  const { group } = (await sut.store.get("a"))!;
  const at = group!.position;
  await changeValue(sut.kv, await recordKey(sut.kv, "e"), { group: null });
  await sut.kv.delete(await recordKey(sut.kv, "b"));
  await damage(sut.kv, (await keysOf(sut.kv, "place"))[2]!);
  const all = await sut.engine.group(group!.key, { from: 0, limit: 9 });
  assertEquals([all.next, all.joinedAt], [at + 5, undefined]);
  assertEquals(await groupSize(sut.kv, group!.key), 5);
  const found = all.members.map(({ position, event }) => [position - at, event?.record?.id]);
  assertEquals(found, [[0, "a"], [1, undefined], [2, undefined], [3, "d"], [4, undefined]]);
  assertEquals(all.members[1]!.event, undefined);
  assertEquals(all.members[2]!.event?.record, undefined);
  assert(all.members[2]!.event !== undefined);
  const part = await sut.engine.group(group!.key, { from: at + 1, limit: 1 });
  assertEquals(part.members, [{ position: at + 1, event: undefined }]);
  assertEquals(await sut.engine.group("none", { from: 0, limit: 9 }), {
    ...{ next: 0, places: 1, joinedAt: undefined, members: [] },
  });
});

Deno.test("only the positions of a group are read if no more is asked for", async () => {
  await using sut = await open();
  for (const id of ["a", "b", "c"]) await sut.store.accept(delivery(id, "{}", "key"));
  const { position } = (await sut.store.get("a"))!.group!;
  const counts = countReads(sut.kv);
  const { members } = await sut.engine.group("key", { from: 0, limit: 2, onlyPositions: true });
  assertEquals(members, [0, 1].map((i) => ({ position: position + i, event: undefined })));
  assertEquals(counts.records, 0);
});

Deno.test("scan() goes on behind a place", async () => {
  await using sut = await open();
  for (const id of ["a", "b", "c", "d"]) await sut.store.accept(delivery(id));
  const scans: Omit<Scan, "after">[] = [
    ...[{ filter: {} }, { filter: {}, isNewestFirst: true }, { filter: { ids: ["a", "b", "c"] } }],
    ...[{ filter: { state: "queued" } as const, isLimited: true }, { filter: {}, onlyOpen: true }],
  ];
  for (const scan of scans) {
    const all = await Array.fromAsync(sut.engine.scan(scan));
    const ids = all.map(({ event }) => event?.record?.id);
    assertEquals(ids.length, scan.filter.ids ? 3 : 4);
    const rest = await Array.fromAsync(sut.engine.scan({ ...scan, after: all[1]!.place }));
    assertEquals(rest.map(({ event }) => event?.record?.id), ids.slice(2));
    assertEquals(all[1]!.reachedAt, all[1]!.event?.record?.receivedAt);
  }
});

Deno.test("scan() goes through the dead by their index, and yields what cannot be read", async () => {
  await using sut = await open();
  await buryAll(sut.store, ["d1", "d2"]);
  await sut.store.accept(delivery("d3"));
  const key = await recordKey(sut.kv, "d2");
  await changeValue(sut.kv, key, { id: "other" });
  const [first, second, ...rest] = await Array.fromAsync(
    sut.engine.scan({ filter: { state: "dead" } }),
  );
  assertEquals([first?.event?.record?.id, rest], ["d1", []]);
  const { id, record } = second!.event as { id: string; record: undefined };
  assertEquals([id, record], ["d2", undefined]);
});

Deno.test("scan() refuses a place that is none", async () => {
  await using sut = await open();
  for (const after of ["x", "queued:5", "queued:[1,0]"]) {
    assertThrows(() => sut.engine.scan({ filter: {}, after }), TypeError, "'cursor' must be");
  }
});

Deno.test("count() counts the open and the dead", async () => {
  await using sut = await open();
  await oneOfEach(sut.store);
  const { oldestDueAt, ...counts } = await sut.engine.count(9);
  const [none, one] = [{ count: 0, isMore: false }, { count: 1, isMore: false }];
  assertEquals(counts, { queued: one, running: one, parked: none, dead: one });
  assertEquals(oldestDueAt, (await sut.store.get("queued"))!.dueAt);
});

Deno.test("a payload that was uploaded is read back once an event names it", async () => {
  await using sut = await open();
  const { engine, parts, kv } = sut;
  const body = new Uint8Array(engine.limits.bodyBytes + 1).fill(7);
  const ref = { id: "p1", size: body.byteLength };
  await engine.upload(ref, body);
  const of = { id: "d1", receivedAt: 1 };
  assertEquals(await engine.payload(ref, of), body);
  const write = new Write();
  assert(parts.uploads.take(write, ref));
  assert(await parts.commits.commit(write));
  assertEquals(await keysOf(kv, "upload"), []);
  await kv.delete(["events", "payload", "p1", 12]);
  assertEquals((await engine.payload(ref, of)).byteLength, body.byteLength - 1);
});

Deno.test("an upload that was deleted becomes no event's payload", async () => {
  await using sut = await open();
  const { engine, parts, kv } = sut;
  const body = new Uint8Array(engine.limits.bodyBytes + 1);
  const ref = { id: "p1", size: body.byteLength };
  await engine.upload(ref, body);
  const write = new Write();
  assert(parts.uploads.take(write, ref));
  assertEquals(await engine.tidy({ uploadsOlderThanMs: 1_000 }), {
    times: 0,
    groups: 0,
    uploads: 0,
  });
  assertEquals(await engine.tidy({ uploadsOlderThanMs: -1 }), { times: 0, groups: 0, uploads: 1 });
  assertEquals(await parts.commits.commit(write), null);
  assertEquals(parts.uploads.take(new Write(), ref), false);
  assertEquals([...await keysOf(kv, "payload"), ...await keysOf(kv, "upload")], []);
});

Deno.test("payload() finds a payload in the record of its event", async () => {
  await using sut = await open();
  const leases = await lease(sut.store, ["d1", "d2"]);
  const { record } = leases[0]!;
  assertEquals(notesOf(record).holdsPayload, true);
  assertEquals(text(await sut.engine.payload(record.payload!, record)), `{"a":1}`);
  const [, second] = leases;
  await sut.store.renew(second!, LEASE_MS);
  assertEquals(text(await sut.engine.payload(second!.record.payload!, second!.record)), `{"a":1}`);
});

Deno.test("tidy() repairs times and groups", async () => {
  await using sut = await open();
  using clock = new WallClock();
  clock.advance(3_600_000);
  await sut.store.accept(delivery("d1"));
  clock.advance(-3_600_000);
  await sut.store.accept(delivery("d2", "{}", "key"));
  await claimOne(sut.store);
  for (const key of await keysOf(sut.kv, "lane")) await sut.kv.delete(key);
  assertEquals(await sut.engine.tidy({}), { times: 0, groups: 0, uploads: 0 });
  assertEquals(await sut.engine.tidy({ times: { reads: Infinity, corrected } }), {
    times: 1,
    groups: 0,
    uploads: 0,
  });
  assertEquals(await sut.engine.tidy({ groups: true }), { times: 0, groups: 1, uploads: 0 });
});

Deno.test("check() puts back what nothing leads to", async () => {
  await using sut = await open();
  await sut.store.accept(delivery("d1"));
  for (const key of await keysOf(sut.kv, "due")) await sut.kv.delete(key);
  const pages = await Array.fromAsync(sut.engine.check({ discard: false, foundAgain }));
  assertEquals(pages.flatMap(({ findings }) => findings), [{ is: "put_back", eventId: "d1" }]);
  assertEquals(await keysOf(sut.kv, "checked"), []);
  assertEquals((await claimAll(sut.store)).length, 1);
});

Deno.test("engines on the same events have the same place", async () => {
  await using sut = await open();
  await using other = await memoryStore();
  const { place } = sut.engine;
  assert((await reading(sut.kv)).engine.place === place);
  assert((await reading(sut.kv, "others")).engine.place !== place);
  assert((await reading(other.kv)).engine.place !== place);
});
