import { CommitMarks } from "../../../../core/kv_commits.ts";
import { assert, assertEquals, assertRejects, assertStrictEquals, assertThrows } from "@std/assert";
import { changedKv } from "../../../../dev/harness/faulty_kv.ts";
import { until } from "../../../../dev/harness/until.ts";
import { GroupCommit } from "../../../../events/store/kv/_group_commit.ts";
import { storeKeys } from "../../../../events/store/kv/_layout.ts";
import { SharedEntries, Write } from "../../../../events/store/kv/_write.ts";
import { createNotifier } from "../../../../events/store/kv/notifier.ts";
import { encodeValue } from "../../../../events/store/kv/value_codec.ts";
import { type KvCommit, type LogRecord, openEventStore } from "../../../../mod.ts";
import { withFolder } from "../../../_folder.ts";
import type { KvStore } from "../../../_kv_handlers.ts";
import { testWith } from "../../../_permissions.ts";
import { claimOne, delivery } from "../_events.ts";
import { memoryStore } from "./_stores.ts";

const ADVICE =
  "For messages of your own, open another KV, with a path of its own, or open the store " +
  'with the notifier "watch"';

const SENDING =
  "Cannot enqueue in the KV of the event store: its queue wakes the store's workers, " +
  `which drop all other messages. ${ADVICE}`;

const LISTENING =
  "Cannot listen to the queue of the event store's KV: its messages wake the store's " +
  `workers. ${ADVICE}`;

/** Registers a test for each kind of KV that has a queue. */
function testOnQueue(name: string, fn: (sut: { kv: Deno.Kv; store: KvStore }) => Promise<void>) {
  const at = async (path: string) => {
    const kv = await Deno.openKv(path);
    try {
      await fn({ kv, store: await openEventStore(kv, { notifier: "enqueue" }) });
    } finally {
      close(kv);
    }
  };
  Deno.test(`${name} [memory]`, () => at(":memory:"));
  const inFile = () => withFolder((folder) => at(`${folder}/kv.db`));
  testWith(["read", "write"], `${name} [file]`, inFile);
}

/** A test may have closed its KV already, to end what listens to it. */
function close(kv: Deno.Kv): void {
  try {
    kv.close();
  } catch (error) {
    if (!(error instanceof Deno.errors.BadResource)) throw error;
  }
}

/** Takes messages from a KV's queue, until it is closed. */
function messagesOf(kv: Deno.Kv): { messages: unknown[]; ended: Promise<void> } {
  const messages: unknown[] = [];
  const ended = kv.listenQueue((message: unknown) => void messages.push(message));
  return { messages, ended };
}

testOnQueue("store.db refuses the queue, which is the store's", async ({ kv, store }) => {
  const refused: readonly [() => unknown, string][] = [
    [() => store.db.enqueue("mine"), SENDING],
    [() => store.db.enqueue("mine", { delay: 1 }), SENDING],
    [() => store.db.listenQueue(() => {}), LISTENING],
    [() => store.db.atomic().enqueue("mine"), SENDING],
    [() => store.db.atomic().set(["a"], 1).enqueue("mine").commit(), SENDING],
    [() => store.db.enqueue.call(kv, "mine"), SENDING],
  ];
  for (const [use, message] of refused) assertEquals(assertThrows(use, TypeError).message, message);
  const { messages, ended } = messagesOf(kv);
  await kv.enqueue("last");
  await until(() => messages.length > 0, 20_000);
  assertEquals(messages, ["last"]);
  kv.close();
  await ended;
});

testOnQueue("store.db is the KV in all else", async ({ kv, store }) => {
  const own = store.db;
  assert(own instanceof Deno.Kv);
  assertStrictEquals(own, store.db);
  assertStrictEquals(own.constructor, Deno.Kv);
  await own.set(["a"], 1);
  assert((await own.atomic().set(["b"], 2).sum(["c"], 3n).commit()).ok);
  assert(own.atomic() instanceof Deno.AtomicOperation);
  assertEquals((await own.getMany([["a"], ["b"]])).map(({ value }) => value), [1, 2]);
  const keys = await Array.fromAsync(own.list({ prefix: [] }), ({ key }) => key);
  assertEquals(keys, [["a"], ["b"], ["c"]]);
  await own.delete(["a"]);
  assertEquals((await kv.get(["a"])).value, null);
  const watch = own.watch([["b"]]).getReader();
  assertEquals((await watch.read()).value?.[0].value, 2);
  await watch.cancel();
  kv.close();
  await assertRejects(() => own.get(["b"]), Deno.errors.BadResource);
});

for (const notifier of ["enqueue", "watch"] as const) {
  Deno.test(`store.db cannot be closed [${notifier}]`, async () => {
    using kv = await Deno.openKv(":memory:");
    const store = await openEventStore(kv, { notifier, log: () => {} });
    const closed = "Cannot close the KV of the event store";
    assertThrows(() => store.db.close(), TypeError, closed);
    assertThrows(() => store.db[Symbol.dispose](), TypeError, closed);
    assertEquals((await store.accept(delivery("d1"))).duplicate, false);
  });
}

Deno.test("store.db leaves the queue to others with the notifier watch", async () => {
  const kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv, { notifier: "watch" });
  const { messages, ended } = messagesOf(kv);
  await store.db.enqueue(1);
  await store.db.atomic().enqueue(2).commit();
  await store.accept(delivery("d1"));
  await store.complete(await claimOne(store), { effects: (commit) => commit.enqueue(3) });
  await until(() => messages.length === 3, 20_000);
  assertEquals(messages.toSorted(), [1, 2, 3]);
  kv.close();
  await ended;
});

Deno.test("openEventStore() opens a store in the db of another one", async () => {
  await using sut = await memoryStore();
  const { db: kv } = sut.store;
  const log = () => {};
  const others = [
    await openEventStore(kv, { namespace: "other", log }),
    await openEventStore(kv, { namespace: "other", notifier: "watch", log }),
  ];
  assertEquals(others.map(({ notifier }) => notifier), ["enqueue", "watch"]);
  for (const other of others) assertStrictEquals(other.db, kv);
  await others[0]!.accept(delivery("d1"));
  const { messages, ended } = messagesOf(sut.kv);
  await until(() => messages.length > 0, 20_000);
  assertEquals(messages, [{ notifier: "other" }]);
  sut.kv.close();
  await ended;
});

Deno.test("openEventStore() takes a view of a KV that others have made", async () => {
  using kv = await Deno.openKv(":memory:");
  const store = await openEventStore(changedKv(kv, {}), { notifier: "enqueue" });
  await store.db.set(["a"], 1);
  assertEquals((await kv.get(["a"])).value, 1);
  assertThrows(() => store.db.atomic().enqueue(1), TypeError, SENDING);
});

testOnQueue("effects cannot use the queue", async ({ kv, store }) => {
  await store.accept(delivery("d1"));
  const lease = await claimOne(store);
  const sends = (commit: KvCommit) => commit.set(["effect"], 1).enqueue("mine");
  await assertRejects(
    () => store.note(lease, { is: "handler", name: "part" }, sends),
    TypeError,
    SENDING,
  );
  await assertRejects(() => store.complete(lease, { effects: sends }), TypeError, SENDING);
  assertEquals([(await kv.get(["effect"])).value, (await store.get("d1"))?.state], [
    null,
    "running",
  ]);
  assert(await store.complete(lease, { effects: (commit) => commit.set(["effect"], 2) }));
  assertEquals((await kv.get(["effect"])).value, 2);
});

Deno.test("the store's own notification goes out in a commit with effects", async () => {
  const kv = await Deno.openKv(":memory:");
  const notifier = createNotifier("enqueue", kv, "events");
  const keys = storeKeys("events");
  const commits = new GroupCommit(
    kv,
    new CommitMarks(kv, keys.commitMarks),
    notifier,
    new SharedEntries(keys),
  );
  const write = new Write().set(["own"], encodeValue(1));
  write.notifies = true;
  write.effects = (commit) => {
    assertThrows(() => commit.enqueue("mine"), TypeError, SENDING);
    commit.set(["effect"], 1);
  };
  assert(await commits.commit(write));
  const { messages, ended } = messagesOf(kv);
  await until(() => messages.length > 0, 20_000);
  assertEquals(messages, [{ notifier: "events" }]);
  assertEquals((await kv.get(["effect"])).value, 1);
  kv.close();
  await ended;
});

/** Messages that are no notifications. */
const UNKNOWN: readonly unknown[] = [
  ...["mine", "", 1, null, true, [], ["notifier"], { a: "a secret" }],
  ...[{ notifier: 1 }, { notifier: null }],
];

testOnQueue("a message that is no notification is logged, and not its content", async ({ kv }) => {
  const records: LogRecord[] = [];
  const store = await openEventStore(kv, {
    namespace: "own",
    log: (record) => void records.push(record),
  });
  let wakes = 0;
  const ended = store.listen({ wake: () => void wakes++ });
  await kv.enqueue({ notifier: "other" });
  for (const message of UNKNOWN) await kv.enqueue(message);
  await kv.enqueue({ notifier: "own" });
  await until(() => wakes > 0 && records.length >= UNKNOWN.length, 20_000);
  kv.close();
  await ended;
  assertEquals([wakes, records.length], [1, UNKNOWN.length]);
  for (const { time: _time, ...record } of records) {
    const message = "unknown message in the queue, dropped";
    assertEquals<unknown>(record, { level: "error", message, namespace: "own" });
  }
});
