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

/** Counts calls that read a KV, and the records of events that they have read. */
export function countReads(
  kv: Deno.Kv,
): Record<"get" | "getMany" | "list" | "records", number> {
  const counts = { get: 0, getMany: 0, list: 0, records: 0 };
  const [get, getMany, list] = [kv.get.bind(kv), kv.getMany.bind(kv), kv.list.bind(kv)];
  const isRecord = (key: Deno.KvKey) => key[1] === "event";
  kv.get = ((key: Deno.KvKey) => (counts.get++, get(key))) as never;
  kv.getMany = ((keys: readonly Deno.KvKey[]) => {
    counts.getMany++;
    counts.records += keys.filter(isRecord).length;
    return getMany(keys as never);
  }) as never;
  kv.list = async function* (...args: Parameters<Deno.Kv["list"]>) {
    counts.list++;
    for await (const entry of list(...args)) {
      if (isRecord(entry.key)) counts.records++;
      yield entry;
    }
  } as never;
  return counts;
}

/** Checks that the schedule and the ordering groups are empty. */
export async function assertNothingWaits(kv: Deno.Kv): Promise<void> {
  const left = ["due", "lane", "place"].map((each) => keysOf(kv, each));
  assertEquals((await Promise.all(left)).flat(), []);
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
