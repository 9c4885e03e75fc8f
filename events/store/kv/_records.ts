import type { EventRecord, EventRef, StoredEvent } from "../event_record.ts";
import { isEventRecord, isPayloadOf } from "../record_shape.ts";
import type { StoreKeys } from "./_keys.ts";
import { recordOfToday } from "./_layout_v1.ts";
import { read, UNKNOWN_VERSION } from "./_reads.ts";
import type { Mutations, Write } from "./_write.ts";

const DAY_MS = 86_400_000;

/**
 * Time beyond the retention for which an id is kept if its event was leased in the commit that stored it.
 * Nearly all of these events are settled at once, and the entry need not be written a second time.
 */
const MARGIN_MS = 2 * DAY_MS;

/** Largest number of parts deleted in the commit that settles an event: a commit holds 1,000 mutations. */
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

/** Parts of a store that an id's entry needs. */
interface IdParts {
  readonly kv: Deno.Kv;
  readonly keys: StoreKeys;
  readonly retentionMs: number;
}

/** Adds an id's entry to a commit: for as long as the event is open, or for a limited time. */
export function setId(
  commit: Mutations,
  { keys, retentionMs }: Omit<IdParts, "kv">,
  { id, receivedAt, idKept }: EventRecord,
): void {
  commit.set(keys.id(id), receivedAt, idKept ? {} : { expireIn: retentionMs + MARGIN_MS });
}

/**
 * Keeps an event's id for as long as the event is open or dead, and for the retention once it is done.
 *
 * @returns The record, which notes that; a promise if the entry may have expired already.
 */
export function keepId(
  write: Write,
  parts: IdParts,
  record: EventRecord,
): EventRecord | Promise<EventRecord> {
  if (!hasToBeWritten(record)) return record;
  const mayBeOthers = isOld(record.receivedAt) && !record.idKept;
  if (mayBeOthers || record.state === "dead") return keepOldId(write, parts, record);
  return writeId(write, parts, record);
}

/** Checks whether the entry of an event's id has to be written with a change, to last long enough. */
function hasToBeWritten({ state, idKept, receivedAt }: EventRecord): boolean {
  if (state === "done") return idKept === true || isOld(receivedAt);
  // A dead event's entry is written even if it should exist: operators find the event by its id.
  return !idKept || state === "dead";
}

/** Renews an id's entry, unless a redelivery owns it now. The entry may have expired. */
async function keepOldId(write: Write, parts: IdParts, record: EventRecord) {
  const { key, value, versionstamp } = await read(parts.kv, parts.keys.id(record.id));
  if (typeof value === "number" && value !== record.receivedAt) return record;
  // An undecodable entry cannot be checked.
  if (versionstamp !== UNKNOWN_VERSION) write.check({ key, versionstamp });
  return writeId(write, parts, record);
}

function writeId(write: Write, { keys, retentionMs }: IdParts, record: EventRecord) {
  const { idKept: _, ...rest } = record;
  const isDone = record.state === "done";
  write.set(keys.id(record.id), record.receivedAt, isDone ? { expireIn: retentionMs } : {});
  return isDone ? rest : { ...rest, idKept: true };
}

function isOld(receivedAt: number): boolean {
  return Date.now() - receivedAt > DAY_MS;
}
