import { textOf } from "../../core/text_of.ts";
import { read } from "./kv/_reads.ts";
import type { EventChat, EventRepository, EventSender } from "./delivery.ts";
import { isEventRecord, isPayloadOf } from "./_record_shape.ts";

/**
 * Where an event stands: waiting for its time, with a worker, done, or given up on.
 */
export type EventState = "queued" | "running" | "done" | "dead";

/** What went wrong in one attempt. */
export interface AttemptError {
  /** Which attempt, from 1. */
  readonly attempt: number;
  /** When it failed, milliseconds since the epoch. */
  readonly at: number;
  /** The name and message of what was thrown, bounded in length. */
  readonly message: string;
}

/** Where an event's payload is. */
export interface PayloadRef {
  /** Its id: a fresh one for each writing, so that no writer overwrites what another has stored. */
  readonly id: string;
  /** In how many parts of its own; 0 where it is in the event's record. */
  readonly chunks: number;
  /** How many bytes in all. */
  readonly size: number;
}

/** Who works on an event, and until when nobody else does. */
export interface LeaseTerm {
  /** The worker. */
  readonly owner: string;
  /** Milliseconds since the epoch. */
  readonly until: number;
  /** For how long it was last taken, in milliseconds. */
  readonly ms: number;
}

/** Where an event with an ordering key stands in line. */
export interface GroupPosition {
  /** The ordering key. */
  readonly key: string;
  /** The place: one with a smaller number is handled before. */
  readonly seq: number;
}

/** Where the record of an event is: by time first, so that those received together lie together. */
export type EventRef = Pick<EventRecord, "id" | "receivedAt">;

/** The record of an event: all that is known of it but its payload. */
export interface EventRecord {
  /** The version of this layout. */
  readonly v: 2;
  /** The event's id: the intake's name and the delivery id, or a UUID where the sender gave none. */
  readonly id: string;
  /** The intake that has taken it. */
  readonly intake?: string | undefined;
  /** The sender's id of the delivery, where there was one. */
  readonly deliveryId?: string | undefined;
  /** The platform it came from. */
  readonly platform: string;
  /** The product that sent it. */
  readonly source: string;
  /** The type of the event. */
  readonly type: string;
  /** What happened, where the type leaves that open. */
  readonly action?: string | undefined;
  /** The repository that it is of. */
  readonly repository?: EventRepository | undefined;
  /** The chat that it is of. */
  readonly chat?: EventChat | undefined;
  /** The user who brought it about. */
  readonly sender?: EventSender | undefined;
  /** The id of the request that brought it. */
  readonly requestId: string | null;
  /** When it was taken in, milliseconds since the epoch. */
  readonly receivedAt: number;
  /** Where it stands. */
  readonly state: EventState;
  /** How often it was put back after it had died, by a replay or a new delivery; none is never. */
  readonly run?: number | undefined;
  /** How many attempts were begun. */
  readonly attempt: number;
  /**
   * Its place in the schedule, milliseconds since the epoch; null once it is done or dead, and while it
   * waits for others of its ordering key.
   */
  readonly dueAt: number | null;
  /**
   * For how long it was to wait when it was last given a place in the schedule, in milliseconds: what a
   * longer wait is known by, which is a clock's mistake. Records of versions before have none, and neither
   * has an event that is due since it was received. One that runs waits for the end of its lease.
   */
  readonly delayMs?: number | undefined;
  /** The entry of the schedule that it shares with other events; none where it has one of its own. */
  readonly sharedEntry?: string | undefined;
  /** Events with the same one are handled one at a time; null where it has none. */
  readonly orderingKey: string | null;
  /** Its place among the events of its ordering key; null where it has none, or has left it. */
  readonly group: GroupPosition | null;
  /** Who works on it; null where nobody does. */
  readonly lease: LeaseTerm | null;
  /** How it was settled; none before that. */
  readonly outcome?: "handled" | "ignored" | "failed" | "cancelled" | undefined;
  /** When its cancellation was requested while it ran, milliseconds since the epoch; else none. */
  readonly cancelRequestedAt?: number | undefined;
  /**
   * Until when the handler of an attempt that was cancelled may still run, milliseconds since the epoch:
   * nothing of the event starts before. None where it was not cancelled while it ran.
   */
  readonly busyUntil?: number | undefined;
  /** When it was done or died, milliseconds since the epoch. */
  readonly settledAt: number | null;
  /** Where its payload is; null once it is deleted. */
  readonly payload: PayloadRef | null;
  /** What went wrong, the latest last. */
  readonly errors: readonly AttemptError[];
  /** The parts of its handling that are done, by name. */
  readonly progress?: readonly string[] | undefined;
  /**
   * Whether its id is known until it is settled, however long that takes; else for two days beyond the
   * retention, which does for an event that was leased in the commit that stored it.
   */
  readonly idKept?: boolean | undefined;
  /** The trace of its delivery, as the header `traceparent` of W3C Trace Context has it. */
  readonly traceparent?: string | undefined;
}

/** What is stored for an event's id: nothing, a record, or something that is none. */
export interface Known {
  /** The version of what is stored; null for nothing. */
  readonly versionstamp: string | null;
  /** The record, where it is one. */
  readonly record?: EventRecord;
  /** The event's payload, where the record holds it. */
  readonly body?: Uint8Array<ArrayBuffer> | undefined;
}

/** What is stored of an event whose payload has no part of its own: its record, with the payload in it. */
export interface FullRecord extends EventRecord {
  readonly body: Uint8Array<ArrayBuffer>;
}

/** How many errors a record keeps: a record must stay below the 64 KiB of a KV value. */
const MAX_ERRORS = 5;

/** How much of an error's message a record keeps. */
const MAX_ERROR_LENGTH = 1000;

/** How many bytes the names of an event's done parts take in its record, at most. */
const MAX_PROGRESS_BYTES = 32_768;

/** How many bytes these and the errors take together, at most: 8 KiB are left for all else. */
const MAX_NOTES_BYTES = 57_344;

/**
 * What a part or an error takes beside its text, in V8's serialization: a list that was read from a KV
 * is written with the index of each member, so with up to 3 bytes more than the list that was stored.
 */
const [PART_BYTES, ERROR_BYTES] = [8, 64] as const;

/**
 * Adds an attempt's error to a record's.
 *
 * @param record The record.
 * @param error What was thrown.
 * @param at When, milliseconds since the epoch.
 * @returns The record's errors, the latest last: at most five, and fewer where the record has no room.
 */
export function withError(record: EventRecord, error: unknown, at: number): AttemptError[] {
  let room = MAX_NOTES_BYTES - progressBytes(record.progress ?? []) - ERROR_BYTES;
  const text = textOf(error).slice(0, MAX_ERROR_LENGTH);
  // A character takes two bytes at most.
  const message = textBytes(text) > room ? text.slice(0, Math.max(0, room / 2)) : text;
  room -= textBytes(message);
  const kept = [{ attempt: record.attempt, at, message }];
  for (const earlier of record.errors.slice(1 - MAX_ERRORS).reverse()) {
    room -= textBytes(earlier.message) + ERROR_BYTES;
    if (room < 0) break;
    kept.unshift(earlier);
  }
  return kept;
}

/**
 * Adds a part to those of an event's handling that are done.
 *
 * @param record The record.
 * @param part The part's name.
 * @returns The record's progress.
 * @throws {TypeError} If the name is not a text.
 * @throws {RangeError} If the names would take more than 32,768 bytes.
 */
export function withProgress(record: EventRecord, part: string): string[] {
  if (typeof part !== "string") {
    throw new TypeError(`Cannot note progress: a part's name must be a text, got ${typeof part}`);
  }
  const progress = [...record.progress ?? [], part];
  const bytes = progressBytes(progress);
  if (bytes <= MAX_PROGRESS_BYTES) return progress;
  throw new RangeError(
    `Cannot note progress: the names of the event's ${progress.length} parts would take ${bytes} ` +
      `bytes, over ${MAX_PROGRESS_BYTES}. Note larger parts, or keep a counter in the KV`,
  );
}

function progressBytes(progress: readonly string[]): number {
  return progress.reduce((sum, part) => sum + textBytes(part) + PART_BYTES, 0);
}

/** V8 writes a text with one byte for each character, or with two if one of them needs that. */
function textBytes(text: string): number {
  return /^[\0-\xff]*$/.test(text) ? text.length : 2 * text.length;
}

/**
 * Reads what is stored for an event's id.
 *
 * @param kv The KV.
 * @param key The record's key.
 * @returns What is there.
 */
export async function readRecord(kv: Deno.Kv, key: Deno.KvKey): Promise<Known> {
  return knownOf(await read(kv, key));
}

/**
 * Takes what was read for an event's id.
 *
 * @param entry What was read.
 * @returns What is there.
 */
export function knownOf({ value, versionstamp }: Deno.KvEntryMaybe<unknown>): Known {
  if (!isEventRecord(value)) return { versionstamp };
  if (value.payload?.chunks !== 0) return { versionstamp, record: value };
  const { body, ...record } = value as FullRecord;
  return { versionstamp, record, body: isPayloadOf(record, body) ? body : undefined };
}
