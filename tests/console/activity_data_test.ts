import { assert, assertEquals } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import type { Activity, Period } from "../../watch/activity.ts";
import type { Telemetry } from "../../telemetry/mod.ts";
import type { AttemptOutcome } from "../../telemetry/telemetry.ts";
import { type DataUnderTest, openData, recordKeys, until, written } from "./_data.ts";
import { setValue } from "../events/store/kv/_values.ts";
import { WallClock } from "../_wall_clock.ts";

const MINUTE = 60_000;

/** Beginning of a minute, of a quarter of an hour and of an hour. */
const START = 1_800_000_000_000 - 1_800_000_000_000 % 3_600_000;

const RECEIVED = {
  platform: "forge",
  intake: "github",
  outcome: "accepted",
  type: "push",
} as const;

/** Tells a telemetry of an event that was received a while ago, and of its end. */
function settle(
  telemetry: Telemetry,
  outcome: AttemptOutcome,
  ms = 0,
  event: object = {},
): void {
  const receivedAt = Date.now() - ms;
  const record = { id: "a", platform: "forge", intake: "github", type: "push", attempt: 1 };
  telemetry.attempt({ ...record, receivedAt, ...event }).settled(outcome);
}

/** Numbers of a type without any. */
const NONE = {
  ...{ received: 0, handled: 0, failed: 0, emitted: 0, ignored: 0, dead: 0, cancelled: 0 },
  ...{ parked: 0, putOff: 0, attempts: 0 },
};

/** Reads the activity. */
function activityOf({ data }: DataUnderTest, period: Period = "hour"): Promise<Activity> {
  return until(async () => (await data.overview(period)).activity);
}

/** Sums up the slots of a chart. */
function sums({ slots }: Activity): number[] {
  return (["received", "refused", "handled", "failed"] as const)
    .map((name) => slots.reduce((sum, slot) => sum + slot[name], 0));
}

/** Starts a worker, as far as others notice. Returns a function that ends it. */
async function startWorker({ data, store }: DataUnderTest): Promise<() => Promise<void>> {
  const end = data.telemetry.watchOldestDue(() => Promise.resolve(null));
  const [id, now] = [crypto.randomUUID(), Date.now()];
  await store.noteProcess({ id, startedAt: now, seenAt: now, handles: null });
  return async () => {
    end();
    // It may be called again.
    end();
    await store.forgetProcess(id);
  };
}

/** Lets a clock pass minutes, and what is written then be written. */
async function minutes(time: FakeTime, count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    await time.tickAsync(MINUTE);
    await written();
  }
}

Deno.test("the overview shows what was counted in this minute", async () => {
  using _time = new FakeTime(START + 3_000);
  await using sut = await openData();
  const { telemetry } = sut.data;
  telemetry.countDelivery(RECEIVED);
  telemetry.countDelivery({ ...RECEIVED, outcome: "duplicate" });
  telemetry.countDelivery({ platform: "forge", outcome: "rejected", code: "AUTH_001" });
  for (const ms of [100, 100, 100, 8_000]) settle(telemetry, "handled", ms);
  settle(telemetry, "handled", 8_000, { run: 1 });
  settle(telemetry, "retried");
  settle(telemetry, "dead", 0, { batch: { events: 3 } });
  settle(telemetry, "lost");
  const activity = await activityOf(sut);
  assertEquals(activity.slots.length, 60);
  const [last] = activity.slots.slice(-1);
  const numbers = { ...NONE, received: 1, handled: 5, failed: 2, dead: 3, attempts: 7 };
  assertEquals(last, { at: START, refused: 1, ...numbers });
  assertEquals(sums(activity), [1, 1, 5, 2]);
  assertEquals(activity.refusedBy, [{ source: "forge", code: "AUTH_001", count: 1 }]);
  assertEquals(activity.types, [{ source: "github", type: "push", ...numbers }]);
  assertEquals(activity.total, numbers);
  const { p50, p99 } = activity.latency!;
  assert(Math.abs(p50 / 100 - 1) <= 0.1 && Math.abs(p99 / 8_000 - 1) <= 0.1, `${p50} ${p99}`);
});

Deno.test("an attempt counts once, and each of its events", async () => {
  using _time = new FakeTime(START + 3_000);
  await using sut = await openData();
  const { telemetry } = sut.data;
  const cases: readonly (readonly [AttemptOutcome, Partial<typeof NONE>])[] = [
    ["handled", { handled: 3, attempts: 1 }],
    ["retried", { failed: 1, attempts: 1 }],
    ["dead", { dead: 3, failed: 1, attempts: 1 }],
    ["ignored", { ignored: 3 }],
    ["cancelled", { cancelled: 3 }],
    ["parked", { parked: 1 }],
    ["put_off", { putOff: 1 }],
    ...(["returned", "interrupted", "lost"] as const).map((each) => [each, {}] as const),
  ];
  for (const [outcome, numbers] of cases) {
    settle(telemetry, outcome, 0, { type: outcome, batch: { events: 3 } });
    const { types } = await activityOf(sut);
    const { source: _, type: __, ...found } = types.find(({ type }) => type === outcome) ??
      { source: "", type: "", ...NONE };
    assertEquals(found, { ...NONE, ...numbers }, outcome);
  }
  // Two newer events have joined the batch of three since it began.
  telemetry.attempt({ id: "a", platform: "forge", type: "joined", attempt: 1, receivedAt: 0 })
    .settled("handled", undefined, 2);
  telemetry.countStep({ is: "emitted", source: "jobs", type: "digest" });
  telemetry.countStep({ is: "slots", schedule: "nightly", outcome: "made_up", count: 2 });
  telemetry.countStep({ is: "slots", schedule: "nightly", outcome: "left_out", count: 4 });
  const { types } = await activityOf(sut);
  const numbersOf = (name: string) => types.find(({ type }) => type === name);
  assertEquals(numbersOf("joined")?.handled, 3);
  assertEquals([numbersOf("digest")?.emitted, numbersOf("nightly")?.emitted], [1, 2]);
});

Deno.test("the running minute of several instances adds up the same on the pages of each", async () => {
  using time = new FakeTime(START + 3_000);
  await using a = await openData();
  await using b = await openData(a.kv);
  for (const each of [a, b]) await startWorker(each);
  /** Counts at both for a while, looking at one or both, and then lets it be. */
  const count = async (...looking: readonly DataUnderTest[]) => {
    for (let i = 0; i < 16; i++) {
      for (const { data } of [a, b]) data.telemetry.countDelivery(RECEIVED);
      for (const { data } of looking) await data.overview("hour");
      await time.tickAsync(1_000);
      await written();
    }
  };
  await count(a, b);
  for (let i = 0; i < 5; i++) {
    for (const sut of [a, b]) await activityOf(sut);
    await time.tickAsync(1_000);
    await written();
  }
  assert(Date.now() < START + MINUTE);
  assertEquals(sums(await activityOf(a))[0], 32);
  assertEquals(sums(await activityOf(b))[0], 32);
});

Deno.test("an instance whose numbers nobody looks at writes once a minute", async () => {
  using time = new FakeTime(START + 3_000);
  await using a = await openData();
  await using b = await openData(a.kv);
  for (const each of [a, b]) {
    await startWorker(each);
    each.data.telemetry.countDelivery(RECEIVED);
  }
  await minutes(time, 1);
  const [key] = (await recordKeys(a.kv, "minute")).slice(-1);
  const version = async () => (await a.kv.get(key!)).versionstamp;
  const before = await version();
  for (let i = 0; i < 40; i++) {
    for (const { data } of [a, b]) data.telemetry.countDelivery(RECEIVED);
    await time.tickAsync(1_000);
    await written();
  }
  assertEquals(await version(), before);
});

Deno.test("the times from receipt to handled leave planned waits out, as the metric does", async () => {
  using _time = new FakeTime(START + 3_000);
  await using sut = await openData();
  const { telemetry } = sut.data;
  const events = [
    {},
    { plannedMs: 85_000 },
    { quiet: { waitedMs: 85_000 } },
    { plannedMs: 80_000, quiet: { waitedMs: 5_000 }, batch: { events: 3 } },
    { platform: "events", plannedMs: 604_800_000 },
    { platform: "schedule" },
    { run: 2, plannedMs: 86_400_000 },
  ];
  for (const event of events) {
    const { plannedMs = 0, quiet = { waitedMs: 0 } } = event as {
      readonly plannedMs?: number;
      readonly quiet?: { readonly waitedMs: number };
    };
    settle(telemetry, "handled", 9_300 + plannedMs + quiet.waitedMs, event);
  }
  const { latency } = await activityOf(sut);
  for (const ms of [latency!.p50, latency!.p99]) assert(Math.abs(ms / 9_300 - 1) <= 0.1, `${ms}`);
});

Deno.test("one record is written of each minute that something was counted in, and none of others", async () => {
  using time = new FakeTime(START + 3_000);
  await using sut = await openData();
  const { data, kv } = sut;
  const end = await startWorker(sut);
  await minutes(time, 3);
  assertEquals(await recordKeys(kv), []);
  for (let i = 0; i < 3; i++) {
    data.telemetry.countDelivery(RECEIVED);
    await minutes(time, 1);
  }
  assertEquals((await recordKeys(kv, "minute")).length, 3);
  assertEquals((await recordKeys(kv, "quarter")).length, 1);
  await end();
  await minutes(time, 3);
  assertEquals((await recordKeys(kv)).length, 4);
});

Deno.test("the activity of several instances adds up, also of those that are gone", async () => {
  using time = new FakeTime(START + 3_000);
  await using a = await openData();
  await using b = await openData(a.kv);
  a.data.telemetry.countDelivery(RECEIVED);
  b.data.telemetry.countDelivery(RECEIVED);
  await minutes(time, 1);
  b.data.telemetry.countDelivery({ ...RECEIVED, type: "issues" });
  await minutes(time, 20);
  b.data.telemetry.countDelivery({ ...RECEIVED, outcome: "rejected", code: "X" });
  await b.data.stop();
  for (const period of ["hour", "day"] as const) {
    const activity = await activityOf(a, period);
    assertEquals(sums(activity), [3, 1, 0, 0], period);
    assertEquals(activity.types.map(({ type, received }) => [type, received]), [
      ["push", 2],
      ["issues", 1],
    ]);
  }
});

Deno.test("the charts keep the counts as time goes on, and forget what is too old", async () => {
  using time = new FakeTime(START + 3_000);
  await using a = await openData();
  await using b = await openData(a.kv);
  const seen = { hour: [] as number[], day: [] as number[] };
  for (let i = 0; i < 100; i++) {
    for (const { data } of [a, b]) if (i < 50) data.telemetry.countDelivery(RECEIVED);
    await minutes(time, 1);
    if (i % 7 > 0 && i < 95) continue;
    for (const period of ["hour", "day"] as const) {
      seen[period].push(sums(await activityOf(a, period))[0]!);
    }
  }
  assertEquals(seen.day, [2, 16, 30, 44, 58, 72, 86, ...Array(12).fill(100)]);
  assertEquals(seen.hour.at(-1), 18);
  assertEquals(seen.hour.slice(0, 8), seen.day.slice(0, 8));
});

Deno.test("an instance whose worker has ended, or died, does not count", async () => {
  using time = new FakeTime(START + 3_000);
  await using a = await openData();
  const b = await openData(a.kv);
  const c = await openData(a.kv);
  const [endB] = [await startWorker(b), await startWorker(c)];
  await minutes(time, 1);
  const workers = async () => {
    await time.tickAsync(10_100);
    return (await a.data.overview("day")).workers;
  };
  assertEquals(await workers(), 2);
  assertEquals((await c.data.overview("hour")).workers, 2);
  await endB();
  await b.data.stop();
  assertEquals(await workers(), 1);
  // As a process that was killed: nothing is written any more.
  using _frozen = freeze(c.kv);
  await minutes(time, 4);
  assertEquals(await workers(), 0);
  await c.data.stop();
});

/** Makes the wall clock movable, while the timers go on as before, which set `Date` anew with each tick. */
function movable(): Disposable & { advance(ms: number): void } {
  const before = Object.getOwnPropertyDescriptor(globalThis, "Date")!;
  let [date, aheadMs] = [Date, 0];
  const moved: ProxyHandler<DateConstructor> = {
    get: (date, name) => name === "now" ? () => date.now() + aheadMs : Reflect.get(date, name),
  };
  Object.defineProperty(globalThis, "Date", {
    configurable: true,
    get: () => new Proxy(date, moved),
    set: (value: DateConstructor) => void (date = value),
  });
  return {
    advance: (ms) => void (aheadMs += ms),
    [Symbol.dispose]: () => Object.defineProperty(globalThis, "Date", { ...before, value: date }),
  };
}

/** Makes a KV refuse all writes, until it goes out of scope. */
function freeze(kv: Deno.Kv): Disposable {
  const { atomic } = kv;
  kv.atomic = () => {
    throw new Error("no");
  };
  return { [Symbol.dispose]: () => void (kv.atomic = atomic) };
}

Deno.test("counts that could not be written are written with the next", async () => {
  using time = new FakeTime(START + 3_000);
  await using a = await openData();
  await using b = await openData(a.kv);
  b.data.telemetry.countDelivery(RECEIVED);
  {
    using _frozen = freeze(a.kv);
    await minutes(time, 1);
  }
  assertEquals(b.logged.map(({ message }) => message), ["console counts not written"]);
  await minutes(time, 1);
  assertEquals(sums(await activityOf(a)), [1, 0, 0, 0]);
});

Deno.test("a clock that is set back loses no counts", async () => {
  using time = new FakeTime(START + 40 * MINUTE + 3_000);
  using wall = movable();
  await using a = await openData();
  await using b = await openData(a.kv);
  const count = async () => {
    b.data.telemetry.countDelivery(RECEIVED);
    await minutes(time, 1);
    const seen = await Promise.all([a, b].map((each) => activityOf(each)));
    return seen.map((activity) => sums(activity)[0]);
  };
  assertEquals(await count(), [1, 1]);
  assertEquals(await count(), [2, 2]);
  // Into a minute that has counts already.
  wall.advance(-2 * MINUTE);
  assertEquals(await count(), [3, 3]);
  // Far: what was counted later is of no minute that is shown.
  wall.advance(-30 * MINUTE);
  assertEquals(await count(), [1, 1]);
  wall.advance(31 * MINUTE);
  assertEquals(await count(), [5, 5]);
});

Deno.test("records of another version, and damaged ones, are skipped", async () => {
  using time = new FakeTime(START + 5 * MINUTE);
  await using a = await openData();
  const { kv } = a;
  const minute = START / MINUTE;
  const nothing = Array(9).fill(0);
  const types = [["github:push", [1, ...nothing]]];
  const good = { v: 2, at: START, worker: false, codes: [], types, buckets: [] };
  const bad = [
    null,
    "x",
    { ...good, v: 1 },
    ...[[1], [-1, ...nothing], [NaN, ...nothing], 1]
      .map((numbers) => ({ ...good, types: [["a:b", numbers]] })),
    { ...good, types: Array(1_000).fill(["a:b", [1, ...nothing]]) },
    { ...good, buckets: [[1e9, [1]]] },
    { ...good, codes: {} },
    { ...good, at: "now" },
  ];
  for (const [i, value] of bad.entries()) {
    await setValue(kv, ["bot", "console", "minute", minute, `bad${i}`], value);
  }
  await setValue(kv, ["bot", "console", "minute", minute, "good"], good);
  await setValue(kv, ["bot", "console", "minute", "x", 5, 6], good);
  const activity = await activityOf(a);
  assertEquals(sums(activity), [1, 0, 0, 0]);
  await time.tickAsync(0);
});

Deno.test("names of types cannot make records large, or do harm", async () => {
  using time = new FakeTime(START + 3_000);
  await using sut = await openData();
  const { data, kv } = sut;
  const { telemetry } = data;
  for (let i = 0; i < 200; i++) {
    const type = `${i}\u0000\u202e${"\ud800".repeat(1_000_000)}`;
    telemetry.countDelivery({ ...RECEIVED, type, intake: "\n".repeat(500) });
    telemetry.countDelivery({ ...RECEIVED, outcome: "rejected", code: `${i}${"y".repeat(5_000)}` });
  }
  await minutes(time, 1);
  const prefix = ["bot", "console", "minute"];
  const [entry] = await Array.fromAsync(kv.list<Uint8Array>({ prefix }));
  assert(entry!.value.byteLength < 60_000);
  const activity = await activityOf(sut);
  assertEquals(sums(activity), [200, 200, 0, 0]);
  assertEquals(activity.types.length, 20);
  for (const { source, type } of activity.types) {
    assert(!/\p{Cc}|\p{Cf}/u.test(source + type) && source.length + type.length <= 200);
  }
  assertEquals(activity.types[0], { source: "", type: "other", ...NONE, received: 160 });
});

Deno.test("a process keeps one record of what it has refused, however long that goes on", async () => {
  using time = new FakeTime(START + 3_000);
  await using sut = await openData();
  for (let i = 0; i < 3; i++) {
    const refused = { platform: "forge", outcome: "rejected", code: "INVALID_SIG" } as const;
    sut.data.telemetry.countDelivery(refused);
    await minutes(time, 1);
    assertEquals((await recordKeys(sut.kv, "refused")).length, 1);
  }
  assertEquals((await sut.data.refusals()).map(({ count }) => count), [3]);
});

Deno.test("the types that are not shown are counted, and added up", async () => {
  using _time = new FakeTime(START + 3_000);
  await using sut = await openData();
  const { telemetry } = sut.data;
  for (let i = 0; i < 23; i++) {
    for (let j = 0; j <= i; j++) telemetry.countDelivery({ ...RECEIVED, type: `type-${i}` });
  }
  const { types, moreTypes } = await activityOf(sut);
  assertEquals([types.length, types.at(-1)?.type], [20, "type-3"]);
  assertEquals(moreTypes, { count: 3, ...NONE, received: 6 });
});

Deno.test("a worker is known to other instances as soon as it has started, and counts until it stops", async () => {
  using _time = new FakeTime(START + 3_000);
  await using a = await openData();
  await using b = await openData(a.kv);
  const end = await startWorker(a);
  assertEquals((await b.data.overview("hour")).workers, 1);
  const own = async () => (await a.data.overview("hour")).workers;
  assertEquals(await own(), 1);
  await end();
  assertEquals(await own(), 0);
});

Deno.test("what was not read yet is not known, and neither is what could not be read", async () => {
  await using sut = await openData();
  const { data, kv, logged } = sut;
  const { list } = kv;
  const { promise: held, resolve } = Promise.withResolvers<void>();
  const next = () => held.then(() => Promise.reject(new Error("no")));
  Object.assign(kv, { list: () => ({ next, [Symbol.asyncIterator]: () => ({ next }) }) });
  Object.assign(sut.store, { oldestDueAt: () => Promise.resolve(null) });
  const look = async () => {
    const { workers, activity } = await data.overview("hour");
    return [workers, activity];
  };
  assertEquals(await look(), [null, null]);
  resolve();
  await until(() => Promise.resolve(logged.length > 0));
  assertEquals(await look(), [null, null]);
  Object.assign(kv, { list });
  using clock = new WallClock();
  clock.advance(10_001);
  await until(async () => (await data.overview("hour")).workers === 0);
});
