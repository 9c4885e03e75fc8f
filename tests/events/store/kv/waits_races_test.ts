/** Two that change the wait for one name at the same time: between the reading of one and its commit. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { type EventRecord, type EventStore, openEventStore } from "../../../../events/mod.ts";
import { wakeOf } from "../../../../events/store/waits.ts";
import { changedKv, failingOnce, withOperations } from "../../../../dev/harness/faulty_kv.ts";
import { claimAll, claimOne, delivery, later } from "../_events.ts";
import { keysOf } from "./_keys.ts";
import { memoryStore, type StoreUnderTest } from "./_stores.ts";

const NAME = "approval:1";

const wait = { name: NAME, timeoutMs: 60_000 };

const options = { notifier: "watch", log: () => {} } as const;

/** Opens the store as another process does, and lets something happen once it has read the name. */
async function racing(
  { kv }: StoreUnderTest,
  meanwhile: () => Promise<unknown>,
): Promise<EventStore> {
  let isArmed = true;
  const getMany = async (keys: readonly Deno.KvKey[]) => {
    const entries = await kv.getMany(keys);
    const isMet = isArmed && keys.some((key) => key[1] === "waiter");
    if (isMet) isArmed = false;
    if (isMet) await meanwhile();
    return entries;
  };
  return await openEventStore(changedKv(kv, { getMany }), options);
}

async function park({ store }: StoreUnderTest, timeoutMs = 60_000, key?: string): Promise<void> {
  await store.accept(delivery("d1", "{}", key));
  assert(await store.park(await claimOne(store), { name: NAME, timeoutMs }));
}

const resultsOf = ({ woken = [] }: EventRecord) =>
  woken.map(({ value, timedOut }) => timedOut ? "timed out" : value);

/** Claims the event, and returns its results. */
async function resultOf(store: EventStore): Promise<unknown> {
  return resultsOf((await claimOne(store)).record);
}

for (const key of [undefined, "repo"]) {
  const where = key === undefined ? "" : ", in an ordering group";

  Deno.test(`a settlement that wakes comes second to a wake${where}`, async () => {
    await using sut = await memoryStore();
    const { store } = sut;
    await park(sut);
    const other = await racing(sut, () => store.wake(NAME, "first"));
    await store.accept(delivery("d2", "{}", key));
    assert(await other.complete(await claimOne(store), { wakes: [wakeOf(NAME, "second")] }));
    assertEquals(await resultOf(store), ['"first"']);
    assertEquals((await store.get("d2"))?.state, "done");
  });

  Deno.test(`a name that is woken while its event is parked makes that due at once${where}`, async () => {
    await using sut = await memoryStore();
    const { store } = sut;
    const other = await racing(sut, () => store.wake(NAME, 1));
    await store.accept(delivery("d1", "{}", key));
    assert(await other.park(await claimOne(store), wait));
    const { state, attempt, group } = (await store.get("d1"))!;
    assertEquals([state, attempt, group?.key], ["queued", 0, key]);
    assertEquals(await resultOf(store), ["1"]);
    assertEquals(await keysOf(sut.kv, "waiter"), []);
  });

  Deno.test(`an event that is woken while its time ends has one result${where}`, async () => {
    await using sut = await memoryStore();
    const { store } = sut;
    await park(sut, 1, key);
    await later(5);
    const other = await racing(sut, () => store.wake(NAME, 1));
    assertEquals(await claimAll(other), []);
    assertEquals(await resultOf(store), ["1"]);
    assertEquals(await claimAll(store), []);
  });

  Deno.test(`a wake that comes second to the end of the time is kept${where}`, async () => {
    await using sut = await memoryStore();
    const { store } = sut;
    await park(sut, 1, key);
    await later(5);
    const results: unknown[] = [];
    const other = await racing(sut, async () => results.push(await resultOf(store)));
    assertEquals(await other.wake(NAME, 1), { outcome: "kept" });
    assertEquals(results, [["timed out"]]);
  });

  Deno.test(`an event that is cancelled while it is woken is dead, and not leased${where}`, async () => {
    await using sut = await memoryStore();
    const { store } = sut;
    await park(sut, 60_000, key);
    const other = await racing(sut, () => store.wake(NAME, 1));
    assert(await other.cancel("d1"));
    assertEquals(await claimAll(store), []);
    assertEquals((await store.get("d1"))?.outcome, "cancelled");
    assertEquals(await keysOf(sut.kv, "waiter"), []);
  });

  Deno.test(`a wake that comes second to a cancellation is kept${where}`, async () => {
    await using sut = await memoryStore();
    const { store } = sut;
    await park(sut, 60_000, key);
    const other = await racing(sut, () => store.cancel("d1"));
    assertEquals(await other.wake(NAME, 1), { outcome: "kept" });
    assertEquals(await claimAll(store), []);
  });

  Deno.test(`a name that another event has begun to wait for is refused${where}`, async () => {
    await using sut = await memoryStore();
    const { store } = sut;
    const leases: Awaited<ReturnType<typeof claimAll>> = [];
    const other = await racing(sut, () => store.park(leases[1]!, wait));
    await store.accept(delivery("d1", "{}", key));
    await store.accept(delivery("d2"));
    leases.push(...await claimAll(store));
    leases.sort((a, b) => a.record.id < b.record.id ? -1 : 1);
    await assertRejects(() => other.park(leases[0]!, wait), Error, "event d2 waits for it already");
    assert(await store.complete(leases[0]!));
  });
}

Deno.test("an early value is taken by one of two events", async () => {
  await using sut = await memoryStore();
  const { store } = sut;
  await store.wake(NAME, 1);
  for (const id of ["d1", "d2"]) await store.accept(delivery(id));
  const [first, second] = await claimAll(store);
  const other = await racing(sut, () => store.takeWake(second!, NAME));
  assertEquals(await other.takeWake(first!, NAME), first);
  assertEquals(resultsOf((await store.recover(second!))!.record), ["1"]);
});

for (const isTaken of [true, false]) {
  Deno.test(`a name is woken once if the commit is repeated${isTaken ? ", after it was taken" : ""}`, async () => {
    await using sut = await memoryStore();
    const { store } = sut;
    await park(sut);
    const commit = (operation: Deno.AtomicOperation) => {
      const commit = operation.commit.bind(operation);
      operation.commit = async () => {
        await commit();
        if (isTaken) assertEquals(await resultOf(store), ["true"]);
        return await commit();
      };
    };
    const other = await openEventStore(withOperations(sut.kv, commit), options);
    assertEquals(await other.wake(NAME, true), { outcome: "woken", eventId: "d1" });
    if (!isTaken) assertEquals(await resultOf(store), ["true"]);
    assertEquals(await Array.fromAsync(store.answers()), []);
  });
}

Deno.test("a value is kept once if the commit is repeated, and another one comes late", async () => {
  await using sut = await memoryStore();
  const { kv, arm } = failingOnce(sut.kv, "repeated");
  const other = await openEventStore(kv, options);
  arm();
  assertEquals(await other.wake(NAME, 1), { outcome: "kept" });
  assertEquals(await other.wake(NAME, 2), { outcome: "late" });
});
