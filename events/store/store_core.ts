/**
 * The ground on which the parts of a store stand: its options, its worker, and the core that all of them share.
 *
 * @module
 */
import { checkInteger, checkKeys, checkObject, numberFrom } from "../../core/check_options.ts";
import type { LogSink } from "../../core/mod.ts";
import type { CountedStep } from "../../telemetry/mod.ts";
import {
  type Bytes,
  type Cell,
  type CellKey,
  type Engine,
  type Stored,
  UNNAMED,
  type Unreadable,
} from "./engine.ts";
import type { Delivery, EventRecord, EventRef, PayloadRef } from "./event_record.ts";

/** The time for which done events are remembered by default, in milliseconds: 7 days. */
export const DEFAULT_RETENTION_MS = 604_800_000;

/**
 * Options of {@linkcode openEventStore}.
 *
 * @category Event store and worker
 */
export interface EventStoreOptions {
  /**
   * Name of the part of the database that belongs to the store. Each bot needs
   * another one: the updates of two bots have the same numbers, and within a namespace only the names of the
   * intakes keep these ids apart.
   *
   * @default {"events"}
   */
  readonly namespace?: string | undefined;
  /**
   * Time that done events are remembered, and with them duplicates, in milliseconds.
   *
   * @default {604_800_000} 7 days. GitHub can redeliver for 3 days.
   */
  readonly retentionMs?: number | undefined;
  /**
   * Keeps the payloads of done events for a while, to look at them and to replay the events. Events that were done before
   * have none. All workers of the store need it: one without it drops all that are kept, at its start and once an hour, and
   * if the limits differ, the lowest ones apply. A process may add a sixteenth of `maxBytes` before it looks. On a file an
   * event took 30 µs longer with a payload of 200 bytes, and 130 µs with one of 5 KB (2026-11, Deno 2.9.6).
   *
   * @default {undefined} A payload is deleted when its event is done.
   */
  readonly keepPayloads?: {
    /** Time that a payload is kept after its event was done, in milliseconds: up to the retention. */
    readonly forMs: number;
    /** The number of bytes that all of them take: beyond that the oldest are dropped. A larger one is not kept. */
    readonly maxBytes: number;
  } | undefined;
  /**
   * The log for what cannot be reported to a caller.
   *
   * @default {consoleSink}
   */
  readonly log?: LogSink | undefined;
}

/** The limits of the payloads that are kept. */
type KeepPayloads = NonNullable<EventStoreOptions["keepPayloads"]>;

/**
 * The result of accepting a delivery, or of emitting an event from outside of a handler.
 *
 * @category Event store and worker
 */
export interface AcceptResult {
  /** The event's id. For a known document that is the id under which it came first. */
  readonly id: string;
  /** True if the event was known already, and nothing was stored. */
  readonly duplicate: boolean;
}

/**
 * The right to work on an event, for a time. Each change to the event makes a new one.
 *
 * @category Event store and worker
 */
export interface Lease {
  /** The event's record, as this lease has left it. */
  readonly record: EventRecord;
  /** The version of the record. A lease is lost once the record has another version. */
  readonly version: string;
  /** Set if the lease before it expired: its worker died, was frozen, or lost the database. */
  readonly takenOver?: boolean | undefined;
  /** The time at which a claimed event had become due, milliseconds since the epoch. */
  readonly dueSince?: number | undefined;
  /** The event's payload, if claiming has read it: a small one. */
  readonly body?: Uint8Array<ArrayBuffer> | undefined;
}

/**
 * Options of {@linkcode EventStore.release}.
 *
 * @category Event store and worker
 */
export interface ReleaseOptions {
  /**
   * The delay until the event is due again, in milliseconds.
   *
   * @default {0}
   */
  readonly delayMs?: number | undefined;
  /**
   * Set if a handler had begun with the event: then it is not ignored later, if its handler is gone.
   *
   * @default {false}
   */
  readonly isBegun?: boolean | undefined;
  /**
   * Reason why the handler has put the event off. Its record notes that.
   *
   * @default {undefined} The handler has not.
   */
  readonly reason?: unknown;
  /**
   * Set if it waits because one of its handlers has as many runs as it may, or a limit has no room.
   *
   * @default {false}
   */
  readonly isLimited?: boolean | undefined;
  /**
   * Name of the limit that has no room.
   *
   * @default {undefined} It waits for a handler.
   */
  readonly limit?: string | undefined;
  /**
   * Set if it is put off because this version has no handler for it, and another one may have.
   *
   * @default {false}
   */
  readonly isUnhandled?: boolean | undefined;
}

/**
 * Room for an event at the worker of the store's process.
 *
 * @category Event store and worker
 */
export interface Reservation {
  /** The worker. */
  readonly owner: string;
  /** The length of the lease, in milliseconds. */
  readonly leaseMs: number;
  /**
   * Takes the event, once it is stored as leased.
   *
   * @param lease The lease.
   * @param delivery The delivery it was made of, which saves reading the payload back; undefined for an
   * event that was stored before.
   */
  take(lease: Lease, delivery?: Delivery): void;
  /** Gives the room back: the event was not stored, or it is not known whether it was. */
  cancel(): void;
}

/**
 * The worker in the process of a store.
 *
 * @category Event store and worker
 */
export interface StoreListener {
  /** Called when events may have become due. */
  wake(): void;
  /**
   * Called with a time at which events will be due: those that were put off, or whose leases end, by a change of this
   * process, and the first ones that a claim has seen. What another process changes is not told.
   *
   * @param time Milliseconds since the epoch.
   */
  onDueLater?(time: number): void;
  /**
   * Asked for room when an event is stored, with the number of bytes of it that are kept in memory: if there is any,
   * the event is stored as leased already.
   */
  readonly reserve?: ((bytes: number) => Reservation | null) | undefined;
  /**
   * Called when an event was cancelled through this store while it ran, here or in another process, and
   * again each time that is repeated.
   *
   * @param id The event's id.
   */
  onCancelRequested?(id: string): void;
  /**
   * Called when an event that interrupts others has joined an ordering group through a store of this process, and is not
   * its first one.
   *
   * @param group The key of the group.
   */
  onNewer?(group: string): void;
  /** The version of the code of the worker; undefined if that was not given. */
  readonly version?: string | undefined;
  /** Called with steps to be counted, once they are committed. */
  readonly count?: ((step: CountedStep) => void) | undefined;
}

/** The core that the parts of a store share. */
export interface StoreCore<TTx = unknown> {
  /** The engine that has its events. */
  readonly engine: Engine<TTx>;
  /** The worker of this store, once there is one. */
  readonly local: { listener?: StoreListener };
  /** The workers of this process on all stores of the same events. */
  readonly listeners: Set<StoreListener>;
  /** See {@linkcode EventStoreOptions.retentionMs}. */
  readonly retentionMs: number;
  /** See {@linkcode EventStoreOptions.keepPayloads}. */
  readonly keepPayloads: KeepPayloads | undefined;
  /** See {@linkcode EventStoreOptions.log}. */
  readonly log: LogSink;
}

/**
 * Checks the limits of the payloads that are kept.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param limits The limits.
 * @param retentionMs The retention. It is the longest time, since a payload without a record is of no use.
 * @throws {TypeError} If the limits are not an object, or there is another name among them.
 * @throws {RangeError} If a limit is out of range.
 */
export function checkKeepPayloads(
  doing: string,
  limits: KeepPayloads,
  retentionMs = DEFAULT_RETENTION_MS,
): void {
  checkObject(doing, limits, "'keepPayloads'");
  checkKeys(`${doing}, in 'keepPayloads'`, limits, ["forMs", "maxBytes"]);
  const { forMs, maxBytes } = limits;
  numberFrom(1, retentionMs, ", the retention")(doing, "keepPayloads.forMs", forMs);
  checkInteger(doing, "keepPayloads.maxBytes", maxBytes, { max: Number.MAX_SAFE_INTEGER });
}

/**
 * Calculates the time for which an event is remembered once it is done, see `Put.forMs`.
 *
 * @param core The store.
 * @param record Its record after the change.
 * @returns The time, in milliseconds.
 */
export function rememberedMs(
  { engine, retentionMs }: StoreCore,
  { state, settledAt }: EventRecord,
): number {
  if (state !== "done") return retentionMs;
  // By a clock that was ahead, it would have been done in the future.
  return Math.max(1, Math.min(retentionMs, settledAt! + retentionMs - engine.now()));
}

/**
 * Names a payload that is about to be written. An engine may keep it in the record of its event.
 *
 * @param engine The engine that is to hold it.
 * @param body The payload.
 * @returns Its name, which no other payload has.
 * @throws {RangeError} If it is larger than the engine can hold.
 */
export function newPayloadRef(engine: Engine, body: Uint8Array): PayloadRef {
  const { payloadBytes } = engine.limits;
  const size = body.byteLength;
  if (size > payloadBytes) {
    throw new RangeError(`Cannot store the payload: it has ${size} bytes, over ${payloadBytes}`);
  }
  // Ordered by time, like all keys of an event.
  return { id: `${engine.now().toString(36)}-${crypto.randomUUID()}`, size };
}

/**
 * Finds an event by an id that a caller has given.
 *
 * @param engine The engine that holds it.
 * @param id The id. Half of a surrogate pair is in none, and no engine gets one: it might take two ids for one.
 * @returns The event; null if there is none.
 */
export async function findEvent(engine: Engine, id: string): Promise<Stored | Unreadable | null> {
  return id.isWellFormed() ? (await engine.get([id]))[0]! : null;
}

/**
 * Reads a payload of an event.
 *
 * @param engine The engine that holds it.
 * @param ref The payload.
 * @param of The event.
 * @returns Its bytes, all of them.
 * @throws {Error} If a part of it is not there.
 */
export async function readPayload(engine: Engine, ref: PayloadRef, of: EventRef): Promise<Bytes> {
  const body = await engine.payload(ref, of);
  if (body.byteLength === ref.size) return body;
  throw new Error(`Cannot read the payload: ${body.byteLength} of ${ref.size} bytes are there`);
}

/** Checks for the cell of a list that stands for one whose key cannot be read. */
export function isUnnamed({ key }: Cell, begin: CellKey): boolean {
  return key.length === begin.length;
}

/** Names a cell of a list by the last part of its key. */
export function nameOfCell(cell: Cell, begin: CellKey): string {
  return isUnnamed(cell, begin) ? UNNAMED : String(cell.key.at(-1));
}
