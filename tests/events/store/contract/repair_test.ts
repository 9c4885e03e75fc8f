import { assert, assertEquals, assertLessOrEqual } from "@std/assert";
import type { EventStore, Lease } from "../../../../events/mod.ts";
import { FakeTime } from "@std/testing/time";
import { claimAll, claimOne, delivery, idsOf, later } from "../_events.ts";
import { ahead } from "../_tidying.ts";
import { repairGroups, repairTimes } from "../_tidying.ts";
import { testStore, testStoreInOneProcess, testStoreOnce } from "./_contract.ts";

const MINUTE_MS = 60_000;

testStoreOnce("tidy() makes an event due that a clock ahead has received", async (sut) => {
  await ahead(MINUTE_MS, () => sut.store.accept(delivery("d1")));
  assertEquals(await claimAll(sut.store), []);
  assertEquals(await repairTimes(sut.store), 1);
  assertEquals(idsOf(await claimAll(sut.store)), ["d1"]);
});

testStoreOnce("tidy() leaves a lease alone that is longer than its worker's own", async (sut) => {
  await sut.store.accept(delivery("d1"));
  const lease = await claimOne(sut.store, 7_200_000);
  assertEquals(await repairTimes(sut.store), 0);
  assertEquals(await claimAll(sut.store), []);
  assert(await sut.store.complete(lease));
});

testStoreOnce(
  "tidy() shortens a lease to its length, and its holder finds it again",
  async (sut) => {
    const lease = await ahead(600_000, async () => {
      await sut.store.accept(delivery("d1"));
      return await claimOne(sut.store, MINUTE_MS);
    });
    assertEquals(await repairTimes(sut.store), 1);
    const { lease: repaired } = (await sut.store.get("d1"))!;
    assert(repaired!.until <= Date.now() + MINUTE_MS);
    assertEquals(await sut.store.renew(lease, MINUTE_MS), null);
    assert(await sut.store.complete((await sut.store.recover(lease))!));
  },
);

const AHEAD_MS = 75 * MINUTE_MS;

const dueInMs = async (store: EventStore, id: string) => (await store.get(id))!.dueAt! - Date.now();

testStoreInOneProcess(
  "tidy() has a retry wait for its own delay that a clock ahead has scheduled",
  async ({ store }) => {
    const { id } = await ahead(AHEAD_MS, async () => {
      const accepted = await store.accept(delivery());
      await store.retry(await claimOne(store), 2_000, "no");
      return accepted;
    });
    assertEquals(await store.oldestDueAt(), null);
    assertEquals(await repairTimes(store), 1);
    assertLessOrEqual(await dueInMs(store, id), 2_000);
    assertEquals(await repairTimes(store), 0);
  },
);

testStoreOnce("tidy() leaves a retry alone that is not due", async (sut) => {
  await sut.store.accept(delivery());
  await sut.store.retry(await claimOne(sut.store), AHEAD_MS, "no");
  assertEquals(await repairTimes(sut.store), 0);
});

testStoreOnce(
  "tidy() leaves what another machine has scheduled whose clock is right to a second",
  async (sut) => {
    await ahead(900, async () => {
      await sut.store.accept(delivery());
      await claimOne(sut.store);
      await sut.store.accept(delivery());
    });
    assertEquals(await repairTimes(sut.store), 0);
  },
);

testStoreInOneProcess(
  "the next of a key does not wait for what a clock ahead has noted",
  async ({ store }) => {
    await ahead(AHEAD_MS, async () => {
      for (let i = 0; i < 3; i++) await store.accept(delivery(undefined, "{}", "key"));
      await store.complete(await claimOne(store));
    });
    assertEquals(await repairTimes(store), 1);
    await store.complete(await claimOne(store));
    await store.complete(await claimOne(store));
  },
);

testStoreInOneProcess(
  "an event that was cancelled by a clock ahead keeps its key for its lease at most",
  async ({ store }) => {
    const { id } = await ahead(AHEAD_MS, async () => {
      const accepted = await store.accept(delivery(undefined, "{}", "key"));
      await claimOne(store, 20);
      await store.cancel(accepted.id);
      return accepted;
    });
    const other = await store.accept(delivery(undefined, "{}", "key"));
    assertEquals(await repairTimes(store), 1);
    assertLessOrEqual(await dueInMs(store, id), 20);
    await later(30);
    await claimAll(store);
    assertEquals((await store.get(id))?.outcome, "cancelled");
    assertLessOrEqual(await dueInMs(store, other.id), 30_000);
    assertEquals(await repairTimes(store), 0);
  },
);

testStore("recover() finds no lease that was released, and taken again", async ({ store }) => {
  await store.accept(delivery("d1"));
  const released = await claimOne(store);
  assert(await store.release(released));
  await later(2);
  const held = await claimOne(store);
  assertEquals(await store.recover(released), null);
  assert(await store.complete((await store.recover(held))!));
});

testStore("recover() finds no lease that another has", async ({ store }) => {
  await store.accept(delivery("d1"));
  const lost = await claimOne(store, 1);
  await new Promise((resolve) => setTimeout(resolve, 5));
  const held = await claimOne(store);
  assertEquals(await store.recover(lost), null);
  assertEquals((await store.recover(held))?.version, held.version);
  await store.complete(held);
  assertEquals(await store.recover(held), null);
});

async function completeNext(store: EventStore, id: string): Promise<void> {
  const lease = await claimOne(store);
  assertEquals(lease.record.id, id);
  assert(await store.complete(lease));
}

testStoreInOneProcess(
  "a record that can be read again has kept its position in its ordering group",
  async ({ damages, place }) => {
    const store = await place.open({ log: () => {} });
    for (const id of ["d1", "d2"]) await store.accept(delivery(id, "{}", "key"));
    const restore = await damages.spoil("event", "d1");
    assertEquals(await claimAll(store), []);
    for (const id of ["d3", "d4"]) await store.accept(delivery(id, "{}", "key"));
    assertEquals([await repairGroups(store), await claimAll(store)], [0, []]);
    await restore();
    await damages.makeDue("d1");
    for (const id of ["d1", "d2", "d3", "d4"]) await completeNext(store, id);
    assertEquals((await place.contents()).positions, 0);
  },
  {},
  "damages",
);

testStoreOnce(
  "any number of records that cannot be read hold their key until they are purged",
  async ({ damages, place }) => {
    const store = await place.open({ log: () => {} });
    const ids = Array.from({ length: 120 }, (_, i) => `d${i}`);
    for (const id of [...ids, "last"]) await store.accept(delivery(id, "{}", "key"));
    for (const id of ids) await damages.spoil("event", id);
    for (let i = 0; i < 3; i++) assertEquals(await claimAll(store), []);
    assertEquals((await store.purge({ state: "unreadable" })).changed, ids.length);
    // A commit passes over some of them, and the next claim goes on.
    const leases = [];
    for (let i = 0; i < 4; i++) leases.push(...await claimAll(store));
    assertEquals(idsOf(leases), ["last"]);
    assert(await store.complete(leases[0]!));
    assertEquals((await place.contents()).positions, 0);
  },
  {},
  "damages",
);

/** Claims while the clock is set back by a second, after the schedule was read. */
async function claimMeanwhile(store: EventStore): Promise<Lease[]> {
  const { now } = Date;
  let calls = 0;
  Date.now = () => calls++ === 0 ? now() : now() - 1_000;
  try {
    return await claimAll(store);
  } finally {
    Date.now = now;
  }
}

testStoreInOneProcess(
  "a clock that is set back during a claim leaves no event behind",
  async ({ store }) => {
    const leased = async (id: string) => {
      const leases = [...await claimMeanwhile(store), ...await claimAll(store)];
      assertEquals(leases.map(({ record }) => record.id), [id]);
      return leases[0]!;
    };
    await store.accept(delivery("plain"));
    await store.complete(await leased("plain"));
    await store.accept({ ...delivery("quiet", "{}", "key"), quietMs: 1 });
    await later(5);
    await store.complete(await leased("quiet"));
    const { id } = await store.emit("jobs", "item", {}, { id: "a", delayMs: 1, group: "key" });
    await later(5);
    await store.complete(await leased(id));
    await store.accept(delivery("retried"));
    await store.retry(await leased("retried"), 1, new Error("no"));
    await later(5);
    await store.complete(await leased("retried"));
    await store.accept(delivery("parked"));
    await store.park(await leased("parked"), { name: "name", timeoutMs: 1 });
    await later(5);
    await store.complete(await leased("parked"));
    await store.accept(delivery("expired"));
    await claimAll(store, 1);
    await later(5);
    await store.complete(await leased("expired"));
  },
);

testStoreOnce("tidy() with a limit finds each wrong time, sooner or later", async ({ store }) => {
  for (let i = 1; i <= 30; i++) await store.emit("jobs", "later", {}, { delayMs: i * MINUTE_MS });
  await ahead(25.5 * MINUTE_MS, () => store.accept(delivery("near")));
  await ahead(90 * MINUTE_MS, () => store.accept(delivery("far")));
  let repaired = 0;
  for (let i = 0; i < 4; i++) repaired += await repairTimes(store, 10);
  assertEquals(repaired, 2);
  assertEquals(idsOf(await claimAll(store)).toSorted(), ["far", "near"]);
});

testStoreOnce("tidy() with a limit passes any number of events of one time", async ({ store }) => {
  const start = Date.now();
  {
    using _ahead = new FakeTime(start + 2 * MINUTE_MS);
    await store.accept(delivery("d1"));
  }
  using _clock = new FakeTime(start);
  for (let i = 0; i < 25; i++) await store.emit("jobs", "later", {}, { delayMs: MINUTE_MS });
  assertEquals(await repairTimes(store, 3) + await repairTimes(store, 3), 1);
});
