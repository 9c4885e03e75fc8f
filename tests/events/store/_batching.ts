import { assert, assertEquals } from "@std/assert";
import type { Delivery, EventRecord, EventStore, Lease } from "../../../events/mod.ts";
import { claimAll, claimOne, delivery, later } from "./_events.ts";

/** A delivery that is handled together with others of its key that wait. */
export function quiet(id: string, more: Partial<Delivery> = {}): Delivery {
  return { ...delivery(id, "{}", "key"), quietMs: 0, ...more };
}

/** Takes events in, one after the other. */
export async function acceptAll(
  store: EventStore,
  ids: readonly string[],
  more?: Partial<Delivery>,
) {
  for (const id of ids) await store.accept(quiet(id, more));
}

/** Takes events in while another one of their key is handled, so that they wait without a clock. */
export async function acceptTogether(
  store: EventStore,
  ids: readonly string[],
  more?: Partial<Delivery>,
): Promise<void> {
  await store.accept(delivery("before", "{}", "key"));
  const lease = await claimOne(store);
  if (ids.length <= 3) await acceptAll(store, ids, more);
  else await Promise.all(ids.map((id) => store.accept(quiet(id, more))));
  assert(await store.complete(lease));
  await store.purge({ ids: ["before"] });
}

/** Claims until an event is due. */
export async function claimed(store: EventStore): Promise<Lease> {
  for (;;) {
    const [lease] = await claimAll(store);
    if (lease) return lease;
    await later(10);
  }
}

/** The ids of records. */
export const idsOf = (records: readonly { readonly id: string }[]) => records.map(({ id }) => id);

/** The ids of a batch, the first one among them. */
export async function batchOf(store: EventStore, lease: Lease): Promise<string[]> {
  return [lease.record.id, ...idsOf(await store.members(lease))];
}

/** Claims a batch of these events. */
export async function claimBatch(store: EventStore, ...ids: string[]): Promise<Lease> {
  const lease = await claimed(store);
  assertEquals(await batchOf(store, lease), ids);
  return lease;
}

/** Notes parts, whose names take so many bytes each. */
export async function notingParts(
  store: EventStore,
  lease: Lease,
  count: number,
  bytes: number,
): Promise<Lease> {
  let noted = lease;
  for (let i = 0; i < count; i++) {
    noted = (await store.note(noted, { is: "handler", name: `${i}`.padEnd(bytes, "x") }))!;
    assert(noted);
  }
  return noted;
}

/** Makes the ids of some events. */
export const named = (count: number) => Array.from({ length: count }, (_, i) => `e${i}`);

/** Checks that events are dead, have failed with the first of them, and keep so many parts that are done. */
export async function assertDeadWith(store: EventStore, ids: readonly string[], parts: number) {
  const dead = await Array.fromAsync(store.list({ ids, state: "dead" })) as EventRecord[];
  assertEquals(dead.length, ids.length);
  for (const { progress = [], attempts, group } of dead) {
    assertEquals([progress.length, attempts.length, group], [parts, 1, null]);
  }
}
