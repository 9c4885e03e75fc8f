/**
 * Texts that become parts of keys. A KV stores half of a surrogate pair as another character, U+FFFD: two texts
 * would be one key. Names are refused then, and what comes from a payload is told apart.
 */
import { assert, assertEquals, assertNotEquals, assertRejects, assertThrows } from "@std/assert";
import { claimAll, claimOne, delivery, listed } from "../_events.ts";
import {
  assertNothingWaits,
  testStore,
  testStoreInOneProcess,
  testStoreOnce,
} from "./_contract.ts";

const HALVES = ["\ud800", "\udc00", "user/\ud801"];

testStoreInOneProcess("state() and states() refuse half of a surrogate pair", async ({ store }) => {
  for (const half of HALVES) {
    for (
      const [read, name] of [
        [() => store.state(half), "key"],
        [() => store.state("a", { intake: half }), "intake"],
      ] as const
    ) {
      const message = `Cannot read the state: '${name}' must be a well-formed text, got `;
      await assertRejects(read, TypeError, message);
    }
    for (const name of ["intake", "prefix"]) {
      const message = `Cannot list the states: '${name}' must be a well-formed text, got `;
      assertThrows(() => store.states({ [name]: half }), TypeError, message);
    }
  }
  const state = await store.state("\ufffd\u{1f600}");
  assert(await state.set(1));
});

testStoreInOneProcess(
  "accept() refuses an id or an intake with half of a surrogate pair",
  async ({ store }) => {
    for (const wrong of [{ deliveryId: "\ud800" }, { intake: "\ud800" }]) {
      await assertRejects(
        () => store.accept({ ...delivery("d1"), ...wrong }),
        TypeError,
        "Cannot store the event: its id must be a well-formed text, got ",
      );
    }
    assertEquals(await listed(store), []);
  },
);

testStore("an id with half of a surrogate pair is no event's", async ({ store }) => {
  await store.accept(delivery("\ufffd"));
  assertEquals(await store.get("\ud800"), null);
  assertEquals(await store.cancel("\ud800"), false);
  assertEquals(await store.replay("\ud800"), false);
  assertEquals((await store.purge({ ids: ["\ud800"] })).left, ["\ud800"]);
  assertEquals((await store.get("\ufffd"))?.state, "queued");
});

testStoreInOneProcess("ids and ordering keys may hold any character, also NUL", async (sut) => {
  const { store } = sut;
  const texts = [
    "a",
    "a\0",
    "a\0b",
    "a\0c",
    "\0",
    "\0\0",
    "\u0001",
    "\u0001\u0001",
    "\u0001\0\u0002",
  ];
  for (const text of texts) {
    await store.accept(delivery(`${text}1`, "{}", text));
    await store.accept(delivery(`${text}2`, "{}", text));
  }
  const ids = texts.flatMap((text) => [`${text}1`, `${text}2`]);
  for (const order of ["oldest", "newest"] as const) {
    const found: string[] = [];
    let cursor: string | undefined;
    do {
      const page = store.list({ order, limit: 4, cursor });
      for await (const { id } of page) found.push(id);
      ({ cursor } = page);
    } while (cursor !== undefined);
    assertEquals(found.toSorted(), ids.toSorted());
  }
  for (const number of [1, 2]) {
    const leases = await claimAll(store);
    const expected = texts.map((text) => `${text}${number}`);
    assertEquals(leases.map(({ record }) => record.id).toSorted(), expected.toSorted());
    for (const lease of leases) assert(await store.complete(lease));
  }
  for (const id of ids) assertEquals((await store.get(id))?.state, "done");
  await assertNothingWaits(sut);
});

testStore("different ordering keys are different groups, however they are written", async (sut) => {
  const { store } = sut;
  const long = "x".repeat(300);
  const keys = [...HALVES, "\ufffd", "user/\ufffd", `${long}a`, `${long}b`, long.slice(0, 256)];
  for (const [i, key] of keys.entries()) await store.accept(delivery(`d${i}`, "{}", key));
  const stored: (string | null)[] = [];
  for (const [i, key] of keys.entries()) {
    const record = (await store.get(`d${i}`))!;
    // Each is the first one of its group, and can be found by its whole key.
    assertNotEquals(record.dueAt, null);
    assertEquals(await listed(store, { orderingKey: key }), [`d${i}`]);
    stored.push(record.orderingKey);
  }
  assertEquals(new Set(stored).size, keys.length);
  assert(stored.every((key) => key!.length <= 256 && key!.isWellFormed()));
  // The same key is the same group.
  await store.accept(delivery("again", "{}", `${long}a`));
  assertEquals((await store.get("again"))?.dueAt, null);
});

testStore("a replay finds the group of a key that was cut", async ({ store }) => {
  const key = `${"x".repeat(300)}a`;
  await store.accept(delivery("d1", "{}", key));
  await store.bury(await claimOne(store), new Error("no"));
  const before = (await store.get("d1"))?.orderingKey;
  assert(await store.replay("d1"));
  assertEquals((await store.get("d1"))?.orderingKey, before);
});

testStoreOnce("restoreEntry() refuses names with half of a surrogate pair", async (sut) => {
  for (
    const entry of [
      { kind: "state", key: "\ud800", value: 1 },
      { kind: "state", intake: "\ud800", key: "a", value: 1 },
      { kind: "answer", name: "\ud800", at: 1 },
      { kind: "schedule", name: "\ud800", plan: "* * * * * UTC", at: 1 },
    ] as const
  ) {
    await assertRejects(() => sut.store.restoreEntry(entry), TypeError, "well-formed");
  }
});
