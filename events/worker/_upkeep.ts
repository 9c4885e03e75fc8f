import { type LogSink, writeLog } from "../../core/mod.ts";
import { withDeadline } from "../../core/timeouts.ts";
import type { EventStore } from "../store/mod.ts";

/** Change of the clock's offset, in milliseconds, above which the clock was set and did not just drift. */
const JUMP_MS = 1_000;

/** Time between two searches for damaged groups and abandoned uploads, and the age of such an upload. */
const TIDY_MS = 3_600_000;

/** Shortest time between two repairs of the schedule; otherwise it is the length of a lease. */
const MIN_REPAIR_MS = 1_000;

/** Longest time for one of these: a remote KV reads 50,000 events in 5 s. */
const TIMEOUT_MS = 300_000;

/** Options of {@linkcode Upkeep}. */
export interface UpkeepOptions {
  readonly store: EventStore;
  readonly leaseMs: number;
  readonly log: LogSink;
  /** Aborted when the worker has ended. */
  readonly signal: AbortSignal;
  /** Called when events may have become due by a repair. */
  wake(): void;
}

/**
 * Keeps the schedule and the store in order, in the background. The schedule goes by the wall clock, so
 * two things can go wrong.
 *
 * This machine's clock may be set. Leases look expired until the running workers have renewed them by the
 * new time, so none is taken over for half a lease. Another machine's clock may be ahead. What that machine
 * has scheduled too late is repaired, once in a lease's length.
 */
export class Upkeep {
  readonly #options: UpkeepOptions;
  #offset = Date.now() - performance.now();
  /** Times by the monotonic clock: when expired leases count again, the next repair, the next tidying. */
  #reliableAt = 0;
  #repairAt: number;
  #tidyAt = -Infinity;
  #running: Promise<void> | undefined;
  #isStopping = false;

  constructor(options: UpkeepOptions) {
    this.#options = options;
    this.#repairAt = performance.now() + options.leaseMs / 2;
  }

  /** Reports no failure from now on, and resolves once nothing is being put in order. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#running;
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
    await this.#attempt(() => this.#inTime(store.trimPayloads()));
    if (now < this.#tidyAt) return;
    this.#tidyAt = now + TIDY_MS;
    await this.#attempt(() => this.#inTime(store.deleteStaleUploads(TIDY_MS)));
    await this.#attempt(() => this.#repairGroups());
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
    const events = await this.#inTime(store.repairSchedule());
    if (events === 0) return;
    writeLog(log, "warn", "schedule put right: a clock was ahead", { events });
    wake();
  }

  async #repairGroups(): Promise<void> {
    const groups = await this.#inTime(this.#options.store.repairGroups());
    if (groups > 0) this.#options.wake();
  }
}
