import { assert, assertEquals, assertThrows } from "@std/assert";
import type { EventStore } from "../../../../events/mod.ts";
import { until } from "../../worker/_worker.ts";
import { testStore, testStoreOnce } from "./_contract.ts";

/** Sets states, each by its intake and its key; an empty intake is none. */
async function set(store: EventStore, states: readonly string[][]) {
  for (const [intake = "", key = ""] of states) {
    const options = intake === "" ? {} : { intake };
    assert(await (await store.state(key, options)).set({ of: `${intake}/${key}` }));
  }
}

const STATES: string[][] = [
  ["", "a"],
  ["", "chat:1"],
  ["first", "chat:1"],
  ["first", "chat:2"],
  ["second", "chat:1"],
];

const listed = async (store: EventStore, options?: Parameters<EventStore["states"]>[0]) =>
  (await Array.fromAsync(store.states(options))).map(({ intake, key }) => [intake ?? "", key]);

testStore("states() lists states by their intakes and keys", async ({ store }) => {
  assertEquals(await listed(store), []);
  await set(store, STATES.toReversed());
  assertEquals(await listed(store), STATES);
  assertEquals(await listed(store, { intake: "first" }), STATES.slice(2, 4));
  assertEquals(await listed(store, { intake: "" }), STATES.slice(0, 2));
  assertEquals(await listed(store, { prefix: "chat:" }), STATES.slice(1));
  assertEquals(await listed(store, { intake: "first", prefix: "chat:2" }), [["first", "chat:2"]]);
  assertEquals(await listed(store, { intake: "first", prefix: "chat:1" }), [["first", "chat:1"]]);
  assertEquals(await listed(store, { intake: "first", prefix: "d" }), []);
  assertEquals(await listed(store, { intake: "third" }), []);
});

testStore("states() has values, and deletes what nobody has changed", async ({ store }) => {
  await set(store, STATES.slice(0, 2));
  const [first, second] = await Array.fromAsync(store.states());
  assertEquals([first?.value, first?.expiresAt, first?.isUnreadable], [
    { of: "/a" },
    undefined,
    false,
  ]);
  await (await store.state("chat:1")).set("changed");
  assertEquals([await first!.delete(), await second!.delete()], [true, false]);
  assertEquals(await listed(store), [["", "chat:1"]]);
  assertEquals((await store.state("chat:1")).value, "changed");
});

testStore("states() leaves out what has expired", async ({ store }) => {
  await (await store.state("a")).set(1, { expireAfterMs: 60_000 });
  await (await store.state("b")).set(1, { expireAfterMs: 20 });
  const before = Date.now();
  const [first] = await Array.fromAsync(store.states());
  assert(Math.abs(first!.expiresAt! - before - 60_000) < 30_000);
  await until(async () => (await listed(store)).length === 1);
});

testStore(
  "states() names what it cannot read, which can be deleted",
  async ({ damages, store }) => {
    await set(store, [["", "a"], ["first", "b"]]);
    await damages.spoilCell("state", "", "a");
    await damages.spoilCell("state", "first", "b");
    const states = await Array.fromAsync(store.states());
    assertEquals(
      states.map(({ key, isUnreadable, value }) => [key, isUnreadable, value]),
      [["a", true, undefined], ["b", true, undefined]],
    );
    for (const state of states) assert(await state.delete());
    assertEquals(await listed(store), []);
  },
  {},
  "damages",
);

testStoreOnce("states() refuses wrong options", (sut) => {
  const wrong = (options: unknown) => () => sut.store.states(options as never);
  assertThrows(
    wrong({ prefix: 1 }),
    TypeError,
    "Cannot list the states: 'prefix' must be a text, got 1",
  );
  assertThrows(
    wrong({ intake: null }),
    TypeError,
    "Cannot list the states: 'intake' must be a text, got null",
  );
  assertThrows(wrong("a"), TypeError, "Cannot list the states: ");
});

testStore("states() lists many", async ({ store }) => {
  const keys = Array.from({ length: 130 }, (_, i) => `k${String(i).padStart(3, "0")}`);
  await Promise.all(keys.map(async (key) => await (await store.state(key)).set(key)));
  assertEquals(await listed(store), keys.map((key) => ["", key]));
});
