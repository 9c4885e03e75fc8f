import { assert, assertEquals } from "@std/assert";
import type { EventStore, ListedState } from "../../../../events/mod.ts";
import { testStore } from "./_stores.ts";
import { damage, setNewer } from "./_values.ts";

/** Sets states, each by its intake and its key; an empty intake is none. */
async function set(store: EventStore, states: readonly string[][]) {
  for (const [intake = "", key = ""] of states) {
    const options = intake === "" ? {} : { intake };
    assert(await (await store.state(key, options)).set({ of: `${intake}/${key}` }));
  }
}

const listed = async (store: EventStore, options?: Parameters<EventStore["states"]>[0]) =>
  (await Array.fromAsync(store.states(options))).map(({ intake, key }) => [intake ?? "", key]);

testStore("states() names what it cannot read, which can be deleted", async ({ kv, store }) => {
  for (const spoil of [setNewer, damage]) {
    await set(store, [["", "a"]]);
    await spoil(kv, ["events", "state", "", "a"]);
    const [damaged] = await Array.fromAsync(store.states()) as [ListedState];
    assertEquals([damaged.key, damaged.isUnreadable, damaged.value], ["a", true, undefined]);
    assert(await damaged.delete());
  }
  assertEquals(await listed(store), []);
});
