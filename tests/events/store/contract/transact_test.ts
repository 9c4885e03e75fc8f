import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import type { TransactionActions } from "../../../../events/mod.ts";
import { claimAll, claimOne, delivery, idsOf } from "../_events.ts";
import { NAME, park, recordOf, resultOf } from "../_parking.ts";
import { testFailing, testStore, testStoreOnce } from "./_contract.ts";

testStore("transact() commits writes, events and wake-ups, and returns the result", async (sut) => {
  const { store, place: { effects } } = sut;
  await park(store, "parked");
  const id = await store.transact((tx, { emit, wake }) => {
    effects.set("a", 1)(tx);
    effects.set("b", "text")(tx);
    wake(NAME, { by: "route" });
    return emit("jobs", "made", { team: "a" }, { group: "g" });
  });
  assertMatch(id, /^jobs:\w/);
  assertEquals([await effects.get("a"), await effects.get("b")], [1, "text"]);
  const leases = await claimAll(store);
  assertEquals(new Set(idsOf(leases)), new Set(["parked", id]));
  assertEquals(resultOf(await recordOf(store, "parked")), ['{"by":"route"}']);
  const emitted = leases.find(({ record }) => record.id === id)!;
  assertEquals([emitted.record.causedBy, emitted.record.orderingKey], [undefined, "g"]);
  assertEquals(JSON.parse(new TextDecoder().decode(await store.load(emitted))), { team: "a" });
});

testStore("transact() commits nothing if the function throws", async ({ store, place }) => {
  const { effects } = place;
  await park(store, "parked");
  const error = new TypeError("no");
  const failing = () =>
    store.transact((tx, { emit, wake }) => {
      effects.set("a", 1)(tx);
      emit("jobs", "made", {}, { id: "1" });
      wake(NAME);
      throw error;
    });
  for (let i = 0; i < 2; i++) await assertRejects(failing, TypeError, "no");
  assertEquals([await effects.get("a"), await store.get("jobs:1")], [null, null]);
  assertEquals((await recordOf(store, "parked")).state, "parked");
  assertEquals(await claimAll(store), []);
});

testStore("transact() commits nothing if the writes are refused", async ({ store, place }) => {
  const { effects } = place;
  const refused = () =>
    store.transact((tx, { emit }) => {
      effects.set("a", 1)(tx);
      emit("jobs", "made", {}, { id: "1" });
      effects.refused()(tx);
    });
  for (let i = 0; i < 2; i++) await assertRejects(refused, Error, effects.refusal);
  assertEquals([await effects.get("a"), await store.get("jobs:1")], [null, null]);
});

testStore("transact() stores no event whose id is known", async ({ store, place }) => {
  const ids = await Promise.all([1, 2, 3].map((n) =>
    store.transact((tx, { emit }) => {
      place.effects.add("calls", n)(tx);
      return [
        emit("jobs", "made", { n }, { id: "1" }),
        emit("jobs", "made", { n: -n }, { id: "1" }),
      ];
    })
  ));
  assertEquals(new Set(ids.flat()), new Set(["jobs:1"]));
  assertEquals(await place.effects.get("calls"), 6);
  const lease = await claimOne(store);
  assert(JSON.parse(new TextDecoder().decode(await store.load(lease))).n > 0);
});

testStore("transact() makes many transactions at the same time, each once", async (sut) => {
  const { store, place: { effects } } = sut;
  const numbers = Array.from({ length: 60 }, (_, i) => i);
  const results = await Promise.allSettled(numbers.map((n) =>
    store.transact((tx, { emit }) => {
      effects.set(`row/${n}`, n)(tx);
      if (n % 7 === 3) throw new Error(`no ${n}`);
      emit("jobs", "made", { n, at: Math.random() });
      return n;
    })
  ));
  const made = numbers.filter((n) => n % 7 !== 3);
  assertEquals(results.filter(({ status }) => status === "rejected").length, 60 - made.length);
  assertEquals(
    [...(await effects.all("row")).values()].toSorted((a, b) => Number(a) - Number(b)),
    made,
  );
  const leases = await claimAll(store);
  const bodies = await Promise.all(leases.map((lease) => store.load(lease)));
  const ns = bodies.map((body) => JSON.parse(new TextDecoder().decode(body)).n);
  assertEquals(ns.toSorted((a, b) => a - b), made);
});

testStore("transact() wakes a name once of many at the same time", async ({ store, place }) => {
  await park(store, "parked");
  const wakes = [1, 2, 3, 4, 5].map((n) =>
    store.transact((tx, { wake }) => {
      place.effects.set(`row/${n}`, n)(tx);
      wake(NAME, n);
      wake(`other:${n}`, n);
    })
  );
  await Promise.all(wakes);
  assertEquals((await place.effects.all("row")).size, 5);
  assertEquals(idsOf(await claimAll(store)), ["parked"]);
  const answers = await Array.fromAsync(store.answers({ prefix: "other:" }), ({ value }) => value);
  assertEquals(answers, [1, 2, 3, 4, 5]);
});

testStoreOnce("transact() takes what the last call has added", async ({ store, place }) => {
  let calls = 0;
  const id = await store.transact((tx, { emit, wake }) => {
    calls++;
    place.effects.set("calls", calls)(tx);
    wake("name", { calls, id: crypto.randomUUID() });
    return emit("jobs", "made", { calls, random: Math.random() });
  });
  assert(calls > 1);
  assertEquals(await place.effects.get("calls"), calls);
  const [lease] = await claimAll(store);
  assertEquals(lease!.record.id, id);
  const payload = JSON.parse(new TextDecoder().decode(await store.load(lease!)));
  assertEquals(payload.calls, calls);
  const [answer] = await Array.fromAsync(store.answers());
  assertEquals((answer!.value as { calls: number }).calls, calls);
});

testStoreOnce("transact() gives up a function that wakes other names each time", async (sut) => {
  const { store, place } = sut;
  const waking = () =>
    store.transact((tx, { wake }) => {
      place.effects.set("a", 1)(tx);
      wake(crypto.randomUUID());
    });
  await assertRejects(waking, Error, "the function wakes other names each time that it is called");
  assertEquals(await place.effects.get("a"), null);
});

testStoreOnce("transact() refuses what it does not await, and no function", async (sut) => {
  const { store, place: { effects } } = sut;
  const set = (tx: unknown) => effects.set("a", 1)(tx);
  const results = [() => Promise.resolve(), () => Promise.reject(new Error("no"))];
  for (const result of store.awaitsEffects ? [] : results) {
    const work = (tx: unknown) => (set(tx), result());
    await assertRejects(() => store.transact(work as never), TypeError, "must be synchronous");
  }
  await assertRejects(
    () => store.transact({} as () => void),
    TypeError,
    "'work' must be a function",
  );
  assertEquals(await effects.get("a"), null);
});

testStoreOnce(
  "transact() refuses what emit() and wake() refuse, and what comes after its end",
  async (sut) => {
    const { store } = sut;
    await store.accept({ ...delivery("1"), platform: "bitbucket", intake: "bitbucket" });
    const refused: [(actions: TransactionActions) => unknown, string][] = [
      [({ emit }) => emit("github", "made", {}), "which is a platform"],
      [({ emit }) => emit("bitbucket", "made", {}), "which is a platform"],
      [({ emit }) => emit("jobs", "made", [] as object), "'payload' must be a JSON object"],
      [({ wake }) => wake(""), "the name must be"],
      [({ wake }) => [1, 2, 3, 4].forEach((n) => wake(`name:${n}`)), "wakes 3 names at most"],
    ];
    for (const [use, message] of refused) {
      const call = () => store.transact((_, actions) => void use(actions));
      await assertRejects(call, Error, message);
    }
    let kept: TransactionActions | undefined;
    await store.transact((_, actions) => void (kept = actions));
    assertThrows(() => kept!.emit("jobs", "made", {}), TypeError, "the transaction has ended");
    assertThrows(() => kept!.wake("name"), TypeError, "the transaction has ended");
    assertEquals(idsOf(await claimAll(store)), ["bitbucket:1"]);
  },
);

testStoreOnce("transact() wakes the worker of this process, and counts its events", async (sut) => {
  const { store } = sut;
  let wakes = 0;
  const steps: unknown[] = [];
  const count = (step: unknown) => void steps.push(step);
  store.listen({ wake: () => void wakes++, count }).catch(() => {});
  await store.transact((_, { emit }) => emit("jobs", "made", {}, { id: "1", delayMs: 1_000 }));
  assertEquals(wakes, 0);
  await store.transact((
    _,
    { emit },
  ) => (emit("jobs", "made", {}, { id: "1" }), emit("jobs", "b", {})));
  assertEquals(wakes, 1);
  const step = { is: "emitted", source: "jobs" };
  assertEquals(steps, [{ ...step, type: "made" }, { ...step, type: "b" }]);
});

testStoreOnce(
  "transact() in an own transaction of a handler commits beside its event",
  async (sut) => {
    const { store, place: { effects } } = sut;
    await store.accept(delivery("d1"));
    const lease = await claimOne(store);
    // What it returns may be the transaction itself.
    await store.transact((tx) => effects.set("a", 1)(tx));
    await store.retry(lease, 0, new Error("no"));
    assertEquals(await effects.get("a"), 1);
  },
);

for (const fault of ["before", "after"] as const) {
  testFailing(fault, `transact() tells that it failed [${fault}]`, async (sut) => {
    const { failing: { store, arm }, place } = sut;
    const transact = () => store.transact((tx) => void place.effects.set("a", 1)(tx));
    arm();
    await assertRejects(transact, Error);
    assertEquals(await place.effects.get("a"), fault === "before" ? null : 1);
  });
}

testStoreOnce("transact() tells its process's worker when its events are due", async (sut) => {
  const { store } = sut;
  let woken = 0;
  const later: number[] = [];
  store.listen({ wake: () => void woken++, onDueLater: (time) => void later.push(time) })
    .catch(() => {});
  const before = Date.now();
  await store.transact((_tx, { emit }) => emit("jobs", "later", {}, { delayMs: 60_000 }));
  assert(later.some((time) => time >= before + 60_000 && time <= Date.now() + 60_000), `${later}`);
  const wakes = woken;
  await store.transact((_tx, { emit }) => emit("jobs", "now", {}));
  assert(woken > wakes);
});
