/** Changes that outlast their turn, are overtaken, or have their turn among others. */
import { assert, assertEquals } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { changedKv, withOperations } from "../../../../dev/harness/faulty_kv.ts";
import { until } from "../../../../dev/harness/until.ts";
import { type EventStore, openEventStore, type Reservation } from "../../../../events/mod.ts";
import { acceptTogether, claimed } from "../_batching.ts";
import { claimOne, delivery } from "../_events.ts";
import { memoryStore } from "./_stores.ts";

const OPTIONS = { notifier: "watch", log: () => {} } as const;

/** Gives a store a worker with room, and counts what becomes of the room. */
function workerOf(store: EventStore): { reserved: number; taken: number; cancelled: number } {
  const counts = { reserved: 0, taken: 0, cancelled: 0 };
  const room: Reservation = {
    ...{ owner: "worker", leaseMs: 30_000 },
    take: () => void counts.taken++,
    cancel: () => void counts.cancelled++,
  };
  const reserve = () => {
    counts.reserved++;
    return room;
  };
  store.listen({ wake: () => {}, reserve }).catch(() => {});
  return counts;
}

Deno.test("a settlement that outlasts its turn holds no room for the next event of its group", async () => {
  await using sut = await memoryStore();
  const hold: { until?: Promise<void> } = {};
  const slow = changedKv(sut.kv, {
    getMany: async (...keys: Parameters<Deno.Kv["getMany"]>) => {
      await hold.until;
      return await sut.kv.getMany(...keys);
    },
  });
  const store = await openEventStore(slow, OPTIONS);
  for (const id of ["d1", "d2"]) await store.accept(delivery(id, "{}", "key"));
  const lease = await claimOne(store);
  const counts = workerOf(store);
  const { promise, resolve } = Promise.withResolvers<void>();
  hold.until = promise;
  {
    using time = new FakeTime();
    let isKnown: boolean | undefined;
    store.complete(lease).then(() => isKnown = true, () => isKnown = false);
    while (isKnown === undefined) await time.tickAsync(500);
    assertEquals(isKnown, false);
  }
  resolve();
  await until(async () => (await sut.store.get("d1"))!.state === "done", 5_000);
  assertEquals(counts, { reserved: 0, taken: 0, cancelled: 0 });
  assertEquals((await sut.store.get("d2"))!.state, "queued");
});

Deno.test("a batch that dies in parts keeps all attempts if another event joins meanwhile", async () => {
  await using sut = await memoryStore();
  let isArmed = false;
  const racing = withOperations(sut.kv, (operation) => {
    const commit = operation.commit.bind(operation);
    operation.commit = async () => {
      const joins = isArmed;
      isArmed = false;
      if (joins) await sut.store.accept(delivery("late", "{}", "key"));
      return await commit();
    };
  });
  const store = await openEventStore(racing, OPTIONS);
  await acceptTogether(sut.store, Array.from({ length: 30 }, (_, i) => `e${i}`));
  let lease = await claimed(sut.store);
  for (let i = 0; i < 32; i++) {
    lease = (await sut.store.note(lease, { is: "handler", name: `${i}`.padEnd(1_000, "x") }))!;
  }
  for (let i = 0; i < 3; i++) {
    await sut.store.retry(lease, 0, `try ${i}`);
    lease = await claimed(sut.store);
  }
  isArmed = true;
  assert(await store.bury(lease, "no"));
  assertEquals((await sut.store.get(lease.record.id))!.attempts.length, 4);
});

Deno.test("a settlement that has its turn among many ids waits for no company", async () => {
  await using sut = await memoryStore();
  await sut.store.accept(delivery("d1"));
  const lease = await claimOne(sut.store);
  const event = { source: "s", type: "t", payload: {}, body: new Uint8Array(2), delayMs: 0 };
  const emits = Array.from({ length: 150 }, (_, i) => ({ ...event, id: `${i}` }));
  using _time = new FakeTime();
  assert(await sut.store.complete(lease, { emits, withinMs: 4_000 }));
});

Deno.test("a replay waits for its group for longer than the sender of a delivery would", async () => {
  await using sut = await memoryStore();
  const hold: { until?: Promise<void> } = {};
  const slow = withOperations(sut.kv, (operation) => {
    const commit = operation.commit.bind(operation);
    operation.commit = async () => {
      await hold.until;
      return await commit();
    };
  });
  const store = await openEventStore(slow, OPTIONS);
  await sut.store.accept(delivery("dead", "{}", "key"));
  assert(await sut.store.bury(await claimOne(sut.store), "no"));
  await sut.store.accept(delivery("d1", "{}", "key"));
  const lease = await claimOne(sut.store);
  const { promise, resolve } = Promise.withResolvers<void>();
  hold.until = promise;
  const settling = store.complete(lease);
  const replaying = store.replay("dead");
  {
    using time = new FakeTime();
    for (let ms = 0; ms < 4_800; ms += 100) await time.tickAsync(100);
  }
  resolve();
  assertEquals([await settling, await replaying], [true, true]);
});
