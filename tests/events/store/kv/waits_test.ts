import { assert, assertEquals, assertRejects } from "@std/assert";
import {
  type EventRecord,
  type EventStore,
  type Lease,
  openEventStore,
} from "../../../../events/mod.ts";
import { wakeOf } from "../../../../events/store/waits.ts";
import { claimAll, claimOne, delivery, later } from "../_events.ts";
import { keysOf, makeDue, recordKey } from "./_keys.ts";
import { testStore, testStoreInOneProcess } from "./_stores.ts";
import { repairTimes } from "../_tidying.ts";
import { changeValue, setNewer, valueAt } from "./_values.ts";

const DAY_MS = 86_400_000;

const NAME = "approval:1";

const wait = { name: NAME, timeoutMs: DAY_MS };

async function recordOf(store: EventStore, id = "d1"): Promise<EventRecord> {
  return (await store.get(id))!;
}

/** Takes an event in, and parks it. */
async function park(
  store: EventStore,
  id = "d1",
  key?: string,
  timeoutMs = DAY_MS,
): Promise<Lease> {
  await store.accept(delivery(id, "{}", key));
  const lease = await claimOne(store);
  assert(await store.park(lease, { name: NAME, timeoutMs }));
  return lease;
}

/** The result of the only wait of an event, as its value or "timed out". */
const resultOf = ({ woken = [] }: EventRecord) =>
  woken.map(({ value, timedOut }) => timedOut ? "timed out" : value);

/** Checks that nothing but records and ids is left. */
async function assertTidy(kv: Deno.Kv): Promise<void> {
  const left = ["due", "lane", "place", "waiter"].map((each) => keysOf(kv, each));
  assertEquals((await Promise.all(left)).flat(), []);
}

testStore(
  "a parked event whose time has passed is claimed without a value",
  async ({ kv, store }) => {
    await park(store, "d1", undefined, 1);
    await later(5);
    const lease = await claimOne(store);
    assertEquals(resultOf(lease.record), ["timed out"]);
    assert(await store.complete(lease));
    assertEquals(await store.wake(NAME), { outcome: "kept" });
    await kv.delete(["events", "waiter", NAME]);
    await assertTidy(kv);
  },
);

testStore(
  "an event that is woken after its time, but not claimed, gets the value",
  async ({ store }) => {
    await park(store, "d1", undefined, 1);
    await later(5);
    assertEquals((await store.wake(NAME, 1)).outcome, "woken");
    assertEquals(resultOf((await claimOne(store)).record), ["1"]);
    assertEquals(await claimAll(store), []);
  },
);

testStore(
  "of many that wake an event at once one does, and it is leased once",
  async ({ store }) => {
    await park(store);
    const woken = await Promise.all(Array.from({ length: 10 }, (_, i) => store.wake(NAME, i)));
    const outcomes = woken.map(({ outcome }) => outcome);
    assertEquals(outcomes.filter((each) => each === "woken").length, 1);
    const claims = await Promise.all(Array.from({ length: 5 }, () => claimAll(store)));
    const leases = claims.flat();
    assertEquals(leases.length, 1);
    assertEquals(resultOf(leases[0]!.record), [String(outcomes.indexOf("woken"))]);
  },
);

testStore(
  "an event whose name is woken before it is parked is due at once",
  async ({ kv, store }) => {
    await store.accept(delivery("d1", "{}", "repo"));
    await store.accept(delivery("d2", "{}", "repo"));
    const lease = await claimOne(store);
    await store.wake(NAME, 1);
    assert(await store.park(lease, wait));
    const again = await claimOne(store);
    const { id, group, attempt } = again.record;
    assertEquals([id, group?.position, attempt, resultOf(again.record)], ["d1", 0, 1, ["1"]]);
    assert(await store.complete(again));
    assert(await store.complete(await claimOne(store)));
    await assertTidy(kv);
  },
);

testStore(
  "a parked event leaves its group, and joins it when it is woken",
  async ({ kv, store }) => {
    await store.accept(delivery("d1", "{}", "repo"));
    await store.accept(delivery("d2", "{}", "repo"));
    assert(await store.park(await claimOne(store), wait));
    const second = await claimOne(store);
    assertEquals(second.record.id, "d2");
    await store.accept(delivery("d3", "{}", "repo"));
    await store.wake(NAME, 1);
    assertEquals(await claimAll(store), []);
    const { state, group, dueAt, woken } = await recordOf(store);
    assertEquals([state, group?.position, dueAt, woken?.length], ["queued", 3, null, 1]);
    const order = [];
    for (let lease = second; lease; lease = (await claimAll(store))[0]!) {
      order.push(lease.record.id);
      assert(await store.complete(lease));
    }
    assertEquals(order, ["d2", "d3", "d1"]);
    await assertTidy(kv);
  },
);

testStore(
  "the next event of a group is due once the first one is parked",
  async ({ kv, store }) => {
    await park(store, "d1", "repo");
    await assertTidyGroups(kv);
    await store.wake(NAME);
    const lease = await claimOne(store);
    assertEquals(lease.record.group, { key: "repo", position: 0 });
    assertEquals(resultOf(lease.record), [undefined]);
  },
);

async function assertTidyGroups(kv: Deno.Kv): Promise<void> {
  assertEquals([await keysOf(kv, "lane"), await keysOf(kv, "place")], [[], []]);
}

testStore(
  "a cancelled event that was woken before it was claimed is not leased",
  async ({ kv, store }) => {
    await park(store);
    await store.wake(NAME, 1);
    assert(await store.cancel("d1"));
    assertEquals(await claimAll(store), []);
    assertEquals((await recordOf(store)).state, "dead");
    await assertTidy(kv);
  },
);

testStore(
  "a lost lease wakes nothing, and neither does a cancelled event",
  async ({ kv, store }) => {
    await store.accept(delivery("d1"));
    const lease = await claimOne(store);
    assert(await store.cancel("d1"));
    const wakes = [wakeOf(NAME, 1)];
    assertEquals(await store.complete(lease, { wakes }), false);
    assert(await store.complete((await store.recover(lease))!, { wakes }));
    assertEquals(await keysOf(kv, "waiter"), []);
  },
);

testStore("the id of a parked event is kept for as long as it waits", async ({ store }) => {
  await park(store);
  assertEquals((await recordOf(store)).idKept, true);
});

testStore(
  "an event that was unreadable for a while takes the value that came meanwhile",
  async (sut) => {
    const { kv, store } = sut;
    await park(store, "d1", undefined, 1);
    const restore = await setNewer(kv, await recordKey(kv, "d1"));
    assertEquals(await store.wake(NAME, 1), { outcome: "kept" });
    await restore();
    await later(5);
    assertEquals(resultOf((await claimOne(store)).record), ["1"]);
    assertEquals(await keysOf(kv, "waiter"), []);
  },
);

testStore("an entry of a name that another version wrote is left alone", async ({ kv, store }) => {
  const key = ["events", "waiter", NAME];
  await store.wake(NAME, 1);
  const restore = await setNewer(kv, key);
  const before = await kv.get(key);
  await assertRejects(() => store.wake(NAME), Error, `Cannot wake "${NAME}": another version`);
  await store.accept(delivery("d1"));
  const lease = await claimOne(store);
  await assertRejects(() => store.park(lease, wait), Error, `Cannot wait for "${NAME}": another`);
  assertEquals(await kv.get(key), before);
  await restore();
  assertEquals(await store.park(lease, wait), true);
  assertEquals(resultOf((await claimOne(store)).record), ["1"]);
});

testStoreInOneProcess(
  "an event whose name has an entry that cannot be read stays parked, and no other",
  async ({ kv }) => {
    const store = await openEventStore(kv, { notifier: "watch", log: () => {} });
    await park(store, "d1", undefined, 1);
    const key = ["events", "waiter", NAME];
    const restore = await setNewer(kv, key);
    const before = await kv.get(key);
    await later(5);
    await store.accept(delivery("d2"));
    await store.complete(await claimOne(store));
    // It fails for itself until it is put off.
    for (let i = 0; i < 3; i++) await claimAll(store).catch(() => {});
    assertEquals(await claimAll(store), []);
    assertEquals([await kv.get(key), (await recordOf(store)).state], [before, "parked"]);
    await restore();
    await makeDue(kv, "d1");
    const lease = await claimOne(store);
    assertEquals([lease.record.id, ...resultOf(lease.record)], ["d1", "timed out"]);
  },
);

testStore(
  "a parked event whose name has lost its entry waits until its time",
  async ({ kv, store }) => {
    await park(store, "d1", undefined, 1);
    await kv.delete(["events", "waiter", NAME]);
    await later(5);
    assertEquals(resultOf((await claimOne(store)).record), ["timed out"]);
  },
);

testStore(
  "tidy() shortens a wait that a clock has made too long",
  async ({ kv, store }) => {
    await park(store);
    const key = await recordKey(kv, "d1");
    const value = await valueAt<EventRecord>(kv, key);
    const dueAt = value.dueAt! + 30 * DAY_MS;
    const waitingFor = { ...value.waitingFor!, until: dueAt };
    await makeDue(kv, "d1", dueAt);
    await changeValue(kv, key, { dueAt, waitingFor });
    assertEquals(await repairTimes(store), 1);
    const after = await recordOf(store);
    assert(after.dueAt! <= Date.now() + DAY_MS && after.waitingFor!.until === after.dueAt);
    await store.wake(NAME, 1);
    assertEquals(resultOf((await claimOne(store)).record), ["1"]);
  },
);

const circle: { self?: unknown } = {};

circle.self = circle;

/** Lists what answers() does, without its functions. */
const answersOf = async (store: EventStore) =>
  (await Array.fromAsync(store.answers())).map(({ name, value, eventId }) => ({
    name,
    value,
    eventId,
  }));

testStore("answers() passes over what it cannot read", async ({ kv, store }) => {
  for (const name of ["a", "b", "c"]) await store.wake(name, name);
  const [first, second] = await keysOf(kv, "waiter");
  await setNewer(kv, first!);
  await changeValue(kv, second!, { value: "{" });
  assertEquals((await answersOf(store)).map(({ name, value }) => [name, value]), [
    ["b", undefined],
    ["c", "c"],
  ]);
});
