import { assert, assertEquals, assertLess, assertRejects } from "@std/assert";
import type { Period } from "../../watch/activity.ts";
import type { DeliveryPage } from "../../console/_search.ts";
import type { EventState } from "../../events/mod.ts";
import { encodeValue } from "../../events/store/kv/value_codec.ts";
import { testKv } from "../_kvs.ts";
import { MonotonicClock } from "../_monotonic_clock.ts";
import { claimAll, claimOne, delivery } from "../events/store/_events.ts";
import { setValue, valueAt } from "../events/store/kv/_values.ts";
import { type DataUnderTest, NAMESPACE, openData, until } from "./_data.ts";

const NONE = { count: 0, isMore: false };

/** Reads the overview once its events are counted. */
function counted({ data }: DataUnderTest, period: Period = "hour") {
  return until(async () => {
    const overview = await data.overview(period);
    const { counts, activity } = overview;
    const isCounted = counts && overview.doneCountedAt !== null;
    return isCounted && activity && { ...overview, counts, activity };
  });
}

testKv("the overview counts events by state", async (kv) => {
  await using sut = await openData(kv);
  const { store } = sut;
  await store.accept(delivery("done"));
  await store.complete(await claimOne(store));
  await store.accept(delivery("dead"));
  await store.bury(await claimOne(store), new Error("no"));
  await store.accept(delivery("parked"));
  assert(await store.park(await claimOne(store), { name: "a", timeoutMs: 60_000 }));
  await Promise.all(["r1", "r2", "r3"].map((id) => store.accept(delivery(id))));
  await claimAll(store);
  await store.accept(delivery("r4", "{}", "key"));
  await claimOne(store);
  await store.accept(delivery("later"));
  await store.retry(await claimOne(store), 60_000, "no");
  for (const id of ["q1", "q2"]) await store.accept(delivery(id, "{}", "key"));
  await store.accept(delivery("q3"));
  const { counts, oldestDueAt } = await counted(sut);
  const numbers = Object.entries(counts).map(([state, { count }]) => [state, count]);
  const expected = { queued: 4, running: 4, parked: 1, dead: 1, done: 1 };
  assertEquals(Object.fromEntries(numbers), expected);
  assert(Object.values(counts).every(({ isMore }) => !isMore));
  assertEquals(oldestDueAt, (await store.get("q3"))!.dueAt);
});

Deno.test("a reading of problems that has failed is made anew", async () => {
  using clock = new MonotonicClock();
  await using sut = await openData();
  const { inspect } = sut.store;
  const { problems } = inspect;
  const fail = () => {
    clock.advance(200);
    return Promise.reject(new Error("no"));
  };
  Object.assign(inspect, { problems: fail });
  await assertRejects(() => sut.data.problems({}), Error, "no");
  Object.assign(inspect, { problems });
  assertEquals((await sut.data.problems({})).problems, []);
});

Deno.test("the overview of an empty store has nothing", async () => {
  await using sut = await openData();
  const overview = await counted(sut, "day");
  const states: EventState[] = ["queued", "running", "parked", "dead", "done"];
  assertEquals(overview.counts, Object.fromEntries(states.map((state) => [state, NONE])) as never);
  assertEquals([overview.oldestDueAt, overview.workers], [null, 0]);
  assertEquals(overview.activity.slots.length, 96);
  assertEquals(overview.activity.latency, null);
});

/**
 * Looks until a queued event is counted: the count before may just be ending, and one may take its time. Some time passes
 * meanwhile, but less than a store rests in which nothing happens.
 */
async function countsOneQueued({ data }: DataUnderTest, clock: MonotonicClock): Promise<void> {
  let passedMs = 0;
  await until(async () => {
    if ((await data.overview("hour")).counts!.queued.count === 1) return true;
    clock.advance(20);
    passedMs += 20;
    return false;
  });
  assertLess(passedMs, 10_000);
}

Deno.test("a page that looks again after two seconds counts what has come meanwhile", async () => {
  await using sut = await openData();
  using clock = new MonotonicClock();
  await counted(sut);
  clock.advance(2_000);
  await sut.store.accept(delivery("a"));
  await countsOneQueued(sut, clock);
});

Deno.test("a long count of done events does not hold up the count of others", async () => {
  await using sut = await openData();
  const list = sut.store.list.bind(sut.store);
  using clock = new MonotonicClock();
  const slowList = (options: Parameters<typeof list>[0]) => {
    if (options?.state === "done") clock.advance(10_000);
    return list(options);
  };
  Object.assign(sut.store, { list: slowList });
  await counted(sut);
  clock.advance(2_000);
  await sut.store.accept(delivery("a"));
  await countsOneQueued(sut, clock);
});

Deno.test("a count of more done events than are counted is a few seconds old, and costs one read", async () => {
  await using sut = await openData();
  const { store } = sut;
  using clock = new MonotonicClock();
  await store.accept(delivery("a"));
  await store.complete(await claimOne(store));
  const record = (await store.get("a"))!;
  const list = store.list.bind(store);
  let reads = 0;
  /** Has very many done events. */
  const many = async function* () {
    for (let i = 0; i < 11_000; i++) {
      reads++;
      yield record;
    }
  };
  const listMany = (options: Parameters<typeof list>[0]) =>
    options?.state === "done" ? Object.assign(many(), { cursor: "x" }) : list(options!);
  Object.assign(store, { list: listMany });
  const first = await counted(sut);
  assertEquals(first.counts.done, { count: 10_000, isMore: true });
  assertEquals(reads, 10_001);
  for (let i = 0; i < 20; i++) {
    clock.advance(2_000);
    await store.accept(delivery(`b${i}`));
    await counted(sut);
  }
  await until(async () => (await counted(sut)).doneCountedAt! > first.doneCountedAt!);
  assertEquals(reads, 10_001);
  // It is counted anew when the oldest of them is gone, and from time to time.
  Object.assign(store, { list });
  await store.purge({ ids: ["a"] });
  await until(async () => {
    clock.advance(2_000);
    return (await counted(sut)).counts.done.count === 0;
  });
});

Deno.test("what is counted first is shown while those that are done are counted", async () => {
  await using sut = await openData();
  const { store, data } = sut;
  await store.accept(delivery("a"));
  await store.complete(await claimOne(store));
  await store.accept(delivery("b"));
  const list = store.list.bind(store);
  const { promise: held, resolve } = Promise.withResolvers<void>();
  const heldList = (options: Parameters<typeof list>[0]) => {
    const found = list(options);
    if (options?.state !== "done") return found;
    const next = found.next.bind(found);
    return Object.assign(found, { next: () => held.then(() => next()) });
  };
  Object.assign(store, { list: heldList });
  const first = await until(async () => (await data.overview("hour")).counts);
  assertEquals([first.queued, first.done], [{ count: 1, isMore: false }, {
    count: 0,
    isMore: true,
  }]);
  resolve();
  assertEquals((await counted(sut)).counts.done, { count: 1, isMore: false });
});

Deno.test("events that wait are counted to 10,000, whatever else is on the schedule", async () => {
  await using sut = await openData();
  const { store, kv } = sut;
  await store.accept(delivery("a"));
  const [key] = await Array.fromAsync(
    kv.list({ prefix: [NAMESPACE, "due"] }),
    ({ key }) => key,
  ) as [
    Deno.KvKey,
  ];
  const value = await valueAt<object>(kv, key);
  const due = Number(key.at(-2));
  for (let i = 0; i < 10_500; i += 500) {
    const operation = kv.atomic();
    for (let j = i; j < i + 500; j++) {
      const entry = encodeValue({ ...value, delayMs: j < 100 ? 1 : 0 });
      operation.set([NAMESPACE, "due", due, `e${j}`], entry);
    }
    await operation.commit();
  }
  const { counts } = await counted(sut);
  assertEquals(counts.queued, { count: 10_000, isMore: true });
});

Deno.test("a parked event counts once, also after it was woken", async () => {
  await using sut = await openData();
  const { store } = sut;
  await store.accept(delivery("a"));
  await store.park(await claimOne(store), { name: "n", timeoutMs: 60_000 });
  assertEquals((await store.wake("n")).outcome, "woken");
  const { counts } = await counted(sut);
  assertEquals(counts.parked.count + counts.queued.count, 1);
});

Deno.test("a search chooses by all that a query has", async () => {
  await using sut = await openData();
  const { data, store } = sut;
  const repository = { id: 1, fullName: "o/r", owner: "o", name: "r" };
  await store.accept({ ...delivery("a", "{}", "key"), repository });
  await store.accept({
    ...delivery("b"),
    chat: { id: -7, type: undefined },
    type: "message",
    action: "sent",
  });
  await store.accept({ ...delivery("c"), chat: { id: -1_001_234_567_890_123, type: undefined } });
  const { receivedAt } = (await store.get("a"))!;
  const cases = [
    [{ place: "o/r" }, ["a"]],
    [{ place: "-7" }, ["b"]],
    [{ place: "7" }, []],
    [{ group: "key" }, ["a"]],
    [{ source: "github", type: "message" }, ["b"]],
    [{ type: "message.sent" }, ["b"]],
    [{ type: "message.read" }, []],
    [{ place: "-1001234567890123" }, ["c"]],
    [{ state: "queued" }, ["a", "b", "c"]],
    [{ state: "dead" }, []],
    [{ before: receivedAt }, []],
    [{ from: receivedAt, place: "o/r" }, ["a"]],
  ] as const;
  for (const [query, expected] of cases) {
    const { events } = await data.search(query);
    assertEquals(events.map(({ id }) => id).toSorted(), [...expected], JSON.stringify(query));
  }
});

testKv("details tell what waits before an event, and what it has emitted", async (kv) => {
  await using sut = await openData(kv);
  const { data, store } = sut;
  for (const id of ["a", "b", "c"]) await store.accept(delivery(id, "{}", "key"));
  assertEquals((await data.details("c"))!.before, { count: 2, isMore: false });
  assertEquals((await data.details("a"))!.before, undefined);
  const body = new TextEncoder().encode("{}");
  const own = { source: "jobs", type: "t", delayMs: 3_600_000, body };
  const lease = await claimOne(store);
  await store.complete(lease, {
    emits: [own, { ...own, source: "mails" }, { ...own, id: "mine" }],
  });
  assertEquals((await data.details("a"))!.emitted, [
    "jobs:a/0001",
    "mails:a/0002",
    "jobs:mine",
  ]);
  assertEquals((await data.details("jobs:mine"))!.emitted, []);
});

Deno.test("an event that cannot be read is shown as such", async () => {
  await using sut = await openData();
  await setValue(sut.kv, ["bot", "event", 5, "x"], {});
  await setValue(sut.kv, ["bot", "id", "x"], 5);
  const details = await sut.data.details("x");
  assertEquals(details!.event, { id: "x", receivedAt: 5, state: "unreadable" });
  assertEquals((await sut.data.search({})).events.length, 1);
});

Deno.test("nothing is read while nobody looks", async () => {
  await using sut = await openData();
  const { data, store } = sut;
  const list = sut.kv.list.bind(sut.kv);
  let reads = 0;
  Object.assign(sut.kv, { list: (...args: Parameters<typeof list>) => (reads++, list(...args)) });
  await store.accept(delivery("a"));
  data.telemetry.countDelivery({ platform: "forge", outcome: "accepted", type: "push" });
  assertEquals(reads, 0);
});

Deno.test("a page finds what is there, however busy the app is", async () => {
  await using sut = await openData();
  const { data, store } = sut;
  for (let i = 0; i < 60; i++) await store.accept(delivery(`e${i}`));
  // Each look at the clock takes longer than a page may search.
  let now = performance.now();
  Object.defineProperty(performance, "now", { configurable: true, value: () => now += 60 });
  try {
    assertEquals((await data.search({})).events.length, 50);
    assertEquals((await data.search({ state: "queued" })).events.length, 50);
  } finally {
    Reflect.deleteProperty(performance, "now");
  }
});

Deno.test("a page that is left open reads a store in which nothing happens less and less", async () => {
  await using sut = await openData();
  const { data, kv, store } = sut;
  using clock = new MonotonicClock();
  await counted(sut);
  const list = kv.list.bind(kv);
  let lists = 0;
  Object.assign(kv, { list: (...args: Parameters<typeof list>) => (lists++, list(...args)) });
  /** Looks every two seconds for a minute. */
  const look = async () => {
    lists = 0;
    for (let i = 0; i < 30; i++) {
      clock.advance(2_000);
      await data.overview("hour");
    }
    return lists;
  };
  await look();
  assert(await look() < 45);
  await store.accept(delivery("a"));
  data.telemetry.countDelivery({ platform: "forge", outcome: "accepted", type: "push" });
  clock.advance(2_000);
  await countsOneQueued(sut, clock);
});

testKv("the list of a state shows what is counted, however much else there is", async (kv) => {
  await using sut = await openData(kv);
  const { data, store } = sut;
  await store.accept(delivery("done"));
  await store.complete(await claimOne(store));
  await store.accept(delivery("parked"));
  await store.park(await claimOne(store), { name: "n", timeoutMs: 3_600_000 });
  await Promise.all(["r1", "r2"].map((id) => store.accept(delivery(id))));
  await claimAll(store);
  for (let i = 0; i < 2_200; i += 550) {
    await Promise.all(
      Array.from({ length: 550 }, (_, k) => {
        const id = `q${i + k}`;
        return k % 3 === 0
          ? store.emit("jobs", "later", {}, { id, delayMs: 3_600_000 })
          : store.accept(delivery(id, "{}", k % 3 === 1 ? `key${k}` : undefined));
      }),
    );
  }
  const { counts } = await counted(sut);
  for (
    const [state, count] of [["done", 1], ["parked", 1], ["running", 2], ["queued", 50]] as const
  ) {
    const { events } = await data.search({ state });
    assertEquals(events.length, count, state);
    assert(counts[state].count >= count);
  }
  const found = new Set<string>();
  for (let cursor: string | undefined = ""; cursor !== undefined;) {
    const page: DeliveryPage = await data.search({ state: "queued" }, cursor);
    for (const { id } of page.events) found.add(id);
    assert(!page.isSorted);
    cursor = page.cursor;
  }
  assertEquals(found.size, 2_200);
});

Deno.test("a payload that goes between the reading of its event and its own is not kept, and no failure", async () => {
  await using sut = await openData();
  const { id } = await sut.store.accept(delivery("1"));
  const queued = (await sut.store.get(id))!;
  await sut.store.complete(await claimOne(sut.store));
  assertEquals(await sut.data.payload(queued), null);
  await sut.store.purge({});
  assertEquals(await sut.data.payload(queued), null);
});
