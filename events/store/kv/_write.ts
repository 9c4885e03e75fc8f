import type { EventRecord } from "../event_record.ts";
import type { CommitEffects } from "../event_store.ts";

/** Largest size of a value in a commit, in bytes, unless it is a payload or holds long errors. */
const VALUE_BYTES = 1_000;

/** The mutations of an event that is leased in the commit: its record, id and schedule entry. */
const LEASED_MUTATIONS = 3;

/** Time during which a commit is retried: the sender of a webhook has to be answered within 10 s. */
const TRY_MS = 4_500;

/** The longest pause between tries: a commit takes about 1 ms. */
const MAX_PAUSE_MS = 50;

/**
 * The factor by which the pauses grow while another process holds the lock. With 2, a process that was
 * refused a few times had to wait for much longer than the others.
 */
const PAUSE_GROWTH = 1.3;

/** A write, or a commit: mutations are added to it. */
export interface Mutations {
  /** Adds writing a value. */
  set(key: Deno.KvKey, value: unknown, options?: { expireIn?: number }): unknown;
  /** Adds deleting a value. */
  delete(key: Deno.KvKey): unknown;
}

/** An event that is leased in a commit. Its record depends on the time, and on the events beside it. */
export interface Leased {
  /** The length of the lease, in milliseconds. */
  readonly leaseMs: number;
  /** The event's record, as it was leased last. */
  readonly record: EventRecord;
  /** Leases it from a time on, with a schedule entry of its own or a shared one. */
  lease(now: number, sharedEntry?: string): void;
  /** Adds writing it to a commit. */
  addTo(commit: Mutations): void;
}

interface Mutation {
  readonly key: Deno.KvKey;
  readonly value?: unknown;
  readonly options?: { expireIn?: number } | undefined;
  readonly deletes: boolean;
}

/**
 * A write: the checks and mutations of one change of a store, until they become part of a commit. It
 * checks every key that another change may write. So if a group commit fails, each write can be judged by
 * its own checks.
 */
export class Write implements Mutations {
  /** The versions that keys must have. */
  readonly checks: Deno.AtomicCheck[] = [];
  /** A handler's mutations: such a write has a commit of its own. */
  effects: CommitEffects | undefined;
  /** Set if it stores a delivery. */
  isIntake = false;
  /** Set if workers should be woken. */
  notifies = false;
  /** An event that is leased in the commit. */
  leased: Leased | undefined;
  /** The record of an event, before the change, that leaves its shared schedule entry. */
  leaving: EventRecord | undefined;
  /** Approximate size in a commit, in bytes. */
  bytes = 0;
  readonly #mutations: Mutation[] = [];

  /** The number of its mutations. */
  get size(): number {
    return this.#mutations.length + (this.leased ? LEASED_MUTATIONS : 0);
  }

  /** Adds an event that is leased in the commit. */
  lease(leased: Leased, payloadBytes: number): this {
    this.leased = leased;
    this.bytes += payloadBytes + 2 * VALUE_BYTES;
    return this;
  }

  /** Adds a check: the key must have this version. */
  check(check: Deno.AtomicCheck): this {
    this.checks.push(check);
    return this;
  }

  set(key: Deno.KvKey, value: unknown, options?: { expireIn?: number }): this {
    this.#mutations.push({ key, value, options, deletes: false });
    this.bytes += value instanceof Uint8Array ? value.byteLength : VALUE_BYTES;
    return this;
  }

  delete(key: Deno.KvKey): this {
    this.#mutations.push({ key, deletes: true });
    return this;
  }

  /** Adds the whole write to a commit. */
  addTo(commit: Deno.AtomicOperation): void {
    commit.check(...this.checks);
    // First: if effects throw (a sum over a value that is no number), nothing else is in the commit yet.
    this.effects?.(commit);
    for (const { key, value, options, deletes } of this.#mutations) {
      if (deletes) commit.delete(key);
      else commit.set(key, value, options);
    }
    // Last: the record that it replaces is deleted above, under the same key if both are of one millisecond.
    this.leased?.addTo(commit);
  }
}

/**
 * Commits, and tries again while another process holds the lock of the database file: Deno's KV does not
 * wait for it. Of three processes that write to one file, two had over half of their commits refused.
 *
 * @param operation The commit.
 * @param onLocked Called when the lock is met.
 */
export async function commit(
  operation: Deno.AtomicOperation,
  onLocked?: () => void,
): Promise<Deno.KvCommitResult | Deno.KvCommitError> {
  const start = performance.now();
  for (let pauseMs = 1;; pauseMs = Math.min(MAX_PAUSE_MS, pauseMs * PAUSE_GROWTH)) {
    try {
      return await operation.commit();
    } catch (error) {
      if (!isLocked(error) || performance.now() - start > TRY_MS) throw error;
    }
    onLocked?.();
    await new Promise((resolve) => setTimeout(resolve, pauseMs * (0.5 + Math.random())));
  }
}

/** Checks whether a KV refused a commit for its size. */
export function isTooMuch(error: unknown): boolean {
  return /too (many|large)/i.test(String(error));
}

function isLocked(error: unknown): boolean {
  return error instanceof Error && error.message.includes("database is locked");
}

/**
 * Tries again while others change what a commit checks. The pauses grow and are random: without them, a
 * change that takes more steps than the others would lose each time.
 *
 * @param attempt Makes a try, and gets whether it is the first; undefined if others were faster.
 * @returns The result of the try that succeeded.
 * @throws {Error} If none succeeds in time.
 */
export async function untilDone<T>(
  attempt: (isFirst: boolean) => Promise<T | undefined>,
): Promise<T> {
  const start = performance.now();
  let isFirst = true;
  for (let pauseMs = 0;; pauseMs = Math.min(MAX_PAUSE_MS, 2 * pauseMs + 1)) {
    const result = await attempt(isFirst);
    isFirst = false;
    if (result !== undefined) return result;
    if (performance.now() - start > TRY_MS) break;
    // Retry once at once: the first try may have used old data.
    if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs * Math.random()));
  }
  throw new Error(`Others changed the same event or group for ${TRY_MS} ms`);
}
