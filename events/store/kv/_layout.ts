/**
 * The layout of a store in a KV: its keys, and the records and ids below them.
 *
 * @module
 */
import { type Check, isOneOf, isText, orNone, shape } from "../../../core/shape.ts";
import { type CellKey, type Stored, UndecodableError, type Unreadable } from "../engine.ts";
import {
  type EventRecord,
  type EventRef,
  isEventRecord,
  isGroupPosition,
  isPayloadOf,
  isPayloadRef,
  type PayloadRef,
} from "../event_record.ts";
import { isProblemId } from "../problem.ts";
import { type Entry, type ListedEntry, read, readAll, type ReadKeys } from "./_reads.ts";
import { encodeValue } from "./value_codec.ts";

export { UndecodableError };

export const DAY_MS = 86_400_000;

/**
 * Time beyond the retention for which an id is kept if its event was leased in the commit that stored it.
 * Nearly all of these events are settled at once, and the entry need not be written a second time.
 */
export const MARGIN_MS = 2 * DAY_MS;

/**
 * Second part of the keys of an app's own data, below the namespace. The store has no keys or cells of that kind, and
 * reads, lists and deletes nothing there.
 */
export const OWN_DATA = "own";

/** Size of the parts of a payload, in bytes: a value of a KV holds 65,536. */
export const PART_BYTES = 65_000;

/** The largest payload that can be stored, in bytes: one commit deletes its parts, and holds 1,000 mutations. */
export const MAX_PAYLOAD_BYTES = 900 * PART_BYTES;

/** Notes of this engine in the record of an event. */
export interface Notes {
  /** The schedule entry that it shares with other events; none if it has its own. */
  readonly sharedEntry?: string | undefined;
  /**
   * Set if the entry of its id is there until it is settled, however long that takes. Otherwise it is there for two
   * days beyond the retention, enough for an event that was leased when it was stored.
   */
  readonly idKept?: true | undefined;
  /** Set if its payload is in the value of the record, and not in parts. */
  readonly holdsPayload?: true | undefined;
}

const NO_NOTES: Notes = {};

const isSet: Check = isOneOf([undefined, true]);

const isNotes = shape<Notes>({ sharedEntry: orNone(isText), idKept: isSet, holdsPayload: isSet });

/** Value of keys that only have to be there. */
export const MARK: Uint8Array<ArrayBuffer> = encodeValue(true);

/** A write, or a commit: mutations are added to it. */
export interface Mutations {
  /** Adds writing bytes: an encoded value, or a part of a payload. */
  set(key: Deno.KvKey, value: Uint8Array<ArrayBuffer>, options?: { expireIn?: number }): unknown;
  /** Adds deleting a value. */
  delete(key: Deno.KvKey): unknown;
}

/**
 * Makes the keys of the store with a namespace. The keys written for each event are in the order of time: in
 * the order of ids, which are random, an event took 1.6 times the disk's writes (34 KB against 21).
 */
export function storeKeys(namespace: string) {
  const all = (kind: string): { readonly prefix: Deno.KvKey } => ({ prefix: [namespace, kind] });
  const between = (kind: string) => (from: number, before: number): Deno.KvListSelector => ({
    start: [namespace, kind, from],
    end: [namespace, kind, before],
  });
  return {
    /** The namespace, with which all of them begin, as a set of one. */
    namespaces: new Set([namespace]) as ReadonlySet<string>,
    /** A cell, or all cells whose keys begin so. */
    cell: (key: CellKey): Deno.KvKey => [namespace, ...key as readonly Deno.KvKeyPart[]],
    /** The time at which the event of an id was received, which leads to its record. */
    id: (id: string): Deno.KvKey => [namespace, "id", id],
    ids: all("id"),
    /** An event's record. */
    event: ({ id, receivedAt }: EventRef): Deno.KvKey => [namespace, "event", receivedAt, id],
    events: all("event"),
    /** The records of the events received from a time on, and before another. */
    eventsBetween: between("event"),
    /** The schedule entry of an event, or of several: it is due at that time. */
    due: (dueAt: number, id: string): Deno.KvKey => [namespace, "due", dueAt, id],
    schedule: all("due"),
    /** The beginning of the entries that are due from a time on. */
    dueFrom: (dueAt: number): Deno.KvKey => [namespace, "due", dueAt],
    /** The entries that are due from a time on, and before another. */
    dueBetween: between("due"),
    /** A part of a payload. */
    part: (id: string, index: number): Deno.KvKey => [namespace, "payload", id, index],
    /** All parts of a payload, in their order. */
    parts: (payloadId: string) => ({ prefix: [namespace, "payload", payloadId] }),
    /** The record of an ordering group. */
    group: (key: string): Deno.KvKey => [namespace, "lane", key],
    orderingGroups: all("lane"),
    /** A position in an ordering group. */
    position: (key: string, position: number): Deno.KvKey => [namespace, "place", key, position],
    /** All positions in a group, in their order. */
    positionsIn: (key: string) => ({ prefix: [namespace, "place", key] }),
    positions: all("place"),
    /** The entry of a dead event in their index. */
    dead: ({ id, receivedAt }: EventRef): Deno.KvKey => [namespace, "dead", receivedAt, id],
    deadIndex: all("dead"),
    /** The entries of the dead events received from a time on, and before another. */
    deadBetween: between("dead"),
    /** The entry of an event in the index of its problem: whether it is dead. */
    failed: (problem: string, { id, receivedAt }: EventRef): Deno.KvKey => [
      ...[namespace, "failed", problem, receivedAt, id],
    ],
    /** The entries of all events that have failed, by their problems. */
    failedIndex: all("failed"),
    /** The entries of a problem, of the events received from a time on, and before another. */
    failedBetween: (problem: string, from: number, before: number): Deno.KvListSelector => ({
      start: [namespace, "failed", problem, from],
      end: [namespace, "failed", problem, before],
    }),
    /** The key that serializes commits that emit ids chosen by the caller. */
    emitting: [namespace, "emit"] as Deno.KvKey,
    /** The cells of the names that events wait for. */
    waiters: all("waiter"),
    /** The mark of a payload that is still being written. */
    upload: (payloadId: string): Deno.KvKey => [namespace, "upload", payloadId],
    uploads: all("upload"),
    /** The beginning of the marks of commits, which show whether one was made whose answer was lost. */
    commitMarks: [namespace, "commit"] as Deno.KvKey,
  };
}

/** The keys of one store, below its namespace. */
export type StoreKeys = ReturnType<typeof storeKeys>;

/** The parts of a store that reading takes. */
export interface KvParts {
  /** The KV. */
  readonly kv: Deno.Kv;
  /** The keys below the store's namespace. */
  readonly keys: StoreKeys;
}

/** Returns the notes of this engine in a record. */
export function notesOf({ engine }: EventRecord): Notes {
  return engine as Notes | undefined ?? NO_NOTES;
}

/** Returns the number of parts of a payload that is not in a record. */
export function partsOf(size: number): number {
  return Math.max(1, Math.ceil(size / PART_BYTES));
}

/** Takes an event from the entry of its record; undefined if there is none. */
export function eventIn(
  { value, versionstamp: version, body }: Omit<Entry, "key">,
  { id, receivedAt }: EventRef,
): Stored | Unreadable | undefined {
  if (version === null) return undefined;
  if (!isOwnRecord(value)) return unreadable({ id, receivedAt }, version, value);
  const isHeld = notesOf(value).holdsPayload && isPayloadOf(value, body);
  return { record: value, version, body: isHeld ? body : undefined };
}

/** Checks whether a stored value is a record that this version can read, with its notes. */
function isOwnRecord(value: unknown): value is EventRecord {
  return isEventRecord(value) && (value.engine === undefined || isNotes(value.engine)) &&
    (value.payload === null || fitsStore(value.payload));
}

/** Checks whether a payload can be one of this engine. */
export function fitsStore({ size }: Pick<PayloadRef, "size">): boolean {
  return size <= MAX_PAYLOAD_BYTES;
}

/** An event whose record cannot be read, with the rest of it that can be. One without a record has none. */
interface UnreadableEntry extends Unreadable {
  readonly remains?: Remains | undefined;
}

/** The rest of a record that can be read. */
type Remains = Partial<Pick<EventRecord, "group" | "payload" | "problem">>;

/** Returns the rest of a record that can be read. */
export function remainsOf(event: Unreadable): Remains {
  return (event as UnreadableEntry).remains ?? {};
}

function unreadable(ref: EventRef, version: string, value: unknown): UnreadableEntry {
  return { ...ref, version, remains: remainsIn(value) };
}

/** Finds what is left of a record that cannot be read. */
function remainsIn(value: unknown): Remains {
  const { group, payload, problem } = Object(value);
  return {
    ...(isProblemId(problem) && { problem }),
    ...(isGroupPosition(group) && { group }),
    ...(isPayloadRef(payload) && fitsStore(payload) && { payload }),
  };
}

/** Reads an event; undefined if it is not there. */
export async function readEvent(
  { kv, keys }: KvParts,
  ref: EventRef,
): Promise<Stored | Unreadable | undefined> {
  return eventIn(await read(kv, keys.event(ref)), ref);
}

/** Reads events; undefined for one that is not there. */
export async function readEvents(
  { kv, keys }: KvParts,
  refs: readonly EventRef[],
  readKeys: ReadKeys = readAll,
): Promise<(Stored | Unreadable | undefined)[]> {
  const entries = await readKeys(kv, refs.map((ref) => keys.event(ref)));
  return entries.map((entry, i) => eventIn(entry, refs[i]!));
}

/** Finds events by their ids, in the same order; null for one that is not there. */
export async function findEvents(
  parts: KvParts,
  wanted: readonly (string | EventRef)[],
): Promise<(Stored | Unreadable | null)[]> {
  const { kv, keys } = parts;
  const ids = wanted.filter((each) => typeof each === "string");
  const entries = ids.length > 0 ? await readAll(kv, ids.map((id) => keys.id(id))) : [];
  const byId = new Map(ids.map((id, i) => [id, refIn(entries[i]!, id)]));
  const refs = wanted.map((each) => typeof each === "string" ? byId.get(each) : each);
  const events = (await readEvents(parts, refs.filter((ref) => ref !== undefined))).values();
  return refs.map((ref) => ref && events.next().value || null);
}

/** Takes what leads to an event's record from the entry of its id. */
function refIn({ value, versionstamp }: Entry, id: string): EventRef | undefined {
  if (versionstamp === null) return undefined;
  if (typeof value !== "number") throw new UndecodableError(`the entry of the id ${id}`);
  return { id, receivedAt: value };
}

/** Takes the event from an entry that was listed, if the record is of the event that its key names. */
export function eventOf(entry: ListedEntry): Stored | Unreadable {
  const ref = refOf(entry.key);
  const event = eventIn(entry, ref)!;
  const { record } = event;
  if (!record || (record.id === ref.id && record.receivedAt === ref.receivedAt)) return event;
  return unreadable(ref, entry.versionstamp, entry.value);
}

/** Takes the event from a key that ends with its time and its id. */
export function refOf(key: Deno.KvKey): EventRef {
  return { id: String(key.at(-1)), receivedAt: Number(key.at(-2)) };
}
