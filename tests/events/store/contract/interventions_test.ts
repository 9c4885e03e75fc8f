/** Tests of what people and tools do to events from outside, and of who it was. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import type { EventStore } from "../../../../events/mod.ts";
import { questionCell } from "../../../../events/store/questions.ts";
import { buryAll, claimOne, delivery, listed } from "../_events.ts";
import { event } from "../_moving.ts";
import { NAME, park, recordOf } from "../_parking.ts";
import { noteStep, stepsOf } from "../_stepping.ts";
import { testStoreOnce as testOnce } from "./_contract.ts";

const testStoreOnce: typeof testOnce = (name, fn) => testOnce(name, fn, { log: () => {} });

/** The interventions of an event, each as its kind, who it was, and the step. */
async function notesOf(store: EventStore, id = "d1") {
  const { interventions = [] } = await recordOf(store, id);
  for (const { at } of interventions) assert(Math.abs(Date.now() - at) < 60_000);
  return interventions.map(({ is, by, step }) => [is, by, step]);
}

testStoreOnce(
  "a replay and a cancellation are noted, with who has done them",
  async ({ store }) => {
    await buryAll(store, ["d1", "d2"]);
    await store.replay("d1", { by: "Ada" });
    await store.cancel("d1", { by: "Bob" });
    await store.replayAll({ ids: ["d1"] }, { by: "tool" });
    await store.cancelAll({ ids: ["d1"] });
    assertEquals(await notesOf(store), [
      ["replayed", "Ada", undefined],
      ["cancelled", "Bob", undefined],
      ["replayed", "tool", undefined],
      ["cancelled", undefined, undefined],
    ]);
    assertEquals(await notesOf(store, "d2"), []);
  },
);

testStoreOnce(
  "a cancellation of an event that runs is noted once, and stays",
  async ({ store }) => {
    await store.accept(delivery("d1"));
    const lease = await claimOne(store);
    await store.cancel("d1", { by: "Ada" });
    await store.cancel("d1", { by: "Bob" });
    await store.complete((await store.recover(lease))!);
    assertEquals(await notesOf(store), [["cancelled", "Ada", undefined]]);
    assertEquals((await recordOf(store)).outcome, "cancelled");
  },
);

testStoreOnce("a step that somebody has forgotten or set is noted", async ({ store }) => {
  await store.accept(delivery("d1"));
  const lease = (await noteStep(store, await claimOne(store), "a"))!;
  const begun = (await store.note(lease, { is: "begun", name: "b" }))!;
  await store.bury(begun, "no");
  assert(await store.setStep("d1", "b", 1, { by: "Ada" }));
  assert(await store.forgetStep("d1", "b", { by: "Bob" }));
  assertEquals(await notesOf(store), [["step_set", "Ada", "b"], ["step_forgotten", "Bob", "b"]]);
  assertEquals(stepsOf({ record: await recordOf(store) }), ["a"]);
});

testStoreOnce("a record keeps five interventions, and cuts their texts", async ({ store }) => {
  await buryAll(store, ["d1"]);
  for (let i = 0; i < 4; i++) {
    await store.replay("d1", { by: `${i}${"é".repeat(300)}\ud800` });
    await store.cancel("d1", { by: "x" });
  }
  const notes = await notesOf(store);
  assertEquals(notes.map(([is]) => is), [
    ...["cancelled", "replayed", "cancelled", "replayed", "cancelled"],
  ]);
  assertEquals(notes[3]![1], `3${"é".repeat(39)}`);
});

testStoreOnce("an intervention of a newer version is read, listed and kept", async ({ store }) => {
  const interventions = [{ is: "lifted_up", at: Date.now(), by: "Ada", its: ["own"] }];
  const dead = { state: "dead", outcome: "failed", dueAt: null, settledAt: 2_000 };
  assertEquals(await store.restore(event({ ...dead, interventions })), "restored");
  assertEquals(await listed(store, { state: "dead" }), ["d1"]);
  assert(await store.replay("d1", { by: "Bob" }));
  const lease = await claimOne(store);
  assertEquals(lease.record.interventions?.[0], interventions[0]);
  await store.retry(lease, 60_000, new Error("no"));
  assertEquals(await notesOf(store), [
    ["lifted_up", "Ada", undefined],
    ["replayed", "Bob", undefined],
  ]);
});

testStoreOnce("an intervention whose kind is no text is refused", async ({ store }) => {
  const interventions = [{ is: 1, at: Date.now() }];
  const message = "its 'interventions' is not valid";
  await assertRejects(() => store.restore(event({ interventions })), TypeError, message);
});

testStoreOnce("a wake names who it was, and wakes the event that is meant", async ({ store }) => {
  await park(store);
  assertEquals(await store.wake(NAME, 1, { by: "Ada", eventId: "other" }), { outcome: "late" });
  assertEquals(await Array.fromAsync(store.answers()), []);
  const woken = await store.wake(NAME, 2, { by: "Ada", eventId: "d1" });
  assertEquals(woken, { outcome: "woken", eventId: "d1" });
  const { record } = await claimOne(store);
  assertEquals(record.woken?.map(({ value, by }) => [value, by]), [["2", "Ada"]]);
});

testStoreOnce("a question names who may answer, and an operator answers it", async ({ store }) => {
  await store.accept(delivery("d1"));
  const question = "q".repeat(22);
  const asked = { eventId: "d1", by: [7], until: Date.now() + 60_000 };
  const cells = [questionCell(question, asked, Date.now())];
  const lease = await store.note(await claimOne(store), { is: "handler", name: "a" }, undefined, {
    cells,
  });
  assertEquals(await store.inspect.question(await recordOf(store)), undefined);
  await store.park(lease!, { name: `ask/${question}`, timeoutMs: 60_000 });
  assertEquals(await store.inspect.question(await recordOf(store)), { name: question, by: [7] });
  const answer = (by?: number) => store.answer(question, "go", { by, operator: "Ada" });
  assertEquals([(await answer()).outcome, (await answer(7)).outcome], ["refused", "taken"]);
  const { record } = await claimOne(store);
  assertEquals(record.woken?.map(({ value, by }) => [value, by]), [[
    `{"value":"go","by":7}`,
    "Ada",
  ]]);
});

testStoreOnce("a store tells what it has that not every app uses", async ({ store }) => {
  const none = { schedules: false, states: false, limits: false, waits: false };
  assertEquals(await store.inspect.uses(), none);
  await store.scheduleNotes.write("digest", { plan: "0 7 * * * UTC", at: 0 }, null);
  assertEquals(await store.inspect.uses(), { ...none, schedules: true });
  await (await store.state("a")).set(1);
  await store.tokens.of("github", "").closeFor(60_000);
  await park(store);
  const all = { schedules: true, states: true, limits: true, waits: true };
  assertEquals(await store.inspect.uses(), all);
});
