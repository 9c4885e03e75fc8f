import type { CommitEffects } from "../event_store.ts";
import type { EventRecord } from "../event_record.ts";

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

/** The bytes that a value other than a payload takes in a commit, at most, except for long errors. */
const VALUE_BYTES = 1_000;

/** The mutations of an event that is leased in the commit: its record, id and schedule entry. */
const LEASED_MUTATIONS = 3;

/**
 * A write: the checks and mutations of one change of a store, until they become part of a commit. It
 * checks every key that another change may write, so that of the changes which share a commit each one
 * fails by its own checks.
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
  /** The bytes that it takes in a commit, about. */
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

  /** Adds that a key must have a version. */
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

  /** Adds all of it to a commit. */
  addTo(commit: Deno.AtomicOperation): void {
    commit.check(...this.checks);
    // First: a commit that throws, for a sum over what is no number, keeps the mutations before that.
    this.effects?.(commit);
    for (const { key, value, options, deletes } of this.#mutations) {
      if (deletes) commit.delete(key);
      else commit.set(key, value, options);
    }
    // Last: the record that it replaces has the same key if both came in the same millisecond.
    this.leased?.addTo(commit);
  }
}
