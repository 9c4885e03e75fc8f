import { assertEquals } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import type { EventFilter, EventState, EventStore } from "../../../../events/mod.ts";
import { WallClock } from "../../../_wall_clock.ts";
import { claimOne, delivery, listed, oneOfEach } from "../_events.ts";
import { testStore, testStoreOnce } from "./_contract.ts";

/** An event of a store, as a filter sees it. */
interface Expected {
  readonly id: string;
  readonly state: EventState;
  readonly type: string;
  readonly receivedAt: number;
}

const STATES = ["queued", "running", "done", "dead"] as const;

/** The second one has the brackets and dots that types of Stripe have. */
const TYPES = ["push", "v2.core.account[requirements].updated"] as const;

const TIMES = [1_000, 2_000, 3_000] as const;

/** Takes in an event of each state, type and time. */
async function oneOfAll(store: EventStore, time: FakeTime): Promise<Expected[]> {
  const events = TIMES.flatMap((receivedAt) =>
    STATES.flatMap((state) =>
      TYPES.map((type) => ({ id: `${state}-${type}-${receivedAt}`, state, type, receivedAt }))
    )
  );
  for (const { id, state, type, receivedAt } of events) {
    time.tick(receivedAt - Date.now());
    await store.accept({ ...delivery(id), type });
    const lease = await claimOne(store);
    if (state === "queued") await store.retry(lease, 3_600_000, "not now");
    if (state === "done") await store.complete(lease);
    if (state === "dead") await store.bury(lease, "no");
  }
  return events;
}

function isMeant(event: Expected, { ids, state, type, ...received }: EventFilter): boolean {
  const { receivedAfter = 0, receivedBefore = Infinity } = received;
  return (ids?.includes(event.id) ?? true) && (state ?? event.state) === event.state &&
    (type ?? event.type) === event.type &&
    event.receivedAt >= receivedAfter && event.receivedAt < receivedBefore;
}

/** All filters that can be made of some values for each condition. */
function allFilters(ids: readonly string[]): EventFilter[] {
  const filters: EventFilter[] = [];
  for (const state of [undefined, ...STATES]) {
    for (const type of [undefined, ...TYPES, "unknown"]) {
      for (const receivedAfter of [undefined, 1_000, 1_001, 3_001]) {
        for (const receivedBefore of [undefined, 1_000, 3_000, 3_001]) {
          filters.push({ state, type, receivedAfter, receivedBefore });
          filters.push({ state, type, receivedAfter, receivedBefore, ids });
        }
      }
    }
  }
  return filters;
}

testStoreOnce("list() and stats() take all combinations of conditions", async (sut) => {
  using time = new FakeTime(0);
  const events = await oneOfAll(sut.store, time);
  for (const filter of allFilters(["dead-push-2000", "queued-push-1000", "unknown"])) {
    const meant = events.filter((event) => isMeant(event, filter));
    assertEquals(await listed(sut.store, filter), meant.map(({ id }) => id).toSorted());
    const { oldestWaitingAt: _, dueLater: _later, ...counts } = await sut.store.stats(filter);
    const count = (state: EventState) => meant.filter((event) => event.state === state).length;
    const expected = STATES.map((state) => [state, count(state)]);
    assertEquals(counts, { ...Object.fromEntries(expected), parked: 0, unreadable: 0 });
  }
});

testStore("list() finds by more ids than are read at once", async ({ store }) => {
  const ids = Array.from({ length: 25 }, (_, i) => `d${i}`);
  for (const id of ids) await store.accept(delivery(id));
  assertEquals(await listed(store, { ids: [...ids, "d1", "unknown"] }), ids.toSorted());
  assertEquals(await listed(store, { ids: [] }), []);
});

testStoreOnce("list() tells the type of what it finds", async (sut) => {
  await oneOfEach(sut.store);
  const messages = [];
  for await (const { attempts } of sut.store.list({ state: "dead" })) messages.push(...attempts);
  assertEquals(messages.map(({ error }) => error), ["Error: no"]);
});

testStore("a filter chooses what was settled before a time", async ({ store }) => {
  await oneOfEach(store);
  const times = await Promise.all(
    ["done", "dead"].map(async (id) => (await store.get(id))!.settledAt!),
  );
  const after = Math.max(...times) + 1;
  assertEquals(await listed(store, { settledBefore: after }), ["dead", "done"]);
  assertEquals(await listed(store, { settledBefore: Math.min(...times) }), []);
  using clock = new WallClock();
  clock.advance(10);
  await store.cancel("queued");
  const settled = { settledBefore: after };
  assertEquals(await listed(store, settled), ["dead", "done"]);
  const { running, done, dead } = await store.stats(settled);
  assertEquals([running, done, dead], [0, 1, 1]);
  assertEquals((await store.cancelAll(settled)).changed, 0);
  assertEquals((await store.replayAll(settled)).changed, 1);
  assertEquals((await store.purge(settled)).changed, 1);
  assertEquals(await listed(store), ["dead", "queued", "running"]);
});
