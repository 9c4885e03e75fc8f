import type { EventRecord, EventRef, StoredEvent } from "../event_record.ts";
import { isEventRecord, isPayloadOf } from "../record_shape.ts";
import type { StoreKeys } from "./_keys.ts";
import { recordOfToday } from "./_layout_v1.ts";
import { read } from "./_reads.ts";

/** One commit holds 1,000 mutations: this many parts can be deleted in the one that settles an event. */
export const MAX_CHUNKS = 900;

/** The stored value of an event's key: nothing, a record, or something unreadable. */
export interface Known {
  /** The version of the value; null for nothing. */
  readonly versionstamp: string | null;
  /** The record, if it is one. */
  readonly record?: EventRecord;
  /** The event's payload, if the record holds it. */
  readonly body?: Uint8Array<ArrayBuffer> | undefined;
}

/** The stored value of an event whose payload has no part of its own: its record, with the payload in it. */
export interface FullRecord extends EventRecord {
  readonly body: Uint8Array<ArrayBuffer>;
}

/** The stored values of an event's id. */
export interface Found extends Known {
  /** The version of the id's entry; null if the id has none. */
  readonly entry: string | null;
}

/** Reads the record at a key. */
export async function readRecord(kv: Deno.Kv, key: Deno.KvKey): Promise<Known> {
  return knownOf(await read(kv, key));
}

/** Takes the record from an entry that was read, whatever its layout. */
export function knownOf({ value: stored, versionstamp }: Deno.KvEntryMaybe<unknown>): Known {
  const value = recordOfToday(stored);
  if (!isEventRecord(value) || (value.payload?.chunks ?? 0) > MAX_CHUNKS) return { versionstamp };
  if (value.payload?.chunks !== 0) return { versionstamp, record: value };
  const { body, ...record } = value as FullRecord;
  return { versionstamp, record, body: isPayloadOf(record, body) ? body : undefined };
}

/** Checks whether there is a record that this version cannot read. */
export function isUnreadable({ record, versionstamp }: Known): boolean {
  return !record && versionstamp !== null;
}

/** Finds an event by its id. */
export async function lookUp(kv: Deno.Kv, keys: StoreKeys, id: string): Promise<Found> {
  const { value, versionstamp: entry } = await read(kv, keys.id(id));
  if (typeof value !== "number") return { entry, versionstamp: null };
  const ref: EventRef = { id, receivedAt: value };
  return { entry, ...await readRecord(kv, keys.event(ref)) };
}

/** Takes the event from an entry that was listed. */
export function toStoredEvent(entry: Deno.KvEntry<unknown>): StoredEvent {
  const { key, value } = entry;
  const { id, receivedAt } = refOf(key);
  const { record } = knownOf(entry);
  if (record?.id === id && record.receivedAt === receivedAt) return record;
  const v = (value as { v?: unknown } | null)?.v;
  return { id, receivedAt, state: "unreadable", v: typeof v === "number" ? v : null };
}

/** Takes the event from a key that ends with its time and its id. */
export function refOf(key: Deno.KvKey): EventRef {
  return { id: String(key.at(-1)), receivedAt: Number(key.at(-2)) };
}
