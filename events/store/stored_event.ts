import { type EventRecord, knownOf } from "./event_record.ts";

/**
 * An event whose record this version cannot read: another version has written it, or it is damaged. It is
 * left alone, and not handled, until a version that can read it comes or somebody purges it.
 */
export interface UnreadableRecord {
  /** The event's id. */
  readonly id: string;
  /** When it was taken in, milliseconds since the epoch: its key tells that. */
  readonly receivedAt: number;
  /** Tells it from a record that can be read. */
  readonly state: "unreadable";
  /** The version of its layout; null where it tells none. */
  readonly v: number | null;
}

/** What is stored of an event. Its `state` tells whether it can be read. */
export type StoredEvent = EventRecord | UnreadableRecord;

/** Tells what an entry of the store holds of an event. */
export function toStoredEvent(
  entry: Deno.KvEntry<unknown>,
): StoredEvent {
  const { key, value } = entry;
  const id = String(key.at(-1));
  const receivedAt = Number(key.at(-2));
  const { record } = knownOf(entry);
  if (record?.id === id && record.receivedAt === receivedAt) return record;
  const v = (value as { v?: unknown } | null)?.v;
  return { id, receivedAt, state: "unreadable", v: typeof v === "number" ? v : null };
}
