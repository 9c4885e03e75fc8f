import { NoTurnError, type Turn } from "../engine.ts";
import { type Connection, isBusy, isOfDisk, MAX_LOCKED_MS } from "./_connection.ts";
import type { Disk } from "./_disk.ts";

/** The disk that commits are written to. */
type CommitDisk = Pick<Disk, "sync" | "works" | "fails">;

/** Longest time that a transaction takes before what is left waits for the next one, in milliseconds. */
const MAX_TRANSACTION_MS = 8;

/** Work that shares a transaction with other work. */
interface Work<T> {
  /** Set for a delivery, whose sender waits. */
  readonly isIntake: boolean;
  /** Longest wait for other work to share a transaction with, in milliseconds; 0 by default. */
  readonly withinMs?: number | undefined;
  /** Longest wait for its turn; without one it waits for as long as it takes. */
  readonly turn?: Turn | undefined;
  /** Reads and writes. It is called again, alone, if the transaction that it shares fails. */
  readonly run: () => T;
  /** Returns the outcome if the transaction of this work alone fails; throws the error if it is not to blame. */
  readonly failed?: ((error: unknown) => T) | undefined;
}

interface Waiting {
  readonly work: Work<unknown>;
  readonly since: number;
  readonly done: PromiseWithResolvers<unknown>;
}

/** The outcome of work that has waited for its turn for too long. */
const NO_TURN = Symbol("no turn");

/**
 * The group commit: work that waits at the same time is done in one transaction, and shares one sync of the disk.
 *
 * A transaction is committed without a sync (`synchronous=NORMAL`). The log of the file is synced afterwards, beside
 * the event loop, and nothing is reported as done before. What comes meanwhile gathers for the next transaction. Others
 * may see it earlier: after a power cut, what they have seen may be gone, and with it all that they have written since.
 */
export class GroupCommit {
  readonly #db: Connection;
  readonly #disk: CommitDisk | undefined;
  #intake: Waiting[] = [];
  #work: Waiting[] = [];
  /** Work between two transactions. */
  #pauses: (() => Promise<void>)[] = [];
  #isRunning = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /**
   * @param db The connection.
   * @param disk The disk; undefined if it is in memory.
   */
  constructor(db: Connection, disk: CommitDisk | undefined) {
    this.#db = db;
    this.#disk = disk;
  }

  /**
   * Does work in a transaction.
   *
   * @param work The work.
   * @returns Its result, once that is on the disk.
   * @throws {NoTurnError} If its turn came too late, or other processes have locked the file for too long. Nothing was
   * done.
   */
  run<T>(work: Work<T>): Promise<T> {
    const done = Promise.withResolvers<unknown>();
    (work.isIntake ? this.#intake : this.#work).push({ work, since: performance.now(), done });
    if (!this.#isRunning) this.#start(work.withinMs ?? 0);
    return done.promise as Promise<T>;
  }

  /**
   * Does something while no transaction runs. What comes meanwhile waits for it.
   *
   * @param work What is done.
   * @returns Its result.
   */
  pause<T>(work: () => Promise<T>): Promise<T> {
    const done = Promise.withResolvers<T>();
    this.#pauses.push(() => work().then(done.resolve, done.reject));
    if (!this.#isRunning) this.#start(0);
    return done.promise;
  }

  #start(withinMs: number): void {
    if (withinMs > 0) {
      this.#timer ??= setTimeout(() => this.#start(0), withinMs);
      return;
    }
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#isRunning = true;
    queueMicrotask(() => void this.#runAll());
  }

  async #runAll(): Promise<void> {
    while (true) {
      for (const pause of this.#pauses.splice(0)) await pause();
      const waiting = this.#take();
      if (waiting.length > 0) await this.#commit(waiting);
      else if (this.#pauses.length === 0) break;
    }
    this.#isRunning = false;
  }

  /** Takes what waits: deliveries and other work by turns, so that neither keeps the other waiting. */
  #take(): Waiting[] {
    const [intake, work] = [this.#intake, this.#work];
    [this.#intake, this.#work] = [[], []];
    if (work.length === 0) return intake;
    if (intake.length === 0) return work;
    const waiting: Waiting[] = [];
    for (let i = 0; i < Math.max(intake.length, work.length); i++) {
      if (i < intake.length) waiting.push(intake[i]!);
      if (i < work.length) waiting.push(work[i]!);
    }
    return waiting;
  }

  /** Does work in as few transactions as there is time for. What fails together is done one by one. */
  async #commit(waiting: readonly Waiting[]): Promise<void> {
    const first = waiting.reduce((least, { since }) => Math.min(least, since), Infinity);
    try {
      await this.#db.begin(first);
    } catch (error) {
      return await this.#notBegun(waiting, error);
    }
    let results: unknown[];
    try {
      results = this.#runWithin(waiting);
    } catch (error) {
      if (waiting.length === 1) return this.#fail(waiting[0]!, error);
      for (const each of waiting) await this.#commit([each]);
      return;
    }
    const ended = waiting.slice(0, results.length);
    try {
      await this.#disk?.sync();
      this.#disk?.works();
      for (let i = 0; i < ended.length; i++) this.#end(ended[i]!, results[i]);
    } catch (error) {
      this.#disk?.fails(error);
      for (const { done } of ended) done.reject(error);
    }
    if (ended.length < waiting.length) await this.#commit(waiting.slice(ended.length));
  }

  /** Fails work for which no transaction could begin. What came while the file was locked may wait for as long. */
  async #notBegun(waiting: readonly Waiting[], error: unknown): Promise<void> {
    const isLocked = isBusy(error);
    const now = performance.now();
    const later = isLocked ? waiting.filter(({ since }) => now - since < MAX_LOCKED_MS) : [];
    const reason = isLocked
      ? new NoTurnError("another process has locked the file for too long")
      : error;
    for (const each of waiting) if (!later.includes(each)) this.#fail(each, reason);
    if (later.length > 0) await this.#commit(later);
  }

  /** Does as much of the work as a transaction has time for. */
  #runWithin(waiting: readonly Waiting[]): unknown[] {
    const begun = performance.now();
    const results: unknown[] = [];
    try {
      for (const { work, since } of waiting) {
        results.push(hasNoTurn(work, begun - since) ? NO_TURN : work.run());
        if (performance.now() - begun > MAX_TRANSACTION_MS) break;
      }
      this.#db.commit();
      return results;
    } catch (error) {
      this.#db.rollback();
      throw error;
    }
  }

  #end({ done }: Waiting, result: unknown): void {
    if (result === NO_TURN) done.reject(new NoTurnError("other changes were before it"));
    else done.resolve(result);
  }

  #fail({ work, done }: Waiting, error: unknown): void {
    if (isOfDisk(error)) this.#disk?.fails(error);
    if (!work.failed) return done.reject(error);
    try {
      done.resolve(work.failed(error));
    } catch (thrown) {
      done.reject(thrown);
    }
  }
}

/** Checks for work that has waited for its turn for too long. */
function hasNoTurn({ turn }: Work<unknown>, waitedMs: number): boolean {
  return turn !== undefined && ((turn.signal?.aborted ?? false) || waitedMs > turn.withinMs);
}
