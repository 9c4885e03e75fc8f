/** The parts of an event's handling that are noted: handlers that are done, and steps with their results. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import type { Lease } from "../../../../events/mod.ts";
import { claimOne, delivery } from "../_events.ts";
import { assertNoResults, noteHandler, noteStep, stepsOf } from "../_stepping.ts";
import { testFailing, testStore, testStoreOnce } from "./_contract.ts";

testStore("note() notes handlers and steps, and commits their effects", async (sut) => {
  const { place, store } = sut;
  await store.accept(delivery("d1"));
  const first = await noteHandler(
    store,
    await claimOne(store),
    "a",
    place.effects.set("a", 1),
  );
  const second = await noteStep(store, first!, "b", `"two"`, place.effects.set("b", 2));
  assertEquals([second?.record.progress, stepsOf(second!)], [["a"], ["b"]]);
  assertEquals([await place.effects.get("a"), await place.effects.get("b")], [1, 2]);
  assertEquals(await store.readStep(second!, "b"), `"two"`);
  assertEquals(await store.readStep(second!, "a"), null);
  assertEquals(await store.complete(second!), true);
  await assertNoResults(sut);
});

testStore("note() commits nothing for a lease that is lost", async (sut) => {
  const { place, store } = sut;
  await store.accept(delivery("d1"));
  const lease = await claimOne(store);
  await store.renew(lease, 60_000);
  assertEquals(await noteHandler(store, lease, "a", place.effects.set("a", 1)), null);
  assertEquals(await noteStep(store, lease, "a", "1", place.effects.set("a", 1)), null);
  assertEquals(await place.effects.get("a"), null);
  const { progress = [], steps = [] } = (await store.get("d1"))!;
  assertEquals([progress, steps], [[], []]);
  await assertNoResults(sut);
});

testStore("note() notes nothing when its effects are refused", async (sut) => {
  const { place, store } = sut;
  await store.accept(delivery("d1"));
  const lease = await claimOne(store);
  for (
    const note of [
      noteHandler,
      (...[store, lease, name, effects]) => noteStep(store, lease, name, "1", effects),
    ] as (typeof noteHandler)[]
  ) {
    const noting = () => note(store, lease, "a", place.effects.refused());
    await assertRejects(noting, Error, place.effects.refusal);
  }
  const { progress = [], steps = [] } = (await store.get("d1"))!;
  assertEquals([progress, steps], [[], []]);
  await assertNoResults(sut);
});

testStore("what is noted is remembered by a retry, a put-off and a replay", async ({ store }) => {
  await store.accept(delivery("d1"));
  const noted = await noteStep(store, (await noteHandler(store, await claimOne(store), "a"))!, "s");
  await store.retry(noted!, 0, new Error("no"));
  await store.release(await claimOne(store), { reason: "busy" });
  await store.bury(await claimOne(store), new Error("no"));
  await store.replay("d1");
  const again = await claimOne(store);
  assertEquals([again.record.progress, stepsOf(again)], [["a"], ["s"]]);
  assertEquals(await store.readStep(again, "s"), "1");
});

testStore("what is noted of a dead event is remembered when it is delivered again", async (sut) => {
  const { store } = sut;
  await store.accept(delivery("d1"));
  const noted = await noteStep(store, (await noteHandler(store, await claimOne(store), "a"))!, "s");
  await store.bury({ ...noted!, record: { ...noted!.record, lease: null } }, new Error("no"));
  await store.accept(delivery("d1"));
  const again = await claimOne(store);
  assertEquals([again.record.progress, stepsOf(again)], [["a"], ["s"]]);
  assertEquals(await store.readStep(again, "s"), "1");
  assert(await store.complete(again));
  await assertNoResults(sut);
});

testStore(
  "a step that begins is known as begun, until it is stored or was not done",
  async (sut) => {
    const { store } = sut;
    await store.accept(delivery("d1"));
    const lease = await claimOne(store);
    const begun = (await store.note(lease, { is: "begun", name: "s" }))!;
    assertEquals(begun.record.steps?.map(({ name, isBegun }) => [name, isBegun]), [["s", true]]);
    assertEquals(await store.readStep(begun, "s"), null);
    assertEquals((await store.steps("d1")).map(({ isBegun }) => isBegun), [true]);
    const not = (await store.note(begun, { is: "not_begun", name: "s" }))!;
    assertEquals(stepsOf(not), []);
    const again = (await store.note(not, { is: "begun", name: "s" }))!;
    const stored = (await noteStep(store, again, "s", "[1]"))!;
    assertEquals(stepsOf(stored), ["s"]);
    const [step] = await store.steps("d1");
    assertEquals([step?.name, step?.isBegun, step?.result], ["s", false, [1]]);
    assert(step!.at > Date.now() - 60_000);
  },
);

for (const fault of ["before", "after"] as const) {
  testFailing(
    fault,
    `a step whose commit fails ${fault} it was made is stored whole or not at all`,
    async (sut) => {
      const { failing: { store, arm } } = sut;
      await store.accept(delivery("d1"));
      const lease = await claimOne(store);
      arm();
      const long = JSON.stringify("x".repeat(50_000));
      await assertRejects(() => noteStep(store, lease, "s", long), Error, "connection lost");
      const held = (await store.recover(lease))!;
      assertEquals(await store.readStep(held, "s"), fault === "before" ? null : long);
      if (fault === "before") await assertNoResults(sut);
    },
  );
}

testStoreOnce(
  "an event that is full of progress is taken by its worker when it is redelivered",
  async (sut) => {
    const { store } = sut;
    const text = JSON.stringify({ text: "x".repeat(32_750) });
    await store.accept(delivery("d1", text));
    const lease = await noteHandler(store, await claimOne(store), "p".repeat(32_760));
    await store.bury(lease!, new Error("no"));
    const taken: Lease[] = [];
    const take = (lease: Lease) => void taken.push(lease);
    const reserve = () => ({ owner: "worker", leaseMs: 30_000, take, cancel: () => {} });
    store.listen({ wake: () => {}, reserve }).catch(() => {});
    assertEquals(await store.accept(delivery("d1", text)), { id: "d1", duplicate: false });
    assertEquals(new TextDecoder().decode(await store.load(taken[0]!)), text);
    assertEquals(taken[0]!.record.progress?.[0]?.length, 32_760);
  },
);
