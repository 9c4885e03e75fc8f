import { assertEquals } from "@std/assert";
import { type EventRecord, type EventStore, openEventStore } from "../../../../events/mod.ts";
import { changedKv } from "../../../../dev/harness/faulty_kv.ts";
import { claimAll, claimOne, delivery, drain } from "../_events.ts";
import { keysOf, recordKey } from "./_keys.ts";
import { repairTimes } from "../_tidying.ts";
import { changeValue, setValue, valueAt } from "./_values.ts";
import { testInMemory } from "./_stores.ts";

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

testInMemory(
  "an event that joins later by a clock that was ahead is brought forward",
  async (sut) => {
    const { kv, store } = sut;
    await storeLater(sut, "reminder", "repo", 60_000);
    const key = await recordKey(kv, "reminder");
    const [due] = await keysOf(kv, "due");
    await changeValue(kv, key, { delayMs: 0 });
    await changeValue(kv, due!, { delayMs: 0 });
    assertEquals(await repairTimes(store), 1);
    assertEquals((await claimOne(store)).record.group?.key, "repo");
  },
);

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
  assertEquals((await recordOf(store, "reminder")).group?.key, "repo");
  assertEquals(await drain(store), ["push", "reminder"]);
});
