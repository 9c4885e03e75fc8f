import { assertEquals, assertRejects } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import type { AcceptResult, EventStore } from "../../../../events/mod.ts";
import { claimOne, delivery } from "../_events.ts";
import { testStore, testStoreInOneProcess, testStoreOnce } from "./_contract.ts";

const HOUR_MS = 3_600_000;

/** Accepts a document, with a replay window of an hour. */
function accept(
  store: EventStore,
  id: string,
  { text = "{}", replayWindowMs = HOUR_MS } = {},
): Promise<AcceptResult> {
  return store.accept(delivery(id, text), { replayWindowMs });
}

/** Accepts a document whose event gets lost: as far as others know it may still be on its way. */
async function acceptAndLose(store: EventStore, id: string): Promise<void> {
  await accept(store, id);
  await store.complete(await claimOne(store));
  await store.purge({ ids: [id] });
}

testStore("accept() knows a document again under another id", async ({ store }) => {
  assertEquals(await accept(store, "d1"), { id: "d1", duplicate: false });
  assertEquals(await accept(store, "d2"), { id: "d1", duplicate: true });
  await store.complete(await claimOne(store));
  assertEquals(await accept(store, "d3"), { id: "d1", duplicate: true });
});

testStore("accept() without a replay window tells documents apart by their ids", async (sut) => {
  await accept(sut.store, "d1");
  assertEquals((await sut.store.accept(delivery("d2", "{}"))).duplicate, false);
});

testStore("accept() takes a document again that comes under its own id", async ({ store }) => {
  await acceptAndLose(store, "d1");
  assertEquals(await accept(store, "d1"), { id: "d1", duplicate: false });
  assertEquals(await accept(store, "d1"), { id: "d1", duplicate: true });
});

testStore("accept() takes a document again whose event has died", async ({ store }) => {
  await accept(store, "d1");
  await store.bury(await claimOne(store), new Error("no"));
  assertEquals(await accept(store, "d2"), { id: "d2", duplicate: false });
  assertEquals(await accept(store, "d3"), { id: "d2", duplicate: true });
});

testStore("accept() tells documents apart by every byte", async ({ store }) => {
  await accept(store, "d1");
  assertEquals((await accept(store, "d2", { text: `{"a":2}` })).duplicate, false);
});

testStore("accept() waits for an event that is on its way into the store", async ({ store }) => {
  await acceptAndLose(store, "d1");
  const second = accept(store, "d2");
  await store.accept(delivery("d1", "{}"));
  assertEquals(await second, { id: "d1", duplicate: true });
});

testStoreOnce(
  "accept() gives up on an event that never arrives, and takes the next one",
  async (sut) => {
    using time = new FakeTime();
    await acceptAndLose(sut.store, "d1");
    time.tick(6_000);
    assertEquals(await accept(sut.store, "d2"), { id: "d2", duplicate: false });
  },
);

testStoreOnce("accept() forgets a document when its window is over", async (sut) => {
  using time = new FakeTime();
  const replayWindowMs = 60_000;
  await accept(sut.store, "d1", { replayWindowMs });
  time.tick(59_999);
  assertEquals((await accept(sut.store, "d2", { replayWindowMs })).id, "d1");
  time.tick(1);
  assertEquals((await accept(sut.store, "d3", { replayWindowMs })).id, "d3");
});

testStoreInOneProcess(
  "accept() rejects for a document's note that it cannot decode",
  async (sut) => {
    const { damages, store } = sut;
    await accept(store, "d1");
    const restore = await damages.spoil("document", "d1");
    await assertRejects(
      () => accept(store, "d2"),
      Error,
      "Cannot read the note of a doc",
    );
    await restore();
    assertEquals(await accept(store, "d2"), { id: "d1", duplicate: true });
  },
  {},
  "damages",
);

testStoreOnce(
  "accept() refuses a replay window that is not from 1 to the retention",
  async (sut) => {
    for (const replayWindowMs of [0, -1, NaN, Infinity, sut.store.retentionMs + 1, "1" as never]) {
      await assertRejects(
        () => accept(sut.store, "d1", { replayWindowMs }),
        RangeError,
        "'replayWindowMs' must be from 1 to 604800000",
      );
    }
  },
);

testStoreOnce("accept() gives a document without a delivery id an id of its own", async (sut) => {
  const nameless = { ...delivery("", "{}"), deliveryId: undefined };
  const { id } = await sut.store.accept(nameless, { replayWindowMs: HOUR_MS });
  assertEquals(await sut.store.accept(nameless, { replayWindowMs: HOUR_MS }), {
    id,
    duplicate: true,
  });
  assertEquals((await sut.store.get(id))?.deliveryId, undefined);
});
