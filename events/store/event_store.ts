import type { Delivery } from "./delivery.ts";
import type { NotifierKind } from "./kv/notifier.ts";
import type { EventOperations } from "./event_operations.ts";
import type { EventRecord } from "./event_record.ts";

/** What became of a delivery. */
export interface AcceptResult {
  /** The event's id. */
  readonly id: string;
  /** Whether its id was known already: then nothing was stored. */
  readonly duplicate: boolean;
}

/** Options of {@linkcode EventStore.accept}. */
export interface AcceptOptions {
  /**
   * Time during which the same document is a duplicate, in milliseconds, whatever delivery id it has: at
   * most the retention.
   *
   * @default {undefined} Only the delivery id counts.
   */
  readonly replayWindowMs?: number | undefined;
}

/** The right to work on an event, for a time. Each change to the event makes a new one. */
export interface Lease {
  /** The event's record, as the lease has left it. */
  readonly record: EventRecord;
  /** The version of the record. A lease whose record has another version is lost. */
  readonly versionstamp: string;
  /** Whether the lease before it expired: its worker died, was frozen, or lost the KV. */
  readonly takenOver?: boolean | undefined;
  /** When an event that was claimed had become due, milliseconds since the epoch. */
  readonly dueSince?: number | undefined;
  /** The event's payload, where claiming has read it: one of up to 65,000 bytes. */
  readonly body?: Uint8Array<ArrayBuffer> | undefined;
}

/** What {@linkcode EventStore.claim} is to lease. */
export interface ClaimOptions {
  /** How many events at most. */
  readonly limit: number;
  /** Who leases them. */
  readonly owner: string;
  /** For how long, in milliseconds. */
  readonly leaseMs: number;
  /**
   * Whether events are taken over whose lease has expired.
   *
   * @default {true}
   */
  readonly takeOver?: boolean | undefined;
  /**
   * Whether the claimer still works on an event: it renews the lease itself, and is not to take it over.
   *
   * @default {undefined} It works on none.
   */
  readonly holds?: ((id: string) => boolean) | undefined;
}

/**
 * Adds mutations to the commit that settles an event: they happen if, and only if, the event is
 * settled by this lease. So an effect that lives in the same KV happens exactly once.
 */
export type CommitEffects = (commit: Deno.AtomicOperation) => unknown;

/** How {@linkcode EventStore.complete} settles an event. */
export interface CompleteOptions {
  /** Further mutations for the same commit. */
  readonly effects?: CommitEffects | undefined;
  /**
   * How long the settlement may wait for other changes to share a commit with, in milliseconds.
   *
   * @default {0}
   */
  readonly withinMs?: number | undefined;
}

/** Room for an event at the worker of the store's process. */
export interface Reservation {
  /** Who takes it. */
  readonly owner: string;
  /** For how long it is leased, in milliseconds. */
  readonly leaseMs: number;
  /**
   * Takes the event, once it is stored as leased.
   *
   * @param lease The lease.
   * @param delivery The delivery it was made of, which spares reading the payload back; undefined for an
   * event that was stored before.
   */
  take(lease: Lease, delivery?: Delivery): void;
  /** Gives the room up: the event was not stored, or it is not known. */
  cancel(): void;
}

/**
 * Asks for room for one more event.
 *
 * @param bytes How many bytes of it are kept in memory.
 * @returns The room; null where there is none.
 */
export type Reserve = (bytes: number) => Reservation | null;

/** The worker of a store's process, as its store calls it. */
export interface StoreListener {
  /** Called when events may have become due. */
  wake(): void;
  /** Asked for room for an event that is being stored: one that gets it is stored as leased. */
  readonly reserve?: Reserve | undefined;
  /**
   * Called when the cancellation of a running event was requested through this store.
   *
   * @param id The event's id.
   */
  onCancelRequested?(id: string): void;
}

/**
 * Events in a Deno KV. The records are the truth and the notifier only notifies: an event is on the schedule
 * from the commit that takes it in until the commit that settles it.
 */
export interface EventStore extends EventOperations {
  /** The KV that it is in. */
  readonly kv: Deno.Kv;

  /** How its notifier notifies. */
  readonly notifier: NotifierKind;

  /** The largest payload it can hold, in bytes. */
  readonly maxPayloadBytes: number;

  /** For how long it remembers done events, in milliseconds. */
  readonly retentionMs: number;

  /**
   * Takes a delivery in, in one atomic commit: its event's record, payload, place in the schedule and
   * the notifier. A payload over 780,000 bytes is written before, and becomes visible with that commit.
   *
   * @param delivery The delivery.
   * @param options The replay window.
   * @returns The event's id, and whether the delivery is a duplicate of one that has not died.
   */
  accept(delivery: Delivery, options?: AcceptOptions): Promise<AcceptResult>;

  /**
   * Tells whether a document came before, and remembers it if it did not.
   *
   * @param delivery The delivery that brings it, with a delivery id.
   * @param windowMs For how long it is remembered, in milliseconds: up to the retention, for a document
   * whose event is forgotten is taken for new.
   * @returns The id of the other event that it has become within that time, unless that one has died;
   * null for a document that is new, or comes again under its id.
   */
  firstOf(delivery: Delivery, windowMs: number): Promise<string | null>;

  /**
   * Tells since when the event that has been due the longest is due: one read.
   *
   * @returns Milliseconds since the epoch; null if nothing is due.
   */
  oldestDueAt(): Promise<number | null>;

  /**
   * Leases events that are due: waiting ones, and running ones whose lease has expired.
   *
   * @param options How many, who and for how long.
   * @returns The leases; none where nothing is due or another worker was faster.
   */
  claim(options: ClaimOptions): Promise<Lease[]>;

  /**
   * Reads an event's payload.
   *
   * @param event The event: a lease, or its record.
   * @returns The payload, byte for byte.
   * @throws {Error} If not all of it is there.
   */
  load(event: Pick<Lease, "record">): Promise<Uint8Array<ArrayBuffer>>;

  /**
   * Lengthens a lease.
   *
   * @param lease The lease.
   * @param leaseMs For how long from now, in milliseconds.
   * @returns The new lease; null if it was lost.
   */
  renew(lease: Lease, leaseMs: number): Promise<Lease | null>;

  /**
   * Notes that a part of an event's handling is done. That stays with the event, also when it dies and
   * is replayed or delivered again.
   *
   * @param lease The lease.
   * @param part The part's name.
   * @param effects Further mutations for the same commit.
   * @returns The new lease; null if it was lost.
   * @throws {RangeError} If the names of the event's parts would take more than 32,768 bytes: 8 for each,
   * and one for each character, two where a name has others than those of Latin-1.
   * @throws {Error} If the effects cannot be committed.
   */
  checkpoint(lease: Lease, part: string, effects?: CommitEffects): Promise<Lease | null>;

  /**
   * Finds a lease again whose record has another version: the answer to a renewal was lost, or the
   * schedule was repaired.
   *
   * @param lease The lease.
   * @returns The lease as it is now; null if it was lost.
   */
  recover(lease: Lease): Promise<Lease | null>;

  /**
   * Settles an event as done. Its payload is deleted; its record is kept for the retention.
   *
   * @param lease The lease.
   * @param options Further mutations for the same commit, and how long that may wait.
   * @returns Whether it was settled; false if the lease was lost.
   * @throws {Error} If the effects cannot be committed.
   */
  complete(lease: Lease, options?: CompleteOptions | CommitEffects): Promise<boolean>;

  /**
   * Gives an event back, to be tried again.
   *
   * @param lease The lease.
   * @param delayMs In how many milliseconds.
   * @param error What went wrong.
   * @returns Whether it was given back; false if the lease was lost.
   */
  retry(lease: Lease, delayMs: number, error: unknown): Promise<boolean>;

  /**
   * Gives an event back that was not tried to its end. The attempt does not count.
   *
   * @param lease The lease.
   * @param delayMs In how many milliseconds it is due again; at once by default.
   * @returns Whether it was given back; false if the lease was lost.
   */
  release(lease: Lease, delayMs?: number): Promise<boolean>;

  /**
   * Gives an event up. It is kept, with its payload and errors, until somebody decides on it or its
   * delivery is sent again.
   *
   * @param lease The lease.
   * @param error What went wrong.
   * @returns Whether it was given up; false if the lease was lost.
   */
  bury(lease: Lease, error: unknown): Promise<boolean>;

  /**
   * Deletes what uploads that never became an event have left behind.
   *
   * @param olderThanMs Uploads begun longer ago than this, in milliseconds.
   * @returns How many were deleted.
   */
  deleteStaleUploads(olderThanMs: number): Promise<number>;

  /**
   * Schedules events anew that would wait for longer than they were meant to: a clock that has been set
   * back since, or another machine's, has scheduled them. Each then waits for as long as it was to, and a
   * lease is held for its length.
   *
   * @returns How many were scheduled anew.
   */
  repairSchedule(): Promise<number>;

  /**
   * Puts ordering groups right that are damaged, so that their events go on: each group is looked at.
   *
   * @returns How many were put right.
   */
  repairGroups(): Promise<number>;

  /**
   * Listens for events until the KV is closed. A store has one listener.
   *
   * @param listener The listener.
   * @returns A promise that resolves once the KV is closed.
   */
  listen(listener: StoreListener): Promise<void>;
}
