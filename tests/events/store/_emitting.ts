/** Events that handlers emit, for the tests of the contract and those of a KV. */
import { assert } from "@std/assert";
import type { Emission, EmitOptions, EventRecord, EventStore, Lease } from "../../../events/mod.ts";
import { emissionOf } from "../../../events/store/emission.ts";
import { claimOne, delivery } from "./_events.ts";

/** Makes an event of the source `jobs`. */
export function job(options?: EmitOptions, payload: object = { team: "a" }): Emission {
  return emissionOf("jobs", "report.due", payload, options);
}

/** Reads the record of an event, which is there. */
export async function recordOf(store: EventStore, id: string): Promise<EventRecord> {
  const record = await store.get(id);
  assert(record, `there is no ${id}`);
  return record;
}

/** Takes an event in, and leases it. */
export async function leased(store: EventStore, id = "d1", key?: string): Promise<Lease> {
  await store.accept(delivery(id, "{}", key));
  return await claimOne(store);
}

/** Emissions with so many ids of their own that their commit does not check each of them. */
export function manyJobs(name: string): Emission[] {
  return Array.from({ length: 100 }, (_, i) => job({ id: `${name}${i}`, delayMs: 60_000 }));
}
