/** The run of a handler, which is the same alone and beside others of a router. */
import { assertEquals, assertRejects } from "@std/assert";
import type { EventHandler, HandlerContext, HandlerState } from "../../../events/mod.ts";
import { delivery } from "../store/_events.ts";

import { testStoreOnce } from "../store/contract/_contract.ts";
import { handle, reach, WAYS, withWorker } from "./_worker.ts";

testStoreOnce("a handler's context is made of data alone, the same in a router", async (sut) => {
  const members: string[][] = [];
  for (const way of Object.values(WAYS)) {
    const look: EventHandler = (_event, context) => {
      const properties = Object.entries(Object.getOwnPropertyDescriptors(context));
      members.push(properties.filter(([, { get }]) => !get).map(([name]) => name).toSorted());
      assertEquals(members.at(-1), Object.keys(context).toSorted());
    };
    await using other = await sut.elsewhere();
    await handle(other, way(look));
  }
  assertEquals(members[0], members[1]);
});

for (const [name, way] of Object.entries(WAYS)) {
  for (const ending of ["returns", "throws"]) {
    testStoreOnce(`nothing can be added once ${name} has ended that ${ending}`, async (sut) => {
      const { place: { effects } } = sut;
      const states: HandlerState<unknown>[] = [];
      const contexts: HandlerContext[] = [];
      const handler: EventHandler = async (_event, context) => {
        contexts.push(context);
        states.push(await context.state("chat"));
        if (ending === "throws") throw new Error("no");
      };
      const set = effects.set("late", 1);
      const late: Readonly<Record<string, (context: HandlerContext) => unknown>> = {
        "settle with effects": ({ settleWith }) => settleWith(set),
        [`take the step "late"`]: ({ step }) => step("late", ({ settleWith }) => settleWith(set)),
        "emit the event": ({ emit }) => emit("jobs", "x", {}),
        "wait": ({ waitFor }) => waitFor("late"),
        "wake an event": ({ wake }) => wake("late"),
        "read the state": ({ state }) => state("late"),
        "set the state": () => states[0]!.set(1),
        "delete the state": () => states[0]!.delete(),
      };
      await withWorker(sut, way(handler), { retry: { maxAttempts: 1 } }, async () => {
        await sut.store.accept(delivery("d1"));
        await reach(sut.store, "d1", ending === "throws" ? "dead" : "done");
        for (const [doing, call] of Object.entries(late)) {
          const message = `Cannot ${doing}: the handler has ended`;
          await assertRejects(async () => await call(contexts[0]!), TypeError, message);
        }
        assertEquals(await effects.get("late"), null);
      });
    });
  }

  testStoreOnce(
    `steps of ${name} that nobody awaits are stored in turn, with what is emitted between`,
    async (sut) => {
      await handle(
        sut,
        way(({ id }, { emit, step }) => {
          if (id !== "d1") return;
          for (const part of ["a", "b"]) {
            (async () => {
              for (const number of [1, 2, 3]) {
                await step(`${part}${number}`, () => {});
                emit("jobs", "item", {});
              }
            })();
          }
        }),
      );
      const { state, steps = [] } = (await sut.store.get("d1"))!;
      const parts = steps.map((step) => step.name.split("/").at(-1));
      assertEquals([state, parts.toSorted()], ["done", ["a1", "a2", "a3", "b1", "b2", "b3"]]);
      const emitted = await Array.fromAsync(sut.store.list(), (event) => event.id);
      assertEquals(emitted.filter((id) => id.startsWith("jobs:d1/")).length, 6);
    },
  );
}
