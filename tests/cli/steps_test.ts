/** Steps and questions, as the tool shows and changes them. */
import { assertEquals } from "@std/assert";
import { questionCell } from "../../events/store/questions.ts";
import { claimOne, delivery } from "../events/store/_events.ts";
import { type Sut, testCli } from "./_cli.ts";

/** Stores a dead event with steps. */
async function storeDead({ store }: Sut): Promise<void> {
  await store.accept(delivery("d1"));
  let lease = await claimOne(store);
  for (const name of ["push/a", "push/b", "push/c"]) {
    lease = (await store.note(lease, { is: "step", name, json: `{"of":"${name}"}` }))!;
  }
  await store.bury(lease, new Error("no"));
}

const namesOf = async ({ store }: Sut) => (await store.steps("d1")).map(({ name }) => name);

testCli("events show has the steps of an event, with their results", async (sut) => {
  await storeDead(sut);
  const { out } = await sut.cli("show", "d1", "--json");
  const { steps } = JSON.parse(out[0]!);
  assertEquals(steps.map(({ name, result }: { name: string; result: unknown }) => [name, result]), [
    ["push/a", { of: "push/a" }],
    ["push/b", { of: "push/b" }],
    ["push/c", { of: "push/c" }],
  ]);
});

testCli("events forget-step forgets a step and those after it", async (sut) => {
  await storeDead(sut);
  const { code, out } = await sut.cli("forget-step", "d1", "push/b");
  assertEquals([code, out], [0, ["forgotten: push/b"]]);
  assertEquals(await namesOf(sut), ["push/a"]);
  const again = await sut.cli("forget-step", "d1", "push/b", "--json");
  assertEquals([again.code, again.out], [1, ['{"forgotten":false}']]);
  assertEquals((await sut.cli("forget-step", "d1")).code, 2);
});

testCli("events forget-step names the steps that there are", async (sut) => {
  await storeDead(sut);
  const cases = [
    [["d2", "push/a"], "push/a (there is no event d2)"],
    [["d1", "a"], "a (the event's steps are push/a, push/b, push/c)"],
  ] as const;
  for (const [args, wrong] of cases) {
    const { code, out } = await sut.cli("forget-step", ...args);
    assertEquals([code, out], [1, [`not forgotten: ${wrong}`]]);
  }
});

testCli("events set-step says that an unknown step has happened", async (sut) => {
  const { store } = sut;
  await store.accept(delivery("d1"));
  const lease = await store.note(await claimOne(store), { is: "begun", name: "push/post" });
  const running = await sut.cli("set-step", "d1", "push/post");
  assertEquals(running.out, ["not set: push/post (the event is running)"]);
  await store.bury(lease!, new Error("no"));
  const { code, out } = await sut.cli("set-step", "d1", "push/post", '{"id":7}');
  assertEquals([code, out], [0, ["set: push/post"]]);
  const [step] = await store.steps("d1");
  assertEquals([step?.isBegun, step?.result], [false, { id: 7 }]);
  const again = await sut.cli("set-step", "d1", "push/post", "8");
  const wrong = "it is known to have happened: forget it first";
  assertEquals([again.code, again.out], [1, [`not set: push/post (${wrong})`]]);
  for (const args of [["d1"], ["d1", "push/post", "no json"]]) {
    assertEquals((await sut.cli("set-step", ...args)).code, 2);
  }
});

testCli("events replay keeps the steps of a dead event, but for --fresh", async (sut) => {
  await storeDead(sut);
  assertEquals((await sut.cli("replay", "d1")).out, ["1 replayed"]);
  assertEquals((await namesOf(sut)).length, 3);
  await sut.store.bury(await claimOne(sut.store), new Error("no"));
  assertEquals((await sut.cli("replay", "d1", "--fresh")).out, ["1 replayed"]);
  assertEquals(await namesOf(sut), []);
});

testCli("events answer says why an answer is not taken", async (sut) => {
  const { store } = sut;
  await store.accept(delivery("d1"));
  const name = "a".repeat(22);
  const question = { eventId: "d1", by: [4711], until: Date.now() + 60_000 };
  const cells = [questionCell(name, question, Date.now())];
  const part = { is: "step", name: "push/a", json: undefined } as const;
  await store.note(await claimOne(store), part, undefined, { cells });
  const answer = async (...by: string[]) => (await sut.cli("answer", name, "1", ...by)).out[0]!;
  assertEquals(await answer(), `refused: ${name} (only some senders may answer: give --by)`);
  assertEquals(await answer("--by", "13"), `refused: ${name} (sender 13 may not answer)`);
  assertEquals(await answer("--by", "4711"), `taken: ${name}`);
  const late = await answer("--by", "4711");
  assertEquals(late.slice(0, -25), `late: ${name} (answered before by 4711 at `);
});

testCli("events answer tells of a name that no question has", async (sut) => {
  await sut.store.accept(delivery("d1"));
  const { code, out } = await sut.cli("answer", "nobody", "true");
  assertEquals([code, out], [1, ["unknown: nobody (there is no such question)"]]);
  assertEquals((await sut.cli("answer", "a", "no json")).code, 2);
});
