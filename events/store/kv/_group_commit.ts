import type { CommitMarks } from "../../../core/kv_commits.ts";
import { SharedTimer, sleep, Timeouts } from "../../../core/timeouts.ts";
import { NoTurnError } from "../engine.ts";
import type { EventRecord } from "../event_record.ts";
import { ANSWER_TIMEOUT_MS, MAX_WAIT_MS } from "./_concurrency.ts";
import { refuseMessages } from "./_kv_guard.ts";
import { asEngineError, readAll } from "./_reads.ts";
import { hasTooManyChecks, isTooMuch, type SharedEntries, type Write } from "./_write.ts";
import type { Notifier } from "./notifier.ts";

/** A commit holds 1,000 mutations: this leaves room for the notifier and shared schedule entries. */
const MAX_MUTATIONS = 950;

/** A commit holds 819,200 bytes: this leaves room for keys and what the KV adds. */
const MAX_BYTES = 700_000;

/** A commit holds 100 checks. One of them may be for its mark. */
const MAX_CHECKS = 99;

/** A remote KV takes 10 checks per commit. */
const MAX_CHECKS_REMOTE = 9;

/** Largest number of writes of work in a commit with few deliveries: they wait for all of it. */
const MAX_WORK = 40;

/** Time after which a commit no longer keeps the next one waiting: the KV is remote, or locked. */
const SLOW_MS = 25;

/** The number of commits that may be under way at once. */
const MAX_COMMITS = 16;

/**
 * Time for which a file counts as shared after another process held its lock. Meanwhile, the file is left
 * free for a moment after each commit: two processes under load answered after 25 ms (p99), not 65.
 */
const SHARED_MS = 500;

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
  readonly #marks: CommitMarks;
  /** Deliveries, and all else: each gets every other place, so that neither keeps the other waiting. */
  #intake: Write[] = [];
  #work: Write[] = [];
  /** Set if a write waits that should wait no longer. */
  #due = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #maxChecks = MAX_CHECKS;
  #underWay = 0;
  /** The commits under way that keep the next one waiting: all but the slow ones. */
  readonly #blocking = new Set<{ readonly hasIntake: boolean }>();
  /** The time when another process held the lock of the database file. */
  #lockedAt = -Infinity;
  readonly #slowness: Timeouts;
  readonly #timeouts: Timeouts;

  constructor(kv: Deno.Kv, marks: CommitMarks, notifier: Notifier, shared: SharedEntries) {
    this.#kv = kv;
    this.#marks = marks;
    this.#notifier = notifier;
    this.#shared = shared;
    const timer = new SharedTimer();
    this.#slowness = new Timeouts(SLOW_MS, timer);
    this.#timeouts = new Timeouts(ANSWER_TIMEOUT_MS, timer);
  }

  /**
   * Commits a write.
   *
   * @param write The write.
   * @param withinMs The time for which it may wait for others to share a commit with, in milliseconds.
   * @returns The version of what it wrote; null if a check did not hold.
   */
  commit(write: Write, withinMs = 0): Promise<string | null> {
    write.since = performance.now();
    this.#put(write);
    const isFull = this.#isFull;
    if (withinMs === 0 || isFull) this.#hurry();
    else if (!this.#due) this.#timer ??= setTimeout(this.#hurry, withinMs);
    if (isFull && this.#blocking.size > 0) this.#next();
    else if (this.#mayPass) queueMicrotask(this.#next);
    return write.committed.promise;
  }

  /** The number of checks that a commit holds, as far as the KV has shown. */
  get maxChecks(): number {
    return this.#maxChecks;
  }

  readonly #onLocked = (): void => {
    this.#lockedAt = performance.now();
  };

  get #size(): number {
    return this.#intake.length + this.#work.length;
  }

  #put(write: Write): void {
    (write.isIntake ? this.#intake : this.#work).push(write);
  }

  readonly #hurry = (): void => {
    if (this.#due) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#due = true;
    // A microtask: writes of the same step share the commit, later ones the next one. `setImmediate` would
    // cost 1.15 ms on Deno 2.5, and a turn of the event loop on any version.
    if (this.#blocking.size === 0) queueMicrotask(this.#next);
  };

  readonly #next = (): void => {
    while (this.#due && this.#mayStart) {
      const writes = this.#take();
      this.#due = this.#size > 0;
      if (writes.length > 0) this.#start(writes);
    }
  };

  /** One commit at a time gathers most; but a full one is not made to wait. */
  get #mayStart(): boolean {
    if (this.#underWay >= MAX_COMMITS) return false;
    return this.#blocking.size === 0 || this.#isFull || this.#mayPass;
  }

  get #isFull(): boolean {
    return this.#size >= this.#maxChecks;
  }

  /**
   * True if deliveries neither wait for a commit of work nor share theirs with more of it. While 50,000
   * events are drained, a delivery is then stored after 3.6 ms instead of 4.8.
   */
  get #mayPass(): boolean {
    if (this.#intake.length === 0 || this.#blocking.size !== 1) return false;
    const [blocking] = this.#blocking;
    return !blocking!.hasIntake && !this.#isShared;
  }

  get #isShared(): boolean {
    return performance.now() - this.#lockedAt < SHARED_MS;
  }

  #take(): readonly Write[] {
    const batch = new Batch(this.#maxChecks);
    const maxWork = this.#mayPass && !this.#isFull ? 0 : Math.max(MAX_WORK, this.#intake.length);
    const [intake, work] = [this.#intake, this.#work];
    [this.#intake, this.#work] = [[], []];
    const tooLate = performance.now() - MAX_WAIT_MS;
    for (let i = 0; i < Math.max(intake.length, work.length); i++) {
      for (const write of [work[i], intake[i]]) {
        if (!write) continue;
        if (write === work[i] && i >= maxWork) this.#put(write);
        else if (write.since < tooLate) {
          write.committed.reject(new NoTurnError(`the KV was busy for ${MAX_WAIT_MS} ms`));
        } else if (!batch.add(write)) this.#put(write);
      }
    }
    return batch.writes;
  }

  async #start(writes: readonly Write[]): Promise<void> {
    const blocking = { hasIntake: writes.some(({ isIntake }) => isIntake) };
    this.#underWay++;
    this.#blocking.add(blocking);
    const slowness = this.#slowness.start(() => {
      this.#blocking.delete(blocking);
      this.#next();
    });
    try {
      await this.#timeouts.limit(this.#write(writes));
    } catch (error) {
      for (const { committed } of writes) committed.reject(error);
    }
    slowness.cancel();
    // Another process gets the lock, for the shortest pause that a timer makes.
    if (this.#isShared) await sleep(1);
    this.#blocking.delete(blocking);
    this.#underWay--;
    this.#next();
  }

  async #write(writes: readonly Write[]): Promise<void> {
    const operation = this.#kv.atomic();
    const undo: (() => void)[] = [];
    const leaving = writes.flatMap((write) => write.leaving ?? []);
    try {
      this.#schedule(operation, writes, leaving, undo);
      if (writes.some(({ notifies }) => notifies)) undo.push(this.#notifier.notify(operation));
      // Effects come after the notifier's message, and can add none.
      if (writes[0]?.effects && this.#notifier.kind === "enqueue") refuseMessages(operation);
      for (const write of writes) write.addTo(operation);
      const checks = writes.flatMap((write) => write.checks);
      const options = { onLocked: this.#onLocked };
      const result = await this.#marks.commit(operation, checks, options);
      if (!result.ok) { for (const each of undo) each(); }
      if (!result.ok && writes.length > 1) return await this.#sortOut(writes);
      if (result.ok) this.#shared.left(leaving);
      for (const { committed } of writes) committed.resolve(result.ok ? result.versionstamp : null);
    } catch (error) {
      for (const each of undo) each();
      // Effects may have had more than any KV takes.
      if (hasTooManyChecks(error) && !writes[0]?.effects) this.#maxChecks = MAX_CHECKS_REMOTE;
      if (writes.length > 1 && isTooMuch(error)) return await this.#writeLess(writes, error);
      const reason = hasTooManyChecks(error) ? tooManyChecks(error) : asEngineError(error);
      for (const { committed } of writes) committed.reject(reason);
    }
  }

  /** Leases events under one schedule entry, and deletes the shared entries that are empty now. */
  #schedule(
    operation: Deno.AtomicOperation,
    writes: readonly Write[],
    leaving: readonly EventRecord[],
    undo: (() => void)[],
  ): void {
    const leased = writes.flatMap((write) => write.leased ?? []);
    const entry = this.#shared.open(operation, leased);
    if (entry !== undefined) undo.push(() => this.#shared.forget(entry));
    this.#shared.close(operation, leaving);
    if (!writes.some(({ effects }) => effects)) this.#shared.deleteEmpty(operation);
  }

  /** Refuses the writes whose checks do not hold, and commits the others again. */
  async #sortOut(writes: readonly Write[]): Promise<void> {
    const checks = writes.flatMap((write) => write.checks);
    const entries = await readAll(this.#kv, checks.map(({ key }) => key));
    const stale = new Set(
      checks.filter((check, i) => check.versionstamp !== entries[i]!.versionstamp),
    );
    if (stale.size === 0) return await this.#writeEach(writes);
    const valid = writes.filter(({ checks }) => checks.every((check) => !stale.has(check)));
    for (const { checks, committed } of writes) {
      if (checks.some((check) => stale.has(check))) committed.resolve(null);
    }
    if (valid.length > 0) await this.#write(valid);
  }

  /** Splits a commit that is too large, so that a write that fits none does not fail the others. */
  async #writeLess(writes: readonly Write[], error: unknown): Promise<void> {
    if (!hasTooManyChecks(error)) return await this.#writeEach(writes);
    const batches = split(writes, this.#maxChecks);
    if (batches.length === 1) return await this.#writeEach(writes);
    for (const batch of batches) await this.#write(batch.writes);
  }

  async #writeEach(writes: readonly Write[]): Promise<void> {
    for (const write of writes) await this.#write([write]);
  }
}

/** Makes batches of writes in their order. */
function split(writes: readonly Write[], maxChecks: number): Batch[] {
  const batches = [new Batch(maxChecks)];
  for (const write of writes) {
    if (batches.at(-1)!.add(write)) continue;
    batches.push(new Batch(maxChecks));
    batches.at(-1)!.add(write);
  }
  return batches;
}

function tooManyChecks(cause: unknown): Error {
  const limits = `${MAX_CHECKS + 1}, and a remote one ${MAX_CHECKS_REMOTE + 1}`;
  const message = `too many checks, with the checks of effects: a KV takes ${limits}`;
  return new Error(`Cannot commit the change: ${message}`, { cause });
}

/** The last part of a key, for comparing. */
type Id = Exclude<Deno.KvKeyPart, Uint8Array> | undefined;

function idOf(part: Deno.KvKeyPart | undefined): Id {
  return part instanceof Uint8Array ? String(part) : part;
}

/** Writes that share a commit. */
class Batch {
  /** The writes. */
  readonly writes: Write[] = [];
  readonly #maxChecks: number;
  readonly #checked = new Set<Id>();
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
  add(write: Write): boolean {
    const { checks, size, bytes, effects } = write;
    // Only the last part of each key, an id, is compared. Different keys may share it: such a write waits
    // for the next commit, needlessly but rarely.
    const ids = checks.map(({ key }) => idOf(key.at(-1)));
    const isFirst = this.writes.length === 0;
    if (!isFirst && (effects || !this.#fits(ids, size, bytes))) return false;
    this.writes.push(write);
    for (const id of ids) this.#checked.add(id);
    this.#checks += ids.length;
    // Nothing fits beside effects.
    this.#mutations += effects ? MAX_MUTATIONS : size;
    this.#bytes += bytes;
    return true;
  }

  #fits(ids: readonly Id[], size: number, bytes: number): boolean {
    return this.#checks + ids.length <= this.#maxChecks &&
      this.#mutations + size <= MAX_MUTATIONS && this.#bytes + bytes <= MAX_BYTES &&
      !ids.some((id) => this.#checked.has(id));
  }
}
