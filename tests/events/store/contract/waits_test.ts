/** Events that are parked until their name is woken. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import type { EventStore, LogRecord } from "../../../../events/mod.ts";
import { waitOf, wakeOf } from "../../../../events/store/waits.ts";
import { DAY_MS, NAME, park, recordOf, resultOf, wait } from "../_parking.ts";
import { claimAll, claimOne, delivery, later } from "../_events.ts";
import { answersOf } from "../_parking.ts";
import { stepsOf } from "../_stepping.ts";
import { WallClock } from "../../../_wall_clock.ts";
import {
  assertNothingWaits,
  type StoreUnderTest,
  testStore,
  testStoreInOneProcess,
  testStoreOnce,
} from "./_contract.ts";

/** Checks that nothing but records and ids is left. */
async function assertTidy(sut: Pick<StoreUnderTest, "place">): Promise<void> {
  await assertNothingWaits(sut);
  assertEquals((await sut.place.contents()).names, 0);
}

testStore(
  "a parked event is claimed once it is woken, with the value",
  async ({ place, store }) => {
    await park(store);
    assertEquals(await claimAll(store), []);
    assertEquals(await store.wake(NAME, { yes: true }), { outcome: "woken", eventId: "d1" });
    const lease = await claimOne(store);
    assertEquals([lease.record.attempt, resultOf(lease.record)], [1, ['{"yes":true}']]);
    assertEquals([lease.record.waitingFor, (await place.contents()).names], [undefined, 0]);
    assert(await store.complete(lease));
    await assertTidy({ place });
  },
);

testStore("a parked event notes its wait, and does not count the attempt", async ({ store }) => {
  await park(store);
  const { state, attempt, attempts, lease, dueAt, delayMs, waitingFor, isBegun } = await recordOf(
    store,
  );
  assertEquals([state, attempt, attempts, lease, isBegun], ["parked", 0, [], null, true]);
  assertEquals([waitingFor?.name, dueAt, delayMs], [NAME, waitingFor!.until, DAY_MS]);
  assertEquals(waitingFor!.until - waitingFor!.since, DAY_MS);
});

testStore(
  "a parked event whose time has passed is claimed without a value",
  async ({ place, store }) => {
    await park(store, "d1", undefined, 1);
    await later(5);
    const lease = await claimOne(store);
    assertEquals(resultOf(lease.record), ["timed out"]);
    assert(await store.complete(lease));
    assertEquals(await store.wake(NAME), { outcome: "kept" });
    for await (const answer of store.answers()) assert(await answer.delete());
    await assertTidy({ place });
  },
);

testStore(
  "an event that is woken after its time, but not claimed, gets the value",
  async ({ store }) => {
    await park(store, "d1", undefined, 1);
    await later(5);
    assertEquals((await store.wake(NAME, 1)).outcome, "woken");
    assertEquals(resultOf((await claimOne(store)).record), ["1"]);
    assertEquals(await claimAll(store), []);
  },
);

testStore("of two values for one wait the first one counts", async ({ store }) => {
  await park(store);
  const results = [await store.wake(NAME, 1), await store.wake(NAME, 2)];
  assertEquals(results.map(({ outcome }) => outcome), ["woken", "late"]);
  assertEquals(resultOf((await claimOne(store)).record), ["1"]);
  assertEquals((await store.wake(NAME, 3)).outcome, "kept");
});

testStore(
  "of many that wake an event at once one does, and it is leased once",
  async ({ store }) => {
    await park(store);
    const woken = await Promise.all(Array.from({ length: 10 }, (_, i) => store.wake(NAME, i)));
    const outcomes = woken.map(({ outcome }) => outcome);
    assertEquals(outcomes.filter((each) => each === "woken").length, 1);
    const claims = await Promise.all(Array.from({ length: 5 }, () => claimAll(store)));
    const leases = claims.flat();
    assertEquals(leases.length, 1);
    assertEquals(resultOf(leases[0]!.record), [String(outcomes.indexOf("woken"))]);
  },
);

testStore("a value that comes early is taken under the lease", async ({ place, store }) => {
  assertEquals(await store.wake(NAME, "early"), { outcome: "kept" });
  assertEquals(await store.wake(NAME, "again"), { outcome: "late" });
  await store.accept(delivery("d1"));
  const lease = await claimOne(store);
  const taken = (await store.takeWake(lease, NAME))!;
  assertEquals([resultOf(taken.record), (await place.contents()).names], [['"early"'], 0]);
  assertEquals(await store.complete(lease), false);
  assert(await store.complete(taken));
});

testStoreOnce(
  "a value that is older than the event that takes it is logged",
  async ({ elsewhere }) => {
    using clock = new WallClock();
    const logged: LogRecord[] = [];
    for (const how of ["takeWake", "park"] as const) {
      await using sut = await elsewhere({ log: (record) => void logged.push(record) });
      const { store } = sut;
      await store.wake(NAME, "to an earlier question");
      clock.advance(60_000);
      await store.accept(delivery("d1"));
      const lease = await claimOne(store);
      if (how === "takeWake") await store.takeWake(lease, NAME);
      else await store.park(lease, wait);
      assertEquals(resultOf(await recordOf(store)), ['"to an earlier question"']);
    }
    assertEquals(
      logged.map(({ level, message, eventId, waitedFor }) => [level, message, eventId, waitedFor]),
      Array(2).fill(["warn", "answer is older than its event", "d1", NAME]),
    );
    assert(Number(logged[0]!.olderByMs) >= 60_000);
  },
);

testStoreOnce("a value that may be as old as the event is not logged", async ({ place }) => {
  using clock = new WallClock();
  const logged: LogRecord[] = [];
  const store = await place.open({ log: (record) => void logged.push(record) });
  await store.wake(NAME, "at once");
  clock.advance(900);
  await store.accept(delivery("d1"));
  const lease = await claimOne(store);
  await store.takeWake(lease, NAME);
  assertEquals([resultOf(await recordOf(store)), logged], [['"at once"'], []]);
});

testStore("nothing is written while there is no early value to take", async ({ store }) => {
  await store.accept(delivery("d1"));
  const lease = await claimOne(store);
  assertEquals(await store.takeWake(lease, NAME), lease);
});

testStore(
  "an event whose name is woken before it is parked is due at once",
  async ({ place, store }) => {
    await store.accept(delivery("d1", "{}", "repo"));
    await store.accept(delivery("d2", "{}", "repo"));
    const lease = await claimOne(store);
    await store.wake(NAME, 1);
    assert(await store.park(lease, wait));
    const again = await claimOne(store);
    const { id, group, attempt } = again.record;
    assertEquals([id, group?.key, attempt, resultOf(again.record)], ["d1", "repo", 1, ["1"]]);
    assert(await store.complete(again));
    assert(await store.complete(await claimOne(store)));
    await assertTidy({ place });
  },
);

testStore(
  "a parked event leaves its group, and joins it when it is woken",
  async ({ place, store }) => {
    await store.accept(delivery("d1", "{}", "repo"));
    await store.accept(delivery("d2", "{}", "repo"));
    assert(await store.park(await claimOne(store), wait));
    const second = await claimOne(store);
    assertEquals(second.record.id, "d2");
    await store.accept(delivery("d3", "{}", "repo"));
    await store.wake(NAME, 1);
    assertEquals(await claimAll(store), []);
    const { state, group, dueAt, woken } = await recordOf(store);
    assertEquals([state, group?.key, dueAt, woken?.length], ["queued", "repo", null, 1]);
    const order = [];
    for (let lease = second; lease; lease = (await claimAll(store))[0]!) {
      order.push(lease.record.id);
      assert(await store.complete(lease));
    }
    assertEquals(order, ["d2", "d3", "d1"]);
    await assertTidy({ place });
  },
);

testStore(
  "the next event of a group is due once the first one is parked",
  async ({ place, store }) => {
    await park(store, "d1", "repo");
    assertEquals((await place.contents()).positions, 0);
    await store.wake(NAME);
    const lease = await claimOne(store);
    assertEquals(lease.record.group?.key, "repo");
    assertEquals(resultOf(lease.record), [undefined]);
  },
);

testStore("two events do not wait for one name", async ({ store }) => {
  await park(store);
  await store.accept(delivery("d2"));
  const lease = await claimOne(store);
  const message = `Cannot wait for "${NAME}": event d1 waits for it already`;
  for (const refused of [() => store.takeWake(lease, NAME), () => store.park(lease, wait)]) {
    const error = await assertRejects(refused, Error, message);
    assertEquals(error.name, "WaitRefusedError");
  }
  assert(await store.complete(lease));
});

testStore("of two events that begin to wait for a name at once one does", async ({ store }) => {
  await store.accept(delivery("d1"));
  await store.accept(delivery("d2"));
  const leases = await claimAll(store);
  const parked = await Promise.allSettled(leases.map((lease) => store.park(lease, wait)));
  assertEquals(parked.filter(({ status }) => status === "fulfilled").length, 1);
  assertEquals((await store.stats()).parked, 1);
});

testStore(
  "a parked event that is cancelled is dead, and its name free",
  async ({ place, store }) => {
    await park(store, "d1", "repo");
    assert(await store.cancel("d1"));
    const { state, outcome, waitingFor, settledAt } = await recordOf(store);
    assertEquals([state, outcome, waitingFor, settledAt === null], [
      "dead",
      "cancelled",
      undefined,
      false,
    ]);
    await assertTidy({ place });
    assertEquals(await store.wake(NAME, 1), { outcome: "kept" });
  },
);

testStore(
  "a cancelled event that was woken before it was claimed is not leased",
  async ({ place, store }) => {
    await park(store);
    await store.wake(NAME, 1);
    assert(await store.cancel("d1"));
    assertEquals(await claimAll(store), []);
    assertEquals((await recordOf(store)).state, "dead");
    await assertTidy({ place });
  },
);

testStore("an event that is cancelled before it is parked is dead", async ({ place, store }) => {
  await store.accept(delivery("d1", "{}", "repo"));
  const lease = await claimOne(store);
  assert(await store.cancel("d1"));
  const flagged = (await store.recover(lease))!;
  await assertRejects(() => store.takeWake(flagged, NAME), Error, "the event was cancelled");
  assert(await store.park(flagged, wait));
  assertEquals((await recordOf(store)).outcome, "cancelled");
  await assertTidy({ place });
});

testStore("a lost lease parks nothing, and takes no value", async ({ place, store }) => {
  await store.accept(delivery("d1"));
  const lease = await claimOne(store);
  assert(await store.release(lease));
  assertEquals(await store.park(lease, wait), false);
  await store.wake(NAME, 1);
  assertEquals(await store.takeWake(lease, NAME), null);
  assertEquals((await place.contents()).names, 1);
});

testStore("a dead event that is replayed keeps its steps and answers", async ({ store }) => {
  await store.accept(delivery("d1"));
  const asked = await store.note(await claimOne(store), {
    is: "step",
    name: "asked",
    json: "true",
  });
  assert(await store.park(asked!, wait));
  await store.wake(NAME, 1);
  const answered = await claimOne(store);
  assertEquals(stepsOf(answered), ["asked"]);
  assert(await store.bury(answered, new Error("no")));
  assertEquals(resultOf(await recordOf(store)), ["1"]);
  assert(await store.replay("d1"));
  const again = await claimOne(store);
  assertEquals([resultOf(again.record), stepsOf(again)], [["1"], ["asked"]]);
  assertEquals(again.record.keyRun, undefined);
  assert(await store.bury(again, new Error("no")));
  assert(await store.replay("d1", { fresh: true }));
  const anew = await claimOne(store);
  // Without the answer it would wait for one to a question that nobody is asked.
  assertEquals([resultOf(anew.record), stepsOf(anew), anew.record.keyRun], [[], [], 2]);
  assert(await store.park(anew, wait));
  await store.wake(NAME, 2);
  assertEquals(resultOf((await claimOne(store)).record), ["2"]);
});

testStore("a new delivery of an event that died after its answer keeps that", async ({ store }) => {
  await store.accept(delivery("d1"));
  const asked = await store.note(await claimOne(store), {
    is: "step",
    name: "asked",
    json: "true",
  });
  assert(await store.park(asked!, wait));
  await store.wake(NAME, 1);
  assert(await store.bury(await claimOne(store), new Error("no")));
  assertEquals((await store.accept(delivery("d1"))).duplicate, false);
  const again = await claimOne(store);
  assertEquals([resultOf(again.record), stepsOf(again)], [["1"], ["asked"]]);
  assertEquals(again.record.keyRun, undefined);
});

testStore("a parked event is neither purged nor taken in again", async ({ store }) => {
  await park(store);
  assertEquals((await store.purge({})).changed, 0);
  assertEquals(await store.accept(delivery("d1")), { id: "d1", duplicate: true });
  const { parked, queued, oldestWaitingAt } = await store.stats();
  assertEquals([parked, queued, oldestWaitingAt], [1, 0, null]);
  assertEquals((await Array.fromAsync(store.list({ state: "parked" }))).length, 1);
  assertEquals((await store.cancelAll({ state: "parked" })).changed, 1);
});

testStore("a retry and a put-off keep the results of earlier waits", async ({ store }) => {
  await park(store);
  await store.wake(NAME, 1);
  assert(await store.retry(await claimOne(store), 0, new Error("no")));
  assert(await store.release(await claimOne(store)));
  const lease = await claimOne(store);
  assertEquals(resultOf(lease.record), ["1"]);
  assert(await store.park(lease, { name: "second", timeoutMs: DAY_MS }));
  await store.wake("second", 2);
  assertEquals(resultOf((await claimOne(store)).record), ["1", "2"]);
});

testStore("an event wakes names in the commit that settles it", async ({ store }) => {
  await park(store);
  await store.accept(delivery("d2", "{}", "repo"));
  const wakes = [wakeOf(NAME, 1), wakeOf("other", 2), wakeOf("third", 3), wakeOf("fourth", 4)];
  assert(await store.complete(await claimOne(store), { wakes }));
  assertEquals(resultOf((await claimOne(store)).record), ["1"]);
  for (const name of ["other", "third", "fourth"]) {
    assertEquals((await store.wake(name)).outcome, "late");
  }
});

testStore(
  "a lost lease wakes nothing, and neither does a cancelled event",
  async ({ place, store }) => {
    await store.accept(delivery("d1"));
    const lease = await claimOne(store);
    assert(await store.cancel("d1"));
    const wakes = [wakeOf(NAME, 1)];
    assertEquals(await store.complete(lease, { wakes }), false);
    assert(await store.complete((await store.recover(lease))!, { wakes }));
    assertEquals((await place.contents()).names, 0);
  },
);

testStore("note() wakes names in its commit", async ({ store }) => {
  await park(store);
  await store.accept(delivery("d2"));
  const lease = await claimOne(store);
  assert(
    await store.note(lease, { is: "handler", name: "part" }, undefined, {
      wakes: [wakeOf(NAME, 1)],
    }),
  );
  assertEquals(resultOf((await claimOne(store)).record), ["1"]);
});

testStoreInOneProcess(
  "effects are refused beside wakes as they are without",
  async ({ place, store }) => {
    await park(store);
    await store.accept(delivery("d2", "{}", "repo"));
    const lease = await claimOne(store);
    const effects = place.effects.refused();
    const settling = store.complete(lease, { effects, wakes: [wakeOf(NAME, 1)] });
    await assertRejects(() => settling, Error, place.effects.refusal);
    assertEquals(await claimAll(store), []);
  },
);

testStoreInOneProcess("effects and wakes are in one commit", async ({ place, store }) => {
  await park(store);
  await store.accept(delivery("d2", "{}", "repo"));
  await store.accept(delivery("d3", "{}", "repo"));
  const wakes = [NAME, "b", "c", "d"].map((name) => wakeOf(name, name));
  const effects = place.effects.set("effect", 1);
  assert(await store.complete(await claimOne(store), { effects, wakes }));
  assertEquals(await place.effects.get("effect"), 1);
  const leases = await claimAll(store);
  assertEquals(leases.map(({ record }) => record.id).sort(), ["d1", "d3"]);
  assertEquals((await store.wake("d")).outcome, "late");
});

testStore(
  "an event does not take the value of another one at the end of its time",
  async (sut) => {
    const { damages, store } = sut;
    for (const id of ["d1", "d2"]) await store.accept(delivery(id));
    const leases = (await claimAll(store)).sort((a, b) => a.record.id < b.record.id ? -1 : 1);
    assert(await store.park(leases[0]!, { name: NAME, timeoutMs: 1 }));
    await damages.lose("name", NAME);
    assert(await store.park(leases[1]!, wait));
    await later(5);
    assertEquals(await store.wake(NAME, 1), { outcome: "woken", eventId: "d2" });
    // If d2 is claimed while d1 is looked at, d1 is left to the next claim.
    const claimed = [...await claimAll(store), ...await claimAll(store)];
    const results = claimed.map(({ record }) => [record.id, ...resultOf(record)]);
    assertEquals(results.sort(), [["d1", "timed out"], ["d2", "1"]]);
  },
  {},
  "damages",
);

testStore(
  "a wake is not swallowed by an event whose record is gone",
  async ({ damages, store }) => {
    await park(store);
    await damages.lose("event", "d1");
    assertEquals(await store.wake(NAME, 1), { outcome: "kept" });
    await store.accept(delivery("d2"));
    const lease = await claimOne(store);
    assertEquals(resultOf((await store.takeWake(lease, NAME))!.record), ["1"]);
  },
  {},
  "damages",
);

testStore(
  "an event that was unreadable for a while takes the value that came meanwhile",
  async (sut) => {
    const { damages, place, store } = sut;
    await park(store, "d1", undefined, 1);
    const restore = await damages.spoil("event", "d1");
    assertEquals(await store.wake(NAME, 1), { outcome: "kept" });
    await restore();
    await later(5);
    assertEquals(resultOf((await claimOne(store)).record), ["1"]);
    assertEquals((await place.contents()).names, 0);
  },
  {},
  "damages",
);

testStore(
  "an entry of a name that another version wrote is left alone",
  async ({ damages, store }) => {
    await store.wake(NAME, 1);
    const restore = await damages.spoil("name", NAME);
    await assertRejects(() => store.wake(NAME), Error, `Cannot wake "${NAME}": another version`);
    await store.accept(delivery("d1"));
    const lease = await claimOne(store);
    await assertRejects(() => store.park(lease, wait), Error, `Cannot wait for "${NAME}": another`);
    await restore();
    assertEquals(await store.park(lease, wait), true);
    assertEquals(resultOf((await claimOne(store)).record), ["1"]);
  },
  {},
  "damages",
);

testStoreInOneProcess(
  "an event whose name has an entry that cannot be read stays parked, and no other",
  async ({ damages, place }) => {
    const store = await place.open({ log: () => {} });
    await park(store, "d1", undefined, 1);
    const restore = await damages.spoil("name", NAME);
    await later(5);
    await store.accept(delivery("d2"));
    await store.complete(await claimOne(store));
    // It fails for itself until it is put off.
    for (let i = 0; i < 3; i++) await claimAll(store).catch(() => {});
    assertEquals(await claimAll(store), []);
    assertEquals((await recordOf(store)).state, "parked");
    await restore();
    await damages.makeDue("d1");
    const lease = await claimOne(store);
    assertEquals([lease.record.id, ...resultOf(lease.record)], ["d1", "timed out"]);
  },
  {},
  "damages",
);

testStore("a batch of several events does not wait", async ({ store }) => {
  for (const id of ["d1", "d2"]) {
    await store.accept({ ...delivery(id, "{}", "repo"), quietMs: 1, maxWaitMs: 1 });
  }
  await later(5);
  const lease = await claimOne(store);
  const message = "Cannot wait: the event is handled together with others";
  await assertRejects(() => store.takeWake(lease, NAME), Error, message);
  await assertRejects(() => store.park(lease, wait), Error, message);
  assert(await store.complete(lease));
});

testStore("a batch of one event waits, and is handled alone after that", async ({ store }) => {
  await store.accept({ ...delivery("d1", "{}", "repo"), quietMs: 1, maxWaitMs: 1 });
  await later(5);
  assert(await store.park(await claimOne(store), wait));
  const { quiet, batch, joinsLater } = await recordOf(store);
  assertEquals([quiet, batch, joinsLater], [undefined, undefined, true]);
  await store.wake(NAME);
  assert(await store.complete(await claimOne(store)));
});

testStore("a large payload is still there when its event is woken", async ({ store }) => {
  const text = JSON.stringify({ text: "a".repeat(100_000) });
  await store.accept(delivery("d1", text));
  assert(await store.park(await claimOne(store), wait));
  await store.wake(NAME);
  const lease = await claimOne(store);
  assertEquals((await store.load(lease)).byteLength, text.length);
});

testStore("the results of waits take 18,432 bytes at most", async ({ store }) => {
  const value = "a".repeat(8_190);
  await store.accept(delivery("d1"));
  for (const name of ["first", "second"]) {
    const lease = await claimOne(store);
    assert(await store.takeWake(lease, name));
    assert(await store.park(lease, { name, timeoutMs: DAY_MS }));
    await store.wake(name, value);
  }
  const lease = await claimOne(store);
  await assertRejects(
    () => store.takeWake(lease, "third"),
    RangeError,
    "Cannot wait: the results of the event's 2 waits take 16527 bytes, and with a value of 8192 they " +
      "would take over 18432. Wake it with smaller ones",
  );
  // A record holds them together with the longest errors, and all that may be noted as done.
  let held = lease;
  for (let i = 0; i < 16; i++) {
    held = (await store.note(held, { is: "handler", name: `${i}`.padEnd(1_000, "ä") }))!;
  }
  for (let i = 0; i < 12; i++) {
    assert(await store.retry(held, 0, new Error("ß".repeat(2_000) + "漢")));
    held = await claimOne(store);
  }
});

const BAD_NAMES: readonly [unknown, string][] = [
  ["", '""'],
  ["a".repeat(257), `"${"a".repeat(40)}"…`],
  [undefined, "undefined"],
  [42, "42"],
  [["a"], "an array"],
  ["\ud800", '"\\ud800"'],
];

for (const [name, shown] of BAD_NAMES) {
  Deno.test(`neither a wait nor a wake takes the name ${shown}`, () => {
    const wanted = `the name must be a well-formed text of 1 to 256 characters, got ${shown}`;
    assertThrows(() => waitOf(name as string), TypeError, `Cannot wait: ${wanted}`);
    assertThrows(() => wakeOf(name as string, 1), TypeError, `Cannot wake an event: ${wanted}`);
  });
}

for (const timeoutMs of [0, -1, 0.5, NaN, Infinity, 31_536_000_001, "60" as unknown as number]) {
  Deno.test(`a wait takes no time of ${timeoutMs} (${typeof timeoutMs})`, () => {
    const message =
      "Cannot wait for \"a\": 'timeoutMs' must be a whole number from 1 to 31536000000";
    assertThrows(() => waitOf("a", { timeoutMs }), RangeError, message);
  });
}

const circle: { self?: unknown } = {};

circle.self = circle;

for (const value of [() => 1, Symbol("a"), 1n, circle]) {
  Deno.test(`a wake takes no value that JSON has not: ${typeof value}`, () => {
    const message = 'Cannot wake "a": the value must be one that JSON has, got ';
    assertThrows(() => wakeOf("a", value), TypeError, message);
  });
}

Deno.test("a wake takes a value of up to 8,192 bytes", () => {
  for (const text of ["a".repeat(8_190), "漢".repeat(2_730)]) assert(wakeOf("a", text));
  for (const text of ["a".repeat(8_191), "漢".repeat(2_731)]) {
    assertThrows(() => wakeOf("a", text), RangeError, 'Cannot wake "a": the value takes 819');
  }
  assertEquals(wakeOf("a", undefined), { name: "a" });
  assertEquals(wakeOf("a", null), { name: "a", value: "null" });
});

testStoreOnce("a name of the longest characters fits a key", async ({ elsewhere }) => {
  const { place, store } = await elsewhere();
  await store.wake("漢".repeat(256), 1);
  assertEquals((await store.wake("漢".repeat(256), 1)).outcome, "late");
  place.close();
});

testStore("answers() lists the values that no event has taken", async ({ store }) => {
  await store.wake("b", { approved: true });
  await store.wake("a");
  await park(store);
  const early = [
    { name: "a", value: undefined, eventId: undefined },
    { name: "b", value: { approved: true }, eventId: undefined },
  ];
  assertEquals(await answersOf(store), early);
  await store.wake(NAME, 1);
  const woken = { name: NAME, value: 1, eventId: "d1" };
  assertEquals((await answersOf(store)).filter(({ eventId }) => eventId), [woken]);
  await claimOne(store);
  assertEquals(await answersOf(store), early);
});

testStore(
  "a parked event whose name was woken is counted until it is claimed",
  async ({ store }) => {
    const count = () => store.inspect.countAnswered(100);
    await store.wake("early", 1);
    await park(store);
    assertEquals(await count(), { count: 0, isMore: false });
    await store.wake(NAME, 1, { by: "Ada" });
    assertEquals(await count(), { count: 1, isMore: false });
    assertEquals((await store.inspect.countAnswered(1)).isMore, true);
    const [answer] = await Array.fromAsync(store.answers({ names: [NAME] }));
    assertEquals([answer?.eventId, answer?.by], ["d1", "Ada"]);
    await claimOne(store);
    assertEquals(await count(), { count: 0, isMore: false });
  },
);

testStore("an answer is deleted unless an event takes it", async ({ store }) => {
  await store.wake("early", 1);
  await park(store);
  await store.wake(NAME, 1);
  const before = Date.now();
  const answers = await Array.fromAsync(store.answers());
  const [taken, early] = [
    answers.find(({ eventId }) => eventId)!,
    answers.find((each) => !each.eventId)!,
  ];
  assert(Math.abs(early.keptUntil! - before - 7 * DAY_MS) < 60_000);
  assertEquals([taken.keptUntil, await taken.delete(), await early.delete()], [
    undefined,
    false,
    true,
  ]);
  assertEquals((await answersOf(store)).map(({ name }) => name), [NAME]);
  assertEquals(resultOf((await claimOne(store)).record), ["1"]);
  assertEquals((await store.wake("early", 2)).outcome, "kept");
  // It is another answer by now.
  assertEquals(await early.delete(), false);
});

testStore(
  "answers() passes over what it cannot read",
  async ({ damages, store }) => {
    for (const name of ["a", "b", "c"]) await store.wake(name, name);
    await damages.spoil("name", "a");
    assertEquals((await answersOf(store)).map(({ name, value }) => [name, value]), [
      ["b", "b"],
      ["c", "c"],
    ]);
  },
  {},
  "damages",
);

testStoreInOneProcess(
  "answers() lists those of names, or of a beginning of them",
  async ({ store }) => {
    for (const name of ["a:1", "a:2", "b:1", "b:2"]) await store.wake(name, name);
    const names = async (options?: Parameters<EventStore["answers"]>[0]) =>
      (await Array.fromAsync(store.answers(options))).map(({ name }) => name);
    assertEquals(await names(), ["a:1", "a:2", "b:1", "b:2"]);
    assertEquals(await names({ prefix: "a:" }), ["a:1", "a:2"]);
    assertEquals(await names({ prefix: "c" }), []);
    assertEquals(await names({ names: ["b:2", "a:1", "b:2", "x"] }), ["a:1", "b:2"]);
    assertEquals(await names({ names: ["b:2", "a:1"], prefix: "b" }), ["b:2"]);
    assertThrows(
      () => store.answers({ names: "a" } as never),
      TypeError,
      "'names' must be an array",
    );
    assertThrows(() => store.answers({ prefix: 5 } as never), TypeError, "'prefix' must be a text");
  },
);
