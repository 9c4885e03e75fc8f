import { assert, assertEquals } from "@std/assert";
import type {
  Delivery,
  EventFilter,
  EventList,
  EventStore,
  Lease,
  ListOptions,
} from "../../../events/mod.ts";

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

/** Handles all that is due until nothing is, and returns the ids in the order of their claims. */
export async function drain(store: EventStore): Promise<string[]> {
  const order: string[] = [];
  for (let leases; (leases = await claimAll(store)).length > 0;) {
    order.push(...idsOf(leases));
    for (const lease of leases) assert(await store.complete(lease));
  }
  return order;
}

/** The ids of the events on each page of a list. */
export async function pagesOf(store: EventStore, options: ListOptions): Promise<string[][]> {
  const pages: string[][] = [];
  let cursor: string | undefined = "";
  while (cursor !== undefined) {
    const list: EventList = store.list({ ...options, cursor });
    pages.push(await Array.fromAsync(list, ({ id }) => id));
    cursor = list.cursor;
  }
  return pages;
}

/** The ids of the events that a filter lets through, in their order. */
export async function listed(store: EventStore, filter?: EventFilter): Promise<string[]> {
  const ids = [];
  for await (const { id } of store.list(filter)) ids.push(id);
  return ids.toSorted();
}

/** The ids of leased events. */
export const idsOf = (leases: readonly Lease[]): string[] => leases.map(({ record }) => record.id);

/** Waits for real time to pass: KV has no clock to advance. */
export function later(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
