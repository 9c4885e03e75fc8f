import { assertEquals } from "@std/assert";
import type { Delivery, EventFilter, EventStore, Lease } from "../../../events/mod.ts";

const encoder = new TextEncoder();

/** A delivery for the store, as an intake would make it. */
export function delivery(
  deliveryId?: string,
  text = `{"a":1}`,
  orderingKey?: string,
): Delivery {
  const body = encoder.encode(text);
  return {
    ...{ platform: "forge", source: "github", type: "push", deliveryId },
    ...{ orderingKey, body, payload: {} },
  };
}

/** Claims whatever is due, as a worker of its own. */
export function claimAll(store: EventStore, leaseMs = 30_000): Promise<Lease[]> {
  return store.claim({ limit: 100, owner: crypto.randomUUID(), leaseMs });
}

/** Claims the one event that is due. */
export async function claimOne(store: EventStore, leaseMs?: number): Promise<Lease> {
  const leases = await claimAll(store, leaseMs);
  assertEquals(leases.length, 1);
  return leases[0]!;
}

/** Takes in one event for each state, named after it. The dead one is of another type. */
export async function oneOfEach(store: EventStore): Promise<void> {
  await store.accept(delivery("done"));
  await store.complete(await claimOne(store));
  await store.accept({ ...delivery("dead"), type: "issues" });
  await store.bury(await claimOne(store), new Error("no"));
  await store.accept(delivery("running"));
  await claimOne(store);
  await store.accept(delivery("queued"));
}

/** Takes in events that die, one after the other. */
export async function buryAll(
  store: EventStore,
  ids: readonly string[],
  orderingKey?: string,
): Promise<void> {
  for (const id of ids) {
    await store.accept(delivery(id, "{}", orderingKey));
    await store.bury(await claimOne(store), new Error("no"));
  }
}

/** The ids of the events that a filter lets through, in their order. */
export async function listed(store: EventStore, filter?: EventFilter): Promise<string[]> {
  const ids = [];
  for await (const { id } of store.list(filter)) ids.push(id);
  return ids.toSorted();
}

/** The ids of leased events. */
export const idsOf = (leases: readonly Lease[]): string[] => leases.map(({ record }) => record.id);

/** All keys of the store below a prefix, without the marks of its commits. */
export async function keysOf(kv: Deno.Kv, ...prefix: string[]): Promise<Deno.KvKey[]> {
  const keys = [];
  for await (const { key } of kv.list({ prefix: ["events", ...prefix] })) {
    if (key[1] !== "commit") keys.push(key);
  }
  return keys;
}

/** The key of an event's record. */
export async function recordKey(kv: Deno.Kv, id: string): Promise<Deno.KvKey> {
  const key = (await keysOf(kv, "event")).find((each) => each.at(-1) === id);
  if (!key) throw new Error(`There is no record of ${id}`);
  return key;
}

/** Moves an event's entry in the schedule to another time: one that has passed, unless it is given. */
export async function makeDue(kv: Deno.Kv, id: string, dueAt = Date.now() - 1): Promise<void> {
  const key = (await keysOf(kv, "due")).find((each) => each.at(-1) === id)!;
  const { value } = await kv.get(key);
  await kv.atomic().delete(key).set(["events", "due", dueAt, id], value).commit();
}

/** Waits for real time to pass: KV has no clock to advance. */
export function later(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
