import {
  assert,
  assertEquals,
  assertLess,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import fc from "fast-check";
import type { EmitOptions, EventStore, Lease } from "../../../../events/mod.ts";
import { childIdOf, emissionOf, Emissions } from "../../../../events/store/emission.ts";
import { WallClock } from "../../../_wall_clock.ts";
import { claimAll, claimOne, delivery, drain, idsOf } from "../_events.ts";
import { job, leased, manyJobs, recordOf } from "../_emitting.ts";
import { repairTimes } from "../_tidying.ts";
import {
  assertEmpty,
  assertNothingWaits,
  testAging,
  testFailing,
  testStore,
  testStoreInOneProcess,
  testStoreOnce,
} from "./_contract.ts";

testStore("complete() stores the events that its handler has emitted", async ({ store }) => {
  const traceparent = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`;
  await store.accept({ ...delivery("d1"), intake: "forge", traceparent });
  assert(await store.complete(await claimOne(store), { emits: [job(), job()] }));
  assertEquals((await recordOf(store, "forge:d1")).emitted, 2);
  const [first, second] = await claimAll(store);
  assertEquals(idsOf([first!, second!]), ["jobs:forge:d1/0001", "jobs:forge:d1/0002"]);
  const { platform, intake, source, type, causedBy, ...record } = first!.record;
  assertEquals({ platform, intake, source, type, causedBy }, {
    ...{ platform: "events", intake: "jobs", source: "jobs", type: "report.due" },
    causedBy: "forge:d1",
  });
  assertEquals(record.traceparent, traceparent);
  const body = await store.load(first!);
  assertEquals(JSON.parse(new TextDecoder().decode(body)), { team: "a" });
});

testStore("an emitted event is due after its delay", async ({ place, store }) => {
  const lease = await leased(store);
  assert(await store.complete(lease, { emits: [job({ delayMs: 86_400_000 })] }));
  assertEquals(await claimAll(store), []);
  const { dueAt, receivedAt, delayMs } = await recordOf(store, "jobs:d1/0001");
  assertEquals([dueAt! - receivedAt, delayMs], [86_400_000, 86_400_000]);
  assertEquals(await repairTimes(store), 0);
  assertEquals((await place.contents()).times, 1);
});

testStore("emitted events of a group are handled one at a time, in order", async (sut) => {
  const { place, store } = sut;
  const lease = await leased(store, "d1", "repo");
  const emits = [1, 2, 3].map(() => job({ group: "repo" }));
  assert(await store.complete(lease, { emits }));
  const first = await claimOne(store);
  assertEquals(first.record.group?.key, "jobs:repo");
  assert(await store.complete(first));
  assertEquals(await drain(store), ["jobs:d1/0002", "jobs:d1/0003"]);
  await assertNothingWaits({ place });
});

testStore("the 9,999th event of a handler is handled before the 10,000th", async ({ store }) => {
  const lease = await leased(store);
  // As if 9,996 had been emitted before, in a commit for each 200.
  const record = { ...lease.record, emitted: 9_996 };
  const emits = Array.from({ length: 6 }, () => job({ group: "repo" }));
  assert(await store.complete({ ...lease, record }, { emits }));
  const numbers = ["9997", "9998", "9999", "a10000", "a10001", "a10002"];
  assertEquals(await drain(store), numbers.map((number) => `jobs:d1/${number}`));
});

Deno.test("ids that are made by counting are in the order of their numbers, and no others end so", () => {
  const number = fc.oneof(fc.nat(), fc.maxSafeNat(), fc.nat({ max: 20_000 }));
  fc.assert(fc.property(number, number, (a, b) => {
    const [first, second] = [a, b].map((each) => childIdOf("jobs", "d1", each));
    assertEquals(first! < second!, a < b);
    const id = first!.slice("jobs:".length);
    assertThrows(() => job({ id }), TypeError, "'id' must be");
  }));
});

testStore("an event whose id is known is not emitted again, whatever its state", async (sut) => {
  const { store } = sut;
  assert(await store.complete(await leased(store, "d1"), { emits: [job({ id: "a" })] }));
  const again = { emits: [job({ id: "a" }), job({ id: "b" }), job({ id: "b" })] };
  await store.accept(delivery("d2"));
  const leases = await claimAll(store);
  const [child, second] = leases.toSorted((a, b) => a.record.id < b.record.id ? 1 : -1);
  assertEquals(child!.record.deliveryId, "a");
  assert(await store.complete(second!, again));
  assert(await store.complete(child!));
  assert(await store.complete(await claimOne(store)));
  assert(await store.complete(await leased(store, "d3"), again));
  assertEquals(await claimAll(store), []);
  assertEquals(
    await Promise.all(["a", "b"].map(async (id) => (await store.get(`jobs:${id}`))?.state)),
    [
      "done",
      "done",
    ],
  );
});

testStore("handlers that emit the same id at once store one event", async ({ store }) => {
  const count = 12;
  for (let i = 0; i < count; i++) {
    await store.accept(delivery(`d${i}`, "{}", i % 3 === 0 ? "repo" : undefined));
  }
  for (let left = count; left > 0;) {
    const leases = await claimAll(store);
    left -= leases.length;
    const settled = await Promise.all(
      leases.map((lease, i) =>
        store.complete(lease, {
          emits: [job({ id: "same", delayMs: 60_000 }), job({ id: `own${i}` })],
        })
      ),
    );
    assert(settled.every((each) => each));
    if (leases.length === 0) break;
  }
  let same = 0;
  for await (const { id } of store.list()) if (id === "jobs:same") same++;
  assertEquals(same, 1);
});

testStore(
  "generated ids count on through retries, a replay and a redelivery",
  async ({ store }) => {
    let lease: Lease | null = await leased(store);
    lease = await store.note(lease, { is: "handler", name: "a" }, undefined, { emits: [job()] });
    assert(await store.retry(lease!, 0, "no"));
    lease = await store.note(
      await claimEvent(store, "d1"),
      { is: "handler", name: "b" },
      undefined,
      {
        emits: [job()],
      },
    );
    assert(await store.bury(lease!, "no"));
    assert(await store.replay("d1"));
    assert(
      await store.bury(
        (await store.note(await claimEvent(store, "d1"), { is: "handler", name: "c" }, undefined, {
          emits: [job()],
        }))!,
        "no",
      ),
    );
    await store.accept(delivery("d1"));
    assert(await store.complete(await claimEvent(store, "d1"), { emits: [job()] }));
    const ids = [];
    for await (const { id } of store.list()) if (id.startsWith("jobs:")) ids.push(id);
    assertEquals(ids.toSorted(), [1, 2, 3, 4].map((number) => `jobs:d1/000${number}`));
  },
);

testStore("generated ids pass over those of an earlier event of the same id", async ({ store }) => {
  assert(await store.complete(await leased(store), { emits: [job(), job()] }));
  assertEquals((await store.purge({ ids: ["d1"] })).changed, 1);
  await store.accept(delivery("d1"));
  assert(await store.complete(await claimEvent(store, "d1"), { emits: [job(), job(), job()] }));
  const ids = [];
  for await (const { id } of store.list()) if (id.startsWith("jobs:")) ids.push(id);
  assertEquals(ids.length, 5);
});

/** Claims what is due, and gives everything back but one event. */
async function claimEvent(store: EventStore, wanted: string): Promise<Lease> {
  const leases = await claimAll(store);
  for (const lease of leases) if (lease.record.id !== wanted) await store.release(lease);
  return leases.find(({ record: { id } }) => id === wanted)!;
}

testStore("ids are emitted with a lease that was renewed meanwhile", async ({ store }) => {
  const lease = await leased(store, "d1", "repo");
  assert(await store.renew(lease, 30_000));
  assert(await store.complete(lease, { emits: manyJobs("x") }));
  const part = await leased(store, "d2");
  assert(await store.note(part, { is: "handler", name: "a" }, undefined, { emits: manyJobs("y") }));
  // The first call may not have been answered: the same handler is not noted twice.
  assertEquals(
    await store.note(part, { is: "handler", name: "a" }, undefined, { emits: manyJobs("z") }),
    null,
  );
  assertEquals(await store.get("jobs:z0"), null);
});

testStore("nothing is emitted if the event is not settled as done", async ({ store }) => {
  const emits = [job(), job({ id: "x" })];
  const cancelled = await leased(store, "d1");
  await store.cancel("d1");
  const flagged = (await store.recover(cancelled))!;
  assert(await store.complete(flagged, { emits }));
  const lost = await leased(store, "d2");
  await store.release(lost);
  assertEquals(await store.complete(lost, { emits }), false);
  assertEquals(await store.note(lost, { is: "handler", name: "part" }, undefined, { emits }), null);
  const stats = await store.stats();
  assertEquals([stats.queued, stats.dead], [1, 1]);
});

testStore("effects that are refused emit nothing", async ({ place, store }) => {
  const emits = [job(), job({ id: "x" })];
  for (const key of [undefined, "repo"]) {
    const lease = await leased(store, `d-${key}`, key);
    const effects = place.effects.refused();
    const completing = () => store.complete(lease, { effects, emits });
    await assertRejects(completing, Error, place.effects.refusal);
    await store.bury(lease, "no");
  }
  assertEquals((await store.stats()).queued, 0);
});

testStore("emitted events have large payloads", async ({ place, store }) => {
  const text = "é".repeat(100_000);
  assert(await store.complete(await leased(store), { emits: [job({}, { text })] }));
  assertEquals((await place.contents()).payloads, 1);
  const lease = await claimOne(store);
  const body = await store.load(lease);
  assertEquals(JSON.parse(new TextDecoder().decode(body)), { text });
  assert(await store.complete(lease));
  assertEquals((await place.contents()).payloads, 0);
});

testStore("200 events are emitted in one commit, with and without ids", async ({ store }) => {
  const emits = Array.from({ length: 200 }, (_, i) => job(i % 2 === 0 ? { id: `i${i}` } : {}));
  assert(await store.complete(await leased(store), { emits }));
  assertEquals((await store.stats({})).queued, 200);
});

testStore("a commit emits as many bytes of events as there is room for", async ({ store }) => {
  const { eventBytes } = store.room;
  const all = new Emissions(store.room);
  // Each takes 1,024 bytes beside its payload.
  const text = "a".repeat(eventBytes / 20 - 1_050);
  for (let i = 0; i < 20; i++) all.add(job({ id: `i${i}` }, { text }));
  assertThrows(() => all.add(job({}, { text })), RangeError, `${eventBytes} bytes`);
  assert(await store.complete(await leased(store, "d1", "repo"), { emits: all.all }));
  assertEquals((await store.stats({})).queued, 20);
});

testStore("an emitted event can be cancelled, replayed and purged", async ({ place, store }) => {
  assert(await store.complete(await leased(store), { emits: [job({ delayMs: 60_000 })] }));
  const id = "jobs:d1/0001";
  assert(await store.cancel(id));
  assert(await store.replay(id));
  const lease = await claimOne(store);
  assertEquals(new TextDecoder().decode(await store.load(lease)), `{"team":"a"}`);
  assert(await store.bury(lease, "no"));
  assertEquals((await store.purge({})).changed, 2);
  await assertEmpty({ place });
});

testStore("emit() stores an event, once for an id", async ({ store }) => {
  assertEquals(await store.emit("jobs", "report.due", { team: "a" }, { id: "x" }), {
    id: "jobs:x",
    duplicate: false,
  });
  assertEquals(await store.emit("jobs", "report.due", { team: "b" }, { id: "x" }), {
    id: "jobs:x",
    duplicate: true,
  });
  const { id, duplicate } = await store.emit("jobs", "report.due", {}, { group: "g" });
  assertEquals([id.startsWith("jobs:"), duplicate], [true, false]);
  assertEquals((await drain(store)).toSorted(), ["jobs:x", id].toSorted());
});

testStore("emit() at once with the same id stores one event", async ({ store }) => {
  const results = await Promise.all(
    Array.from({ length: 20 }, () => store.emit("jobs", "due", {}, { id: "same" })),
  );
  assertEquals(results.filter(({ duplicate }) => !duplicate).length, 1);
});

testStoreInOneProcess("emit() keeps the order of the calls in a group", async ({ store }) => {
  const ids = [];
  for (let i = 0; i < 8; i++) ids.push((await store.emit("jobs", "due", {}, { group: "g" })).id);
  assertEquals(await drain(store), ids);
});

testStore("bury() reports a death once asked to, and not that of a report", async ({ store }) => {
  await store.bury(await leased(store, "quiet"), "no");
  assertEquals(await claimAll(store), []);
  const lease = await leased(store);
  await store.bury(lease, new Error("no"), { reports: true });
  const report = await claimOne(store);
  const { receivedAt } = lease.record;
  assertEquals(report.record.id, `dead:d1/${receivedAt}/0`);
  const { id, type, attempts } = JSON.parse(new TextDecoder().decode(await store.load(report)));
  assertEquals([id, type, attempts.at(-1).error], ["d1", "push", "Error: no"]);
  await store.bury(report, "no", { reports: true });
  assertEquals(await claimAll(store), []);
  await store.replay("d1");
  await store.bury(await claimOne(store), "again", { reports: true });
  assertEquals((await claimOne(store)).record.id, `dead:d1/${receivedAt}/1`);
});

testStore("bury() does not report an event that was cancelled", async ({ store }) => {
  const lease = await leased(store);
  await store.cancel("d1");
  assert(await store.bury((await store.recover(lease))!, "no", { reports: true }));
  assertEquals(await claimAll(store), []);
});

for (const fault of ["before", "after"] as const) {
  testFailing(
    fault,
    `an event whose settlement was not answered is emitted once, if it failed ${fault}`,
    async ({ failing: { store, arm } }) => {
      const lease = await leased(store);
      arm();
      const emits = [job(), job({ id: "x" })];
      await assertRejects(() => store.complete(lease, { emits }));
      assertEquals(await store.complete(lease, { emits }), fault === "before");
      assertEquals((await store.stats()).queued, 2, fault);
    },
  );
}

testStoreOnce("ids do not grow in a chain of events", async (sut) => {
  const { store } = sut;
  let lease = await leased(store, "d".repeat(590));
  for (let i = 0; i < 30; i++) {
    assert(await store.complete(lease, { emits: [job()] }));
    lease = await claimOne(store);
    assertLess(lease.record.id.length, 120);
  }
});

testStoreOnce("a delayed event is due in a month by a clock that jumps", async (sut) => {
  using clock = new WallClock();
  const { store } = sut;
  const month = 30 * 86_400_000;
  await store.emit("jobs", "due", {}, { delayMs: month, group: "g" });
  // The clock is set back by a year: by now the event would wait for 13 months.
  clock.advance(-365 * 86_400_000);
  assertEquals(await repairTimes(store), 1);
  clock.advance(month);
  assertEquals((await claimOne(store)).record.orderingKey, "g");
});

async function emitAs(store: EventStore, source: string): Promise<boolean> {
  const emitted = await store.emit(source, "due", {}).catch((error) => error);
  if (emitted instanceof Error) assertStringIncludes(emitted.message, "which is a platform");
  return !(emitted instanceof Error);
}

testStoreInOneProcess("emit() takes no name under which deliveries are stored", async (sut) => {
  const { place, store } = sut;
  for (let i = 0; i < 9; i++) await store.accept({ ...delivery(`d${i}`), intake: "shop" });
  await store.emit("jobs", "due", {});
  const names = ["shop", "jobs", "sho", "shop-b", "shopb"];
  const free = async () => {
    const other = await place.open();
    return await Promise.all(names.map((name) => emitAs(other, name)));
  };
  assertEquals(await free(), [false, true, true, true, true]);
  for (const lease of await claimAll(store)) await store.complete(lease);
  assertEquals((await store.purge({ ids: ["shop:d0"] })).changed, 1);
  assertEquals(await free(), [false, true, true, true, true]);
  await store.purge({ source: "shop" });
  assertEquals(await free(), [true, true, true, true, true]);
});

testAging("emit() takes the name of a platform whose deliveries are forgotten", async (sut) => {
  const { store, place } = sut;
  for (let i = 0; i < 9; i++) await store.accept({ ...delivery(`d${i}`), intake: "shop" });
  for (const lease of await claimAll(store)) await store.complete(lease);
  assertEquals(await emitAs(store, "shop"), false);
  await place.pass(store.retentionMs + 1);
  assertEquals(await emitAs(store, "shop"), true);
});

const BAD: readonly [unknown[], string][] = [
  [["a b", "due", {}], "the source must be"],
  [[undefined, "due", {}], "the source must be"],
  [["dead", "due", {}], "the source must not be"],
  [["forge", "due", {}], "the source must not be"],
  [["jobs", "", {}], "'type' must be"],
  [["jobs", "a b", {}], "'type' must be"],
  [["jobs", "due", []], "'payload' must be a JSON object, got an array"],
  [["jobs", "due", null], "'payload' must be a JSON object, got null"],
  [["jobs", "due", "{}"], "'payload' must be a JSON object"],
  [["jobs", "due", { a: 1n }], "'payload' must be a JSON object"],
  [["jobs", "due", { toJSON: () => 5 }], "'payload' must be a JSON object"],
  [["jobs", "due", { toJSON: () => undefined }], "'payload' must be a JSON object"],
  [["jobs", "due", {}, { id: "" }], "'id' must be"],
  [["jobs", "due", {}, { id: "a/0001" }], "'id' must be"],
  [["jobs", "due", {}, { id: "a".repeat(501) }], "'id' must be"],
  [["jobs", "due", {}, { id: "\ud800" }], "'id' must be"],
  [["jobs", "due", {}, { id: 5 }], "'id' must be"],
  [["jobs", "due", {}, { group: "" }], "'group' must be"],
  [["jobs", "due", {}, { delay: 5 }], "there is no option"],
  [["jobs", "due", {}, null], "the options must be an object"],
];

Deno.test("emissionOf() refuses what could not be handled", () => {
  for (const [call, message] of BAD) {
    const make = () => emissionOf(...call as Parameters<typeof emissionOf>);
    assertThrows(make, TypeError, `Cannot emit the event: ${message}`);
  }
  for (const delayMs of [-1, NaN, Infinity, 366 * 86_400_000, "5"]) {
    const make = () => emissionOf("jobs", "due", {}, { delayMs } as EmitOptions);
    assertThrows(make, RangeError, "Cannot emit the event: 'delayMs' must be from 0 to");
  }
});

Deno.test("emissionOf() copies the payload", () => {
  const payload = { team: "a" };
  const { body } = emissionOf("jobs", "due", payload);
  payload.team = "b";
  assertEquals(new TextDecoder().decode(body), `{"team":"a"}`);
});

testStore("a commit takes as many events as the engine has room for", ({ store: { room } }) => {
  const all = new Emissions({ ...room, events: 2 });
  for (let i = 0; i < 2; i++) all.add(job());
  assertThrows(() => all.add(job()), RangeError, "Cannot emit the event: at most 2 are");
});
