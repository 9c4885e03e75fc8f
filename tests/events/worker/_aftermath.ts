import { assertEquals } from "@std/assert";
import { openEventStore } from "../../../events/mod.ts";
import type { Completion } from "./_history.ts";
import { keysOf } from "../store/kv/_keys.ts";
import { deleteUploads } from "../store/_tidying.ts";
import { valueAt } from "../store/kv/_values.ts";

/** Entry that the settlement of an event leaves in the KV, below the key `effects`. */
export type Effect = Omit<Completion, "step"> & {
  /** Names of the events that were emitted by it. */
  readonly children?: readonly string[];
};

/** Entry that a part of an event's handling leaves in the KV, below the key `parts`. */
export type Part = Required<Pick<Effect, "children">>;

/** Key at which the settlements of an emitted event are counted. */
export const childrenKey = (child: string): Deno.KvKey => ["children", child];

/** Checks that what settled handlers and noted parts have emitted was handled, once, and nothing else. */
export async function assertChildren(kv: Deno.Kv): Promise<void> {
  const emitted: string[] = [];
  for await (const { value } of kv.list<Effect>({ prefix: ["effects"] })) {
    emitted.push(...value.children ?? []);
  }
  for await (const { value } of kv.list<Part>({ prefix: ["parts"] })) {
    emitted.push(...value.children);
  }
  const counted = await Array.fromAsync(
    kv.list<Deno.KvU64>({ prefix: ["children"] }),
    ({ key, value }) => `${String(key[1])} ${value.value}`,
  );
  assertEquals(counted.toSorted(), emitted.map((child) => `${child} 1`).toSorted());
}

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

/** Reads how the events of a KV stand that were sent, by their ids. */
export async function statesIn(kv: Deno.Kv): Promise<Map<string, string>> {
  const store = await openEventStore(kv, { notifier: "watch" });
  const states = new Map<string, string>();
  for await (const event of store.list()) {
    if (!("causedBy" in event)) states.set(event.id, event.state);
  }
  return states;
}

/** Reads which events of a KV were settled together with another one. */
export async function handledWithIn(kv: Deno.Kv): Promise<Map<string, string>> {
  const store = await openEventStore(kv, { notifier: "watch" });
  const settled = new Map<string, string>();
  for await (const event of store.list()) {
    if (event.state === "unreadable" || event.handledWith === undefined) continue;
    settled.set(event.id, event.handledWith);
  }
  return settled;
}

/** Reads how many events of each key the handlers have counted. */
export async function countsIn(kv: Deno.Kv): Promise<Record<string, number>> {
  const store = await openEventStore(kv, { notifier: "watch" });
  const counts: Record<string, number> = {};
  for (const key of await keysOf(kv, "state")) {
    const name = String(key.at(-1));
    const { value } = await store.state<number>(name);
    if (value !== undefined) counts[name.replace("count/", "")] = value;
  }
  return counts;
}

/** Purges all events of a KV once nothing is due any more, and tells what is left then. */
export async function leftoversIn(kv: Deno.Kv): Promise<Deno.KvKey[]> {
  const store = await openEventStore(kv, { notifier: "watch" });
  await store.purge({});
  // A claim tidies up what is on the schedule without its event.
  await store.claim({ limit: 100, owner: "tidy", leaseMs: 1 });
  await deleteUploads(store, 0);
  // Values that nobody has waited for are kept for a while.
  for (const key of await keysOf(kv, "waiter")) {
    const { for: waiting } = await valueAt<{ for?: unknown }>(kv, key);
    if (waiting === undefined) await kv.delete(key);
  }
  const { value } = await kv.get<Deno.KvU64>(["events", "keptBytes"]);
  const isEmpty = (value?.value ?? 0n) === 0n;
  const own: unknown[] = [
    "notifier",
    "emit",
    "state",
    "keptCounted",
    "checked",
    // The note of a process that was killed, which the KV forgets after five minutes.
    "process",
    ...isEmpty ? ["keptBytes"] : [],
  ];
  return (await keysOf(kv)).filter(([, part]) => !own.includes(part));
}
