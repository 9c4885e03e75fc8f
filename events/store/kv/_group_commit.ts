import { SharedTimer, Timeouts } from "../../../core/timeouts.ts";
import { Batch, type CommitResult, type Waiting } from "./_batch.ts";
import { commit, isTooMuch } from "./_commit.ts";
import type { Write } from "./_write.ts";
import { leaseTogether, type SharedEntries } from "./_shared_entries.ts";
import { readAll } from "./_reads.ts";
import type { Notifier } from "./notifier.ts";
import type { EventRecord } from "../event_record.ts";

/** A commit holds 100 checks. */
const MAX_CHECKS = 100;

/** A remote KV takes 10 checks per commit. */
const MAX_CHECKS_REMOTE = 10;

/** How much work shares a commit with few deliveries: they would have to wait for all of it. */
const MAX_WORK = 40;

/** A commit that takes longer does not keep the next one waiting: that of a remote KV, or a lock. */
const SLOW_MS = 25;

/** How many commits may be under way at once. */
const MAX_COMMITS = 16;

/** What a remote KV swallows is never answered, and must not keep a place for ever. */
const COMMIT_TIMEOUT_MS = 5_000;

/**
 * For how long a file is taken to be shared after another process held its lock. It is left free for a
 * moment after each commit then: two processes that wrote all the time answered after 25 ms (p99), not 65.
 */
const SHARED_MS = 500;

/** What has waited longer is not written any more: its sender has been told that it is not stored. */
const MAX_WAIT_MS = 4_500;

/**
 * Writes writes, those that wait at the same time in one commit. A commit costs about 0.3 ms on a file
 * whatever is in it, and an fsync on top on some disks: 32 deliveries in one take a tenth of the time.
 */
export class GroupCommit {
  readonly #kv: Deno.Kv;
  readonly #notifier: Notifier;
  readonly #groups: SharedEntries;
  /** Deliveries, and all else: each gets every other place, so that neither keeps the other waiting. */
  #intake: Waiting[] = [];
  #work: Waiting[] = [];
  /** Whether something waits that is not to wait any longer. */
  #due = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #maxChecks = MAX_CHECKS;
  #underWay = 0;
  #slow = 0;
  /** How many of those under way that are not slow have deliveries. */
  #withIntake = 0;
  /** When another process held the lock of the database file. */
  #lockedAt = -Infinity;
  readonly #slowness: Timeouts;
  readonly #timeouts: Timeouts;

  constructor(kv: Deno.Kv, notifier: Notifier, groups: SharedEntries) {
    this.#kv = kv;
    this.#notifier = notifier;
    this.#groups = groups;
    const timer = new SharedTimer();
    this.#slowness = new Timeouts(SLOW_MS, timer);
    this.#timeouts = new Timeouts(COMMIT_TIMEOUT_MS, timer);
  }

  /**
   * Writes a write.
   *
   * @param write The write.
   * @param withinMs How long it may wait for others to share a commit with, in milliseconds.
   * @returns Whether its checks held, and the version of what it wrote.
   */
  commit(write: Write, withinMs = 0): Promise<CommitResult> {
    const { promise, resolve, reject } = Promise.withResolvers<CommitResult>();
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
    // Those of the same step share the commit, and those that come later the next one: not by
    // `setImmediate`, which costs 1.15 ms on Deno 2.5, and a turn of the event loop on any.
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
   * Whether deliveries need not wait for a commit of work, nor take more of it along: while 50,000
   * events are drained a delivery is stored after 3.6 ms so, and not 4.8.
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
      this.#group(operation, items, leaving, undo);
      for (const { write } of items) write.addTo(operation);
      if (items.some(({ write }) => write.notifies)) undo.push(this.#notifier.notify(operation));
      const result = await commit(operation, this.#onLocked);
      if (!result.ok) { for (const each of undo) each(); }
      if (!result.ok && items.length > 1) return await this.#sortOut(items);
      if (result.ok) this.#groups.left(leaving);
      for (const { resolve } of items) resolve(result);
    } catch (error) {
      for (const each of undo) each();
      if (items.length > 1 && isTooMuch(error)) return await this.#writeLess(items, error);
      const reason = hasTooManyChecks(error) ? tooManyChecks(error) : error;
      for (const { reject } of items) reject(reason);
    }
  }

  /** Leases events under one entry of the schedule, and deletes the entries that are empty now. */
  #group(
    operation: Deno.AtomicOperation,
    items: readonly Waiting[],
    leaving: readonly EventRecord[],
    undo: (() => void)[],
  ): void {
    const group = leaseTogether(items.flatMap(({ write }) => write.leased ?? []));
    if (group) {
      this.#groups.open(operation, group);
      undo.push(() => this.#groups.forget(group));
    }
    this.#groups.close(operation, leaving);
    if (!items.some(({ write }) => write.effects)) this.#groups.deleteSpent(operation);
  }

  /** Tells those whose checks do not hold, and writes the others again. */
  async #sortOut(items: readonly Waiting[]): Promise<void> {
    const checks = items.flatMap(({ write }) => write.checks);
    const entries = await readAll(this.#kv, checks.map(({ key }) => key));
    const stale = new Set(
      checks.filter((check, i) => check.versionstamp !== entries[i]!.versionstamp),
    );
    if (stale.size === 0) return await this.#writeEach(items);
    const valid = items.filter((item) => {
      const holds = item.write.checks.every((check) => !stale.has(check));
      if (!holds) item.resolve({ ok: false });
      return holds;
    });
    if (valid.length > 0) await this.#write(valid);
  }

  /** One that cannot be written at all must not take the others with it. */
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

/** Lets another process have the lock: the shortest pause that a timer makes. */
function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 1));
}
