import { SharedTimer, Timeouts } from "../../../core/timeouts.ts";
import type { EventRecord } from "../event_record.ts";
import { readAll } from "./_reads.ts";
import { commit, isTooMuch, type SharedEntries, type Write } from "./_write.ts";
import type { Notifier } from "./notifier.ts";

/** A commit holds 1,000 mutations: this leaves room for the notifier and shared schedule entries. */
const MAX_MUTATIONS = 950;

/** A commit holds 819,200 bytes: this leaves room for keys and V8's serialization. */
const MAX_BYTES = 700_000;

/** A commit holds 100 checks. */
const MAX_CHECKS = 100;

/** A remote KV takes 10 checks per commit. */
const MAX_CHECKS_REMOTE = 10;

/** Largest number of writes of work in a commit with few deliveries, which wait for all of it. */
const MAX_WORK = 40;

/** Time after which a commit no longer keeps the next one waiting: the KV is remote, or locked. */
const SLOW_MS = 25;

/** The number of commits that may be under way at once. */
const MAX_COMMITS = 16;

/** Longest time that a commit may take: a remote KV never answers some calls. */
const COMMIT_TIMEOUT_MS = 5_000;

/**
 * Time for which a file counts as shared after another process held its lock. Meanwhile, the file is left
 * free for a moment after each commit: two processes under load answered after 25 ms (p99), not 65.
 */
const SHARED_MS = 500;

/** Longest time that a write waits. By then its sender has been answered 503. */
const MAX_WAIT_MS = 4_500;

/** A write that waits to be committed. */
interface Waiting {
  readonly write: Write;
  /** The time at which it began to wait, by the monotonic clock. */
  readonly since: number;
  /** Gets the version of what was written; null if a check did not hold. */
  readonly resolve: (versionstamp: string | null) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * The group commit: writes that wait at the same time share a commit. A commit costs about 0.3 ms on a file
 * whatever is in it, and an fsync on top on some disks: 32 deliveries in one take a tenth of the time.
 *
 * One commit at a time is under way, and what comes meanwhile gathers for the next one. Exceptions: a full
 * commit starts at once; deliveries pass one commit of work; a commit that takes over 25 ms no longer
 * keeps the next one waiting. Deliveries and work take turns within a commit. Settlements may wait a few
 * milliseconds for company.
 *
 * A group commit fails as a whole. Then the keys that it checked are read again: the writes whose checks
 * do not hold are refused, and the others are committed anew. What is too large is split.
 */
export class GroupCommit {
  readonly #kv: Deno.Kv;
  readonly #notifier: Notifier;
  readonly #shared: SharedEntries;
  /** Deliveries, and all else: each gets every other place, so that neither keeps the other waiting. */
  #intake: Waiting[] = [];
  #work: Waiting[] = [];
  /** Set if a write waits that should wait no longer. */
  #due = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #maxChecks = MAX_CHECKS;
  #underWay = 0;
  #slow = 0;
  /** The number of commits under way that are not slow and have deliveries. */
  #withIntake = 0;
  /** The time when another process held the lock of the database file. */
  #lockedAt = -Infinity;
  readonly #slowness: Timeouts;
  readonly #timeouts: Timeouts;

  constructor(kv: Deno.Kv, notifier: Notifier, shared: SharedEntries) {
    this.#kv = kv;
    this.#notifier = notifier;
    this.#shared = shared;
    const timer = new SharedTimer();
    this.#slowness = new Timeouts(SLOW_MS, timer);
    this.#timeouts = new Timeouts(COMMIT_TIMEOUT_MS, timer);
  }

  /**
   * Commits a write.
   *
   * @param write The write.
   * @param withinMs The time for which it may wait for others to share a commit with, in milliseconds.
   * @returns The version of what it wrote; null if a check did not hold.
   */
  commit(write: Write, withinMs = 0): Promise<string | null> {
    const { promise, resolve, reject } = Promise.withResolvers<string | null>();
    this.#put({ write, since: performance.now(), resolve, reject });
    const isFull = this.#isFull;
    if (withinMs === 0 || isFull) this.#hurry();
    else if (!this.#due) this.#timer ??= setTimeout(this.#hurry, withinMs);
    if (isFull && this.#underWay > this.#slow) this.#next();
    else if (this.#mayPass) queueMicrotask(this.#next);
    return promise;
  }

  readonly #onLocked = (): void => {
    this.#lockedAt = performance.now();
  };

  get #size(): number {
    return this.#intake.length + this.#work.length;
  }

  #put(item: Waiting): void {
    (item.write.isIntake ? this.#intake : this.#work).push(item);
  }

  readonly #hurry = (): void => {
    if (this.#due) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#due = true;
    // A microtask: writes of the same step share the commit, later ones the next one. `setImmediate` would
    // cost 1.15 ms on Deno 2.5, and a turn of the event loop on any version.
    if (this.#underWay === this.#slow) queueMicrotask(this.#next);
  };

  readonly #next = (): void => {
    while (this.#due && this.#mayStart) {
      const { items } = this.#take();
      this.#due = this.#size > 0;
      if (items.length > 0) this.#start(items);
    }
  };

  /** One commit at a time gathers most; but a full one is not made to wait. */
  get #mayStart(): boolean {
    if (this.#underWay >= MAX_COMMITS) return false;
    return this.#underWay === this.#slow || this.#isFull || this.#mayPass;
  }

  get #isFull(): boolean {
    return this.#size >= this.#maxChecks;
  }

  /**
   * True if deliveries neither wait for a commit of work nor share theirs with more of it. While 50,000
   * events are drained, a delivery is then stored after 3.6 ms instead of 4.8.
   */
  get #mayPass(): boolean {
    return this.#intake.length > 0 && this.#withIntake === 0 &&
      this.#underWay - this.#slow === 1 && !this.#isShared;
  }

  get #isShared(): boolean {
    return performance.now() - this.#lockedAt < SHARED_MS;
  }

  #take(): Batch {
    const batch = new Batch(this.#maxChecks);
    const maxWork = this.#mayPass && !this.#isFull ? 0 : Math.max(MAX_WORK, this.#intake.length);
    const [intake, work] = [this.#intake, this.#work];
    [this.#intake, this.#work] = [[], []];
    const tooLate = performance.now() - MAX_WAIT_MS;
    for (let i = 0; i < Math.max(intake.length, work.length); i++) {
      for (const item of [work[i], intake[i]]) {
        if (!item) continue;
        if (item === work[i] && i >= maxWork) this.#put(item);
        else if (item.since < tooLate) {
          item.reject(new Error(`The KV was busy for ${MAX_WAIT_MS} ms`));
        } else if (!batch.add(item)) this.#put(item);
      }
    }
    return batch;
  }

  async #start(items: readonly Waiting[]): Promise<void> {
    const withIntake = items.some(({ write }) => write.isIntake) ? 1 : 0;
    this.#underWay++;
    this.#withIntake += withIntake;
    let isSlow = false;
    const slowness = this.#slowness.start(() => {
      isSlow = true;
      this.#slow++;
      this.#withIntake -= withIntake;
      this.#next();
    });
    try {
      await this.#timeouts.limit(this.#write(items));
    } catch (error) {
      for (const { reject } of items) reject(error);
    }
    slowness.cancel();
    if (this.#isShared) await pause();
    if (isSlow) this.#slow--;
    else this.#withIntake -= withIntake;
    this.#underWay--;
    this.#next();
  }

  async #write(items: readonly Waiting[]): Promise<void> {
    const operation = this.#kv.atomic();
    const undo: (() => void)[] = [];
    const leaving = items.flatMap(({ write }) => write.leaving ?? []);
    try {
      this.#schedule(operation, items, leaving, undo);
      for (const { write } of items) write.addTo(operation);
      if (items.some(({ write }) => write.notifies)) undo.push(this.#notifier.notify(operation));
      const result = await commit(operation, this.#onLocked);
      if (!result.ok) { for (const each of undo) each(); }
      if (!result.ok && items.length > 1) return await this.#sortOut(items);
      if (result.ok) this.#shared.left(leaving);
      for (const { resolve } of items) resolve(result.ok ? result.versionstamp : null);
    } catch (error) {
      for (const each of undo) each();
      if (items.length > 1 && isTooMuch(error)) return await this.#writeLess(items, error);
      const reason = hasTooManyChecks(error) ? tooManyChecks(error) : error;
      for (const { reject } of items) reject(reason);
    }
  }

  /** Leases events under one schedule entry, and deletes the shared entries that are empty now. */
  #schedule(
    operation: Deno.AtomicOperation,
    items: readonly Waiting[],
    leaving: readonly EventRecord[],
    undo: (() => void)[],
  ): void {
    const leased = items.flatMap(({ write }) => write.leased ?? []);
    const entry = this.#shared.open(operation, leased);
    if (entry !== undefined) undo.push(() => this.#shared.forget(entry));
    this.#shared.close(operation, leaving);
    if (!items.some(({ write }) => write.effects)) this.#shared.deleteEmpty(operation);
  }

  /** Refuses the writes whose checks do not hold, and commits the others again. */
  async #sortOut(items: readonly Waiting[]): Promise<void> {
    const checks = items.flatMap(({ write }) => write.checks);
    const entries = await readAll(this.#kv, checks.map(({ key }) => key));
    const stale = new Set(
      checks.filter((check, i) => check.versionstamp !== entries[i]!.versionstamp),
    );
    if (stale.size === 0) return await this.#writeEach(items);
    const valid = items.filter((item) => {
      const holds = item.write.checks.every((check) => !stale.has(check));
      if (!holds) item.resolve(null);
      return holds;
    });
    if (valid.length > 0) await this.#write(valid);
  }

  /** Splits a commit that is too large, so that a write that fits none does not fail the others. */
  async #writeLess(items: readonly Waiting[], error: unknown): Promise<void> {
    if (!hasTooManyChecks(error)) return await this.#writeEach(items);
    this.#maxChecks = MAX_CHECKS_REMOTE;
    const batches = split(items, this.#maxChecks);
    if (batches.length === 1) return await this.#writeEach(items);
    for (const batch of batches) await this.#write(batch.items);
  }

  async #writeEach(items: readonly Waiting[]): Promise<void> {
    for (const item of items) await this.#write([item]);
  }
}

/** Makes batches of items in their order. */
function split(items: readonly Waiting[], maxChecks: number): Batch[] {
  const batches = [new Batch(maxChecks)];
  for (const item of items) {
    if (batches.at(-1)!.add(item)) continue;
    batches.push(new Batch(maxChecks));
    batches.at(-1)!.add(item);
  }
  return batches;
}

function hasTooManyChecks(error: unknown): boolean {
  return String(error).includes("Too many checks");
}

function tooManyChecks(cause: unknown): Error {
  const limits = `${MAX_CHECKS}, and a remote one ${MAX_CHECKS_REMOTE}`;
  const message = `too many checks, those of effects among them: a KV takes ${limits}`;
  return new Error(`Cannot commit the change: ${message}`, { cause });
}

/** Leaves the lock to another process, for the shortest pause that a timer makes. */
function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 1));
}

/** Writes that share a commit. */
class Batch {
  /** The writes. */
  readonly items: Waiting[] = [];
  readonly #maxChecks: number;
  readonly #checked = new Set<Deno.KvKeyPart | undefined>();
  #checks = 0;
  #mutations = 0;
  #bytes = 0;

  /** @param maxChecks The number of checks that the commit holds. */
  constructor(maxChecks: number) {
    this.#maxChecks = maxChecks;
  }

  /**
   * Adds a write if it fits. Two writes of a commit never check the same key: all checks see the state
   * before the commit, so both would hold. A write with a handler's effects has a commit of its own.
   */
  add(item: Waiting): boolean {
    const { checks, size, bytes, effects } = item.write;
    // Only the last part of each key, an id, is compared. Different keys may share it: such a write waits
    // for the next commit, needlessly but rarely.
    const ids = checks.map(({ key }) => key.at(-1));
    const isFirst = this.items.length === 0;
    if (!isFirst && (effects || !this.#fits(ids, size, bytes))) return false;
    this.items.push(item);
    for (const id of ids) this.#checked.add(id);
    this.#checks += ids.length;
    // Nothing fits beside effects.
    this.#mutations += effects ? MAX_MUTATIONS : size;
    this.#bytes += bytes;
    return true;
  }

  #fits(ids: readonly (Deno.KvKeyPart | undefined)[], size: number, bytes: number): boolean {
    return this.#checks + ids.length <= this.#maxChecks &&
      this.#mutations + size <= MAX_MUTATIONS && this.#bytes + bytes <= MAX_BYTES &&
      !ids.some((id) => this.#checked.has(id));
  }
}
