import { assert, assertEquals, assertMatch } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import type { Act } from "../../console/_act_record.ts";
import { ActCounts, FORGOTTEN_BY_PROGRAM_MS } from "../../console/_act_steps.ts";
import { ConsoleData } from "../../console/_console_data.ts";
import { type ActKind, type ActQuery, MAX_LENGTHS, newActId } from "../../console/_query.ts";
import { type EventStore, openEventStore } from "../../events/mod.ts";
import { decodeValue, encodeValue } from "../../events/store/kv/value_codec.ts";
import { testKv } from "../_kvs.ts";
import { WallClock } from "../_wall_clock.ts";
import { buryAll, claimAll, claimOne, delivery, listed } from "../events/store/_events.ts";
import { setValue, valueAt } from "../events/store/kv/_values.ts";
import { type DataUnderTest, NAMESPACE, openData, recordKeys, until } from "./_data.ts";

/** Waits until an act has ended. */
function ended({ data }: DataUnderTest, { id }: Act): Promise<Act> {
  return until(async () => {
    const act = await data.acts.get(id);
    return act && act.state !== "running" && act;
  });
}

/** Acts on an event. */
function actOn(
  { acts }: ConsoleData,
  kind: ActKind,
  eventId: string,
  { by = "me", id = newActId() } = {},
): Promise<Act> {
  return acts.one({ id, kind, eventId, by });
}

/** Begins to act on all events of a choice. */
function actOnAll(
  { acts }: ConsoleData,
  kind: ActKind,
  query: ActQuery,
  { by = "me", id = newActId() } = {},
): Promise<Act> {
  return acts.all({ id, kind, query, by });
}

/** Counts the events of a choice. */
const countFor = ({ actCounts }: ConsoleData, kind: ActKind, query: ActQuery, isPoll = false) =>
  actCounts.look(kind, query, isPoll);

/** Takes in events. */
async function accept({ store }: DataUnderTest, count: number): Promise<void> {
  await Promise.all(Array.from({ length: count }, (_, i) => store.accept(delivery(`q${i}`))));
}

testKv("an act on one event changes it, and is recorded", async (kv) => {
  await using sut = await openData(kv);
  const { data, store } = sut;
  await buryAll(store, ["a"]);
  const replayed = await actOn(data, "replay", "a", { by: "operator 1 from ::1" });
  assertEquals((await store.get("a"))!.state, "queued");
  const { id, at, ...rest } = replayed;
  assertEquals(rest, {
    ...{ kind: "replay", eventId: "a", about: "push", by: "operator 1 from ::1" },
    ...{ changed: 1, seen: 1, batch: 0, underway: 0, notKept: 0, state: "finished" },
  });
  assert(Math.abs(Date.now() - at) < 60_000);
  assertEquals(await data.acts.get(id), replayed);
  assertEquals((await actOn(data, "cancel", "a")).changed, 1);
  assertEquals((await actOn(data, "cancel", "a")).changed, 0);
  assertEquals((await actOn(data, "purge", "a")).changed, 1);
  assertEquals((await actOn(data, "replay", "a")).changed, 0);
  const changed = (await data.acts.list()).acts.map(({ changed }) => changed);
  assertEquals(changed, [1, 1, 1]);
});

Deno.test("an act purges an event that cannot be read", async () => {
  await using sut = await openData();
  await setValue(sut.kv, ["bot", "event", 5, "x"], {});
  await setValue(sut.kv, ["bot", "id", "x"], 5);
  assertEquals((await actOn(sut.data, "purge", "x")).changed, 1);
});

testKv("an act on many changes all that match, and shows its progress", async (kv, other) => {
  await using sut = await openData(kv);
  await using elsewhere = await openData(await other());
  const { data, store } = sut;
  await buryAll(store, ["a", "b", "c"]);
  await store.accept({ ...delivery("d"), type: "issues" });
  await store.bury(await claimOne(store), "no");
  const query = { state: "dead", type: "push" } as const;
  assertEquals((await countFor(data, "replay", query)).count, 3);
  const act = await actOnAll(data, "replay", query);
  assertEquals([act.state, act.query, act.eventId], ["running", query, undefined]);
  const end = await ended(sut, act);
  assertEquals([end.state, end.changed, end.seen], ["finished", 3, 3]);
  assertEquals(await ended(elsewhere, act), end);
  assertEquals(await listed(store, { state: "dead" }), ["d"]);
});

Deno.test("a replay of many leaves dead what somebody has cancelled", async () => {
  await using sut = await openData();
  const { data, store } = sut;
  await buryAll(store, ["failed"]);
  await store.accept(delivery("cancelled"));
  await store.cancel("cancelled");
  assertEquals((await countFor(data, "replay", { state: "dead" })).count, 1);
  assertEquals((await ended(sut, await actOnAll(data, "replay", { state: "dead" }))).changed, 1);
  assertEquals(await listed(store, { state: "dead" }), ["cancelled"]);
  assertEquals((await actOn(data, "replay", "cancelled")).changed, 1);
});

Deno.test("a count that has ended is for whoever asks again, once", async () => {
  await using sut = await openData();
  const { store } = sut;
  await buryAll(store, ["a"]);
  const query = { state: "dead" } as const;
  const late = Promise.withResolvers<void>();
  /** Lists as the store does, and later. */
  async function* list(options: Parameters<EventStore["list"]>[0]) {
    await late.promise;
    yield* store.list(options);
  }
  const slow = { list, inspect: store.inspect } as unknown as EventStore;
  const counts = new ActCounts(slow);
  try {
    const first = await counts.look("purge", query, false);
    assertEquals([first.count, first.isMore], [0, true]);
    late.resolve();
    await new Promise((resolve) => setTimeout(resolve, 100));
    const again = await counts.look("purge", query, false);
    assertEquals([again.count, again.isMore, again.askedAt], [1, false, first.askedAt]);
    assert((await counts.look("purge", query, false)).askedAt > first.askedAt);
  } finally {
    await counts.stop();
  }
});

Deno.test("a count goes on for a minute without a look of the program that has asked for it", async () => {
  using time = new FakeTime();
  /** Lists nothing, until the count ends. */
  // deno-lint-ignore require-yield -- it never has an event
  async function* list() {
    await Promise.withResolvers<void>().promise;
  }
  const kept = new ActCounts({ list } as unknown as EventStore);
  const counts = kept.look.bind(kept);
  /** Looks, and lets the time pass for which a look waits. */
  const look = async (...of: Parameters<typeof counts>) => {
    const looked = counts(...of);
    await time.tickAsync(1_000);
    return (await looked).askedAt;
  };
  const query = { state: "dead" } as const;
  const began = await look("purge", query, false, FORGOTTEN_BY_PROGRAM_MS);
  for (const afterMs of [10_500, 45_000, 50_000]) {
    await time.tickAsync(afterMs);
    assertEquals(await look("purge", query, false, FORGOTTEN_BY_PROGRAM_MS), began);
  }
  await time.tickAsync(60_000);
  assert(await look("purge", query, false) > began);
});

Deno.test("acts choose the states that they can change", async () => {
  await using sut = await openData();
  const { data, store } = sut;
  await buryAll(store, ["dead"]);
  await store.accept(delivery("done"));
  await store.complete(await claimOne(store));
  await store.accept(delivery("running"));
  await claimOne(store);
  await store.accept(delivery("queued"));
  const counts = {
    replay: [["dead", 1], ["done", 0]],
    cancel: [["queued", 1], ["running", 1]],
    purge: [["dead", 1], ["done", 1]],
  } as const;
  for (const kind of ["replay", "cancel", "purge"] as const) {
    for (const [state, expected] of counts[kind]) {
      assertEquals((await countFor(data, kind, { state })).count, expected, `${kind} ${state}`);
    }
  }
  for (const [kind, state] of [["cancel", "queued"], ["cancel", "running"]] as const) {
    assertEquals((await ended(sut, await actOnAll(data, kind, { state }))).changed, 1);
  }
  assertEquals((await ended(sut, await actOnAll(data, "purge", { state: "dead" }))).changed, 2);
  assertEquals(await listed(store), ["done", "running"]);
});

Deno.test("a cancellation of many leaves out what runs and is cancelled already", async () => {
  await using sut = await openData();
  const { data, store } = sut;
  for (const id of ["a", "b", "c"]) await store.accept(delivery(id));
  await claimAll(store);
  await store.cancel("b");
  const query = { state: "running" } as const;
  assertEquals((await countFor(data, "cancel", query)).first, ["a", "c"]);
  assertEquals((await ended(sut, await actOnAll(data, "cancel", query))).changed, 2);
  assertEquals((await countFor(data, "cancel", query)).count, 0);
});

Deno.test("an act takes its time", async () => {
  await using sut = await openData();
  await accept(sut, 160);
  const start = performance.now();
  const { changed } = await ended(
    sut,
    await actOnAll(sut.data, "cancel", { state: "queued" }),
  );
  assertEquals(changed, 160);
  // 200 events a second: three steps of 50 before the last.
  assert(performance.now() - start > 700);
});

Deno.test("an act that is stopped is interrupted, and has done what it says", async () => {
  await using sut = await openData();
  await accept(sut, 160);
  const { id } = await actOnAll(sut.data, "cancel", { state: "queued" });
  await until(async () => (await sut.data.acts.get(id))!.changed > 0);
  await sut.data.stop();
  const act = (await sut.data.acts.get(id))!;
  assertEquals(act.state, "interrupted");
  assertEquals(act.changed, (await sut.store.stats()).dead);
  assert(act.changed < 160);
});

Deno.test("an act whose process died is interrupted", async () => {
  await using sut = await openData();
  await using other = await openData(sut.kv);
  const { data, kv } = sut;
  await accept(sut, 1);
  const { id } = await actOn(data, "cancel", "q0");
  const [key] = await recordKeys(kv, "act");
  const value = await valueAt<object>(kv, key!);
  await setValue(kv, key!, { ...value, state: "running" });
  assertEquals((await other.data.acts.get(id))!.state, "running");
  using clock = new WallClock();
  clock.advance(6_001);
  assertEquals((await other.data.acts.get(id))!.state, "interrupted");
  assertEquals((await other.data.acts.list()).acts.map(({ state }) => state), ["interrupted"]);
});

Deno.test("an act that fails says so", async () => {
  await using sut = await openData();
  await accept(sut, 1);
  const cancelAll = () => Promise.reject(new Error("KV down"));
  Object.assign(sut.store, { cancelAll });
  const { state, error } = await ended(
    sut,
    await actOnAll(sut.data, "cancel", { state: "queued" }),
  );
  assertEquals([state, error], ["failed", "KV down"]);
});

Deno.test("an act is not begun if it cannot be recorded", async () => {
  await using sut = await openData();
  await accept(sut, 1);
  const { kv, data, store } = sut;
  const { atomic } = kv;
  kv.atomic = () => {
    throw new Error("no");
  };
  const result = await actOn(data, "cancel", "q0").catch((error) => error.message);
  kv.atomic = atomic;
  assertEquals(result, "no");
  assertEquals((await store.get("q0"))!.state, "queued");
});

Deno.test("the longest texts that a form can have, and ids of no act, do no harm", async () => {
  await using sut = await openData();
  const { data, kv } = sut;
  const longest = (name: keyof typeof MAX_LENGTHS) => "漢".repeat(MAX_LENGTHS[name]);
  assertEquals((await actOn(data, "replay", longest("id"))).changed, 0);
  const [type, source, place, group] = (["type", "source", "place", "group"] as const).map(longest);
  const act = await actOnAll(data, "replay", { state: "dead", type, source, place, group });
  assertEquals((await ended(sut, act)).state, "finished");
  for (const key of await recordKeys(kv, "act")) {
    assert(JSON.stringify(await valueAt(kv, key)).length < 10_000);
  }
  for (const id of ["", "x", longest("id"), "0-12345678", "zzzzzzzzzz-12345678", "../act"]) {
    assertEquals(await data.acts.get(id), null);
  }
});

Deno.test("records of acts that cannot be read are skipped", async () => {
  await using sut = await openData();
  const { data, kv } = sut;
  await accept(sut, 1);
  const { id } = await actOn(data, "cancel", "q0");
  assertMatch(id, /^[0-9a-z]+-[0-9a-f]{8}$/);
  const [key] = await recordKeys(kv, "act");
  const value = await valueAt<object>(kv, key!);
  const bad = [
    ...[null, 5, { ...value, v: 2 }, { ...value, kind: "x" }, { ...value, query: 5 }],
    ...[{ ...value, changed: -1 }, { ...value, by: undefined }, {
      ...value,
      query: { state: "x" },
    }],
    value,
  ];
  for (const [i, each] of bad.entries()) {
    await setValue(kv, ["bot", "console", "act", 4_000_000_000_000 + i, `${i}`], each);
  }
  assertEquals((await data.acts.list()).acts.map((act) => act.id), [id]);
});

Deno.test("a replay of many keeps the order of their group", async () => {
  await using sut = await openData();
  const { data, store } = sut;
  const ids = Array.from({ length: 60 }, (_, i) => `e${String(i).padStart(2, "0")}`);
  for (const id of ids) {
    await store.accept(delivery(id, "{}", "key"));
    await store.bury(await claimOne(store), "no");
  }
  assertEquals((await ended(sut, await actOnAll(data, "replay", { state: "dead" }))).changed, 60);
  for (const id of ids) {
    const lease = await claimOne(store);
    assertEquals(lease.record.id, id);
    await store.complete(lease);
  }
});

for (const kind of ["purge", "replay"] as const) {
  Deno.test(`an act leaves what died after the question: ${kind}`, async () => {
    await using sut = await openData();
    const { data, store } = sut;
    await store.accept(delivery("older"));
    const lease = await claimOne(store);
    await buryAll(store, ["dead"]);
    const question = newActId();
    using clock = new WallClock();
    clock.advance(10);
    await store.bury(lease, "no");
    const { changed, seen } = await ended(
      sut,
      await actOnAll(data, kind, { state: "dead" }, { id: question }),
    );
    assertEquals([changed, seen], [1, 1]);
    assertEquals((await store.get("older"))!.state, "dead");
    assert((await store.get("dead"))?.state !== "dead");
  });
}

Deno.test("an act leaves open events that were in another state at the question", async () => {
  await using sut = await openData();
  const { data, store } = sut;
  await store.accept(delivery("ran"));
  const lease = await claimOne(store);
  await store.accept(delivery("waited"));
  const question = newActId();
  using clock = new WallClock();
  clock.advance(10);
  await claimOne(store);
  const running = await actOnAll(data, "cancel", { state: "running" }, { id: question });
  assertEquals((await ended(sut, running)).changed, 1);
  assertEquals((await store.get("waited"))!.cancelRequestedAt, undefined);
  await store.accept(delivery("retried"));
  const retried = await claimOne(store);
  const next = newActId();
  clock.advance(10);
  await store.retry(retried, 3_600_000, "not now");
  const queued = await actOnAll(data, "cancel", { state: "queued" }, { id: next });
  assertEquals((await ended(sut, queued)).seen, 0);
  assertEquals((await store.get("retried"))!.state, "queued");
  await store.complete(lease);
});

testKv("an act is done once, however often it is asked for", async (kv, other) => {
  await using sut = await openData(kv);
  await using elsewhere = await openData(await other());
  const { data, store } = sut;
  await buryAll(store, ["a", "b"]);
  const question = newActId();
  const answers = await Promise.all(
    [data, elsewhere.data, data].map((each) =>
      actOnAll(each, "replay", { state: "dead" }, { id: question })
    ),
  );
  assertEquals(answers.map(({ id }) => id), [question, question, question]);
  assertEquals((await ended(sut, answers[0]!)).changed, 2);
  assertEquals((await ended(elsewhere, answers[0]!)).changed, 2);
  for (const lease of await claimAll(store)) await store.bury(lease, "again");
  await actOnAll(data, "replay", { state: "dead" }, { id: question });
  await actOnAll(elsewhere.data, "replay", { state: "dead" }, { id: question });
  assertEquals((await data.acts.list()).acts.length, 1);
  assertEquals((await store.stats()).dead, 2);
  const one = newActId();
  assertEquals((await actOn(data, "replay", "a", { id: one })).changed, 1);
  for (const lease of await claimAll(store)) await store.bury(lease, "again");
  assertEquals((await actOn(data, "replay", "a", { id: one })).changed, 1);
  assertEquals((await store.get("a"))!.state, "dead");
});

Deno.test("the record of an act says how far it has come, at any time", async () => {
  await using sut = await openData();
  await using other = await openData(sut.kv);
  const { data, store } = sut;
  await buryAll(store, Array.from({ length: 120 }, (_, i) => `d${i}`));
  const { purge } = store;
  const dead = Promise.withResolvers<never>();
  dead.promise.catch(() => {});
  using _ = { [Symbol.dispose]: () => dead.reject(new Error("The test has ended")) };
  const steps: (readonly string[])[] = [];
  store.purge = (filter, options) => {
    steps.push(filter.ids ?? []);
    return steps.length < 3 ? purge(filter, options) : dead.promise;
  };
  const { id } = await actOnAll(data, "purge", { state: "dead" });
  const record = await until(async () => {
    const act = (await other.data.acts.get(id))!;
    return steps.length === 3 && act;
  });
  assertEquals([record.changed, record.seen, record.underway], [100, 120, 20]);
  using clock = new WallClock();
  clock.advance(6_001);
  const { state, changed, underway } = (await other.data.acts.get(id))!;
  // None of the last step is gone: so nothing more was changed.
  assertEquals([state, changed, underway], ["interrupted", 100, 0]);
  dead.reject(new Error("KV down"));
  const failed = await ended(sut, record);
  assertEquals([failed.state, failed.changed, failed.underway], ["failed", 100, 0]);
});

/** Stores events, and has them die. */
async function storeDead(sut: DataUnderTest, count: number): Promise<void> {
  await accept(sut, count);
  const leases = await claimAll(sut.store);
  await Promise.all(leases.map((lease) => sut.store.bury(lease, new Error("no"))));
}

/** Has a store die in a step of an act: it changes some events of the step, and nothing more happens until the end. */
function dieIn(store: EventStore, step: number, changed: number) {
  const { purge } = store;
  const dead = Promise.withResolvers<void>();
  let steps = 0;
  // It gives no sign of life either.
  const { replace } = store.consoleRecords;
  const freeze: typeof replace = async (...record) => {
    if (steps >= step) await dead.promise;
    return await replace(...record);
  };
  Object.assign(store.consoleRecords, { replace: freeze });
  store.purge = async (filter, options) => {
    if (++steps < step) return await purge(filter, options);
    await purge({ ...filter, ids: filter.ids!.slice(0, changed) });
    await dead.promise;
    return await purge(filter, options);
  };
  const live = dead.resolve;
  return { live, isDead: () => Promise.resolve(steps >= step), [Symbol.dispose]: live };
}

/** Reads the events that an act has changed, with what it did to each. */
async function changedBy({ acts }: ConsoleData, id: string): Promise<Record<string, number>> {
  const found: Record<string, number> = {};
  for (let part = 1, parts = 1; part <= parts; part++) {
    const read = (await acts.changed(id, part))!;
    parts = read.parts;
    for (const { fate, event } of read.events) {
      const key = `${fate} ${event?.state ?? "gone"}`;
      found[key] = (found[key] ?? 0) + 1;
    }
  }
  return found;
}

testKv(
  "an act whose process died tells exactly how far it came, and is resumed",
  async (kv, other) => {
    await using sut = await openData(kv);
    await using elsewhere = await openData(await other());
    const { data, store } = sut;
    await storeDead(sut, 70);
    const query = { state: "dead" } as const;
    const { count } = await countFor(data, "purge", query);
    using death = dieIn(store, 2, 7);
    const question = { id: newActId(), kind: "purge", query, of: count, by: "me" } as const;
    const { id } = await data.acts.all(question);
    await until(death.isDead);
    await until(async () => (await store.stats()).dead === 13);
    assertEquals(await changedBy(elsewhere.data, id), {
      "changed gone": 50,
      "underway dead": 13,
      "underway gone": 7,
    });
    using clock = new WallClock();
    clock.advance(6_001);
    const stopped = (await elsewhere.data.acts.get(id))!;
    assertEquals([stopped.state, stopped.changed, stopped.of], ["interrupted", 57, 70]);
    assertEquals(await changedBy(elsewhere.data, id), { "changed gone": 57 });
    const [listed] = (await elsewhere.data.acts.list()).acts;
    assertEquals(listed!.changed, 57);
    // Twice at the same time.
    await Promise.all([1, 2].map((by) => elsewhere.data.acts.resume(id, `you ${by}`)));
    const end = await ended(elsewhere, stopped);
    assertEquals([end.state, end.changed, end.resumed], ["finished", 70, 1]);
    assertEquals(await changedBy(elsewhere.data, id), { "changed gone": 70 });
    const resumed = elsewhere.logged.filter(({ message }) => message === "console act resumed");
    assertEquals(resumed.length, 1);
    // The process was only silent: it finds that somebody else has gone on, and changes nothing of the record.
    death.live();
    const isOver = () => sut.logged.some(({ message }) => message === "console act ended");
    await until(() => Promise.resolve(isOver()));
    assertEquals(await elsewhere.data.acts.get(id), end);
  },
);

testKv(
  "an act that was stopped goes on where it was resumed, in any instance",
  async (kv, other) => {
    await using sut = await openData(kv);
    await using elsewhere = await openData(await other());
    const { data, store } = sut;
    await accept(sut, 160);
    const act = await actOnAll(data, "cancel", { state: "queued" });
    await until(async () => (await data.acts.get(act.id))!.changed > 0);
    await elsewhere.data.acts.end(act.id, "you");
    const stopped = await ended(sut, act);
    assertEquals([stopped.state, stopped.changed < 160], ["stopped", true]);
    assertEquals(stopped.changed, (await store.stats()).dead);
    assertEquals(await ended(elsewhere, act), stopped);
    await elsewhere.data.acts.resume(act.id, "they");
    await elsewhere.data.acts.resume(act.id, "they");
    // It is stopped anew as well.
    await data.acts.end(act.id, "me again");
    const again = await ended(elsewhere, act);
    assertEquals([again.state, again.stoppedBy, again.resumedBy], ["stopped", "me again", "they"]);
    assertEquals(await ended(sut, act), again);
    await data.acts.resume(act.id, "they");
    const { state, changed, seen } = await ended(sut, act);
    assertEquals([state, changed, seen], ["finished", 160, 160]);
    assertEquals(await changedBy(data, act.id), { "changed dead": 160 });
    // What is finished stays so.
    await data.acts.resume(act.id, "they");
    assertEquals((await data.acts.get(act.id))!.state, "finished");
  },
);

Deno.test("a resumed replay leaves what has died again meanwhile", async () => {
  await using sut = await openData();
  const { data, store } = sut;
  await storeDead(sut, 60);
  const act = await actOnAll(data, "replay", { state: "dead" });
  await until(async () => (await data.acts.get(act.id))!.changed === 50);
  await data.acts.end(act.id, "me");
  await ended(sut, act);
  for (const lease of await claimAll(store)) await store.bury(lease, "again");
  await data.acts.resume(act.id, "me");
  assertEquals((await ended(sut, act)).changed, 60);
  assertEquals((await store.stats()).dead, 50);
  assertEquals(await changedBy(data, act.id), { "changed dead": 50, "changed queued": 10 });
});

Deno.test("the list of an act tells which events had changed before their turn", async () => {
  await using sut = await openData();
  const { data, store } = sut;
  await buryAll(store, ["a", "b", "c"]);
  const { purge } = store;
  store.purge = async (filter, options) => {
    await store.replay("b");
    return await purge(filter, options);
  };
  const act = await actOnAll(data, "purge", { state: "dead" });
  assertEquals((await ended(sut, act)).changed, 2);
  assertEquals(await changedBy(data, act.id), { "changed gone": 2, "left queued": 1 });
  assertEquals(await data.acts.changed("0-12345678", 1), null);
  assertEquals((await data.acts.changed(act.id, 99))!.events, []);
});

Deno.test("an act that takes long to find its events gives signs of life", async () => {
  await using sut = await openData();
  const { store, data, kv } = sut;
  const finding = Promise.withResolvers<void>();
  const { list } = store;
  store.list = ((options) => {
    const found = list(options);
    const { next } = found;
    found.next = async () => {
      await finding.promise;
      return await next.call(found);
    };
    return found;
  }) as typeof list;
  const act = await actOnAll(data, "cancel", { state: "queued" });
  const [key] = await recordKeys(kv, "act");
  const { versionstamp } = await kv.get(key!);
  await until(async () => (await kv.get(key!)).versionstamp !== versionstamp);
  finding.resolve();
  assertEquals((await ended(sut, act)).state, "finished");
});

Deno.test("an act on many is logged with its filter, and at its end with its result", async () => {
  await using sut = await openData();
  const { data, store, logged } = sut;
  await buryAll(store, ["a", "b"]);
  const query = { state: "dead", type: "push" } as const;
  const { id } = await ended(sut, await actOnAll(data, "purge", query));
  const [begun, end] = await until(() =>
    Promise.resolve(logged.length > 1 && logged.filter(({ message }) => /act/.test(message)))
  );
  const { level: _, time: _time, ...first } = begun as unknown as Record<string, unknown>;
  assertEquals([first.message, first.kind, first.actId], ["console act", "purge", id]);
  assertEquals([first.query, first.by], [query, "me"]);
  const { message, state, changed, seen, actId } = end as unknown as Record<string, unknown>;
  assertEquals([message, state, changed, seen], ["console act ended", "finished", 2, 2]);
  assertEquals(actId, id);
});

Deno.test("an act that changes nothing on one event is only logged", async () => {
  await using sut = await openData();
  const { data, store, kv, logged } = sut;
  await buryAll(store, ["dead"]);
  await store.accept(delivery("done"));
  await store.complete(await claimOne(store));
  await store.accept(delivery("running"));
  await claimOne(store);
  assertEquals((await actOn(data, "cancel", "running")).changed, 1);
  const acts = [["cancel", "unknown"], ["cancel", "dead"], ["cancel", "running"]] as const;
  for (const [kind, id] of [...acts, ["replay", "done"] as const]) {
    const { changed, state } = await actOn(data, kind, id);
    assertEquals([changed, state], [0, "finished"], id);
  }
  assertEquals((await recordKeys(kv, "act")).length, 1);
  assertEquals(logged.filter(({ message }) => message === "console act").length, 5);
});

Deno.test("who sends another's form again is logged by their own name, and has changed nothing", async () => {
  await using sut = await openData();
  const { data, store, logged } = sut;
  await buryAll(store, ["a", "b"]);
  const one = await actOn(data, "replay", "a", { by: "operator A" });
  const query = { state: "dead" } as const;
  const all = await ended(sut, await actOnAll(data, "purge", query, { by: "operator A" }));
  assertEquals(
    (await actOn(data, "replay", "a", { by: "operator B", id: one.id })).by,
    "operator A",
  );
  assertEquals((await actOn(data, "purge", "other", { by: "operator B", id: one.id })).changed, 1);
  assertEquals(
    (await actOnAll(data, "purge", query, { by: "operator B", id: all.id })).by,
    "operator A",
  );
  const common = { by: "operator B", begunBy: "operator A" };
  assertEquals(
    logged.filter(({ by }) => by === "operator B").map(({ level: _, time: _time, ...rest }) =>
      rest as Record<string, unknown>
    ),
    [
      { kind: "replay", actId: one.id, eventId: "a" },
      { kind: "purge", actId: one.id, eventId: "other" },
      { kind: "purge", actId: all.id, query },
    ].map((each) => ({ message: "console act sent again", ...each, ...common })),
  );
});

Deno.test("of two who send a form at the same time each is logged by their own name", async () => {
  await using sut = await openData();
  const { data, store, logged } = sut;
  await buryAll(store, ["a"]);
  const id = newActId();
  await Promise.all(["A", "B"].map((by) => actOn(data, "replay", "a", { by, id })));
  const said = logged.filter(({ message }) => String(message).startsWith("console act"));
  assertEquals(said.map(({ message }) => message).sort(), [
    "console act",
    "console act sent again",
  ]);
  assertEquals(new Set(said.map((each) => each.by)), new Set(["A", "B"]));
});

Deno.test("acts on one event do not push out the record of an act on many", async () => {
  await using sut = await openData();
  const { data, store, kv } = sut;
  await buryAll(store, ["a"]);
  const many = await ended(sut, await actOnAll(data, "purge", { state: "dead" }));
  await accept(sut, 101);
  await actOn(data, "cancel", "q0");
  const key = (await recordKeys(kv, "act")).at(-1)!;
  const value = await valueAt<object>(kv, key);
  const idle = { ...value, eventId: undefined, query: {}, changed: 0 };
  for (let i = 0; i < 2_100; i += 50) {
    const write = kv.atomic();
    for (let k = i; k < i + 50; k++) {
      const id = newActId(Date.now() + 1_000 + k);
      const at = parseInt(id.split("-")[0]!, 36);
      const act = encodeValue({ ...(k < 100 ? idle : value), id });
      write.set(["bot", "console", "act", at, id], act);
    }
    await write.commit();
  }
  for (let i = 1; i < 100; i++) await actOn(data, "cancel", `q${i}`);
  const keys = await until(async () => {
    const keys = await recordKeys(kv, "act");
    return keys.length <= 2_000 && keys;
  });
  assertEquals(keys.length, 2_000);
  assertEquals((await data.acts.get(many.id))?.changed, 1);
  const kept = await Array.fromAsync(
    kv.list({ prefix: ["bot", "console", "act"] }),
    ({ value }) => decodeValue(value)!.value as Act,
  );
  assertEquals(kept.filter(({ changed }) => changed === 0), []);
});

Deno.test("a replay of done events counts those whose payloads are kept", async () => {
  await using sut = await openData();
  const { data, store, kv } = sut;
  const keepPayloads = { maxBytes: 1_000_000, forMs: 3_600_000 };
  const keeping = await openEventStore(kv, { namespace: NAMESPACE, keepPayloads });
  for (const [i, each] of [store, keeping, store].entries()) {
    await each.accept(delivery(`e${i}`));
    await each.complete(await claimOne(each));
  }
  const query = { state: "done" } as const;
  const { count, notKept } = await countFor(data, "replay", query);
  assertEquals([count, notKept], [1, 2]);
  assertEquals((await countFor(data, "purge", query)).count, 3);
  const end = await ended(sut, await actOnAll(data, "replay", query));
  assertEquals([end.changed, end.seen, end.notKept], [1, 3, 2]);
  assertEquals((await store.get("e1"))!.state, "queued");
});

/** Copies the record of a dead event under many ids. */
async function copyDead({ kv }: DataUnderTest, count: number): Promise<void> {
  const [original] = await Array.fromAsync(kv.list({ prefix: [NAMESPACE, "event"] }));
  const [mark] = await Array.fromAsync(kv.list({ prefix: [NAMESPACE, "dead"] }));
  const receivedAt = Number(original!.key.at(-2));
  const { value, body } = decodeValue(original!.value)!;
  for (let i = 0; i < count; i += 300) {
    const write = kv.atomic();
    for (let k = i; k < Math.min(count, i + 300); k++) {
      const [id, at] = [`copy${k}`, receivedAt - k];
      const record = encodeValue({ ...value as object, id, receivedAt: at }, body);
      write.set([NAMESPACE, "event", at, id], record).set([NAMESPACE, "id", id], encodeValue(at))
        .set([NAMESPACE, "dead", at, id], mark!.value);
    }
    await write.commit();
  }
}

Deno.test("the question before an act on many counts exactly, and tells how far it has come", async () => {
  await using sut = await openData();
  await buryAll(sut.store, ["a"]);
  await copyDead(sut, 10_500);
  const data = new ConsoleData(sut.store, () => {});
  const counts = [await countFor(data, "replay", { state: "dead" })];
  while (counts.at(-1)!.isMore) {
    counts.push(await countFor(data, "replay", { state: "dead" }, true));
  }
  assertEquals(counts.at(-1)!.count, 10_501);
  assertEquals(new Set(counts.map(({ askedAt }) => askedAt)).size, 1);
  assert(counts[0]!.isMore && counts[0]!.count < 10_501);
  // The page that waits for it may ask again, and who asks anew gets another count.
  assertEquals((await countFor(data, "replay", { state: "dead" }, true)).count, 10_501);
  assert((await countFor(data, "replay", { state: "dead" })).isMore);
  await data.stop();
});

Deno.test("a count that nobody looks at any more ends", async () => {
  using time = new FakeTime();
  await using sut = await openData();
  const { store } = sut;
  await buryAll(store, ["a"]);
  const { list } = store;
  let lists = 0;
  // A list that always has a next page.
  store.list = ((options) => {
    lists++;
    return Object.defineProperty(list(options), "cursor", { get: () => "0:x", set: () => {} });
  }) as typeof list;
  const data = new ConsoleData(sut.store, () => {});
  const first = countFor(data, "replay", { state: "dead" });
  await time.tickAsync(100);
  assertEquals((await first).isMore, true);
  while (lists < 3) await time.tickAsync(10);
  await time.tickAsync(10_000);
  await data.stop();
  const ended = lists;
  await time.tickAsync(10_000);
  assertEquals(lists, ended);
});

testKv(
  "an act on many stops when an operator says so, also in another instance",
  async (kv, other) => {
    await using sut = await openData(kv);
    await using elsewhere = await openData(await other());
    const { data, store, logged } = sut;
    await accept(sut, 300);
    for (const [i, at] of [sut, elsewhere].entries()) {
      const { id } = await actOnAll(data, "cancel", { state: "queued" });
      await until(async () => (await at.data.acts.get(id))!.changed > 0);
      await at.data.acts.end(id, `operator ${i}`);
      const { state, stoppedBy, changed } = await ended(sut, { id } as Act);
      assertEquals([state, stoppedBy, changed < 150], ["stopped", `operator ${i}`, true]);
      await until(async () => (await elsewhere.data.acts.get(id))!.state === "stopped");
    }
    const all = (await data.acts.list()).acts.reduce((sum, { changed }) => sum + changed, 0);
    assertEquals((await store.stats()).dead, all);
    // The other instance may read the end of an act before it is logged here.
    await until(() => Promise.resolve(logged.at(-1)!.state === "stopped"));
    await data.acts.end("0-12345678", "me");
  },
);
