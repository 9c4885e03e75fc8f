import type { StoreKeys } from "./_keys.ts";
import { read } from "./_reads.ts";
import { type EventRef, type Known, readRecord } from "../event_record.ts";

/** What is known of an event's id. */
export interface Found extends Known {
  /** The version of the id's entry; null where the id has none. */
  readonly entry: string | null;
}

/** Finds an event by its id. */
export async function lookUp(kv: Deno.Kv, keys: StoreKeys, id: string): Promise<Found> {
  const { value, versionstamp: entry } = await read(kv, keys.id(id));
  if (typeof value !== "number") return { entry, versionstamp: null };
  const ref: EventRef = { id, receivedAt: value };
  return { entry, ...await readRecord(kv, keys.event(ref)) };
}
