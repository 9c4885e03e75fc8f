import { assert, assertEquals, assertRejects } from "@std/assert";
import {
  accepted,
  joined,
  leased,
  movedUp,
  redelivered,
  replayed,
} from "../../../../events/store/arrival.ts";
import {
  type Applied,
  type CellChange,
  type Change,
  type Due,
  type Leave,
  type Put,
  type Stored,
  TooLargeError,
  type Turn,
  type Unreadable,
} from "../../../../events/store/engine.ts";
import type { EventRecord } from "../../../../events/store/event_record.ts";
import { notesOf, PART_BYTES } from "../../../../events/store/kv/_layout.ts";
import { type KvEngine, openKvEngine } from "../../../../events/store/kv/kv_engine.ts";
import { encodeValue } from "../../../../events/store/kv/value_codec.ts";
import { buried, completed, settledWith } from "../../../../events/store/settlement.ts";
import { delivery } from "../_events.ts";
import { limitChecks } from "./_commits.ts";
import { expiringKv } from "./_expiring_kv.ts";
import { groupSize } from "./_values.ts";

/** An engine on a KV of its own. */
async function openEngine(): Promise<Disposable & { engine: KvEngine; kv: Deno.Kv }> {
  const kv = await Deno.openKv(":memory:");
  const engine = await openKvEngine(kv, { notifier: "watch" });
  return { engine, kv, [Symbol.dispose]: () => kv.close() };
}

function work(change: Omit<Change<Deno.AtomicOperation>, "urgency">) {
  return { ...change, urgency: "work" } as const;
}

type Opened = Awaited<ReturnType<typeof openEngine>>;

const REQUEST = { owner: "w", leaseMs: 30_000 };

/** Makes the record of a new event, and its payload. */
function newEvent(id: string, bytes = 10) {
  const body = new Uint8Array(bytes).fill(7);
  const payload = { id: `${Date.now().toString(36)}-${crypto.randomUUID()}`, size: bytes };
  return { body, record: accepted(delivery(id), id, payload, Date.now()) };
}

/** Makes the put of a new event, leased in the commit that stores it if wanted. */
function newPut(id: string, { isLeased = false, bytes = 10 } = {}): Put {
  const { body, record } = newEvent(id, bytes);
  return {
    before: { id, must: "absent" },
    after: ({ now }) => isLeased ? leased(record, REQUEST, now) : record,
    body,
  };
}

/** Applies a change that must be made, and returns the first event that it has written. */
async function write({ engine }: Opened, ...puts: Put[]): Promise<Stored> {
  const applied = await engine.apply({ puts, urgency: "intake" });
  assert(applied.ok);
  return applied.written[0]!;
}

/** Changes an event. */
function change(
  { engine }: Opened,
  before: Stored,
  after: ((record: EventRecord, now: number) => EventRecord) | null,
  rest: Omit<Change<Deno.AtomicOperation>, "puts" | "urgency"> & Partial<Put> = {},
): Promise<Applied> {
  const put = { before, after: after && (({ now }: { now: number }) => after(before.record, now)) };
  const leave = { head: movedUp };
  return engine.apply(work({ leave, ...rest, puts: [{ ...rest, ...put } as Put] }));
}

/** Stores events at the end of a group, one after the other. */
async function joinGroup(opened: Opened, ids: readonly string[], fields?: Partial<EventRecord>) {
  const events: Stored[] = [];
  for (const id of ids) events.push(await write(opened, joiningPut(id, fields)));
  return events;
}

function joiningPut(id: string, fields?: Partial<EventRecord>): Put {
  const { record, body } = newEvent(id);
  return {
    before: { id, must: "absent" },
    after: ({ group, hasPlace }) => joined({ ...record, ...fields }, "g", group!, hasPlace!),
    body,
    joins: "g",
  };
}

/** Reads the group, with positions counted from that of an event. */
async function membersOf({ engine, kv }: Opened, first?: Stored) {
  const size = await groupSize(kv, "g");
  const { next, members } = await engine.group("g", { from: 0, limit: 100 });
  const from = positionOf(first);
  const ids = members.map(({ position, event }) => `${position - from} ${event?.record?.id}`);
  return { next: next === 0 ? 0 : next - from, size, ids };
}

function positionOf(event: Stored | undefined): number {
  return event?.record.group?.position ?? 0;
}

/** Makes an engine whose KV takes few checks, and whether it has taken commits meanwhile. */
async function openRemote(max = 10) {
  const opened = await openEngine();
  limitChecks(opened.kv, max);
  return opened;
}

function chosenPuts(ids: readonly string[]): Put[] {
  return ids.map((id) => ({ ...newPut(id), before: { id, must: "skip" } }));
}

/** Leaves out what is not stored of an event, and its payload. */
function plain(event: Stored | Unreadable | null | undefined) {
  return JSON.parse(JSON.stringify({ ...event, body: undefined }));
}

async function keysIn({ kv }: Opened): Promise<string[]> {
  const keys = [];
  for await (const { key: [, ...rest] } of kv.list({ prefix: [] })) {
    if (rest[0] !== "commit" && rest[0] !== "notifier") keys.push(rest.join("/"));
  }
  return keys;
}

async function readDue({ engine }: Opened, until = Date.now()) {
  return (await engine.due({ until, limit: 10 })).events;
}

function setCells({ engine }: { engine: KvEngine }, ...cells: CellChange[]): Promise<Applied> {
  return engine.apply(work({ cells }));
}

Deno.test("a cell is set, read and deleted", async () => {
  using opened = await openEngine();
  const key = ["state", "forge", "a"] as const;
  const set = await setCells(opened, { key, version: null, after: { n: 1 } });
  const [cell] = await opened.engine.cells([key]);
  assertEquals(cell, { key, value: { n: 1 }, version: set.ok ? set.version : "" });
  await setCells(opened, { key, version: cell!.version, after: null });
  assertEquals(await opened.engine.cells([key]), [{ key, value: null, version: null }]);
});

Deno.test("a change is refused if a cell has another version", async () => {
  using opened = await openEngine();
  const key = ["cron", "nightly"] as const;
  await setCells(opened, { key, after: 1 });
  const other = { key: ["cron", "other"], after: 2 } as const;
  const refused = await setCells(opened, { key, version: null, after: 2 }, other);
  assertEquals(refused, { ok: false, why: "cell" });
  assertEquals((await opened.engine.cells([other.key]))[0]!.value, null);
});

Deno.test("of two changes that want the same bytes in a key to be new, one is made", async () => {
  using opened = await openEngine();
  const claim = () =>
    setCells(opened, {
      key: ["content", "forge", new Uint8Array([1, 2])],
      version: null,
      after: 1,
    });
  const made = await Promise.all([claim(), claim()]);
  assertEquals(made.map(({ ok }) => ok).sort(), [false, true]);
});

Deno.test("a sum is added to, taken from and set", async () => {
  using opened = await openEngine();
  const key = ["keptBytes"] as const;
  const read = async () => (await opened.engine.cells([key]))[0]!.value;
  await opened.engine.apply(work({ sums: [{ key, by: 5 }, { key, by: -7 }] }));
  assertEquals(await read(), -2);
  await opened.engine.apply(work({ sums: [{ key, to: 9 }] }));
  assertEquals(await read(), 9);
});

Deno.test("cells are listed in the order of their keys", async () => {
  using opened = await openEngine();
  const keys = [1, 2, 10, 20].map((at) => ["kept", at, "id"] as const);
  await setCells(opened, ...keys.map((key) => ({ key, after: key[1] })));
  await setCells(opened, { key: ["state", "", "x"], after: 1 });
  const listed = async (options?: Parameters<KvEngine["list"]>[1]) =>
    (await Array.fromAsync(opened.engine.list(["kept"], options))).map(({ value }) => value);
  assertEquals(await listed(), [1, 2, 10, 20]);
  assertEquals(await listed({ from: ["kept", 2], before: ["kept", 20] }), [2, 10]);
  assertEquals(await listed({ before: ["kept", 10, "id"], isReverse: true }), [2, 1]);
  assertEquals(await listed({ from: ["kept", 10], atOnce: 1 }), [10, 20]);
});

Deno.test("a new event is found by its id and when it is due, with its payload", async () => {
  using opened = await openEngine();
  const stored = await write(opened, newPut("a"));
  const [found] = await opened.engine.get(["a"]);
  assertEquals(plain(found), plain(stored));
  const [due] = await readDue(opened);
  assertEquals([due!.id, due!.at, due!.event], ["a", stored.record.dueAt, found]);
  const payload = await opened.engine.payload(stored.record.payload!, stored.record);
  assertEquals(payload, new Uint8Array(10).fill(7));
});

Deno.test("a new event is refused if its id is known, and the other event is returned", async () => {
  using opened = await openEngine();
  const found = await write(opened, newPut("a"));
  const other = { key: ["cron", "x"], after: 1 } as const;
  const refused = await opened.engine.apply(work({ puts: [newPut("a")], cells: [other] }));
  assertEquals(refused.ok || [refused.why, plain(refused.found)], ["id", plain(found)]);
  assertEquals((await opened.engine.cells([other.key]))[0]!.value, null);
});

Deno.test("of new events with the same id that come together one is stored", async () => {
  using opened = await openEngine();
  const applied = await Promise.all(
    ["a", "b", "a"].map((id) =>
      opened.engine.apply({ puts: [newPut(id, { isLeased: true })], urgency: "intake" })
    ),
  );
  assertEquals(applied.map(({ ok }) => ok), [true, true, false]);
});

Deno.test("an id whose event is gone is free", async () => {
  using opened = await openEngine();
  const { record } = await write(opened, newPut("a"));
  await opened.kv.delete(["events", "event", record.receivedAt, "a"]);
  await write(opened, newPut("a"));
  assertEquals((await opened.engine.get(["a"])).length, 1);
});

Deno.test("an event from another store is refused if its record is here, although its id is forgotten", async () => {
  using opened = await openEngine();
  const { record, body } = await write(opened, newPut("a"));
  await opened.kv.delete(["events", "id", "a"]);
  const again: Put = { before: { id: "a", must: "absent" }, after: () => record, body };
  const later = { ...again, after: () => ({ ...record, receivedAt: record.receivedAt - 5 }) };
  const refused = await opened.engine.apply(work({ puts: [again] }));
  assertEquals(refused.ok || [refused.why, refused.found?.version.length], ["id", 20]);
  assert((await opened.engine.apply(work({ puts: [later] }))).ok);
});

Deno.test("a change is refused if the event has another version, which is returned", async () => {
  using opened = await openEngine();
  const first = await write(opened, newPut("a"));
  const made = await change(opened, first, (record, now) => leased(record, REQUEST, now));
  const refused = await change(opened, first, (record, now) => buried(record, "no", now));
  const found = made.ok && plain(made.written[0]);
  assertEquals(refused.ok || [refused.why, plain(refused.found)], ["event", found]);
});

Deno.test("events that are leased in one commit share a schedule entry until they change", async () => {
  using opened = await openEngine();
  const puts = ["a", "b"].map((id) => newPut(id, { isLeased: true }));
  const [a, b] = await Promise.all(puts.map((put) => write(opened, put)));
  assertEquals(await keysIn(opened).then((keys) => keys.filter((key) => /^due/.test(key))), [
    `due/${a!.record.dueAt}/${notesOf(a!.record).sharedEntry}`,
  ]);
  assertEquals([notesOf(a!.record).holdsPayload, b!.version], [true, a!.version]);
  const settled = await Promise.all([a!, b!].map((each) => change(opened, each, completed)));
  assertEquals(settled.map(({ ok }) => ok), [true, true]);
  await opened.engine.apply(work({ cells: [{ key: ["x"], after: 1 }] }));
  const left = await keysIn(opened);
  assertEquals(left.filter((key) => /^(due|payload)/.test(key)), []);
});

Deno.test("a payload is taken out of its record when the event is changed", async () => {
  using opened = await openEngine();
  const stored = await write(opened, newPut("a", { isLeased: true }));
  const { record, version } = stored;
  const renewed = (record: EventRecord) => ({ ...record, requestId: "renewed" });
  // Also if the caller has forgotten the payload.
  const made = await change(opened, { record, version }, renewed);
  assert(made.ok);
  assertEquals(notesOf(made.written[0]!.record).holdsPayload, undefined);
  assertEquals((await opened.engine.payload(record.payload!, record)).byteLength, 10);
});

Deno.test("a deleted event leaves nothing behind, in whichever state it was", async () => {
  using opened = await openEngine();
  const lease = (record: EventRecord, now: number) => leased(record, REQUEST, now);
  const done = await write(opened, newPut("done", { isLeased: true }));
  const settled = await change(opened, done, completed);
  const dead = await change(
    opened,
    await write(opened, newPut("dead", { bytes: 200_000 })),
    (record, now) => buried(record, "no", now),
  );
  const running = await change(opened, await write(opened, newPut("running")), lease);
  const queued = await write(opened, newPut("queued", { bytes: 100_000 }));
  for (const made of [settled, dead, running]) {
    assert(made.ok);
    assert((await change(opened, made.written[0]!, null)).ok);
  }
  const deleted = await change(opened, queued, null);
  assertEquals(deleted.ok && deleted.written, [null]);
  assertEquals(await keysIn(opened), []);
});

Deno.test("an unreadable event is deleted with what is left of it", async () => {
  using opened = await openEngine();
  const { record } = await write(opened, newPut("a", { bytes: 100_000 }));
  const key = ["events", "event", record.receivedAt, "a"];
  const { value } = await opened.kv.get<Uint8Array>(key);
  const text = new TextDecoder("latin1").decode(value!).replace('"queued"', '"weirdo"');
  await opened.kv.set(key, Uint8Array.from(text, (char) => char.charCodeAt(0)));
  const [before] = await opened.engine.get(["a"]);
  assertEquals(before!.record, undefined);
  assert((await opened.engine.apply(work({ puts: [{ before: before!, after: null }] }))).ok);
  // Its schedule entry is not known, and is taken off once it is due.
  assertEquals(await keysIn(opened), [`due/${record.dueAt}/a`]);
});

Deno.test("a dead event is replaced by a delivery, and a done one is put back with a payload", async () => {
  using opened = await openEngine();
  const first = await write(opened, newPut("a", { bytes: 100_000 }));
  const dead = await change(opened, first, (record, now) => buried(record, "no", now));
  assert(dead.ok);
  const { record, body } = newEvent("a");
  const fresh = { ...record, receivedAt: record.receivedAt + 1 };
  const again = await change(opened, dead.written[0]!, (before) => redelivered(fresh, before), {
    body,
  });
  assert(again.ok);
  const keep = again.written[0]!.record.payload!;
  const done = await change(opened, again.written[0]!, completed, { keeps: keep });
  assert(done.ok);
  assertEquals((await keysIn(opened)).filter((key) => /^payload/.test(key)).length, 1);
  const back = await change(
    opened,
    done.written[0]!,
    (before, now) => replayed(before, now, { payload: keep }),
  );
  assert(back.ok);
  assert((await change(opened, back.written[0]!, null)).ok);
  assertEquals(await keysIn(opened), []);
});

Deno.test("a settled event is not opened again if its id is another's by now", async () => {
  using opened = await openEngine();
  const done = await change(opened, await write(opened, newPut("a")), completed);
  assert(done.ok);
  await opened.kv.delete(["events", "id", "a"]);
  const later = newEvent("a");
  const receivedAt = later.record.receivedAt + 1;
  const other = { ...newPut("a"), after: () => ({ ...later.record, receivedAt }) };
  const { version } = await write(opened, other);
  const refused = await change(
    opened,
    done.written[0]!,
    (record, now) => replayed(record, now, { payload: null }),
  );
  assertEquals(refused.ok || [refused.why, refused.found?.version], ["id", version]);
});

Deno.test("a done event is forgotten with its id after a time, and stays if none is given", async () => {
  const expiring = await expiringKv();
  using opened = {
    ...{ engine: await openKvEngine(expiring.kv, { notifier: "watch" }), kv: expiring.kv },
    [Symbol.dispose]: () => expiring.kv.close(),
  };
  const forMs = 60_000;
  for (const [id, ofId, ofDone] of [["a", forMs, forMs], ["b", undefined, undefined]] as const) {
    const stored = await write(opened, { ...newPut(id, { isLeased: true }), forMs: ofId });
    assertEquals(notesOf(stored.record).idKept, ofId === undefined ? true : undefined);
    assert((await change(opened, stored, completed, { forMs: ofDone })).ok);
  }
  const idsLeft = async () => (await keysIn(opened)).filter((key) => key.startsWith("id/"));
  await expiring.pass(forMs);
  assertEquals((await opened.engine.get(["a", "b"])).map((event) => event?.record?.id), [
    undefined,
    "b",
  ]);
  await expiring.pass(400 * 86_400_000);
  assertEquals(await idsLeft(), ["id/b"]);
  await expiring.end();
});

Deno.test("a change is refused if the payload that was uploaded for it has been deleted", async () => {
  using opened = await openEngine();
  const { record, body } = newEvent("a", 800_000);
  await opened.engine.upload(record.payload!, body);
  await opened.engine.tidy({ uploadsOlderThanMs: -1 });
  const put = { before: { id: "a", must: "absent" }, after: () => record } as const;
  const applied = await opened.engine.apply({ puts: [put], urgency: "intake" });
  assertEquals(applied.ok || applied.why, "payload");
});

Deno.test("a payload that was in its record is kept in a part of its own", async () => {
  using opened = await openEngine();
  const stored = await write(opened, newPut("a", { isLeased: true }));
  const keeps = stored.record.payload!;
  assertEquals(notesOf(stored.record).holdsPayload, true);
  const done = await change(opened, stored, completed, { keeps });
  assert(done.ok);
  const [{ record }] = done.written as [Stored];
  assertEquals((await opened.engine.payload(keeps, record)).byteLength, 10);
  await opened.engine.apply(work({ drops: [keeps] }));
  assertEquals((await opened.engine.payload(keeps, record)).byteLength, 0);
});

Deno.test("effects are in the commit, and a change is refused if they throw", async () => {
  using opened = await openEngine();
  const stored = await write(opened, newPut("a"));
  const error = new Error("no");
  const effects = () => {
    throw error;
  };
  assertEquals(await change(opened, stored, completed, { effects }), {
    ok: false,
    why: "effects",
    error,
  });
  const key = ["mine"];
  assert((await change(opened, stored, completed, { effects: (tx) => tx.set(key, 1) })).ok);
  assertEquals((await opened.kv.get(key)).value, 1);
});

Deno.test("a change is refused if a check among its effects does not hold, or they change keys of the store", async () => {
  using opened = await openEngine();
  const stored = await write(opened, newPut("a"));
  const check = { key: ["mine"], versionstamp: "0".repeat(20) };
  for (
    const effects of [
      (tx: Deno.AtomicOperation) => tx.check(check),
      (tx: Deno.AtomicOperation) => tx.set(["events", "x"], 1),
      (tx: Deno.AtomicOperation) => tx.sum(["text"], 1n),
    ]
  ) {
    await opened.kv.set(["text"], "text");
    const refused = await change(opened, stored, completed, { effects });
    assertEquals(refused.ok || refused.why, "effects");
  }
});

Deno.test("a change that is too large is told from others", async () => {
  using opened = await openEngine();
  const stored = await write(opened, newPut("a"));
  const large = (record: EventRecord) => ({ ...record, requestId: "x".repeat(70_000) });
  await assertRejects(() => change(opened, stored, large), TooLargeError, "too large");
});

Deno.test("a change is refused if an event that must be unchanged was changed", async () => {
  using opened = await openEngine();
  const [a, b] = [await write(opened, newPut("a")), await write(opened, newPut("b"))];
  assert((await change(opened, a, completed, { unchanged: [b] })).ok);
  const refused = await change(opened, b, completed, { unchanged: [a] });
  assertEquals(refused.ok || [refused.why, refused.found?.record?.state], ["event", "done"]);
});

Deno.test("what has led to an event goes with its change", async () => {
  using opened = await openEngine();
  const stored = await write(opened, newPut("a"));
  const { receivedAt } = stored.record;
  const stray = { receivedAt, group: null, delayMs: 0 };
  await opened.kv.set(["events", "due", 5, "a"], encodeValue(stray));
  const [via] = await readDue(opened);
  assertEquals(via!.at, 5);
  assert((await change(opened, stored, completed, { via })).ok);
  assertEquals(await readDue(opened), []);
});

Deno.test("many events are put by one change", async () => {
  using opened = await openEngine();
  const ids = Array.from({ length: 200 }, (_, i) => `a${i}`);
  const puts = ids.map((id): Put => ({ ...newPut(id), before: { id, must: "free" } }));
  const applied = await opened.engine.apply(work({ puts }));
  assertEquals(applied.ok && applied.written.map((event) => event!.record.id), ids);
  assertEquals((await keysIn(opened)).length, 600);
});

Deno.test("events join the end of a group, of which the first one is due", async () => {
  using opened = await openEngine();
  const [first, second] = await joinGroup(opened, ["a", "b"]);
  assertEquals(await membersOf(opened, first), { next: 2, size: 2, ids: ["0 a", "1 b"] });
  assertEquals([first!.record.dueAt === null, second!.record.dueAt], [false, null]);
  assertEquals((await readDue(opened)).map(({ id }) => id), ["a"]);
  const [b] = await opened.engine.get(["b"]);
  assertEquals((await opened.engine.payload(b!.record!.payload!, b!.record!)).byteLength, 10);
});

Deno.test("events that join at the same time share commits, and one whose id is known is refused", async () => {
  using opened = await openEngine();
  const [first] = await joinGroup(opened, ["a"]);
  const applied = await Promise.all(
    ["b", "a", "c"].map((id) => opened.engine.apply({ puts: [joiningPut(id)], urgency: "intake" })),
  );
  const versions = applied.map((each) => each.ok ? each.version : each.found?.record?.id);
  assertEquals(versions, [versions[0], "a", versions[0]]);
  assertEquals(await membersOf(opened, first), { next: 3, size: 3, ids: ["0 a", "1 b", "2 c"] });
});

Deno.test("what stands beside an event that joins is in the same commit, or refuses it", async () => {
  using opened = await openEngine();
  const key = ["cron", "x"] as const;
  const join = () =>
    opened.engine.apply(
      work({ puts: [joiningPut("a")], cells: [{ key, version: null, after: 1 }] }),
    );
  await setCells(opened, { key, after: 0 });
  assertEquals(await join(), { ok: false, why: "cell" });
  assertEquals((await membersOf(opened)).size, 0);
  await setCells(opened, { key, after: null });
  assert((await join()).ok);
  assertEquals((await opened.engine.cells([key]))[0]!.value, 1);
});

Deno.test("a stored event joins a group, and takes its payload out of its record", async () => {
  using opened = await openEngine();
  const { body, record } = newEvent("a");
  const puts: Put[] = [{ before: { id: "a", must: "free" }, after: () => record, body }];
  const applied = await opened.engine.apply(work({ puts }));
  assert(applied.ok);
  const [before] = applied.written as [Stored];
  assertEquals(notesOf(before.record).holdsPayload, true);
  const after: Put["after"] = ({ group, hasPlace }) =>
    joined(before.record, "g", group!, hasPlace!);
  const joins = await opened.engine.apply(work({ puts: [{ before, after, joins: "g" }] }));
  assert(joins.ok);
  assertEquals((await opened.engine.payload(record.payload!, record)).byteLength, 10);
});

Deno.test("the next event of a group is due once the first one has left it", async () => {
  using opened = await openEngine();
  const [first] = await joinGroup(opened, ["a", "b", "c"]);
  const settled = await change(opened, first!, completed);
  assert(settled.ok);
  assertEquals(settled.head?.record.id, "b");
  assertEquals((await readDue(opened)).map(({ id }) => id), ["b"]);
  assertEquals((await membersOf(opened, first)).ids, ["1 b", "2 c"]);
});

Deno.test("the next event of a group is leased by the change that makes it due", async () => {
  using opened = await openEngine();
  const [first] = await joinGroup(opened, ["a", "b"]);
  const head: Leave["head"] = (record, now, at) => leased(movedUp(record, now, at)!, REQUEST, now);
  const settled = await change(opened, first!, completed, { leave: { head } });
  assert(settled.ok);
  assertEquals(settled.head?.record.state, "running");
  assert((await change(opened, settled.head!, completed)).ok);
  assertEquals(await membersOf(opened), { next: 0, size: 0, ids: [] });
  assertEquals((await keysIn(opened)).filter((key) => /^(due|lane|place|payload)/.test(key)), []);
});

Deno.test("an event that is not the first one leaves its group as well, and one is deleted in its group", async () => {
  using opened = await openEngine();
  const [first, second, third] = await joinGroup(opened, ["a", "b", "c"]);
  assert((await change(opened, second!, (record, now) => buried(record, "no", now))).ok);
  assert((await change(opened, first!, null)).ok);
  assertEquals(await membersOf(opened, first), { next: 3, size: 1, ids: ["2 c"] });
  assertEquals((await readDue(opened)).map(({ id }) => id), [third!.record.id]);
});

Deno.test("members of a batch leave their group together with the first event", async () => {
  using opened = await openEngine();
  const [first] = await joinGroup(opened, ["a", "b", "c", "d"]);
  const puts = (
    id: string,
  ): Put[] => [{ ...newPut(`report ${id}`), before: { id: `report ${id}`, must: "free" } }];
  const now = Date.now();
  const leave = {
    ...{ through: positionOf(first) + 2, head: movedUp },
    member: (record: EventRecord) => ({
      after: settledWith(record, completed(first!.record, now)),
      puts: puts(record.id),
      cells: [{ key: ["cron", record.id] as const, after: 1 }],
    }),
  };
  const settled = await change(opened, first!, (record) => completed(record, now), { leave });
  assert(settled.ok);
  assertEquals([settled.head?.record.id, settled.written.length], ["d", 1]);
  const states = (await opened.engine.get(["a", "b", "c", "d", "report b", "report c"]))
    .map((event) => event!.record!.state);
  assertEquals(states, ["done", "done", "done", "queued", "queued", "queued"]);
  assertEquals(await membersOf(opened, first), { next: 4, size: 1, ids: ["3 d"] });
  assertEquals((await keysIn(opened)).filter((key) => /^payload/.test(key)).length, 1);
});

Deno.test("members that do not fit one commit leave their group in commits ahead", async () => {
  using opened = await openEngine();
  const ids = Array.from({ length: 40 }, (_, i) => `a${i}`);
  const [first] = await joinGroup(opened, ids);
  const dead = { ...buried(first!.record, "no", Date.now()), progress: ["x".repeat(30_000)] };
  const member = (record: EventRecord) => ({ after: settledWith(record, dead) });
  const leave = { through: positionOf(first) + 39, member, head: movedUp };
  const settled = await change(opened, first!, () => dead, { leave });
  assert(settled.ok);
  assertEquals(await membersOf(opened), { next: 0, size: 0, ids: [] });
  const events = await opened.engine.get(ids);
  assert(events.every((event) => event?.record?.state === "dead"));
  const versions = [...new Set(events.map((event) => event!.version))];
  assertEquals([versions.length > 1, events.at(-1)!.version], [true, events[0]!.version]);
});

Deno.test("nothing leaves a group ahead if the first event has another version", async () => {
  using opened = await openEngine();
  const ids = Array.from({ length: 40 }, (_, i) => `a${i}`);
  const [first] = await joinGroup(opened, ids);
  await change(opened, first!, (record) => ({ ...record, requestId: "other" }));
  const dead = { ...buried(first!.record, "no", Date.now()), progress: ["x".repeat(30_000)] };
  const member = (record: EventRecord) => ({ after: settledWith(record, dead) });
  const refused = await change(opened, first!, () => dead, {
    leave: { through: positionOf(first) + 39, member, head: movedUp },
  });
  assertEquals(refused.ok || [refused.why, refused.found?.record?.requestId], ["event", "other"]);
  assertEquals((await membersOf(opened)).size, 40);
});

Deno.test("a change leaves out new events whose ids are known", async () => {
  using opened = await openEngine();
  const stored = await write(opened, newPut("b"));
  const puts = chosenPuts(["a", "b", "c", "a"]);
  const applied = await opened.engine.apply(work({ puts }));
  assertEquals(applied.ok && applied.written.map((each) => each?.record.id), [
    "a",
    undefined,
    "c",
    undefined,
  ]);
  assertEquals((await opened.engine.get(["b"]))[0]!.version, stored.version);
});

Deno.test("ids that the caller chose are taken in turn if a KV does not check all of them", async () => {
  using opened = await openRemote();
  const before = await write(opened, newPut("parent"));
  const ids = Array.from({ length: 30 }, (_, i) => `a${i}`);
  const puts = [{ before, after: () => before.record }, ...chosenPuts(ids)];
  const applied = await opened.engine.apply(work({ puts }));
  assertEquals(applied.ok && applied.written.map((each) => each?.record.id), ["parent", ...ids]);
});

Deno.test("of changes that take the same ids at the same time each stores some", async () => {
  using opened = await openRemote();
  const ids = Array.from({ length: 20 }, (_, i) => `a${i}`);
  const few = { puts: [...chosenPuts(["a3"])] };
  const applied = await Promise.all(
    [{ puts: chosenPuts(ids) }, few, { puts: chosenPuts(ids) }].map((each) =>
      opened.engine.apply(work(each))
    ),
  );
  const written = applied.flatMap((each) => each.ok ? each.written : []);
  assertEquals(written.flatMap((each) => each?.record.id ?? []).sort(), ids.sort());
});

Deno.test("a change that has waited for its turn is asked again if its event has another version", async () => {
  using opened = await openRemote();
  const before = await write(opened, newPut("parent"));
  const changed = await change(opened, before, (record) => ({ ...record, requestId: "other" }));
  assert(changed.ok);
  const ids = Array.from({ length: 30 }, (_, i) => `a${i}`);
  const apply = (again: Turn["again"]) => {
    const puts = [{ before, after: () => before.record }, ...chosenPuts(ids)];
    return opened.engine.apply(work({ puts, turn: { withinMs: 10_000, again } }));
  };
  const refused = await apply(() => null);
  assertEquals(refused.ok || refused.why, "event");
  const applied = await apply((now) => ({
    before: now,
    after: () => ({ ...now.record, attempt: 7 }),
  }));
  const parent = applied.ok && applied.written[0]!.record;
  assertEquals(parent && [parent.requestId, parent.attempt], ["other", 7]);
});

Deno.test("an event is moved in the schedule, unless what has led to it has changed", async () => {
  using opened = await openEngine();
  const { record } = await write(opened, newPut("a"));
  const [via] = await readDue(opened);
  const move = (afterMs: number | null, via?: Due) =>
    opened.engine.apply(work({ moves: [{ event: record, afterMs, via }] }));
  assert((await move(60_000, via)).ok);
  assertEquals(await readDue(opened), []);
  assertEquals(await move(null, via), { ok: false, why: "via" });
  const [later] = await readDue(opened, Infinity);
  assert((await move(null, later)).ok);
  assertEquals(await readDue(opened, Infinity), []);
});

Deno.test("an event leaves its group by a move", async () => {
  using opened = await openEngine();
  await joinGroup(opened, ["a", "b"]);
  const [via] = await readDue(opened);
  const move = { event: via!, afterMs: 60_000, via, leavesGroup: true };
  assert((await opened.engine.apply(work({ moves: [move], leave: { head: movedUp } }))).ok);
  assertEquals((await readDue(opened)).map(({ id }) => id), ["b"]);
});

Deno.test("limits tell how many events of a group fit the commit that settles them", async () => {
  using opened = await openEngine();
  const events = await joinGroup(opened, ["a", "b", "c", "d"]);
  const records = events.map(({ record }) => record);
  const { together } = opened.engine.limits;
  assertEquals([together(records), together(records.slice(0, 1)), together([])], [4, 1, 0]);
  const large = { ...records[2]!, requestId: "x".repeat(240_000) };
  assertEquals(together([records[0]!, records[1]!, large]), 2);
  const many = { ...records[2]!, payload: { id: "p".repeat(60), size: 900 * PART_BYTES } };
  assertEquals(together([records[0]!, records[1]!, many]), 2);
  assertEquals(together([records[0]!, { ...records[1]!, engine: undefined }]), 1);
});
