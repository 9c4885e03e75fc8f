import { checkObject, checkPart, met } from "../../core/check_options.ts";
import { writeLog } from "../../core/mod.ts";
import { withDeadline } from "../../core/deadline.ts";
import { ClockWatch } from "./_clock_watch.ts";
import { RENEWAL } from "./_held_lease.ts";
import type { JobParts } from "./_job.ts";
import { JobQueue } from "./_job_queue.ts";
import { SharedTimer, Timeouts } from "../../core/timeouts.ts";
import type { EventHandler } from "./event.ts";
import type { JsonObject } from "../../core/parse_json.ts";
import type { EventStore, Lease } from "../store/mod.ts";
import { MAX_TIMER_MS, withDefaults, type WorkerOptions } from "./worker_options.ts";

/** A running worker. */
export interface EventWorker {
  /**
   * Looks at the schedule at once.
   *
   * @returns A promise that resolves once nothing is due and no handler runs, or the worker stops.
   */
  poll(): Promise<void>;
  /**
   * Stops taking events, aborts the handlers' signals, and waits for the handlers. An event whose
   * handler is not through by then is given back.
   *
   * @param graceMs How long to wait, in milliseconds; `Infinity` is for as long as it takes.
   * @returns A promise that resolves once nothing runs any more, or all is given back.
   */
  stop(graceMs?: number): Promise<void>;
}

/** What cannot be done with wrong options. */
const DOING = "start the worker";

/** How long a claim may take. Locally it takes a millisecond. */
const CLAIM_TIMEOUT_MS = 10_000;

/** How often damaged groups and the remains of uploads are looked for, and how old the latter are then. */
const TIDY_MS = 3_600_000;

/** How often misplaced events are looked for at most; else once in a lease's length. */
const MIN_REPAIR_MS = 1_000;

/** How long that may take: of 50,000 events a remote KV reads all in 5 s. */
const REPAIR_TIMEOUT_MS = 300_000;

/**
 * Starts a worker: it takes events from the store as they become due, calls the handler, and settles
 * them by how that ends. A store's notifier wakes one worker; start one per store.
 *
 * @typeParam TPayload What the handler takes the payload for.
 * @param store The event store.
 * @param handler What handles the events.
 * @param options How many at the same time, how leased, how retried.
 * @returns The worker.
 * @throws {TypeError} If the store, the handler or an option is something else.
 * @throws {RangeError} If a number among the options makes no sense.
 *
 * @example
 * ```ts ignore
 * import { openEventStore, startWorker } from "@org/edge-base";
 *
 * const store = await openEventStore(await Deno.openKv());
 * const worker = startWorker(store, (event) => console.log(event.type, event.payload));
 * Deno.addSignalListener("SIGTERM", () => worker.stop());
 * ```
 */
export function startWorker<TPayload = JsonObject>(
  store: EventStore,
  handler: EventHandler<TPayload>,
  options: WorkerOptions = {},
): EventWorker {
  checkPart(DOING, store, "listen", "the store must be what openEventStore() resolves with");
  checkObject(DOING, options);
  if (typeof handler !== "function") {
    throw new TypeError(`Cannot ${DOING}: the handler must be a function, got ${met(handler)}`);
  }
  return new StoreWorker(store, handler as EventHandler, options);
}

class StoreWorker implements EventWorker {
  readonly #parts: JobParts;
  readonly #queue: JobQueue;
  readonly #pollMs: number;
  readonly #owner = crypto.randomUUID();
  readonly #loop: Promise<void>;
  #polls: (() => void)[] = [];
  #background: Promise<void> = Promise.resolve();
  /** Aborted once the worker has stopped, whatever still hangs. */
  readonly #ended = new AbortController();
  readonly #clock: ClockWatch;
  readonly #unwatch: (() => void) | undefined;
  /** When to put the schedule right next, and when to tidy, by the monotonic clock. */
  #repairAt: number;
  #tidyAt = -Infinity;
  #isTidying = false;
  #stopping = false;
  #woken = false;
  #resume: (() => void) | undefined;

  constructor(store: EventStore, handler: EventHandler, options: WorkerOptions) {
    const { concurrency, leaseMs, pollMs, retry, log, telemetry } = withDefaults(options);
    const timer = new SharedTimer();
    const settling = new Timeouts(leaseMs, timer);
    const renewals = new Timeouts(leaseMs * RENEWAL, timer);
    this.#parts = { store, handler, leaseMs, retry, log, telemetry, settling, renewals };
    this.#queue = new JobQueue(this.#parts, concurrency, this.#owner, this.#wake);
    this.#clock = new ClockWatch(leaseMs / 2, this.#onJump);
    this.#repairAt = performance.now() + leaseMs / 2;
    this.#pollMs = pollMs;
    const listening = store.listen({ wake: this.#wake, reserve: this.#queue.reserve });
    listening.catch((error) => this.#report("notifier failed", error));
    this.#loop = this.#run();
    this.#unwatch = telemetry?.watchOldestDue(() => store.oldestDueAt());
  }

  poll(): Promise<void> {
    if (this.#stopping) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#polls.push(resolve);
    this.#wake();
    return promise;
  }

  async stop(graceMs = 4_000): Promise<void> {
    const { signal } = this.#ended;
    if (signal.aborted) return;
    this.#stopping = true;
    this.#unwatch?.();
    this.#wake();
    this.#queue.stop();
    try {
      await withDeadline(this.#quiet(), Math.min(graceMs, MAX_TIMER_MS), signal);
    } catch {
      // What is not through by now is given back, here or by a stop with a shorter grace.
    }
    if (!signal.aborted) await this.#queue.giveBackAll();
    this.#ended.abort();
  }

  async #quiet(): Promise<void> {
    await Promise.all([this.#loop, this.#background]);
    await this.#queue.emptied();
  }

  readonly #wake = (): void => {
    this.#woken = true;
    this.#resume?.();
  };

  async #run(): Promise<void> {
    while (!this.#stopping) {
      this.#tidyInTime();
      this.#queue.returnStale();
      const polls = this.#polls.splice(0);
      // What is given back during a claim may be due, and that claim does not see it.
      const hadJobs = this.#queue.hasJobs;
      const limit = this.#queue.toClaim;
      if (limit > 0) await this.#claim(limit);
      if (hadJobs || !this.#queue.isEmpty) this.#polls.push(...polls);
      else for (const resolve of polls) resolve();
      // A full claim may have left more behind; else nothing is to be done until something happens.
      if (!this.#queue.isBehind || limit <= 0) await this.#pause();
    }
    for (const resolve of this.#polls.splice(0)) resolve();
  }

  async #claim(limit: number): Promise<void> {
    const { store, leaseMs } = this.#parts;
    const takeOver = !this.#clock.hasJumped();
    const start = performance.now();
    const { holds } = this.#queue;
    const claiming = store.claim({ limit, owner: this.#owner, leaseMs, takeOver, holds });
    try {
      const leases = await withDeadline(claiming, CLAIM_TIMEOUT_MS, this.#ended.signal);
      this.#queue.add(leases, limit, start);
    } catch (error) {
      this.#queue.add([], limit, start);
      if (!this.#ended.signal.aborted) this.#report("claim failed", error);
      this.#releaseAll(claiming);
      // Of a KV that is closed nothing can be expected any more.
      if (error instanceof Deno.errors.BadResource) this.#stopping = true;
    }
  }

  /** What a claim leases that nobody works on would wait for its lease to expire. */
  async #releaseAll(claiming: Promise<Lease[]>): Promise<void> {
    try {
      for (const lease of await claiming) await this.#parts.store.release(lease);
    } catch {
      // The claim has failed, and nothing is leased; or it expires.
    }
  }

  async #pause(): Promise<void> {
    if (!this.#woken) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#resume = resolve;
      const timer = setTimeout(resolve, this.#pollMs);
      await promise;
      clearTimeout(timer);
      this.#resume = undefined;
    }
    this.#woken = false;
  }

  readonly #onJump = (byMs: number): void => {
    this.#repairAt = 0;
    writeLog(this.#parts.log, "warn", "clock was set", { byMs });
  };

  /**
   * Puts the schedule right once in a lease's length, for another process may have a wrong clock, and
   * after a jump of the clock, once all that run have renewed their leases since.
   */
  #tidyInTime(): void {
    const now = performance.now();
    if (this.#clock.hasJumped() || this.#isTidying || now < this.#repairAt) return;
    this.#repairAt = now + Math.max(this.#parts.leaseMs, MIN_REPAIR_MS);
    this.#isTidying = true;
    this.#background = this.#tidy(now).finally(() => this.#isTidying = false);
  }

  async #tidy(now: number): Promise<void> {
    const { store, log } = this.#parts;
    try {
      const repairing = store.repairSchedule();
      const events = await withDeadline(repairing, REPAIR_TIMEOUT_MS, this.#ended.signal);
      if (events > 0) {
        writeLog(log, "warn", "schedule put right: a clock was ahead", { events });
        this.#wake();
      }
      if (now < this.#tidyAt) return;
      this.#tidyAt = now + TIDY_MS;
      await withDeadline(store.deleteStaleUploads(TIDY_MS), REPAIR_TIMEOUT_MS, this.#ended.signal);
      const groups = withDeadline(store.repairGroups(), REPAIR_TIMEOUT_MS, this.#ended.signal);
      if (await groups > 0) this.#wake();
    } catch (error) {
      if (!this.#stopping) this.#report("tidying failed", error);
    }
  }

  #report(message: string, error: unknown): void {
    writeLog(this.#parts.log, "error", message, { error });
  }
}
