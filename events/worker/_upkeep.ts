import { type LogSink, writeLog } from "../../core/mod.ts";
import { withDeadline } from "../../core/timeouts.ts";
import type { CheckedPage, EventStore, StoreListener } from "../store/mod.ts";

/** Change of the clock's offset, in milliseconds, above which the clock was set and did not just drift. */
const JUMP_MS = 1_000;

/** Time between two searches for damaged groups and abandoned uploads, and the age of such an upload. */
const TIDY_MS = 3_600_000;

/** Shortest time between two repairs of the schedule; otherwise it is the length of a lease. */
const MIN_REPAIR_MS = 1_000;

/** Number of values that a part of the check reads: a page of records. */
const CHECKED_AT_ONCE = 500;
/**
 * Number of schedule entries that a repair reads, so that what an idle app costs does not grow with all that
 * is due later. With the one behind them they are two readings of 500.
 */
const REPAIR_READS = 999;

/** Longest time for one of these: a remote database reads 50,000 events in 5 s. */
const TIMEOUT_MS = 300_000;

/** Options of {@linkcode Upkeep}. */
interface UpkeepOptions {
  readonly store: EventStore;
  readonly leaseMs: number;
  readonly log: LogSink;
  /** Aborted when the worker has ended. */
  readonly signal: AbortSignal;
  /** Gets what a whole check of the store has found. */
  readonly count?: StoreListener["count"];
  /** Called when events may have become due by a repair. */
  wake(): void;
}

/**
 * Keeps the schedule and the store in order, in the background. The schedule goes by the wall clock, so
 * two things can go wrong.
 *
 * This machine's clock may be set. Leases look expired until the running workers have renewed them by the
 * new time, so none is taken over for half a lease. What was scheduled by the wrong time is repaired: the whole
 * schedule is looked through then, and after a start, since the clock may have been set before.
 *
 * Another machine's clock may be ahead. What that machine has scheduled too late is looked for by parts, one
 * in a lease's length.
 */
export class Upkeep {
  readonly #options: UpkeepOptions;
  #offset = Date.now() - performance.now();
  /** Times by the monotonic clock: when expired leases count again, the next repair, the next tidying. */
  #reliableAt = 0;
  #repairAt: number;
  #tidyAt = -Infinity;
  /** Set until the whole schedule was looked through by this clock. */
  #wasSet = true;
  #running: Promise<void> | undefined;
  #isStopping = false;
  /** The check under way, the number of unreadable values in it, and the time of the next one. */
  #check: AsyncIterator<CheckedPage> | undefined;
  #unreadable = 0;
  #checkAt = -Infinity;

  constructor(options: UpkeepOptions) {
    this.#options = options;
    this.#repairAt = performance.now() + options.leaseMs / 2;
  }

  /** Reports no failure from now on, and resolves once nothing is being put in order. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#running;
  }

  /** Takes the clock as it is now for one that was not set. */
  acceptTime(): void {
    this.#offset = Date.now() - performance.now();
    this.#reliableAt = 0;
  }

  /** Tells whether the clock was set a short time ago, so that leases may look expired that are not. */
  hasClockJumped(): boolean {
    const now = performance.now();
    const offset = Date.now() - now;
    const byMs = offset - this.#offset;
    this.#offset = offset;
    if (Math.abs(byMs) > JUMP_MS) {
      this.#reliableAt = now + this.#options.leaseMs / 2;
      this.#repairAt = 0;
      this.#wasSet = true;
      writeLog(this.#options.log, "warn", "clock was set", { byMs: Math.round(byMs) });
    }
    return now < this.#reliableAt;
  }

  /** Starts the repairs that are due. */
  run(): void {
    const now = performance.now();
    if (this.hasClockJumped() || this.#running || now < this.#repairAt) return;
    this.#repairAt = now + Math.max(this.#options.leaseMs, MIN_REPAIR_MS);
    this.#running = this.#putInOrder(now).finally(() => this.#running = undefined);
  }

  /** Does what is due, each part also if one before it has failed: that may fail every time. */
  async #putInOrder(now: number): Promise<void> {
    const { store } = this.#options;
    await this.#attempt(() => this.#repairSchedule());
    await this.#attempt(() => this.#inTime(store.tidy({ payloads: true })));
    await this.#attempt(() => this.#checkSome(now));
    if (now < this.#tidyAt) return;
    this.#tidyAt = now + TIDY_MS;
    await this.#attempt(() => this.#inTime(store.tidy({ uploadsOlderThanMs: TIDY_MS })));
    await this.#attempt(() => this.#inTime(store.tidy({ problems: true })));
    await this.#attempt(() => this.#repairGroups());
  }

  /**
   * Goes on with the check of the store. It reads all records, so it takes one page at a time: 500 values in each
   * length of a lease, or 60,000 in an hour.
   */
  async #checkSome(now: number): Promise<void> {
    if (!this.#check) {
      if (now < this.#checkAt) return;
      this.#checkAt = now + TIDY_MS;
      const last = await this.#inTime(this.#options.store.lastCheck());
      // Of several processes one checks in each hour.
      if (last && Math.abs(Date.now() - last.at) < TIDY_MS / 2) return this.#reportCheck(last);
      this.#unreadable = 0;
      this.#check = this.#options.store.check();
    }
    for (let read = 0; read < CHECKED_AT_ONCE && !this.#isStopping;) {
      const next = this.#inTime(this.#check.next());
      const { done, value } = await next.catch((error) => {
        this.#check = undefined;
        throw error;
      });
      if (done) return this.#endCheck();
      read += value.read;
      for (const finding of value.findings) this.#report(finding);
    }
  }

  #report(finding: CheckedPage["findings"][number]): void {
    const { log, count, wake } = this.#options;
    if (finding.is !== "put_back") return void this.#unreadable++;
    count?.({ is: "put_back" });
    writeLog(log, "error", "event put back: nothing led to it", { eventId: finding.eventId });
    wake();
  }

  #endCheck(): void {
    this.#check = undefined;
    this.#reportCheck({ unreadable: this.#unreadable });
  }

  #reportCheck({ unreadable: values }: { readonly unreadable: number }): void {
    const { log, count } = this.#options;
    count?.({ is: "checked", unreadable: values });
    if (values === 0) return;
    const remedy = "run the version that wrote them, or ask events doctor";
    writeLog(log, "error", "stored values unreadable", { values, remedy });
  }

  async #attempt(task: () => Promise<unknown>): Promise<void> {
    if (this.#isStopping) return;
    try {
      await task();
    } catch (error) {
      if (!this.#isStopping) writeLog(this.#options.log, "error", "tidying failed", { error });
    }
  }

  #inTime<T>(task: Promise<T>): Promise<T> {
    return withDeadline(task, TIMEOUT_MS, this.#options.signal);
  }

  async #repairSchedule(): Promise<void> {
    const { store, log, wake } = this.#options;
    const wasSet = this.#wasSet;
    this.#wasSet = false;
    const repairing = store.tidy({ times: wasSet ? Infinity : REPAIR_READS });
    const { times: events } = await this.#inTime(repairing).catch((error) => {
      this.#wasSet ||= wasSet;
      throw error;
    });
    if (events === 0) return;
    writeLog(log, "warn", "schedule corrected: a clock was ahead", { events });
    wake();
  }

  async #repairGroups(): Promise<void> {
    const { groups } = await this.#inTime(this.#options.store.tidy({ groups: true }));
    if (groups > 0) this.#options.wake();
  }
}
