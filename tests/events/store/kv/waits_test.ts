import { assert, assertEquals, assertRejects } from "@std/assert";
import { type EventRecord, openEventStore } from "../../../../events/mod.ts";
import { DAY_MS, NAME, park, recordOf, resultOf, wait } from "../_parking.ts";
import { claimAll, claimOne, delivery, later } from "../_events.ts";
import { answersOf } from "../_parking.ts";
import { keysOf, makeDue, recordKey } from "./_keys.ts";
import { repairTimes } from "../_tidying.ts";
import { changeValue, setNewer, valueAt } from "./_values.ts";
import { testInMemory, testStore } from "./_stores.ts";
import { notesOf } from "../../../../events/store/kv/_layout.ts";

testStore("the id of a parked event is kept for as long as it waits", async ({ store }) => {
  await park(store);
  assertEquals(notesOf(await recordOf(store)).idKept, true);
});

testInMemory(
  "an entry of a name that another version wrote is left alone",
  async ({ kv, store }) => {
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
  },
);

testInMemory(
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

testInMemory("answers() passes over what it cannot read", async ({ kv, store }) => {
  for (const name of ["a", "b", "c"]) await store.wake(name, name);
  const [first, second] = await keysOf(kv, "waiter");
  await setNewer(kv, first!);
  await changeValue(kv, second!, { value: "{" });
  assertEquals((await answersOf(store)).map(({ name, value }) => [name, value]), [
    ["b", undefined],
    ["c", "c"],
  ]);
});
