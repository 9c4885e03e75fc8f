import { assert, assertEquals, assertRejects } from "@std/assert";
import type { EventRecord, EventStore } from "../../../../events/mod.ts";
import { claimOne, delivery } from "../_events.ts";
import { type StoreUnderTest, testFailing } from "./_contract.ts";

const NAME = "approval:1";

const wait = { name: NAME, timeoutMs: 60_000 };

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

testFailing(
  "after",
  "an event whose parking was committed without an answer is parked, and its lease lost",
  async (sut) => {
    const { store, arm } = sut.failing;
    await store.accept(delivery("d1"));
    const lease = await claimOne(store);
    arm();
    await assertRejects(() => store.park(lease, wait), Error);
    assert(await store.park(lease, wait));
    assertEquals(await store.recover(lease), null);
    assertEquals(await store.complete(lease), false);
    await store.wake(NAME, 1);
    assertEquals(await resultOf(store), ["1"]);
  },
);

testFailing("after", "a wake that was committed without an answer counts once", async (sut) => {
  await park(sut);
  const { store, arm } = sut.failing;
  arm();
  await assertRejects(() => store.wake(NAME, 1), Error);
  assertEquals(await store.wake(NAME, 2), { outcome: "late" });
  assertEquals(await resultOf(store), ["1"]);
});

testFailing(
  "after",
  "an early value that was taken without an answer is in the recovered lease",
  async (sut) => {
    const { store, arm } = sut.failing;
    await store.wake(NAME, 1);
    await store.accept(delivery("d1"));
    const lease = await claimOne(store);
    arm();
    await assertRejects(() => store.takeWake(lease, NAME), Error);
    assertEquals(resultsOf((await store.recover(lease))!.record), ["1"]);
  },
);
