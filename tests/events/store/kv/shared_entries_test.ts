import { assert, assertEquals, assertRejects } from "@std/assert";
import { type EventStore, type Lease, openEventStore } from "../../../../events/mod.ts";
import { until } from "../../../../dev/harness/until.ts";
import { WallClock } from "../../../_wall_clock.ts";
import { delivery, idsOf } from "../_events.ts";
import { keysOf, recordKey } from "./_keys.ts";
import { memoryStore, type StoreUnderTest, testStoreInOneProcess } from "./_stores.ts";
import { setNewer, setValue, valueAt } from "./_values.ts";
import { notesOf } from "../../../../events/store/kv/_layout.ts";

const IDS = ["d1", "d2", "d3", "d4", "d5"];

/** Longer than a loaded machine takes for the commits of a test. Its end comes by the test's clock. */
const LEASE_MS = 20_000;

/** Longest time that a test waits for a condition: a loaded machine takes its time. */
const PATIENCE_MS = 60_000;

interface Taken {
  readonly leases: Lease[];
  readonly due: () => Promise<Deno.KvKey[]>;
}

/** Has deliveries taken, all in one commit, as a worker of the same process does. */
async function take(
  { kv, store }: StoreUnderTest,
  ids: readonly string[] = IDS,
  leaseMs = 30_000,
): Promise<Taken> {
  const leases: Lease[] = [];
  const reservation = { owner: "worker", leaseMs, cancel: () => {} };
  const reserve = () => ({ ...reservation, take: (lease: Lease) => void leases.push(lease) });
  store.listen({ wake: () => {}, reserve }).catch(() => {});
  await Promise.all(ids.map((id) => store.accept(delivery(id, `{"id":"${id}"}`))));
  assertEquals(idsOf(leases).toSorted(), [...ids]);
  return { leases, due: () => keysOf(kv, "due") };
}

/** Takes over whatever is due, as a worker of another process does. */
function takeOver(store: EventStore, limit = 100): Promise<Lease[]> {
  return store.claim({ limit, owner: "other", leaseMs: 30_000 });
}

const textOf = async (store: EventStore, lease: Lease) =>
  new TextDecoder().decode(await store.load(lease));

testStoreInOneProcess("events taken together share an entry until all are settled", async (sut) => {
  const { leases, due } = await take(sut);
  // A remote KV refuses the first commit, which has more checks than it takes.
  assert((await due()).length <= 2);
  for (const lease of leases) assert(await sut.store.complete(lease));
  // What is emptied by commits that are under way together is deleted with the next.
  await sut.store.accept(delivery("next"));
  await until(async () => (await due()).length === 1, PATIENCE_MS);
  assertEquals((await due()).map((key) => key.at(-1)), ["next"]);
  assertEquals(await keysOf(sut.kv, "payload"), []);
  assertEquals(await sut.store.stats(), {
    ...{ done: 5, running: 1, queued: 0, parked: 0, dead: 0, unreadable: 0 },
    ...{ dueLater: 0, oldestWaitingAt: null },
  });
});

testStoreInOneProcess("events settled in one commit delete the entry they share", async (sut) => {
  const { leases, due } = await take(sut, ["d1", "d2", "d3"]);
  await Promise.all(leases.map((lease) => sut.store.complete(lease)));
  assertEquals(await due(), []);
});

testStoreInOneProcess("events whose process died are taken over, each once", async (sut) => {
  using clock = new WallClock();
  const { leases, due } = await take(sut, IDS, LEASE_MS);
  await sut.store.complete(leases[1]!);
  assertEquals(await takeOver(sut.store), []);
  clock.advance(LEASE_MS + 100);
  const others = await takeOver(sut.store);
  assertEquals(idsOf(others).toSorted(), ["d1", "d3", "d4", "d5"]);
  assertEquals(others.map(({ record, takenOver }) => [record.attempt, takenOver]), [
    ...Array(4).fill([2, true]),
  ]);
  assertEquals(await textOf(sut.store, others[0]!), `{"id":"${others[0]!.record.id}"}`);
  assertEquals(await sut.store.complete(leases[0]!), false);
  assertEquals((await due()).length, 1);
  for (const lease of others) assert(await sut.store.complete(lease));
  assertEquals(await due(), []);
  assertEquals(await keysOf(sut.kv, "payload"), []);
});

Deno.test("an event that is renewed, retried or given back leaves its group", async () => {
  using clock = new WallClock();
  await using sut = await memoryStore();
  const { leases, due } = await take(sut, ["d1", "d2", "d3", "d4"], LEASE_MS);
  const [renewed, retried, released, buried] = leases as [Lease, Lease, Lease, Lease];
  const held = await sut.store.renew(renewed, 30_000);
  await sut.store.retry(retried, 30_000, new Error("no"));
  await sut.store.release(released, { delayMs: 30_000 });
  await sut.store.bury(buried, new Error("no"));
  assertEquals((await due()).map((key) => key.at(-1)).toSorted(), ["d1", "d2", "d3"]);
  clock.advance(LEASE_MS + 100);
  assertEquals(await takeOver(sut.store), []);
  assertEquals(notesOf(held!.record).holdsPayload, undefined);
  assertEquals(await textOf(sut.store, held!), `{"id":"d1"}`);
  assertEquals((await keysOf(sut.kv, "payload")).length, 4);
  assert(await sut.store.complete(held!));
  assert(await sut.store.replay("d4"));
  assertEquals((await keysOf(sut.kv, "payload")).length, 3);
});

Deno.test("an event that is cancelled or noted leaves its group with its payload", async () => {
  using clock = new WallClock();
  await using sut = await memoryStore();
  const { leases } = await take(sut, ["d1", "d2", "d3"], LEASE_MS);
  const noted = await sut.store.note(leases[0]!, { is: "handler", name: "part" });
  assertEquals(await textOf(sut.store, noted!), `{"id":"d1"}`);
  assert(await sut.store.cancel("d2"));
  assertEquals(await sut.store.cancelAll({ ids: ["d3"] }), { changed: 1, left: [] });
  assertEquals((await keysOf(sut.kv, "payload")).length, 3);
  assertEquals(await sut.store.complete((await sut.store.recover(leases[2]!))!), true);
  clock.advance(LEASE_MS + 100);
  assertEquals(idsOf(await takeOver(sut.store)), ["d1"]);
  assert(await sut.store.replay("d2"));
});

Deno.test("a worker whose clock has jumped leaves the leases of a group alone", async () => {
  using clock = new WallClock();
  await using sut = await memoryStore();
  const { leases, due } = await take(sut, IDS, LEASE_MS);
  clock.advance(LEASE_MS + 100);
  const options = { limit: 100, owner: "other", leaseMs: 30_000, takeOver: false };
  assertEquals(await sut.store.claim(options), []);
  for (const lease of leases) assert(await sut.store.complete(lease));
  assertEquals(await due(), []);
  assertEquals(await takeOver(sut.store), []);
});

Deno.test("a worker whose clock has jumped and come back loses no event of a group", async () => {
  using clock = new WallClock();
  await using sut = await memoryStore();
  const { leases, due } = await take(sut, IDS, LEASE_MS);
  clock.advance(LEASE_MS + 100);
  const options = { limit: 100, owner: "other", leaseMs: 30_000, takeOver: false };
  assertEquals(await sut.store.claim(options), []);
  clock.advance(-LEASE_MS - 100);
  const [d1, d2] = leases as [Lease, Lease];
  assert(await sut.store.complete(d1));
  assert(await sut.store.renew(d2, 2 * LEASE_MS));
  assertEquals(await takeOver(sut.store), []);
  clock.advance(LEASE_MS + 100);
  const others = await takeOver(sut.store);
  assertEquals(
    idsOf(others).toSorted(),
    IDS.filter((id) => ![d1, d2].some(({ record }) => record.id === id)),
  );
  for (const lease of others) assert(await sut.store.complete(lease));
  assertEquals((await due()).map((key) => key.at(-1)), [d2.record.id]);
});

Deno.test("an event of a group that cannot be read is reported once, and put off", async () => {
  using clock = new WallClock();
  await using sut = await memoryStore();
  const records: unknown[] = [];
  const store = await openEventStore(sut.kv, {
    notifier: "watch",
    log: (record) => records.push(record.eventId),
  });
  const { due } = await take({ ...sut, store }, ["d1", "d2"], LEASE_MS);
  const key = await recordKey(sut.kv, "d1");
  const restore = await setNewer(sut.kv, key);
  clock.advance(LEASE_MS + 100);
  assertEquals(idsOf(await takeOver(store)), ["d2"]);
  assertEquals(await takeOver(store), []);
  assertEquals(records, ["d1"]);
  const postponed = (await due()).find((each) => each.at(-1) === "d1")!;
  assert(Number(postponed.at(-2)) > Date.now() + 200_000);
  // The version that can read it.
  await restore();
  assertEquals(await store.stats(), {
    ...{ running: 2, done: 0, queued: 0, parked: 0, dead: 0, unreadable: 0 },
    ...{ dueLater: 0, oldestWaitingAt: null },
  });
});

Deno.test("a payload that is a part of a larger buffer is stored without the rest of that", async () => {
  await using sut = await memoryStore();
  const { leases } = await take(sut, ["d1"]);
  const buffer = new Uint8Array(100_000).fill(32);
  new TextEncoder().encodeInto(`{"a":1}`, buffer.subarray(50_000));
  const body = buffer.subarray(50_000, 50_007);
  await sut.store.accept({ ...delivery("d2"), body });
  assertEquals(await textOf(sut.store, leases[1]!), `{"a":1}`);
  const { value } = await sut.kv.get<Uint8Array>(await recordKey(sut.kv, "d2"));
  assert(value!.byteLength < 1_000);
});

Deno.test("an event whose record has lost its payload fails, and says so", async () => {
  using clock = new WallClock();
  await using sut = await memoryStore();
  await take(sut, ["d1"], LEASE_MS);
  const key = await recordKey(sut.kv, "d1");
  await setValue(sut.kv, key, await valueAt(sut.kv, key), new Uint8Array(3));
  clock.advance(LEASE_MS + 100);
  const [lease] = await takeOver(sut.store);
  await assertRejects(() => sut.store.load(lease!), Error, "Cannot read the payload");
  assert(await sut.store.bury(lease!, new Error("no")));
});
