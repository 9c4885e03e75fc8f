/** The results of steps: kept whole beside the record, and deleted with what has named them. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import type { CommitEffects, EventStore, Lease } from "../../../../events/mod.ts";
import { claimOne, delivery } from "../_events.ts";
import { acceptTogether, claimBatch, claimed, quiet } from "../_batching.ts";
import { assertNoResults, noteStep, stepsOf } from "../_stepping.ts";
import { type StoreUnderTest, testStore, testStoreOnce } from "./_contract.ts";

/** Largest result, in bytes of its JSON. */
const MAX_BYTES = 524_288;

/** Characters of a result that are stored together. */
const PART = 20_000;

/** Takes an event in, claims it, and notes steps with results of these JSON texts. */
async function noted(store: EventStore, results: readonly string[], id = "d1"): Promise<Lease> {
  await store.accept(delivery(id));
  let lease: Lease | null = await claimOne(store);
  for (const [i, json] of results.entries()) lease = await noteStep(store, lease!, `s${i}`, json);
  return lease!;
}

/** Reads the results of the steps that `noted()` has noted. */
const resultsOf = (store: EventStore, lease: Lease) =>
  Promise.all(stepsOf(lease).map((name) => store.readStep(lease, name)));

/** Fills JSON of a text up to a number of bytes: with one character, and at the end with digits. */
function filled(character: string, bytes: number): string {
  const one = new TextEncoder().encode(JSON.stringify(character)).byteLength - 2;
  const count = Math.floor((bytes - 2) / one);
  return JSON.stringify(character.repeat(count) + "0".repeat(bytes - 2 - count * one));
}

const bytesOf = (text: string) => new TextEncoder().encode(text).byteLength;

const CHARACTERS = {
  letters: "a",
  quotes: '"',
  "back slashes": "\\",
  "line feeds": "\n",
  "control characters": "\u0001",
  "letters of two bytes": "ü",
  "signs of three bytes": "漢",
  "pairs of characters": "\u{1F642}",
  "letters with a sign of three bytes": "abcdefg漢",
  "a half of a pair": "\ud83d",
};

for (const [name, character] of Object.entries(CHARACTERS)) {
  testStore(`a result of 524,288 bytes is kept whole, and no larger one: ${name}`, async (sut) => {
    const { store } = sut;
    const json = filled(character, MAX_BYTES);
    assertEquals(bytesOf(json), MAX_BYTES);
    const lease = await noted(store, [json]);
    assertEquals(await store.readStep(lease, "s0"), json);
    const message =
      `Cannot store the step "large": its result takes ${MAX_BYTES + 1} bytes as JSON, ` +
      `over ${MAX_BYTES}. Return less, or where it is kept`;
    const noting = () => noteStep(store, lease, "large", filled(character, MAX_BYTES + 1));
    await assertRejects(noting, Error, message);
    assertEquals((await store.steps("d1")).length, 1);
    // The lease is as good as before.
    assert(await store.complete((await noteStep(store, lease, "small"))!));
    await assertNoResults(sut);
  });
}

testStoreOnce("results are kept whole whatever is at the borders of their parts", async (sut) => {
  const { store } = sut;
  const results = [];
  for (const pair of ["\u{1F642}", "ä", "漢", '"', "\\"]) {
    for (let before = PART - 4; before <= PART + 1; before++) {
      results.push(JSON.stringify("x".repeat(before) + pair + "y".repeat(before) + pair));
    }
  }
  for (let length = 2 * PART - 4; length <= 2 * PART + 2; length++) {
    results.push(JSON.stringify("x".repeat(length)), JSON.stringify("\u{1F642}".repeat(length)));
  }
  const lease = await noted(store, results);
  assertEquals(await resultsOf(store, lease), results);
  assert(await store.complete(lease));
  await assertNoResults(sut);
});

testStore(
  "the largest result of the longest name is kept, of an event with the longest id",
  async (sut) => {
    const { store } = sut;
    const id = "漢".repeat(600);
    // A router in a router has ids of 64 characters.
    const name = `${`${"i".repeat(64)}/`.repeat(2)}${"漢".repeat(200)}`;
    const json = filled("x", MAX_BYTES);
    await store.accept(delivery(id));
    const lease = (await noteStep(store, await claimOne(store), name, json))!;
    assertEquals(await store.readStep(lease, name), json);
    assert(await store.bury(lease, "no"));
    assert(await store.forgetStep(id, name));
    assert(await store.replay(id));
    await claimOne(store);
    await assertNoResults(sut);
  },
);

testStore("the shortest results are what they are, and none is none", async (sut) => {
  const { store } = sut;
  const results = ["null", "0", "false", `""`, "[]", "{}"];
  const before = await noted(store, results);
  const lease = (await store.note(before, { is: "step", name: "none", json: undefined }))!;
  assertEquals(await resultsOf(store, lease), [...results, undefined]);
  const listed = (await store.steps("d1")).map(({ result }) => result);
  assertEquals(listed, [null, 0, false, "", [], {}, undefined]);
  assertEquals(await store.readStep(lease, "other"), null);
  assertEquals(await store.steps("d2"), []);
  assert(await store.complete(lease));
});

const LONG = JSON.stringify("ä".repeat(50_000));

const ENDS: Readonly<Record<string, (store: EventStore, lease: Lease) => Promise<unknown>>> = {
  "is done": (store, lease) => store.complete(lease),
  "is ignored": (store, lease) => store.complete(lease, { outcome: "ignored" }),
  "is done, and emits": (store, lease) => store.complete(lease, { wakes: [{ name: "a" }] }),
  "is dead and purged": async (store, lease) =>
    await store.bury(lease, "no") && await store.purge({ ids: ["d1"] }),
  "is cancelled and purged": async (store, lease) =>
    await store.cancel("d1") && await store.bury((await store.recover(lease))!, "no") &&
    await store.purge({}),
  "is replayed to begin anew": async (store, lease) =>
    await store.bury(lease, "no") && await store.replay("d1", { fresh: true }),
  "is replayed with others to begin anew": async (store, lease) =>
    await store.bury(lease, "no") && await store.replayAll({}, { fresh: true }),
};

for (const [end, act] of Object.entries(ENDS)) {
  testStore(`the results of an event that ${end} are deleted`, async (sut) => {
    const { store } = sut;
    const lease = await noted(store, [LONG, "1", LONG]);
    assertEquals(await resultsOf(store, lease), [LONG, "1", LONG]);
    assert(await act(store, lease));
    await assertNoResults(sut);
  });
}

testStore("a hundred results are deleted in the commit that settles their event", async (sut) => {
  const { place, store } = sut;
  assert(await store.complete(await noted(store, [LONG, ...new Array(99).fill("1")])));
  assertEquals((await place.contents()).results, 0);
});

/** Settles an event with as many effects as its commit holds, and counts them. */
async function mostEffects({ store, place }: StoreUnderTest, results: readonly string[]) {
  const mark = results.length === 0 ? "漢" : "字";
  const lease = await noted(store, results, mark.repeat(600));
  for (let count = 90;; count--) {
    const each = Array.from(
      { length: count },
      (_, i) => place.effects.set(`${results.length}/${i}`, "x".repeat(10_000)),
    );
    const effects: CommitEffects = (commit) => each.forEach((effect) => void effect(commit));
    const isDone = await store.complete(lease, { effects }).catch((error) => {
      assert(error instanceof RangeError);
    });
    if (isDone) return count;
  }
}

testStoreOnce("results take no room in the commit that settles their event", async (sut) => {
  const most = await mostEffects(sut, []);
  assertEquals(await mostEffects(sut, new Array(25).fill("1")), most);
  await assertNoResults(sut);
});

testStoreOnce("many and large results are deleted together", async (sut) => {
  const { store } = sut;
  const large = filled("漢", MAX_BYTES);
  const lease = await noted(store, [...new Array(250).fill("1"), large, large, large]);
  assert(await store.complete(lease));
  await assertNoResults(sut);
});

testStoreOnce(
  "the results of a done event whose payload is kept are deleted, and a replay begins without",
  async (sut) => {
    const { store } = sut;
    assert(await store.complete(await noted(store, [LONG])));
    await assertNoResults(sut);
    assert(await store.replay("d1"));
    const again = await claimOne(store);
    assertEquals(stepsOf(again), []);
    assert(await store.complete((await noteStep(store, again, "s0", "2"))!));
    await assertNoResults(sut);
  },
  { keepPayloads: { forMs: 60_000, maxBytes: 1_000_000 } },
);

testStore("a replay does not delete what a later run has stored", async (sut) => {
  const { store } = sut;
  const lease = await noted(store, [LONG]);
  assert(await store.bury(lease, "no"));
  assert(await store.replay("d1", { fresh: true }));
  const again = (await noteStep(store, await claimOne(store), "s0", "[2]"))!;
  assertEquals(await store.readStep(again, "s0"), "[2]");
  assert(await store.bury(again, "no"));
  assert(await store.replay("d1"));
  const third = await claimOne(store);
  assertEquals(await store.readStep(third, "s0"), "[2]");
  assert(await store.complete(third));
  await assertNoResults(sut);
});

testStore("forgetStep() forgets a step of an event that is dead, with its result", async (sut) => {
  const { store } = sut;
  assert(await store.bury(await noted(store, [LONG, "1"]), "no"));
  assertEquals(await store.forgetStep("d1", "other"), false);
  assertEquals(await store.forgetStep("d2", "s0"), false);
  assertEquals(await store.forgetStep("d1", "s1"), true);
  assertEquals(await store.forgetStep("d1", "s1"), false);
  assertEquals((await store.steps("d1")).map(({ name }) => name), ["s0"]);
  assert(await store.forgetStep("d1", "s0"));
  assert(await store.replay("d1"));
  assertEquals(stepsOf(await claimOne(store)), []);
  await assertNoResults(sut);
});

testStore(
  "forgetStep() has a queued event go on from there, and a parked one at once",
  async (sut) => {
    const { store } = sut;
    const lease = await noted(store, ["1", "2", "3"]);
    assertEquals(await store.forgetStep("d1", "s0"), false);
    assert(await store.retry(lease, 0, "no"));
    assert(await store.forgetStep("d1", "s2"));
    const again = await claimOne(store);
    assertEquals(stepsOf(again), ["s0", "s1"]);
    assert(await store.park(again, { name: "a", timeoutMs: 60_000 }));
    assert(await store.forgetStep("d1", "s1"));
    const due = await claimOne(store);
    assertEquals([stepsOf(due), due.record.woken?.length ?? 0], [["s0"], 0]);
    assertEquals((await store.wake("a", 1)).outcome, "kept");
    assert(await store.complete(due));
    assertEquals(await store.forgetStep("d1", "s0"), false);
    await assertNoResults(sut);
  },
);

testStore("forgetStep() of an event in the midst of its group holds nobody up", async (sut) => {
  const { store } = sut;
  await store.accept(delivery("a", "{}", "key"));
  const lease = (await noteStep(store, await claimOne(store), "s0"))!;
  await store.accept(delivery("b", "{}", "key"));
  assert(await store.retry(lease, 0, "no"));
  assert(await store.forgetStep("a", "s0"));
  for (const id of ["a", "b"]) {
    const next = await claimOne(store);
    assertEquals(next.record.id, id);
    assert(await store.complete(next));
  }
  await assertNoResults(sut);
});

testStore("a batch that is dead and replayed drops its steps, and their results", async (sut) => {
  const { store } = sut;
  await acceptTogether(store, ["a", "b", "c"]);
  const lease = (await noteStep(store, await claimBatch(store, "a", "b", "c"), "s0", LONG))!;
  assert(await store.retry(lease, 0, "once"));
  // The same batch is tried again with them.
  const again = await claimBatch(store, "a", "b", "c");
  assertEquals(await store.readStep(again, "s0"), LONG);
  assert(await store.bury(again, "no"));
  assertEquals((await store.replayAll({})).changed, 3);
  assertEquals(stepsOf(await claimBatch(store, "a", "b", "c")), []);
  await assertNoResults(sut);
});

testStore("a batch that is dead and delivered again drops its steps", async (sut) => {
  const { store } = sut;
  await acceptTogether(store, ["a", "b"]);
  const lease = (await noteStep(store, await claimBatch(store, "a", "b"), "s0", LONG))!;
  assert(await store.bury(lease, "no"));
  await acceptTogether(store, ["a", "c"]);
  assertEquals(stepsOf(await claimBatch(store, "a", "c")), []);
  await assertNoResults(sut);
});

testStore("an event with steps of its own joins no batch", async (sut) => {
  const { store } = sut;
  for (const id of ["a", "b"]) {
    await acceptTogether(store, [id]);
    assert(await store.bury((await noteStep(store, await claimed(store), "s0", LONG))!, "no"));
  }
  await store.accept(delivery("before", "{}", "key"));
  const before = await claimed(store);
  for (const id of ["a", "b"]) assert(await store.replay(id));
  await store.accept(quiet("c"));
  assert(await store.complete(before));
  for (const ids of [["a"], ["b"], ["c"]]) {
    const lease = await claimBatch(store, ...ids);
    assertEquals(stepsOf(lease), ids[0] === "c" ? [] : ["s0"]);
    assert(await store.complete(lease));
  }
  await assertNoResults(sut);
});

testStore(
  "check() deletes results that their event has no more, and no others",
  async ({ store, place, damages }) => {
    const results = async () => {
      await Array.fromAsync(store.check());
      return (await place.contents()).results;
    };
    const lease = await noted(store, [LONG, "1"]);
    const kept = await results();
    await noted(store, [LONG, "2"], "d2");
    await damages.lose("event", "d2");
    // An import stores results before their event.
    assertEquals(await results(), 2 * kept);
    await store.accept(delivery("d2"));
    assertEquals(await results(), kept);
    assertEquals(await resultsOf(store, lease), [LONG, "1"]);
    const undo = await damages.spoil("event", "d1");
    assertEquals(await results(), kept);
    await undo();
    assertEquals(await resultsOf(store, lease), [LONG, "1"]);
    assert(await store.complete((await store.recover(lease))!));
    await assertNoResults({ place });
  },
  {},
  "damages",
);

testStore("a hundred results are deleted in the commit that purges their event", async (sut) => {
  const { place, store } = sut;
  assert(await store.bury(await noted(store, [LONG, ...new Array(99).fill("1")]), "no"));
  assertEquals(await store.purge({ ids: ["d1"] }), { changed: 1, left: [] });
  assertEquals((await place.contents()).results, 0);
});
