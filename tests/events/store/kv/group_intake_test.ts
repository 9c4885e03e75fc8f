import { assertEquals, assertLess, assertRejects } from "@std/assert";
import { changedKv, failingOnce, withOperations } from "../../../../dev/harness/faulty_kv.ts";
import { type EventStore, openEventStore } from "../../../../events/mod.ts";
import { NoTurnError } from "../../../../events/store/engine.ts";
import { holdCommits, letGo, limitChecks } from "./_commits.ts";
import { delivery, drain } from "../_events.ts";
import { memoryStore } from "./_stores.ts";

const IDS = Array.from({ length: 60 }, (_, i) => `d${String(i).padStart(2, "0")}`);

function acceptAll(store: EventStore, ids: readonly string[]) {
  return Promise.all(ids.map((id) => store.accept(delivery(id, "{}", "repo"))));
}

Deno.test("deliveries of a group that come together share commits, in their order", async () => {
  for (const [max, most] of [[100, 3], [10, 12]] as const) {
    await using sut = await memoryStore();
    let commits = 0;
    limitChecks(sut.kv, max);
    const counted = withOperations(sut.kv, (operation) => {
      const commit = operation.commit.bind(operation);
      operation.commit = () => (commits++, commit());
    });
    const store = await openEventStore(counted, { notifier: "watch" });
    commits = 0;
    await acceptAll(store, IDS);
    assertLess(commits, most);
    assertEquals(await drain(store), IDS);
  }
});

Deno.test("an event that others stored meanwhile keeps no other from joining its group", async () => {
  await using sut = await memoryStore();
  const other = await openEventStore(sut.kv, { notifier: "watch" });
  const { kv, held } = holdCommits(sut.kv);
  const store = await openEventStore(kv, { notifier: "watch" });
  const accepting = acceptAll(store, ["d1", "d2", "d3"]);
  while (held.length < 1) await new Promise((resolve) => setTimeout(resolve));
  await acceptAll(other, ["d2"]);
  const results = await letGo(held, accepting);
  assertEquals(results.map(({ duplicate }) => duplicate), [false, true, false]);
  assertEquals(await drain(other), ["d2", "d1", "d3"]);
});

Deno.test("a delivery that has waited for its group for too long is not stored", async () => {
  await using sut = await memoryStore();
  const { kv, held } = holdCommits(sut.kv);
  const store = await openEventStore(kv, { notifier: "watch" });
  const now = performance.now.bind(performance);
  const first = store.accept(delivery("d1", "{}", "repo"));
  while (held.length < 1) await new Promise((resolve) => setTimeout(resolve));
  const late = store.accept(delivery("d2", "{}", "repo"));
  const refused = assertRejects(() => late, NoTurnError, "the ordering group was busy for 4500 ms");
  try {
    performance.now = () => now() + 4_600;
    await letGo(held, Promise.all([first, refused]));
    // It has taken nobody's turn.
    await letGo(held, store.accept(delivery("d3", "{}", "repo")));
  } finally {
    performance.now = now;
  }
  assertEquals(await drain(sut.store), ["d1", "d3"]);
});

Deno.test("a commit that fails does so for those that join in it alone", async () => {
  for (const fault of ["before", "after"] as const) {
    await using sut = await memoryStore();
    const failing = failingOnce(sut.kv, fault);
    const { kv, held } = holdCommits(failing.kv);
    const store = await openEventStore(kv, { notifier: "watch" });
    const first = Promise.allSettled([store.accept(delivery("d1", "{}", "repo"))]);
    while (held.length < 1) await new Promise((resolve) => setTimeout(resolve));
    const second = store.accept(delivery("d2", "{}", "repo"));
    failing.arm();
    const [[{ status }]] = await letGo(held, Promise.all([first, second]));
    assertEquals(status, "rejected");
    assertEquals(await drain(sut.store), fault === "before" ? ["d2"] : ["d1", "d2"]);
  }
});

Deno.test("a group that cannot be read fails only those that wait for it", async () => {
  await using sut = await memoryStore();
  let isBroken = true;
  const broken = changedKv(sut.kv, {
    get: (key: Deno.KvKey) => {
      if (isBroken && key[1] === "lane") return Promise.reject(new Error("connection lost"));
      return sut.kv.get(key);
    },
  });
  const store = await openEventStore(broken, { notifier: "watch" });
  await assertRejects(() => acceptAll(store, ["d1", "d2"]), Error, "connection lost");
  isBroken = false;
  await acceptAll(store, ["d3", "d4"]);
  assertEquals(await drain(store), ["d3", "d4"]);
});
