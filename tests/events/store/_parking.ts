import { assert } from "@std/assert";
import type { EventRecord, EventStore, Lease } from "../../../events/mod.ts";
import { claimOne, delivery } from "./_events.ts";

/** A day, in milliseconds. */
export const DAY_MS = 86_400_000;

/** The name that events wait for. */
export const NAME = "approval:1";

/** The wait of a parked event. */
export const wait = { name: NAME, timeoutMs: DAY_MS };

/** Reads the record of an event. */
export async function recordOf(store: EventStore, id = "d1"): Promise<EventRecord> {
  return (await store.get(id))!;
}

/** Takes an event in, and parks it. */
export async function park(
  store: EventStore,
  id = "d1",
  key?: string,
  timeoutMs = DAY_MS,
): Promise<Lease> {
  await store.accept(delivery(id, "{}", key));
  const lease = await claimOne(store);
  assert(await store.park(lease, { name: NAME, timeoutMs }));
  return lease;
}

/** The result of the only wait of an event, as its value or "timed out". */
export const resultOf = ({ woken = [] }: EventRecord) =>
  woken.map(({ value, timedOut }) => timedOut ? "timed out" : value);

/** Lists what answers() does, without its functions. */
export const answersOf = async (store: EventStore) =>
  (await Array.fromAsync(store.answers())).map(({ name, value, eventId }) => ({
    name,
    value,
    eventId,
  }));
