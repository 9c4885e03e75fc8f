import { writeLog } from "../../../core/mod.ts";
import type { Mutations } from "./_write.ts";
import type { StoreKeys } from "./_keys.ts";
import { lookUp } from "./_lookup.ts";
import { FIRST, LAST, NumberedEntries } from "./_numbered_entries.ts";
import type { StoreParts } from "./_parts.ts";
import { isEventId, isScheduleEntry, isTimestamp } from "../_record_shape.ts";
import type { EventRecord, EventRef, GroupPosition } from "../event_record.ts";

/** How many entries are read at a time. */
const BATCH_SIZE = 100;

/** How many are read to find the first one. */
const FEW = 10;

/** How many entries are remembered that are passed over. */
const MAX_PASSED_OVER = 10_000;

/** How much of an entry's key is logged. */
const MAX_NAME_LENGTH = 200;

/** What an entry of the schedule holds. */
export interface ScheduleEntry {
  /** The version of this layout; none is the same as 1. */
  readonly v?: 1;
  /** When the event was received: where its record is. */
  readonly receivedAt: number;
  /** Its place in its group, so that the group goes on even if the event's record cannot be read. */
  readonly group: GroupPosition | null;
  /** See {@linkcode plannedDelay}; entries of versions before have none. */
  readonly delayMs?: number | undefined;
}

/** What an entry holds that several events share: where their records are. */
export interface SharedEntry {
  /** The version of this layout; none is the same as 1. */
  readonly v?: 1;
  readonly events: readonly EventRef[];
  /** For how long they are leased, in milliseconds; entries of versions before do not tell. */
  readonly delayMs?: number | undefined;
}

/** The longest that versions before had an event wait by default, which did not note that. */
const LONGEST_DELAY_MS = 4_500_000;

/**
 * Tells for how long an event was to wait when it was given its place in the schedule, in milliseconds.
 * Versions before noted when a retried event had failed, by the clock that gave it its place.
 */
export function plannedDelay(
  { state, lease, delayMs, dueAt, receivedAt, errors }: EventRecord,
): number {
  if (state === "running" && lease) return lease.ms;
  if (delayMs !== undefined) return delayMs;
  const failedAt = errors.at(-1)?.at;
  if (failedAt !== undefined) return Math.max(0, dueAt! - failedAt);
  return dueAt === receivedAt ? 0 : LONGEST_DELAY_MS;
}

/** An entry of the schedule. */
export type DueEntry = Deno.KvEntry<ScheduleEntry | SharedEntry>;

/** Tells whether several events share an entry. */
export function isShared(value: ScheduleEntry | SharedEntry): value is SharedEntry {
  return "events" in value;
}

/**
 * Reads the schedule. An entry that this version cannot read is passed over, and left as it is: a newer
 * one may read it. If its key tells which event it is of, the event is found by its record all the same.
 */
export class Schedule {
  readonly #parts: StoreParts;
  readonly #entries: NumberedEntries;
  /** The entries that are passed over, so that each is reported once. */
  readonly #passedOver = new Set<string>();

  constructor(parts: StoreParts) {
    this.#parts = parts;
    this.#entries = new NumberedEntries(parts.kv, parts.keys.schedule);
  }

  /** The entries up to and including a time. */
  until(time: number, batchSize = BATCH_SIZE): AsyncGenerator<DueEntry> {
    return this.#readable(this.#entries.list(FIRST, time + 1, batchSize));
  }

  /** The entries after a time. */
  after(time: number): AsyncGenerator<DueEntry> {
    return this.#readable(this.#entries.list(time + 1, LAST, BATCH_SIZE));
  }

  /** When the first entry up to and including a time is due; null if there is none. */
  async first(time: number): Promise<number | null> {
    for await (const { key } of this.until(time, FEW)) return Number(key.at(-2));
    return null;
  }

  async *#readable(entries: AsyncIterable<Deno.KvEntry<unknown>>): AsyncGenerator<DueEntry> {
    for await (const entry of entries) {
      const readable = isReadable(entry) ? entry : await this.#find(entry);
      if (readable) yield readable;
    }
  }

  /** Makes the entry of an event anew that its record says to be there. */
  async #find(entry: Deno.KvEntry<unknown>): Promise<DueEntry | undefined> {
    const { key } = entry;
    const name = key.map((part) => `${typeof part} ${String(part)}`).join();
    if (this.#passedOver.has(name)) return undefined;
    if (isOwnKey(key)) {
      const { record } = await lookUp(this.#parts.kv, this.#parts.keys, String(key.at(-1)));
      if (record && record.dueAt === key.at(-2) && !record.sharedEntry) {
        const { receivedAt, group } = record;
        return { ...entry, value: { receivedAt, group, delayMs: plannedDelay(record) } };
      }
    }
    if (this.#passedOver.size < MAX_PASSED_OVER) {
      this.#passedOver.add(name);
      this.#report(key);
    }
    return undefined;
  }

  #report(key: Deno.KvKey): void {
    const entry = key.slice(2).map(String).join("/").slice(0, MAX_NAME_LENGTH);
    writeLog(this.#parts.log, "error", "schedule entry unreadable, passed over", { entry });
  }
}

function isReadable(entry: Deno.KvEntry<unknown>): entry is DueEntry {
  return isOwnKey(entry.key) && isScheduleEntry(entry.value);
}

/** Whether a key has a time and an id, as those of all versions have. */
function isOwnKey(key: Deno.KvKey): boolean {
  return key.length === 4 && isTimestamp(key[2]) && isEventId(key[3]);
}

/** Adds an event's entry in the schedule to a commit, if it has one. */
export function setDue(commit: Mutations, keys: StoreKeys, record: EventRecord): void {
  if (record.dueAt === null) return;
  setEntry(commit, keys, record.dueAt, record, record.group, plannedDelay(record));
}

/** Adds an entry in the schedule to a commit. */
export function setEntry(
  commit: Mutations,
  keys: StoreKeys,
  dueAt: number,
  { id, receivedAt }: EventRef,
  group: GroupPosition | null,
  delayMs?: number,
): void {
  const entry: ScheduleEntry = { v: 1, receivedAt, group, delayMs };
  commit.set(keys.due(dueAt, id), entry);
}

/** Adds the deletion of an event's entry in the schedule to a commit, if it has one of its own. */
export function deleteDue(
  commit: Mutations,
  keys: StoreKeys,
  record: EventRecord,
): void {
  if (record.dueAt !== null && !record.sharedEntry) {
    commit.delete(keys.due(record.dueAt, record.id));
  }
}
