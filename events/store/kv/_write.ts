import type { CommitEffects } from "../event_store.ts";
import type { EventRecord } from "../event_record.ts";

/** What adds mutations to: a write, or a commit of its own. */
export interface Mutations {
  /** Adds writing a value. */
  set(key: Deno.KvKey, value: unknown, options?: { expireIn?: number }): unknown;
  /** Adds deleting a value. */
  delete(key: Deno.KvKey): unknown;
}

/** An event that is leased in a commit: what is written depends on when, and on which others are too. */
export interface Leased {
  /** For how long it is leased, in milliseconds. */
  readonly leaseMs: number;
  /** The event's record, as it was leased last. */
  readonly record: EventRecord;
  /** Leases it from a time on, and puts it into a group of the schedule. */
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

/** What a value that is no payload takes in a commit, in bytes, at most but for an event's errors. */
const VALUE_BYTES = 1_000;

/** What is written of an event that is leased in the commit: its record, id and place in the schedule. */
const LEASED_MUTATIONS = 3;

/**
 * What one change of a store checks and writes, until it becomes part of a commit. It checks every key
 * that another change may write, so that changes which share a commit can be told apart by their checks.
 */
export class Write implements Mutations {
  /** What has to be so. */
  readonly checks: Deno.AtomicCheck[] = [];
  /** Somebody else's mutations: such a write has a commit of its own. */
  effects: CommitEffects | undefined;
  /** Whether it takes a delivery in. */
  isIntake = false;
  /** Whether workers should be told. */
  notifies = false;
  /** An event that is leased in the commit. */
  leased: Leased | undefined;
  /** An event, as it was, that leaves the entry of the schedule which it has shared. */
  leaving: EventRecord | undefined;
  /** What it takes in a commit, in bytes, about. */
  bytes = 0;
  readonly #mutations: Mutation[] = [];

  /** How many mutations it has. */
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
    // Last: the record it takes the place of has the same key if both came in the same millisecond.
    this.leased?.addTo(commit);
  }
}
