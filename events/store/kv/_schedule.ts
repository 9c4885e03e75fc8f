import { type LogSink, writeLog } from "../../../core/mod.ts";
import { isTime, listOf, orNone, orNull, shape } from "../../../core/shape.ts";
import { plannedDelay } from "../arrival.ts";
import type { Due as FoundEvent, Engine } from "../engine.ts";
import {
  type EventRecord,
  type EventRef,
  type GroupPosition,
  isEventId,
  isEventRef,
  isGroupPosition,
} from "../event_record.ts";
import {
  findEvents,
  type KvParts,
  type Mutations,
  notesOf,
  type StoreKeys,
  UndecodableError,
} from "./_layout.ts";
import {
  list,
  type ListedEntry,
  readAll,
  readAllStored,
  type ReadKeys,
  readNear,
  readNearStored,
} from "./_reads.ts";
import { encodeValue } from "./value_codec.ts";

/** The number of entries read at a time, at most. */
const BATCH_SIZE = 500;

/** The number of entries read to find the first one. */
const FEW = 10;

/** The number of unreadable entries that are remembered. */
const MAX_PASSED_OVER = 10_000;

/** The number of characters of an entry's key that are logged. */
const MAX_NAME_LENGTH = 200;

/** Largest number of events that share an entry: the commit that stores them holds 100 checks, one each. */
const MAX_SHARING = 500;

/** The value of a schedule entry. */
export interface ScheduleEntry {
  /** The time at which the event was received. It leads to its record. */
  readonly receivedAt: number;
  /** Its position in its group, so that the group goes on even if the event's record is unreadable. */
  readonly group: GroupPosition | null;
  /** The planned delay, see {@linkcode plannedDelay}. */
  readonly delayMs?: number | undefined;
  /** The state of the event, if it runs or is parked: so it is found, and counted, without its record. */
  readonly state?: "running" | "parked" | undefined;
}

/** The value of an entry that several events share. */
export interface SharedEntry {
  /** The events, by what leads to their records. */
  readonly events: readonly EventRef[];
  /** The length of their leases, in milliseconds. */
  readonly delayMs: number;
}

/** The parts of a store that reading the schedule takes. */
interface ScheduleParts extends KvParts {
  readonly log: LogSink;
}

/** An entry of the schedule. */
export interface DueEntry extends ListedEntry {
  readonly value: ScheduleEntry | SharedEntry;
}

/** A due event, with the entry by which it was found. */
export interface FoundDue extends FoundEvent {
  readonly entry: DueEntry;
}

/** A part of the schedule. */
export interface SchedulePage {
  readonly entries: readonly DueEntry[];
  /** Beginning of the next part; undefined if this is the last one. */
  readonly cursor: string | undefined;
  /** Time of the first entry behind the last part; null if there is none. */
  readonly next?: number | null;
}

/** An event that is named by the schedule. */
export interface Due extends EventRef {
  /** The entry that names it. */
  readonly entry: DueEntry;
  /** Its position in its group. */
  readonly group: GroupPosition | null;
  /** Set if other events share the entry. */
  readonly isShared: boolean;
}

const isEntry = shape({
  receivedAt: isTime,
  group: orNull(isGroupPosition),
  delayMs: orNone(isTime),
  state: orNone((value) => value === "running" || value === "parked"),
});
const isSharedEntry = shape({
  events: listOf(isEventRef, MAX_SHARING),
  delayMs: isTime,
});

/** Checks whether several events share an entry. */
export function isShared(value: ScheduleEntry | SharedEntry): value is SharedEntry {
  return "events" in value;
}

/**
 * Reads the schedule. An entry that this version cannot read is skipped and left as it is: a newer
 * version may read it. If its key names an event, the event is found by its record all the same.
 */
export class Schedule {
  readonly #parts: ScheduleParts;
  /** The entries that are passed over, so that each is reported once. */
  readonly #passedOver = new Set<string>();

  constructor(parts: ScheduleParts) {
    this.#parts = parts;
  }

  /** Lists the entries after a time. */
  after(time: number): AsyncGenerator<DueEntry> {
    return this.#list(this.#parts.keys.dueBetween(time + 1, Infinity), BATCH_SIZE);
  }

  /** Reads some of the entries up to and including a time, and where to go on, or the time of the first one behind. */
  async page({ until, limit, cursor }: Parameters<Engine["due"]>[0]): Promise<SchedulePage> {
    const { kv, keys } = this.#parts;
    const whole = keys.dueBetween(-Infinity, Infinity);
    const selector = cursor === undefined ? whole : { ...whole, start: behind(keys, cursor) };
    const entries: DueEntry[] = [];
    for await (const entry of list(kv, selector, { batchSize: Math.min(limit + 1, BATCH_SIZE) })) {
      const at = Number(entry.key.at(-2));
      if (at > until) return { entries, cursor: undefined, next: at };
      const readable = await this.#readable(entry);
      if (!readable) continue;
      if (entries.length >= limit) return { entries, cursor: cursorAt(entries.at(-1)!) };
      entries.push(readable);
    }
    return { entries, cursor: undefined, next: null };
  }

  /** Reads the time of the first entry; null if there is none. */
  async first(): Promise<number | null> {
    const all = this.#parts.keys.dueBetween(-Infinity, Infinity);
    for await (const { key } of this.#list(all, FEW)) return Number(key.at(-2));
    return null;
  }

  async *#list(selector: Deno.KvListSelector, batchSize: number): AsyncGenerator<DueEntry> {
    for await (const entry of list(this.#parts.kv, selector, { batchSize })) {
      const readable = await this.#readable(entry);
      if (readable) yield readable;
    }
  }

  async #readable(entry: ListedEntry): Promise<DueEntry | undefined> {
    return readableEntry(entry) ?? await this.#find(entry);
  }

  /** Makes the entry of an event anew from its record. */
  async #find(entry: ListedEntry): Promise<DueEntry | undefined> {
    const { key } = entry;
    const name = key.map((part) => `${typeof part} ${String(part)}`).join();
    if (this.#passedOver.has(name)) return undefined;
    if (isOwnKey(key)) {
      const record = await this.#recordOf(String(key.at(-1)));
      if (record && record.dueAt === key.at(-2) && !notesOf(record).sharedEntry) {
        return { ...entry, value: entryFor(record, record.group, plannedDelay(record)) };
      }
    }
    if (this.#passedOver.size < MAX_PASSED_OVER) {
      this.#passedOver.add(name);
      this.#report(key);
    }
    return undefined;
  }

  /** Reads an event's record; none if the entry of its id cannot be decoded either. */
  async #recordOf(id: string): Promise<EventRecord | undefined> {
    try {
      return (await findEvents(this.#parts, [id]))[0]?.record;
    } catch (error) {
      if (error instanceof UndecodableError) return undefined;
      throw error;
    }
  }

  #report(key: Deno.KvKey): void {
    const entry = key.slice(2).map(String).join("/").slice(0, MAX_NAME_LENGTH);
    writeLog(this.#parts.log, "error", "schedule entry unreadable, passed over", { entry });
  }
}

/** Makes the cursor of a page that ends with an entry. */
function cursorAt({ key }: DueEntry): string {
  return `${Number(key.at(-2))}:${String(key.at(-1))}`;
}

/** Moves a cursor back to the beginning of its time if an entry is at the same time. */
export function backBefore(cursor: string | undefined, { key }: DueEntry): string | undefined {
  const [time] = cursor?.split(":", 1) ?? [];
  return Number(time) === key.at(-2) ? time : cursor;
}

/** Makes the first key behind a cursor: behind an entry, or at the beginning of a time. */
function behind(keys: StoreKeys, cursor: string): Deno.KvKey {
  const colon = cursor.indexOf(":");
  if (colon < 0) return keys.dueFrom(Number(cursor));
  return [...keys.due(Number(cursor.slice(0, colon)), cursor.slice(colon + 1)), ""];
}

/** Lists the events that an entry of the schedule names. */
export function dueOf(entry: DueEntry): Due[] {
  const { key, value } = entry;
  if (isShared(value)) {
    return value.events.map((ref) => ({ ...ref, entry, group: null, isShared: true }));
  }
  const { receivedAt, group } = value;
  return [{ id: String(key.at(-1)), receivedAt, group, entry, isShared: false }];
}

/** Checks whether the entry that names an event is still its own: it may have been rescheduled. */
export function isAtEntry(
  { key, value }: DueEntry,
  { record }: { readonly record?: EventRecord | undefined },
): boolean {
  if (!record || record.dueAt !== key.at(-2)) return false;
  return notesOf(record).sharedEntry === (isShared(value) ? key.at(-1) : undefined);
}

/** Chooses how the records of events are read. */
export function readerOf(events: readonly Due[]): ReadKeys {
  return lieTogether(events) ? readNear : readAll;
}

/** Chooses how the payloads of events are read. They are stored as they are. */
export function payloadReaderOf(events: readonly Due[]): ReadKeys {
  return lieTogether(events) ? readNearStored : readAllStored;
}

/** Checks for events that have waited since they were received: what is stored of them is in one order. */
function lieTogether(events: readonly Due[]): boolean {
  return events.every(({ entry, receivedAt }) => entry.key.at(-2) === receivedAt);
}

/** Adds an event's entry in the schedule to a commit, if it has its own. */
export function setDue(commit: Mutations, keys: StoreKeys, record: EventRecord): void {
  const { dueAt, id, group, state } = record;
  if (dueAt === null || notesOf(record).sharedEntry) return;
  const noted = state === "running" || state === "parked" ? state : undefined;
  const entry = entryFor(record, group, plannedDelay(record), noted);
  commit.set(keys.due(dueAt, id), encodeValue(entry));
}

/** Adds an entry of its own to a commit for an event that runs, in the place of one that it shares. */
export function setOwn(
  commit: Mutations,
  keys: StoreKeys,
  { key, value: { delayMs } }: DueEntry,
  ref: EventRef,
): void {
  const entry = entryFor(ref, null, delayMs ?? 0, "running");
  commit.set(keys.due(Number(key.at(-2)), ref.id), encodeValue(entry));
}

/** Adds an entry that names an event after a delay to a commit. The event's record stays as it is. */
export function deferEntry(
  commit: Mutations,
  keys: StoreKeys,
  ref: EventRef,
  delayMs: number,
  group: GroupPosition | null = null,
): void {
  const entry = encodeValue(entryFor(ref, group, delayMs));
  commit.set(keys.due(Date.now() + delayMs, ref.id), entry);
}

/** Adds the deletion of an event's entry in the schedule to a commit, if it has its own. */
export function deleteDue(commit: Mutations, keys: StoreKeys, record: EventRecord): void {
  if (record.dueAt !== null && !notesOf(record).sharedEntry) {
    commit.delete(keys.due(record.dueAt, record.id));
  }
}

function entryFor(
  { receivedAt }: EventRef,
  group: GroupPosition | null,
  delayMs: number,
  state?: ScheduleEntry["state"],
): ScheduleEntry {
  return { receivedAt, group, delayMs, state };
}

/** Reads an entry; undefined if this version cannot. */
export function readableEntry(entry: ListedEntry): DueEntry | undefined {
  if (!isOwnKey(entry.key)) return undefined;
  const { value } = entry;
  const isReadable = "events" in Object(value) ? isSharedEntry(value) : isEntry(value);
  return isReadable ? { ...entry, value: value as ScheduleEntry | SharedEntry } : undefined;
}

/** Checks whether a key has a time and an id. */
function isOwnKey(key: Deno.KvKey): boolean {
  return key.length === 4 && isTime(key[2]) && isEventId(key[3]);
}
