import type { Applied } from "../engine.ts";
import type { EventRecord, EventRef } from "../event_record.ts";
import type { CommitEffects } from "../event_store.ts";
import { type Mutations, notesOf, type StoreKeys } from "./_layout.ts";
import type { SharedEntry } from "./_schedule.ts";
import { encodeValue } from "./value_codec.ts";

/** Size of the record and the id of an event that is leased in the commit, at most, in bytes. */
const LEASED_BYTES = 2_000;

/** The mutations of an event that is leased in the commit: its record, id, payload and schedule entry. */
const LEASED_MUTATIONS = 4;

/** The number of empty shared entries that a commit deletes. */
const MAX_EMPTY = 20;

interface Mutation {
  readonly key: Deno.KvKey;
  readonly value?: Uint8Array<ArrayBuffer> | Deno.KvU64;
  readonly options?: { expireIn?: number } | undefined;
  /** The number that is added to a sum. */
  readonly by?: number;
  readonly deletes: boolean;
}

/** The reason for which a change is refused. */
type Reason = Extract<Applied, { readonly ok: false }>["why"];

/** A check of a write. */
export interface WriteCheck extends Deno.AtomicCheck {
  /**
   * Meaning of a check that does not hold: the change is refused for this reason, or the upload of a payload was
   * deleted. Without it others were faster, and the write is made anew.
   */
  readonly why?: Reason | undefined;
}

/** An event whose record is made when its commit begins: it depends on the time, and on the events beside it. */
export interface LateRecord {
  /** The id and the time that lead to the record. */
  readonly record: EventRef;
  /**
   * Makes the record.
   *
   * @param now The time, milliseconds since the epoch.
   * @returns The length of its lease, in milliseconds, if it may share its schedule entry with others.
   */
  begin(now: number): number | undefined;
  /** Gives it a schedule entry that it shares. */
  share(entry: string): void;
  /** Adds writing it to a commit. */
  addTo(commit: Mutations): void;
}

/**
 * A write: the checks and mutations of one change of a store, until they become part of a commit. It
 * checks every key that another change may write. So if a group commit fails, each write can be judged by
 * its own checks.
 */
export class Write implements Mutations {
  /** The versions that keys must have. */
  readonly checks: WriteCheck[] = [];
  /** A handler's mutations: such a write has a commit of its own. */
  effects: CommitEffects<Deno.AtomicOperation> | undefined;
  /** Set if it stores a delivery. */
  isIntake = false;
  /** Set if workers should be woken. */
  notifies = false;
  /** An event that is leased in the commit. */
  leased: LateRecord | undefined;
  /** The records of events, before the change, that leave their shared schedule entries. */
  leaving: EventRecord[] | undefined;
  /** Approximate size in a commit, in bytes. */
  bytes = 0;
  /** The time at which it began to wait for its commit, by the monotonic clock. */
  since = 0;
  /** Its end: the version of what was written, or null if a check did not hold. */
  readonly committed = Promise.withResolvers<string | null>();
  readonly #mutations: Mutation[] = [];

  /** The number of its mutations. */
  get size(): number {
    return this.#mutations.length + (this.leased ? LEASED_MUTATIONS : 0);
  }

  /** Adds an event that is leased in the commit. */
  lease(leased: LateRecord, payloadBytes: number): this {
    this.leased = leased;
    this.bytes += payloadBytes + LEASED_BYTES;
    return this;
  }

  /** Adds a check: the key must have this version. */
  check(check: WriteCheck): this {
    this.checks.push(check);
    return this;
  }

  set(key: Deno.KvKey, value: Uint8Array<ArrayBuffer>, options?: { expireIn?: number }): this {
    this.#mutations.push({ key, value, options, deletes: false });
    this.bytes += value.byteLength;
    return this;
  }

  delete(key: Deno.KvKey): this {
    this.#mutations.push({ key, deletes: true });
    return this;
  }

  /** Adds setting a sum. */
  setSum(key: Deno.KvKey, to: number): this {
    const value = new Deno.KvU64(BigInt.asUintN(64, BigInt(to)));
    this.#mutations.push({ key, value, deletes: false });
    return this;
  }

  /**
   * Adds a number to a sum, a negative one as well: sums wrap around. It comes before all else of the write: if the value
   * is not a number, nothing else is in the commit yet.
   */
  sum(key: Deno.KvKey, by: number): this {
    this.#mutations.unshift({ key, by, deletes: false });
    return this;
  }

  /** Notes that an event leaves its shared schedule entry. */
  leave(record: EventRecord): void {
    if (this.leaving) this.leaving.push(record);
    else this.leaving = [record];
  }

  /** Adds the checks and mutations of another write that has neither effects nor a leased event. */
  include(other: Write): this {
    this.checks.push(...other.checks);
    this.#mutations.push(...other.#mutations);
    this.bytes += other.bytes;
    this.isIntake ||= other.isIntake;
    if (other.leaving) { for (const record of other.leaving) this.leave(record); }
    return this;
  }

  /** Adds all that it changes to a commit. */
  addTo(commit: Deno.AtomicOperation): void {
    // First: if effects throw (a sum over a value that is not a number), nothing else is in the commit yet.
    this.effects?.(commit);
    for (const { key, value, options, by, deletes } of this.#mutations) {
      if (deletes) commit.delete(key);
      else if (by !== undefined) commit.sum(key, BigInt.asUintN(64, BigInt(by)));
      else commit.set(key, value, options);
    }
    // Last: the record that it replaces is deleted above, under the same key if both are of one millisecond.
    this.leased?.addTo(commit);
  }
}

/**
 * Shared schedule entries: events that are leased in one commit, mostly the one that stores them, have
 * one entry together. An entry for each would be written and deleted for nothing, because nearly all are
 * settled before it is due.
 *
 * The records of the events name the entry. An event that is changed in any way leaves the entry: from
 * then on it has an entry of its own, or none. The process that wrote the entry counts the events that
 * still share it, and deletes it with the last one. If several commits empty it at the same time, a later
 * commit deletes it. If the process dies, the entry becomes due when the leases expire: the worker that
 * claims it takes over the remaining events, and deletes it.
 */
export class SharedEntries {
  readonly #keys: StoreKeys;
  /** The number of events that are left of each entry that this process has written. */
  readonly #left = new Map<string, number>();
  /** The entries that were emptied by several commits together. */
  readonly #empty: Deno.KvKey[] = [];

  constructor(keys: StoreKeys) {
    this.#keys = keys;
  }

  /**
   * Makes the records of events, leased from now on, and adds the entry that they share to a commit, if there are
   * several.
   *
   * @param commit The commit.
   * @param events The events.
   * @returns The entry's id; undefined if each event has its own.
   */
  open(commit: Mutations, events: readonly LateRecord[]): string | undefined {
    if (events.length === 0) return undefined;
    const now = Date.now();
    const sharing: LateRecord[] = [];
    let leaseMs: number | undefined;
    let isSame = true;
    for (const each of events) {
      const ms = each.begin(now);
      if (ms === undefined) continue;
      sharing.push(each);
      isSame &&= leaseMs === undefined || ms === leaseMs;
      leaseMs = ms;
    }
    if (leaseMs === undefined || !isSame || sharing.length < 2) return undefined;
    const id = crypto.randomUUID();
    for (const each of sharing) each.share(id);
    const refs = sharing.map(({ record: { id, receivedAt } }) => ({ id, receivedAt }));
    const entry: SharedEntry = { events: refs, delayMs: leaseMs };
    commit.set(this.#keys.due(now + leaseMs, id), encodeValue(entry));
    this.#left.set(id, sharing.length);
    return id;
  }

  /** Forgets an entry whose commit failed. */
  forget(id: string): void {
    this.#left.delete(id);
  }

  /** Adds the deletion of the entries that were emptied before to a commit. */
  deleteEmpty(commit: Mutations): void {
    for (const key of this.#empty.splice(0, MAX_EMPTY)) commit.delete(key);
  }

  /** Adds the deletion of the entries that a commit empties. */
  close(commit: Mutations, leaving: readonly EventRecord[]): void {
    for (const [id, records] of Map.groupBy(leaving, (record) => notesOf(record).sharedEntry!)) {
      if (this.#left.get(id) !== records.length) continue;
      commit.delete(this.#keys.due(records[0]!.dueAt!, id));
      this.#left.delete(id);
    }
  }

  /** Counts the events that have left their entries. */
  left(leaving: readonly EventRecord[]): void {
    for (const record of leaving) {
      const entry = notesOf(record).sharedEntry!;
      const left = this.#left.get(entry);
      if (left === undefined) continue;
      this.#left.set(entry, left - 1);
      if (left > 1) continue;
      this.#left.delete(entry);
      this.#empty.push(this.#keys.due(record.dueAt!, entry));
    }
  }
}

/** Checks whether a KV refused a commit for its size, and not because it was asked too often. */
export function isTooMuch(error: unknown): boolean {
  const text = String(error);
  return /too (many|large)/i.test(text) &&
    !/status=429|too many (requests|open files)/i.test(text);
}

/** Checks whether a KV refused a commit for the number of its checks. */
export function hasTooManyChecks(error: unknown): boolean {
  return /too many checks/i.test(String(error));
}
