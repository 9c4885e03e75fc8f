import { assert, assertEquals } from "@std/assert";
import { type EventRecord, type EventStore, openEventStore } from "../../../events/mod.ts";
import { changedKv } from "../../../dev/harness/faulty_kv.ts";
import {
  assertNothingWaits,
  claimAll,
  claimOne,
  delivery,
  drain,
  keysOf,
  later,
  recordKey,
} from "./_events.ts";
import { testStore } from "./_stores.ts";
import { repairGroups, repairTimes } from "./_tidying.ts";
import { changeValue, setValue, valueAt } from "./_values.ts";

interface Sut {
  readonly kv: Deno.Kv;
  readonly store: EventStore;
}

/** Stores an event that joins its group only when it is claimed. */
async function storeLater(
  { kv, store }: Sut,
  id: string,
  key: string,
  delayMs = 0,
): Promise<void> {
  await store.accept(delivery(id));
  const recordAt = await recordKey(kv, id);
  const { receivedAt, dueAt: before } = await valueAt<EventRecord>(kv, recordAt);
  const dueAt = before! + delayMs;
  await changeValue(kv, recordAt, { orderingKey: key, joinsLater: true, dueAt, delayMs });
  await kv.delete(["events", "due", before!, id]);
  await setValue(kv, ["events", "due", dueAt, id], { receivedAt, group: null, delayMs });
}

async function recordOf(store: EventStore, id: string): Promise<EventRecord> {
  return (await store.get(id))!;
}

testStore("an event that joins later leaves its group free until it is due", async (sut) => {
  await storeLater(sut, "reminder", "repo", 60_000);
  await sut.store.accept(delivery("push", "{}", "repo"));
  assertEquals(await drain(sut.store), ["push"]);
  assertEquals((await recordOf(sut.store, "reminder")).state, "queued");
});

testStore("an event that joins later is leased with the first position", async (sut) => {
  const { kv, store } = sut;
  await storeLater(sut, "reminder", "repo");
  const lease = await claimOne(store);
  assertEquals(lease.record.group, { key: "repo", position: 0 });
  assertEquals(lease.record.joinsLater, undefined);
  await store.accept(delivery("push", "{}", "repo"));
  assertEquals(await claimAll(store), []);
  assert(await store.complete(lease));
  assertEquals(await drain(store), ["push"]);
  await assertNothingWaits(kv);
});

testStore("an event that joins later waits at the end of a group in use", async (sut) => {
  const { kv, store } = sut;
  await store.accept(delivery("d1", "{}", "repo"));
  const first = await claimOne(store);
  await store.accept(delivery("d2", "{}", "repo"));
  await storeLater(sut, "reminder", "repo");
  assertEquals(await claimAll(store), []);
  const { group, joinsLater, dueAt, state } = await recordOf(store, "reminder");
  assertEquals({ group, joinsLater, dueAt, state }, {
    ...{ group: { key: "repo", position: 2 }, joinsLater: undefined, dueAt: null, state: "queued" },
  });
  await store.accept(delivery("d3", "{}", "repo"));
  assert(await store.complete(first));
  assertEquals(await drain(store), ["d2", "reminder", "d3"]);
  await assertNothingWaits(kv);
});

testStore("events that join a group in the same claim keep their order", async (sut) => {
  const ids = Array.from({ length: 12 }, (_, i) => `r${String(i).padStart(2, "0")}`);
  for (const [i, id] of ids.entries()) await storeLater(sut, id, "repo", i);
  await later(20);
  assertEquals(await drain(sut.store), ids);
  await assertNothingWaits(sut.kv);
});

testStore("events that join a group beside deliveries are all handled", async (sut) => {
  const { kv, store } = sut;
  const ids = Array.from({ length: 10 }, (_, i) => `r${i}`);
  for (const id of ids) await storeLater(sut, id, "repo");
  const accepting = ids.map((id) => store.accept(delivery(`d${id}`, "{}", "repo")));
  const order = await drain(store);
  await Promise.all(accepting);
  order.push(...await drain(store));
  assertEquals(order.toSorted(), [...ids.map((id) => `d${id}`), ...ids]);
  await assertNothingWaits(kv);
});

testStore("an event that joins later can be cancelled, replayed and purged", async (sut) => {
  const { kv, store } = sut;
  await storeLater(sut, "reminder", "repo", 60_000);
  assert(await store.cancel("reminder"));
  await store.accept(delivery("push", "{}", "repo"));
  assert(await store.replay("reminder"));
  assertEquals((await recordOf(store, "reminder")).group, { key: "repo", position: 1 });
  assertEquals(await drain(store), ["push", "reminder"]);
  assertEquals((await store.purge({})).changed, 2);
  await assertNothingWaits(kv);
});

testStore("an event that joins later waits for its planned delay", async (sut) => {
  const { store } = sut;
  await storeLater(sut, "reminder", "repo", 60_000);
  assertEquals(await repairTimes(store), 0);
  assertEquals(await repairGroups(store), 0);
  assertEquals((await recordOf(store, "reminder")).joinsLater, true);
});

testStore("an event that joins later by a clock that was ahead is brought forward", async (sut) => {
  const { kv, store } = sut;
  await storeLater(sut, "reminder", "repo", 60_000);
  const key = await recordKey(kv, "reminder");
  const [due] = await keysOf(kv, "due");
  await changeValue(kv, key, { delayMs: 0 });
  await changeValue(kv, due!, { delayMs: 0 });
  assertEquals(await repairTimes(store), 1);
  assertEquals((await claimOne(store)).record.group, { key: "repo", position: 0 });
});

testStore("an event that joins later and is put off keeps its position", async (sut) => {
  const { store } = sut;
  await storeLater(sut, "reminder", "repo");
  await store.release(await claimOne(store), { delayMs: 60_000 });
  await store.accept(delivery("push", "{}", "repo"));
  assertEquals(await claimAll(store), []);
});

Deno.test("an event that joins later is tried again if its group changes meanwhile", async () => {
  using kv = await Deno.openKv(":memory:");
  const other = await openEventStore(kv, { notifier: "watch" });
  await storeLater({ kv, store: other }, "reminder", "repo");
  let isFirst = true;
  const slow = changedKv(kv, {
    async get(...args: Parameters<Deno.Kv["get"]>) {
      const entry = await kv.get(...args);
      if (args[0][1] === "lane" && isFirst) {
        isFirst = false;
        await other.accept(delivery("push", "{}", "repo"));
      }
      return entry;
    },
  });
  const store = await openEventStore(slow, { notifier: "watch" });
  assertEquals(await claimAll(store), []);
  assertEquals((await recordOf(store, "reminder")).group, { key: "repo", position: 1 });
  assertEquals(await drain(store), ["push", "reminder"]);
});
