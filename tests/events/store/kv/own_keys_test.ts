import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import {
  type CommitEffects,
  defineApp,
  github,
  type KvCommit,
  openEventStore,
} from "../../../../mod.ts";
import { forgeDelivery, startTestBot } from "../../../../testing/mod.ts";
import { claimOne, delivery } from "../_events.ts";
import { testStoreInOneProcess } from "./_stores.ts";

type Effects = CommitEffects<KvCommit>;

const KEY: Deno.KvKey = ["events", "state", "forge", "chat/1"];

const REFUSAL =
  'Cannot change the key: those that begin with "events" are the event store\'s own. ' +
  'Begin yours with ["events", "own"], and set states with \'state\' of the context or the store';

const CHANGES: Readonly<Record<string, Effects>> = {
  set: (commit) => commit.set(KEY, 1),
  delete: (commit) => commit.delete(KEY),
  sum: (commit) => commit.sum(KEY, 1n),
  min: (commit) => commit.min(KEY, 1n),
  max: (commit) => commit.max(KEY, 1n),
  mutate: (commit) => commit.mutate({ type: "set", key: KEY, value: 1 }),
  "a chain": (commit) => commit.check({ key: ["a"], versionstamp: null }).set(["a"], 1).set(KEY, 1),
  "the namespace alone": (commit) => commit.set(["events"], 1),
};

for (const [name, effects] of Object.entries(CHANGES)) {
  testStoreInOneProcess(`effects change no key of the store: ${name}`, async ({ kv, store }) => {
    await store.accept(delivery("d1"));
    const lease = await claimOne(store);
    for (
      const commit of [
        () => store.complete(lease, { effects }),
        () => store.note(lease, { is: "handler", name: "part" }, effects),
      ]
    ) {
      await assertRejects(commit, TypeError, REFUSAL);
    }
    assertEquals((await store.get("d1"))?.state, "running");
    assertEquals((await kv.get(["a"])).value, null);
    assert(await store.complete(lease, { effects: (commit) => commit.set(["a"], 1) }));
    assertEquals((await kv.get(["a"])).value, 1);
  });
}

testStoreInOneProcess("effects do not commit: the store does", async ({ kv, store }) => {
  await store.accept(delivery("d1"));
  const lease = await claimOne(store);
  // The types refuse that.
  const effects = (commit: KvCommit) => {
    (commit.set(["a"], 1) as Deno.AtomicOperation).commit();
  };
  for (
    const commit of [
      () => store.complete(lease, { effects }),
      () => store.note(lease, { is: "handler", name: "part" }, effects),
    ]
  ) {
    await assertRejects(commit, TypeError, "Leave out commit()");
  }
  assertEquals((await kv.get(["a"])).value, null);
  assertEquals((await store.get("d1"))?.state, "running");
});

testStoreInOneProcess("store.db changes no key of the store", async ({ kv, store }) => {
  const other = await openEventStore(store.db, { namespace: "other" });
  for (const [view, key] of [[store.db, KEY], [other.db, ["other", "a"]]] as const) {
    for (
      const change of [
        () => view.set(key, 1),
        () => view.delete(key),
        () => view.atomic().set(key, 1),
        () => view.atomic().check({ key, versionstamp: null }).delete(key),
      ]
    ) {
      assertThrows(change, TypeError, "Cannot change the key: those that begin with ");
    }
  }
  await store.db.set(["own"], 1);
  assertEquals((await store.db.atomic().set(["own"], 2).commit()).ok, true);
  assertEquals((await kv.get(["own"])).value, 2);
  await store.db.delete(["own"]);
  assertEquals((await store.db.get(["own"])).value, null);
});

testStoreInOneProcess("effects may check keys of the store, and change others", async (sut) => {
  const { kv, store } = sut;
  await store.accept(delivery("d1"));
  const effects: Effects = (commit) => {
    commit.check({ key: KEY, versionstamp: null })
      .set(["own", "events"], 1).sum(["sum"], 2n).max(["max"], 3n).min(["min"], 4n)
      .delete(["own", "old"])
      .mutate({ type: "set", key: ["mutated"], value: 5 });
  };
  assert(await store.complete(await claimOne(store), { effects }));
  const keys = [["own", "events"], ["sum"], ["max"], ["min"], ["mutated"]];
  const values = await Promise.all(keys.map(async (key) => (await kv.get(key)).value));
  const numberOf = (value: unknown) => Number(value instanceof Deno.KvU64 ? value.value : value);
  assertEquals(values.map(numberOf), [1, 2, 3, 4, 5]);
});

testStoreInOneProcess("effects change no key that a KV stores as one of the store", async (sut) => {
  const { kv } = sut;
  const other = await openEventStore(kv, { namespace: "\ufffd" });
  await other.accept(delivery("d1"));
  const lease = await claimOne(other);
  const surrogate: Effects = (commit) => commit.set(["\ud800", "state", "", "a"], 1);
  await assertRejects(
    () => other.complete(lease, { effects: surrogate }),
    TypeError,
    "store's own",
  );
  assert(await other.complete(lease, { effects: (commit) => commit.set(["own"], 1) }));
});

Deno.test("a handler's effects break no state, and its own states are set beside effects", async () => {
  const bot = defineApp({ name: "bot", platform: github(), worker: { retry: { maxAttempts: 1 } } });
  bot.on("push", (_event, { settleWith }) => {
    settleWith((commit) => commit.set(["bot", "state", "github", "a"], "broken"));
  });
  bot.on("star", async (_event, { settleWith, state, step }) => {
    const own = await state<number>("a");
    own.set((own.value ?? 0) + 1);
    await step("part", ({ settleWith }) => settleWith((commit) => commit.set(["part"], 1)));
    settleWith((commit) => commit.set(["settled"], 1));
  });
  bot.on("star", async (_event, { state }) => (await state("b")).set(2), { id: "second" });
  await using test = await startTestBot(bot);
  const { event } = await test.deliver(forgeDelivery("push", {}), { expectFailure: true });
  assertEquals(event?.state, "dead");
  assertEquals(
    event?.attempts[0]?.error,
    `TypeError: ${REFUSAL.replaceAll('"events"', '"bot"')}`,
  );
  await test.deliver(forgeDelivery("star", {}));
  const states = await Array.fromAsync(test.store.states());
  assertEquals(states.map(({ key, value }) => [key, value]), [["a", 1], ["b", 2]]);
  assertEquals((await test.db.get(["settled"])).value, 1);
});
