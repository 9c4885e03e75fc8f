/** Versions whose handlers take other steps, while events are in the midst of them. */
import { assertEquals } from "@std/assert";
import { createEventRouter, type EventHandler, type EventStore } from "../../../events/mod.ts";
import { testStoreOnce } from "../store/contract/_contract.ts";
import { assertNoResults } from "../store/_stepping.ts";
import { handleAt } from "./_attempts.ts";

/** The steps of a version, in their order. `a+b` are taken beside each other. */
type Version = readonly string[];

const VERSIONS: Readonly<Record<string, Version>> = {
  "the same": ["a", "b", "c", "d"],
  "inserted at the beginning": ["new", "a", "b", "c", "d"],
  "inserted in the midst": ["a", "b", "new", "c", "d"],
  "inserted at the end": ["a", "b", "c", "d", "new"],
  "removed at the beginning": ["b", "c", "d"],
  "removed in the midst": ["a", "d"],
  "all of them others": ["e", "f"],
  "in another order": ["d", "b", "a", "c"],
  "beside each other": ["a+b", "c+d"],
  "all of that": ["new", "d+b", "other", "a"],
};

/** Takes the steps of a version, up to a number of them; then it fails. Notes the calls and the results. */
function handlerOf(
  version: Version,
  label: string,
  until: number,
  calls: string[],
  results: Record<string, string>,
): EventHandler {
  return async (_event, { step }) => {
    const take = async (name: string) => {
      results[name] = await step(name, () => {
        calls.push(name);
        return `${name} of ${label}`;
      });
    };
    for (const names of version.slice(0, until)) await Promise.all(names.split("+").map(take));
    if (until < Infinity) throw new Error("killed");
  };
}

/** Handles an event once by a version that fails after so many steps, and then by the next one. */
async function upgrade(
  store: EventStore,
  [before, after]: readonly [Version, Version],
  until: number,
  wrap: (handler: EventHandler) => EventHandler = (handler) => handler,
) {
  const [calls, results]: [string[], Record<string, string>] = [[], {}];
  const first = wrap(handlerOf(before, "v1", until, calls, {}));
  await handleAt(store, first, { retry: { minDelayMs: 0, maxAttempts: 1 } });
  await store.replay("d1");
  const second = wrap(handlerOf(after, "v2", Infinity, calls, results));
  assertEquals((await handleAt(store, second)).state, "done");
  return { calls, results };
}

for (const [how, after] of Object.entries(VERSIONS)) {
  testStoreOnce(`no step is repeated by a version whose steps are ${how}`, async (sut) => {
    const { store } = sut;
    const before = VERSIONS["the same"]!;
    for (let until = 0; until <= before.length; until++) {
      const { calls, results } = await upgrade(store, [before, after], until);
      const stored = before.slice(0, until);
      const names = after.flatMap((each) => each.split("+"));
      assertEquals(calls.toSorted(), [...new Set([...stored, ...names])].toSorted());
      const expected = names.map((name) => [name, `${name} of ${label(stored, name)}`]);
      assertEquals(results, Object.fromEntries(expected));
      await store.purge({ state: "done" });
      await assertNoResults(sut);
    }
  });
}

const label = (stored: Version, name: string) => stored.includes(name) ? "v1" : "v2";

const ROUTERS: Readonly<Record<string, (handler: EventHandler) => EventHandler>> = {
  "a router": (handler) => createEventRouter().on("push", handler).handle,
  "a router with another handler": (handler) =>
    createEventRouter().on("push", handler).on("push", () => {}, { id: "b" }).handle,
  "a router in a router": (handler) => {
    const inner = createEventRouter().on("push", handler);
    return createEventRouter().onAny(inner.handle).on("push", () => {}, { id: "b" }).handle;
  },
};

for (const [name, wrap] of Object.entries(ROUTERS)) {
  testStoreOnce(`no step of a handler of ${name} is repeated by another version`, async (sut) => {
    const versions = [VERSIONS["the same"]!, VERSIONS["all of that"]!] as const;
    const { calls } = await upgrade(sut.store, versions, 2, wrap);
    assertEquals(calls.toSorted(), ["a", "b", "d", "new", "other"]);
    await assertNoResults(sut);
  });
}

testStoreOnce("a handler with another id takes its steps anew", async (sut) => {
  let versions = 0;
  const wrap = (handler: EventHandler) =>
    createEventRouter().on("push", handler, { id: `v${++versions}` }).handle;
  const same = VERSIONS["the same"]!;
  const { calls } = await upgrade(sut.store, [same, same], 2, wrap);
  assertEquals(calls, ["a", "b", "a", "b", "c", "d"]);
  await assertNoResults(sut);
});
