import { assertEquals } from "@std/assert";
import { changedKv } from "../../../../dev/harness/faulty_kv.ts";
import { type EventStore, openEventStore } from "../../../../events/mod.ts";
import { findLeftNamespaces, listNamespaces } from "../../../../events/store/kv/kv_database.ts";
import { testKv } from "../../../_kvs.ts";
import { claimOne, delivery } from "../_events.ts";

/** Brings a store's one event into a state. */
const INTO: Record<string, (store: EventStore) => Promise<unknown>> = {
  queued: (store) => store.accept(delivery("d1")),
  running: async (store) => {
    await store.accept(delivery("d1"));
    await claimOne(store);
  },
  dead: async (store) => {
    await store.accept(delivery("d1"));
    await store.bury(await claimOne(store), new Error("no"));
  },
  done: async (store) => {
    await store.accept(delivery("d1"));
    await store.complete(await claimOne(store));
  },
};

for (const [state, bring] of Object.entries(INTO)) {
  testKv(`findLeftNamespaces() takes a ${state} event for what it is`, async (kv) => {
    await bring(await openEventStore(kv, { namespace: "old", notifier: "watch" }));
    assertEquals(await listNamespaces(kv), ["old"]);
    const others = state === "done" ? [] : ["old"];
    assertEquals(await findLeftNamespaces(kv, "new"), { others, hasOwn: false });
    assertEquals(await findLeftNamespaces(kv, "old"), { others: [], hasOwn: true });
  });

  testKv(`findLeftNamespaces() tells that the app has a ${state} event itself`, async (kv) => {
    await bring(await openEventStore(kv, { namespace: "new", notifier: "watch" }));
    await INTO.queued!(await openEventStore(kv, { namespace: "old", notifier: "watch" }));
    assertEquals(await findLeftNamespaces(kv, "new"), { others: ["old"], hasOwn: true });
  });
}

testKv("findLeftNamespaces() finds several, and no keys of an app", async (kv) => {
  for (const namespace of ["old", "older"]) {
    const store = await openEventStore(kv, { namespace, notifier: "watch" });
    await store.accept(delivery("d1", "{}", "key"));
    await store.accept(delivery("d2", "{}", "key"));
  }
  for (const key of [["label", "due", 1, "id"], ["label", "dead", 1, "id"], ["due", 1], ["dead"]]) {
    await kv.set(key, true);
  }
  assertEquals(await findLeftNamespaces(kv, "new"), {
    others: ["old", "older"],
    hasOwn: false,
  });
});

Deno.test("findLeftNamespaces() does not take the app for another that gets its first event", async () => {
  using kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv, { namespace: "new", notifier: "watch" });
  let accepting: Promise<unknown> | undefined;
  const list = (...args: Parameters<Deno.Kv["list"]>) =>
    (async function* () {
      yield* kv.list(...args);
      await (accepting ??= INTO.queued!(store));
    })();
  assertEquals((await findLeftNamespaces(changedKv(kv, { list }), "new")).others, []);
  assertEquals(await listNamespaces(kv), ["new"]);
});

Deno.test("findLeftNamespaces() reads no more than bounded", async () => {
  using kv = await Deno.openKv(":memory:");
  let reads = 0;
  const list = (...args: Parameters<Deno.Kv["list"]>) => {
    reads++;
    return kv.list(...args);
  };
  const counted = changedKv(kv, { list });
  for (let i = 0; i < 500; i++) await kv.set([`user-${i}`, "event", i, "id"], true);
  assertEquals((await findLeftNamespaces(counted, "new")).others, []);
  assertEquals(reads, 1 + 50 * 4);
});
