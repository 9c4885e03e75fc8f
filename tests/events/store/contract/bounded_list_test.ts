import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import type { EventFilter } from "../../../../events/mod.ts";
import { MonotonicClock } from "../../../_monotonic_clock.ts";
import { claimAll, claimOne, delivery, listed, oneOfEach, pagesOf } from "../_events.ts";
import { testStore, testStoreInOneProcess, testStoreOnce } from "./_contract.ts";

const REPOSITORY = {
  id: 1,
  fullName: "octocat/hello-world",
  owner: "octocat",
  name: "hello-world",
};

testStore("a filter chooses by source, repository, chat and ordering key", async ({ store }) => {
  await store.accept({ ...delivery("a"), repository: REPOSITORY });
  await store.accept({ ...delivery("b", "{}", "key"), intake: "mine" });
  await store.accept({ ...delivery("c"), source: "gitea", chat: { id: -5, type: "group" } });
  const { id } = await store.emit("jobs", "report", {});
  const cases: readonly [EventFilter, string[]][] = [
    [{ repository: "octocat/hello-world" }, ["a"]],
    [{ repository: "octocat" }, []],
    [{ chat: -5 }, ["c"]],
    [{ chat: 5 }, []],
    [{ source: "gitea" }, ["c"]],
    [{ source: "mine" }, ["mine:b"]],
    [{ source: "github" }, ["a", "mine:b"]],
    [{ source: "jobs" }, [id]],
    [{ source: "github", chat: -5 }, []],
  ];
  for (const [filter, expected] of cases) assertEquals(await listed(store, filter), expected);
  const [event] = await Array.fromAsync(store.list({ ids: ["mine:b"], state: "queued" }));
  assertEquals(await listed(store, { orderingKey: event!.orderingKey! }), ["mine:b"]);
  assertEquals(await listed(store, { orderingKey: "other" }), []);
});

testStore("operations on many events keep to source, repository and chat", async ({ store }) => {
  for (const name of ["a", "b", "c"]) {
    const repository = { ...REPOSITORY, fullName: `o/${name}` };
    await store.accept({ ...delivery(name), repository, chat: { id: 1, type: undefined } });
  }
  assertEquals(await store.cancelAll({ repository: "o/a" }), { changed: 1, left: [] });
  assertEquals(await store.cancelAll({ repository: "o/b", chat: 2 }), { changed: 0, left: [] });
  assertEquals(await store.cancelAll({ repository: "o/b", chat: 1 }), { changed: 1, left: [] });
  assertEquals(await store.replayAll({ repository: "o/b", outcome: "cancelled" }), {
    changed: 1,
    left: [],
  });
  assertEquals(await store.purge({ repository: "o/b" }), { changed: 0, left: [] });
  assertEquals(await store.purge({ repository: "o/a" }), { changed: 1, left: [] });
  const { queued, dead } = await store.stats({ source: "github" });
  assertEquals({ queued, dead }, { queued: 2, dead: 0 });
});

testStoreOnce(
  "an unreadable event matches no filter by what its record would tell",
  async (sut) => {
    const repository = { ...REPOSITORY, fullName: "a/b" };
    await sut.store.accept({
      ...delivery("x", "{}", "k"),
      repository,
      chat: { id: 1, type: undefined },
    });
    await sut.damages.spoil("event", "x");
    assertEquals(await listed(sut.store, { state: "unreadable" }), ["x"]);
    for (
      const filter of [{ source: "github" }, { repository: "a/b" }, { chat: 1 }, {
        orderingKey: "k",
      }]
    ) {
      assertEquals(await listed(sut.store, filter), []);
    }
  },
  {},
  "damages",
);

testStoreOnce("a filter whose conditions have another type is refused", async (sut) => {
  const { store } = sut;
  const chat = { chat: "5" } as unknown as EventFilter;
  const source = { source: ["github"] } as unknown as EventFilter;
  const wanted = "'chat' must be a whole number, got \"5\"";
  assertThrows(() => store.list(chat), TypeError, `Cannot list the events: ${wanted}`);
  assertThrows(
    () => store.list(source),
    TypeError,
    "Cannot list the events: 'source' must be a text, got ",
  );
  await assertRejects(() => store.stats(chat), TypeError, `Cannot count the events: ${wanted}`);
  await assertRejects(() => store.replayAll(chat), TypeError, `Cannot replay events: ${wanted}`);
  await assertRejects(() => store.cancelAll(chat), TypeError, `Cannot cancel events: ${wanted}`);
  await assertRejects(() => store.purge(chat), TypeError, `Cannot purge events: ${wanted}`);
  for (const maxReads of [0, 1.5, -1]) assertThrows(() => store.list({ maxReads }), RangeError);
});

testStoreInOneProcess(
  "list() reads no more than it may, and goes on from there",
  async ({ store }) => {
    for (const name of ["1", "2", "3", "4", "5", "6", "7"]) {
      await store.accept({ ...delivery(name), type: name === "2" ? "rare" : "push" });
    }
    for (const order of ["oldest", "newest"] as const) {
      const expected = order === "oldest" ? [["2"], [], []] : [[], ["2"], []];
      assertEquals(await pagesOf(store, { order, type: "rare", maxReads: 3 }), expected);
    }
    assertEquals(await pagesOf(store, { maxReads: 7 }), [["1", "2", "3", "4", "5", "6", "7"]]);
    assertEquals(await pagesOf(store, { maxReads: 2, limit: 1 }), [
      ["1"],
      ["2"],
      ["3"],
      ["4"],
      ["5"],
      ["6"],
      ["7"],
    ]);
  },
);

testStoreOnce("list() tells how far it has come", async (sut) => {
  using time = new FakeTime(1_000);
  for (const id of ["a", "b", "c"]) {
    await sut.store.accept(delivery(id));
    time.tick(1_000);
  }
  const list = sut.store.list({ order: "newest", type: "rare", maxReads: 2 });
  assertEquals(list.reachedAt, undefined);
  assertEquals(await Array.fromAsync(list), []);
  assertEquals([list.reachedAt, list.cursor], [2_000, "2000:b"]);
  const rest = sut.store.list({ order: "newest", type: "rare", maxReads: 2, cursor: list.cursor });
  assertEquals(await Array.fromAsync(rest), []);
  assertEquals([rest.reachedAt, rest.cursor], [1_000, undefined]);
});

testStoreInOneProcess(
  "list() finds open events among many others in few reads",
  async ({ store }) => {
    await oneOfEach(store);
    // Of events that were received in the same millisecond, the id decides.
    await new Promise((resolve) => setTimeout(resolve, 2));
    await store.accept(delivery("first", "{}", "key"));
    await store.accept(delivery("second", "{}", "key"));
    const leases = (await claimAll(store)).filter(({ record }) => record.id === "queued");
    assert(await store.park(leases[0]!, { name: "approval", timeoutMs: 60_000 }));
    for (let i = 0; i < 20; i++) {
      await store.accept(delivery(`done${i}`));
      await store.complete(await claimOne(store));
    }
    const found = (state: "queued" | "running" | "parked", order: "oldest" | "newest") =>
      pagesOf(store, { state, order, maxReads: 6 });
    assertEquals(await found("running", "oldest"), [["running", "first"]]);
    assertEquals(await found("running", "newest"), [["first", "running"]]);
    assertEquals(await found("queued", "newest"), [["second"]]);
    assertEquals(await found("parked", "newest"), [["queued"]]);
    const before = { state: "running", maxReads: 6, order: "newest" } as const;
    assertEquals(await pagesOf(store, { ...before, limit: 1 }), [["first"], ["running"]]);
    assertEquals(await pagesOf(store, { ...before, type: "rare" }), [[]]);
  },
);

testStoreOnce("list() ends after its time, and goes on from there", async (sut) => {
  for (const id of ["a", "b", "c"]) await sut.store.accept(delivery(id));
  using clock = new MonotonicClock();
  const list = sut.store.list({ maxMs: 1_000 });
  assertEquals((await list.next()).value?.id, "a");
  clock.advance(1_001);
  assertEquals(await Array.fromAsync(list), []);
  assertEquals(list.cursor?.endsWith(":a"), true);
  const late = sut.store.list({ maxMs: 1, cursor: list.cursor });
  clock.advance(10);
  assertEquals((await Array.fromAsync(late)).map(({ id }) => id), ["b"]);
  assertThrows(
    () => sut.store.list({ maxMs: 0 }),
    RangeError,
    "Cannot list the events: 'maxMs' must be ",
  );
});
