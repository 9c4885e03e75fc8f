import { assert, assertEquals, assertRejects } from "@std/assert";
import type { EventStore, Lease } from "../../../../events/mod.ts";
import { claimAll, claimOne, delivery, idsOf, later, listed } from "../_events.ts";
import { testStore, testStoreInOneProcess, testStoreOnce } from "./_contract.ts";

/** Cancels an event while it runs, and finds its lease again, as its worker does. */
async function cancelRunning(store: EventStore, id: string, leaseMs = 60_000): Promise<Lease> {
  await store.accept(delivery(id, "{}", "key"));
  const lease = await claimOne(store, leaseMs);
  assert(await store.cancel(id));
  assertEquals(await store.complete(lease), false);
  return (await store.recover(lease))!;
}

const stateOf = async (store: EventStore, id: string) => {
  const { state, outcome } = (await store.get(id))!;
  return `${state} ${outcome}`;
};

const ENDS: Readonly<Record<string, (store: EventStore, lease: Lease) => Promise<boolean>>> = {
  complete: (store, lease) => store.complete(lease),
  retry: (store, lease) => store.retry(lease, 0, new Error("no")),
  release: (store, lease) => store.release(lease),
  bury: (store, lease) => store.bury(lease, new Error("no")),
};

for (const [name, end] of Object.entries(ENDS)) {
  testStore(
    `${name}() settles an event as cancelled that was cancelled`,
    async ({ place, store }) => {
      const lease = await cancelRunning(store, "d1");
      assertEquals(typeof lease.record.cancelRequestedAt, "number");
      assert(await end(store, lease));
      assertEquals(await stateOf(store, "d1"), "dead cancelled");
      const { attempts } = (await store.get("d1"))!;
      assertEquals(attempts.map(({ attempt, outcome }) => [attempt, outcome]), [[1, "cancelled"]]);
      assertEquals((await place.contents()).times, 0);
      assertEquals((await place.contents()).positions, 0);
    },
  );
}

testStore("complete() of a cancelled event commits no effects", async ({ place, store }) => {
  const lease = await cancelRunning(store, "d1");
  assert(await store.complete(lease, { effects: place.effects.set("effect", 1) }));
  assertEquals(await place.effects.get("effect"), null);
});

testStore("note() refuses a cancelled event, and commits no effects", async (sut) => {
  const lease = await cancelRunning(sut.store, "d1");
  await assertRejects(
    () => sut.store.note(lease, { is: "handler", name: "a" }, sut.place.effects.set("effect", 1)),
    Error,
    "Cannot note progress: the event was cancelled",
  );
  assertEquals(await sut.place.effects.get("effect"), null);
});

testStore("renew() keeps the lease of a cancelled event, which shows it", async ({ store }) => {
  const renewed = await store.renew(await cancelRunning(store, "d1"), 60_000);
  assertEquals(typeof renewed?.record.cancelRequestedAt, "number");
  assertEquals((await store.get("d1"))?.state, "running");
});

testStore("the next of a key waits for a cancelled event to be settled", async ({ store }) => {
  const lease = await cancelRunning(store, "d1");
  await store.accept(delivery("d2", "{}", "key"));
  assertEquals(await claimAll(store), []);
  assert(await store.complete(lease));
  assertEquals(idsOf(await claimAll(store)), ["d2"]);
});

testStore("claim() settles a cancelled event whose lease has expired", async ({ store }) => {
  await store.accept(delivery("d1", "{}", "key"));
  await claimOne(store, 1);
  await store.accept(delivery("d2", "{}", "key"));
  assert(await store.cancel("d1"));
  await later(5);
  const claimed = [...await claimAll(store), ...await claimAll(store)];
  assertEquals([await stateOf(store, "d1"), idsOf(claimed)], ["dead cancelled", ["d2"]]);
});

testStore("claim() leaves a cancelled event that it may not take over", async ({ store }) => {
  await store.accept(delivery("d1"));
  await claimOne(store, 1);
  assert(await store.cancel("d1"));
  await later(5);
  const options = { limit: 10, owner: "other", leaseMs: 1_000, takeOver: false };
  assertEquals(await store.claim(options), []);
  assertEquals((await store.get("d1"))?.state, "running");
});

testStore("a cancelled event that is redelivered while it runs is a duplicate", async (sut) => {
  const lease = await cancelRunning(sut.store, "d1");
  assertEquals(await sut.store.accept(delivery("d1")), { id: "d1", duplicate: true });
  await sut.store.complete(lease);
  assertEquals(await sut.store.accept(delivery("d1")), { id: "d1", duplicate: false });
});

testStore("cancel() of a cancelled event changes nothing, until it is settled", async (sut) => {
  const lease = await cancelRunning(sut.store, "d1");
  assert(await sut.store.cancel("d1"));
  assertEquals(await sut.store.cancelAll({ ids: ["d1"] }), { changed: 0, left: ["d1"] });
  assertEquals((await sut.store.recover(lease))?.version, lease.version);
  await sut.store.complete(lease);
  assertEquals(await sut.store.cancel("d1"), false);
});

testStore("replay() puts a cancelled event back, once it is settled", async ({ store }) => {
  const lease = await cancelRunning(store, "d1");
  assertEquals(await store.replay("d1"), false);
  await store.complete(lease);
  assert(await store.replay("d1"));
  const again = await claimOne(store);
  assertEquals([again.record.cancelRequestedAt, again.record.outcome], [undefined, undefined]);
  assert(await store.complete(again));
  assertEquals(await stateOf(store, "d1"), "done handled");
});

testStore("purge() leaves a cancelled event until it is settled", async ({ store }) => {
  const lease = await cancelRunning(store, "d1");
  assertEquals(await store.purge({}), { changed: 0, left: [] });
  await store.complete(lease);
  assertEquals(await store.purge({}), { changed: 1, left: [] });
  assertEquals(await listed(store), []);
});

testStoreInOneProcess(
  "cancel() tells the listener of an event that runs, and no other",
  async (sut) => {
    const cancelled: string[] = [];
    const { store } = sut;
    store.listen({ wake: () => {}, onCancelRequested: (id) => cancelled.push(id) }).catch(() => {});
    await cancelRunning(store, "d1");
    await store.accept(delivery("d2"));
    assert(await store.cancel("d2"));
    assertEquals(cancelled, ["d1"]);
    sut.place.close();
  },
);

testStore("an event is either cancelled or done, never both", async ({ store }) => {
  for (let i = 0; i < 30; i++) {
    const id = `d${i}`;
    await store.accept(delivery(id));
    const lease = await claimOne(store);
    const settle = async () => {
      if (i % 2 === 0) await Promise.resolve();
      if (await store.complete(lease)) return;
      const recovered = await store.recover(lease);
      if (recovered) assert(await store.complete(recovered));
    };
    const [cancelled] = await Promise.all([store.cancel(id), settle()]);
    assertEquals(await stateOf(store, id), cancelled ? "dead cancelled" : "done handled");
  }
});

testStoreOnce(
  "an event that its worker took when it was stored is cancelled while it runs",
  async (sut) => {
    const { place, store } = sut;
    const leases: Lease[] = [];
    const take = (lease: Lease) => void leases.push(lease);
    const reserve = () => ({ owner: "worker", leaseMs: 30_000, take, cancel: () => {} });
    store.listen({ wake: () => {}, reserve }).catch(() => {});
    await Promise.all(["d1", "d2"].map((id) => store.accept(delivery(id))));
    assert(await store.cancel("d1"));
    for (const lease of leases) assert(await store.complete((await store.recover(lease))!));
    assertEquals([await stateOf(store, "d1"), await stateOf(store, "d2")], [
      "dead cancelled",
      "done handled",
    ]);
    assertEquals(
      new TextDecoder().decode(await store.load((await replayed(store, "d1"))!)),
      `{"a":1}`,
    );
    assertEquals((await place.contents()).times, 1);
  },
);

async function replayed(store: EventStore, id: string): Promise<Pick<Lease, "record"> | null> {
  assert(await store.replay(id));
  const record = await store.get(id);
  return record && { record };
}
