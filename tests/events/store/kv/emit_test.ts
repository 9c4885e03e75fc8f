import { assert, assertEquals, assertRejects } from "@std/assert";
import { openEventStore } from "../../../../events/mod.ts";
import { changedKv, failingOnce, withOperations } from "../../../../dev/harness/faulty_kv.ts";
import { NoTurnError } from "../../../../events/store/engine.ts";
import { holdCommits, letGo } from "./_commits.ts";
import { claimAll, claimOne, delivery, idsOf, later } from "../_events.ts";
import { job, leased, manyJobs, recordOf } from "../_emitting.ts";
import { keysOf } from "./_keys.ts";
import { memoryStore, testInMemory, testStore } from "./_stores.ts";
import { notesOf } from "../../../../events/store/kv/_layout.ts";

testInMemory("complete() stores the events that its handler has emitted", async ({ store }) => {
  const traceparent = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`;
  await store.accept({ ...delivery("d1"), intake: "forge", traceparent });
  assert(await store.complete(await claimOne(store), { emits: [job(), job()] }));
  assertEquals((await recordOf(store, "forge:d1")).emitted, 2);
  const [first, second] = await claimAll(store);
  assertEquals(idsOf([first!, second!]), ["jobs:forge:d1/0001", "jobs:forge:d1/0002"]);
  const { platform, intake, source, type, causedBy, ...record } = first!.record;
  const { idKept } = notesOf(first!.record);
  assertEquals({ platform, intake, source, type, causedBy, idKept }, {
    ...{ platform: "events", intake: "jobs", source: "jobs", type: "report.due" },
    ...{ causedBy: "forge:d1", idKept: true },
  });
  assertEquals(record.traceparent, traceparent);
  const body = await store.load(first!);
  assertEquals(JSON.parse(new TextDecoder().decode(body)), { team: "a" });
});

testStore("emitted events with large payloads are stored in parts", async ({ kv, store }) => {
  const text = "é".repeat(100_000);
  assert(await store.complete(await leased(store), { emits: [job({}, { text })] }));
  assertEquals((await keysOf(kv, "payload")).length, 4);
  const lease = await claimOne(store);
  const body = await store.load(lease);
  assertEquals(JSON.parse(new TextDecoder().decode(body)), { text });
  assert(await store.complete(lease));
  assertEquals(await keysOf(kv, "payload"), []);
});

Deno.test("an event whose settlement was not answered is emitted once", async () => {
  for (const fault of ["before", "after"] as const) {
    using kv = await Deno.openKv(":memory:");
    const failing = failingOnce(kv, fault);
    const store = await openEventStore(failing.kv, { notifier: "watch", log: () => {} });
    const lease = await leased(store);
    failing.arm();
    const emits = [job(), job({ id: "x" })];
    await assertRejects(() => store.complete(lease, { emits }));
    assertEquals(await store.complete(lease, { emits }), fault === "before");
    assertEquals((await store.stats()).queued, 2, fault);
  }
});

Deno.test("events that do not fit the commit with their event's payload are refused", async () => {
  await using sut = await memoryStore();
  const { store } = sut;
  await store.accept(delivery("d1", JSON.stringify({ text: "a".repeat(65_000 * 500) })));
  const lease = await claimOne(store);
  const emits = Array.from({ length: 200 }, () => job());
  await assertRejects(
    () => store.complete(lease, { emits }),
    RangeError,
    "Cannot emit the events: they do not fit",
  );
  assert(await store.complete(lease));
  await later(0);
});

Deno.test("what has given up leaves the turn to others, and is not stored", async () => {
  await using sut = await memoryStore();
  const { kv, held } = holdCommits(sut.kv);
  const store = await openEventStore(kv, { notifier: "watch" });
  const names = ["d1", "d2", "d3", "d4"];
  await letGo(held, Promise.all(names.map((id) => store.accept(delivery(id)))));
  const leases = await letGo(held, claimAll(store, 150));
  const [first, second, third, fourth] = leases;
  const settling = store.complete(first!, { emits: manyJobs("a") });
  const abort = new AbortController();
  // One is given up by its caller, and one waits for longer than its lease permits.
  const noting = store.note(second!, { is: "handler", name: "part" }, undefined, {
    emits: manyJobs("b"),
    signal: abort.signal,
  });
  const late = store.complete(third!, { emits: manyJobs("c") });
  abort.abort(new Error("Given up"));
  await assertRejects(() => noting, Error, "Given up");
  await assertRejects(() => late, NoTurnError, "No turn to change the store");
  const last = store.complete(fourth!, { emits: manyJobs("d") });
  assert(await letGo(held, settling));
  assert(await letGo(held, last));
  const known = await Promise.all(["a", "b", "c", "d"].map((name) => store.get(`jobs:${name}0`)));
  assertEquals(known.map((record) => record !== null), [true, false, false, true]);
});

Deno.test("a few ids wait for nobody's turn", async () => {
  await using sut = await memoryStore();
  const { kv, held } = holdCommits(sut.kv);
  const store = await openEventStore(kv, { notifier: "watch" });
  await letGo(held, Promise.all(["d1", "d2"].map((id) => store.accept(delivery(id)))));
  const [first, second] = await letGo(held, claimAll(store));
  const settling = store.complete(first!, { emits: manyJobs("a") });
  while (held.length < 1) await later(0);
  const few = Promise.all([
    store.complete(second!, { emits: [job({ id: "b" }), job({ id: "c" })] }),
    store.emit("jobs", "due", {}, { id: "d" }),
  ]);
  while (held.length < 2) await later(0);
  const [release] = held.splice(0, 1);
  await letGo(held, few);
  release!();
  // It has looked its ids up before theirs became known, and is made anew.
  assert(await letGo(held, settling));
  assertEquals((await store.stats()).queued, 103);
});

Deno.test("an id that becomes known before the commit is stored once, however many are in it", async () => {
  await using sut = await memoryStore();
  const other = await openEventStore(sut.kv, { notifier: "watch" });
  for (const emits of [[job({ id: "x1" })], manyJobs("y")]) {
    const { kv, held } = holdCommits(sut.kv);
    const store = await openEventStore(kv, { notifier: "watch" });
    await other.accept(delivery(`d${emits.length}`));
    const lease = (await claimAll(other)).at(-1)!;
    const settling = store.complete(lease, { emits });
    while (held.length < 1) await later(0);
    const id = emits[0]!.id!;
    assertEquals((await other.emit("jobs", "due", {}, { id })).duplicate, false);
    assert(await letGo(held, settling));
    const ids = (await Array.fromAsync(other.list())).filter((event) => event.id === `jobs:${id}`);
    assertEquals(ids.length, 1);
  }
});

Deno.test("many ids are emitted although others emit without a pause", async () => {
  await using sut = await memoryStore();
  let looks = 0;
  const other = await openEventStore(
    changedKv(sut.kv, {
      getMany: (keys: Deno.KvKey[]) => {
        if (keys.some((key) => key[1] === "emit")) looks++;
        return sut.kv.getMany(keys);
      },
    }),
    { notifier: "watch" },
  );
  const emitted: Promise<unknown>[] = [];
  // Each time it is about to commit, another process emits, unless it is held off.
  const overtaken = withOperations(sut.kv, (operation) => {
    const commit = operation.commit.bind(operation);
    operation.commit = async () => {
      let isStored = false;
      const before = looks;
      const id = `o${emitted.length}`;
      emitted.push(other.emit("jobs", "due", {}, { id }).then(() => isStored = true));
      while (!isStored && looks < before + 3) await later(0);
      return await commit();
    };
  });
  const store = await openEventStore(overtaken, { notifier: "watch" });
  assert(await store.complete(await leased(other), { emits: manyJobs("a") }));
  await Promise.all(emitted);
  assertEquals((await other.stats()).queued, 100 + emitted.length);
});
