import { assertEquals } from "@std/assert";
import { events } from "../../../app/mod.ts";
import type { EmitOptions, EventHandler } from "../../../events/mod.ts";
import { aborted, idsOf } from "./_newer.ts";
import { type OpenedStore, reach, testSimulated, withWorker } from "./_worker.ts";

const jobs = events<{ work: { readonly n: number } }>("jobs");

/** An event that can be interrupted. */
const RULE = { group: "g", newer: "interrupt", interrupt: { steps: "drop" } } as const;

/** Emits an event while the handler of another one runs; returns what each run has got. */
async function emitting({ store, place }: OpenedStore, second: EmitOptions): Promise<string[][]> {
  const runs: string[][] = [];
  const handler: EventHandler = async (event, context) => {
    if (runs.push(idsOf(event)) > 1) return;
    await store.emit(jobs, "work", { n: 2 }, { id: "b", ...second });
    const waits = new Promise((resolve) => setTimeout(resolve, 5_000));
    await Promise.race([aborted(context), waits]);
  };
  await store.emit(jobs, "work", { n: 1 }, { id: "a", ...RULE });
  await withWorker({ store, place }, handler, {}, () => reach(store, "jobs:b", "done"));
  return runs;
}

for (const second of [{ group: "g", interrupt: true }, RULE] as const) {
  const how = "newer" in second ? "the rule" : "true";
  testSimulated(`an event that is emitted with interrupt, ${how}, interrupts`, async (sut) => {
    assertEquals(await emitting(sut, second), [["jobs:a"], ["jobs:a", "jobs:b"]]);
    assertEquals((await sut.store.get("jobs:a"))!.interrupted?.by, "jobs:b");
  });
}

testSimulated("an event that is emitted without it waits", async (sut) => {
  const waits = { group: "g", quietMs: 0, together: "all" } as const;
  assertEquals(await emitting(sut, waits), [["jobs:a"], ["jobs:b"]]);
});

testSimulated("an event that only interrupts is not interrupted", async (sut) => {
  const { store } = sut;
  const runs: string[][] = [];
  const rule = { group: "g", interrupt: true } as const;
  const handler: EventHandler = async (event, { signal, emit }) => {
    if (runs.push(idsOf(event)) > 1) return;
    await store.emit(jobs, "work", { n: 2 }, { id: "b", ...rule });
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    assertEquals(signal.aborted, false);
    emit(jobs, "work", { n: 3 }, { id: "c", ...rule });
  };
  await store.emit(jobs, "work", { n: 1 }, { id: "a", ...rule });
  await withWorker(sut, handler, {}, () => reach(store, "jobs:c", "done"));
  assertEquals(runs[0], ["jobs:a"]);
  assertEquals(runs.slice(1).flat(), ["jobs:b", "jobs:c"]);
});
