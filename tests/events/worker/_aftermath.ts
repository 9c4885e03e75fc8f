import { openEventStore } from "../../../events/mod.ts";
import type { Completion } from "./_history.ts";
import { keysOf } from "../store/_events.ts";

/** Entry that the settlement of an event leaves in the KV, below the key `effects`. */
export type Effect = Omit<Completion, "step">;

/** Reads what settlements have left in a KV. The steps are those in which its versions came about. */
export async function completionsIn(
  kv: Deno.Kv,
  steps: ReadonlyMap<string, number>,
): Promise<Completion[]> {
  const effects = kv.list<Effect>({ prefix: ["effects"] });
  return await Array.fromAsync(effects, ({ value, versionstamp }) => ({
    ...value,
    step: steps.get(versionstamp)!,
  }));
}

/** Reads how the events of a KV stand, by their ids. */
export async function statesIn(kv: Deno.Kv): Promise<Map<string, string>> {
  const store = await openEventStore(kv, { notifier: "watch" });
  const states = new Map<string, string>();
  for await (const { id, state } of store.list()) states.set(id, state);
  return states;
}

/** Purges all events of a KV once nothing is due any more, and tells what is left then. */
export async function leftoversIn(kv: Deno.Kv): Promise<Deno.KvKey[]> {
  const store = await openEventStore(kv, { notifier: "watch" });
  await store.purge({});
  // A claim tidies up what is on the schedule without its event.
  await store.claim({ limit: 100, owner: "tidy", leaseMs: 1 });
  await store.deleteStaleUploads(0);
  return (await keysOf(kv)).filter(([, part]) => part !== "notifier");
}
