import { writeLog } from "../middleware/mod.ts";
import { withDeadline } from "./deadline.ts";
import { ClockWatch } from "./_clock_watch.ts";
import { type EventContent, Job, type JobParts } from "./_job.ts";
import { Pace } from "./_pace.ts";
import type { EventHandler } from "./event.ts";
import type { JsonObject } from "./parse_json.ts";
import { longestDelay } from "./retry_policy.ts";
import type { EventStore, Lease, Reservation } from "./store/mod.ts";
import { withDefaults, type WorkerOptions } from "./worker_options.ts";

/** A running worker. */
export interface EventWorker {
  /**
   * Looks at the schedule at once.
   *
   * @returns A promise that resolves once nothing is due and no handler runs, or the worker stops.
   */
  sweep(): Promise<void>;
  /**
   * Stops taking events, aborts the handlers' signals, and waits for the handlers. An event whose
   * handler is not through by then is given back.
   *
   * @param graceMs How long to wait, in milliseconds.
   * @returns A promise that resolves once nothing runs any more, or all is given back.
   */
  stop(graceMs?: number): Promise<void>;
}

/** How long a claim may take. Locally it takes a millisecond. */
const CLAIM_TIMEOUT_MS = 10_000;

/** How many events are claimed at a time: more do not fit a commit. */
const MAX_CLAIM = 100;

/** How long an event may wait for a handler of the worker that has leased it. */
const MAX_WAIT_MS = 1_000;

/** How many bytes of payloads are kept of the events that are not settled, but for those running. */
const MAX_BYTES = 33_554_432;

/** How many events may be unsettled at once, their handlers through or not. */
const MAX_JOBS = 2_048;

/** How often the remains of uploads and misplaced events are looked for, and how old uploads are then. */
const TIDY_MS = 3_600_000;

/**
 * Starts a worker: it takes events from the store as they become due, calls the handler, and settles
 * them by how that ends. A store's bell wakes one worker; start one per store.
 *
 * @typeParam TPayload What the handler takes the payload for.
 * @param store The event store.
 * @param handler What handles the events.
 * @param options How many at the same time, how leased, how retried.
 * @returns The worker.
 * @throws {RangeError} If an option makes no sense.
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
  return new StoreWorker(store, handler as EventHandler, options);
}

class StoreWorker implements EventWorker {
  readonly #parts: JobParts;
  readonly #concurrency: number;
  readonly #sweepMs: number;
  readonly #owner = crypto.randomUUID();
  /** What is leased and not settled. */
  readonly #jobs = new Set<Job>();
  /** What is leased and waits for a handler. */
  readonly #waiting: Job[] = [];
  readonly #pace = new Pace();
  /** How many handlers run. */
  #running = 0;
  /** How many events are being taken in with a lease. */
  #reserved = 0;
  /** How many bytes of payloads are kept of them, and of those leased. */
  #bytes = 0;
  /** Whether more may be due than was claimed. */
  #behind = false;
  readonly #loop: Promise<void>;
  #sweeps: (() => void)[] = [];
  #background: Promise<void> = Promise.resolve();
  /** Aborted once the worker has stopped, whatever still hangs. */
  readonly #ended = new AbortController();
  readonly #clock: ClockWatch;
  /** When to tidy next, by the monotonic clock. */
  #tidyAt: number;
  #stopping = false;
  #woken = false;
  #resume: (() => void) | undefined;

  constructor(store: EventStore, handler: EventHandler, options: WorkerOptions) {
    const { concurrency, leaseMs, sweepMs, retry, log } = withDefaults(options);
    this.#parts = { store, handler, leaseMs, retry, log };
    this.#concurrency = concurrency;
    this.#clock = new ClockWatch(leaseMs / 2);
    this.#tidyAt = performance.now() + leaseMs / 2;
    this.#sweepMs = sweepMs;
    store.listen(this.#wake, this.#reserve).catch((error) => this.#report("bell failed", error));
    this.#loop = this.#run();
  }

  sweep(): Promise<void> {
    if (this.#stopping) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#sweeps.push(resolve);
    this.#wake();
    return promise;
  }

  async stop(graceMs = 4_000): Promise<void> {
    this.#stopping = true;
    this.#wake();
    for (const job of this.#jobs) job.stop();
    const notStarted = Promise.all(this.#waiting.splice(0).map((job) => this.#giveBack(job)));
    try {
      await withDeadline(this.#quiet(), graceMs);
    } catch {
      // What is not through by now is given back.
    }
    await notStarted;
    await Promise.all([...this.#jobs].map((job) => job.giveBack()));
    this.#ended.abort();
    for (const resolve of this.#sweeps.splice(0)) resolve();
  }

  async #quiet(): Promise<void> {
    await this.#loop;
    await Promise.all([this.#background, ...[...this.#jobs].map((job) => job.done)]);
  }

  readonly #wake = (): void => {
    this.#woken = true;
    this.#resume?.();
  };

  /** How many more events can be taken. */
  get #room(): number {
    const { size } = this.#jobs;
    const taken = this.#running + this.#waiting.length + this.#reserved;
    return Math.min(this.#capacity - taken, MAX_JOBS - size - this.#reserved);
  }

  get #capacity(): number {
    return this.#concurrency + this.#pace.ahead;
  }

  /** Takes an event while it is stored, unless those that wait for longer need the room. */
  readonly #reserve = (bytes: number): Reservation | null => {
    const needed = this.#behind ? this.#capacity / 4 : 0;
    if (this.#stopping || this.#room <= needed || this.#bytes + bytes > MAX_BYTES) {
      this.#behind = true;
      return null;
    }
    this.#reserved++;
    this.#bytes += bytes;
    const start = performance.now();
    return {
      owner: this.#owner,
      leaseMs: this.#parts.leaseMs,
      take: (lease, delivery) => {
        this.#reserved--;
        this.#add(lease, start, delivery);
      },
      cancel: () => {
        this.#reserved--;
        this.#bytes -= bytes;
      },
    };
  };

  async #run(): Promise<void> {
    while (!this.#stopping) {
      this.#tidyInTime();
      this.#returnStale();
      const sweeps = this.#sweeps.splice(0);
      const limit = this.#bytes > MAX_BYTES / 2 ? 0 : Math.min(MAX_CLAIM, this.#room);
      if (limit > 0) this.#behind = await this.#claim(limit) === limit;
      if (this.#jobs.size > 0) this.#sweeps.push(...sweeps);
      else for (const resolve of sweeps) resolve();
      // A full claim may have left more behind; else nothing is to be done until something happens.
      if (!this.#behind || limit <= 0) await this.#pause();
    }
  }

  async #claim(limit: number): Promise<number> {
    const { store, leaseMs } = this.#parts;
    const takeOver = !this.#clock.hasJumped();
    const start = performance.now();
    const claiming = store.claim({ limit, owner: this.#owner, leaseMs, takeOver });
    try {
      const leases = await withDeadline(claiming, CLAIM_TIMEOUT_MS, this.#ended.signal);
      for (const { body, ...lease } of leases) {
        this.#bytes += body?.byteLength ?? 0;
        this.#add(lease, start, body && { body });
      }
      return leases.length;
    } catch (error) {
      if (!this.#ended.signal.aborted) this.#report("claim failed", error);
      this.#releaseAll(claiming);
      // Of a KV that is closed nothing can be expected any more.
      if (error instanceof Deno.errors.BadResource) this.#stopping = true;
      return 0;
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

  #add(lease: Lease, leasedAt: number, content?: EventContent): void {
    const job = new Job(this.#parts, lease, leasedAt, content);
    this.#jobs.add(job);
    this.#waiting.push(job);
    this.#startNext();
  }

  #startNext(): void {
    while (this.#running < this.#concurrency) {
      const job = this.#waiting.shift();
      if (!job) return;
      // A lease that took half its time to come is not worth starting on.
      if (this.#stopping || job.ageMs > this.#parts.leaseMs / 2) this.#giveBack(job);
      else this.#work(job);
    }
  }

  async #work(job: Job): Promise<void> {
    this.#running++;
    await job.handle();
    this.#running--;
    this.#pace.note();
    this.#startNext();
    if (this.#behind) this.#wake();
    await job.settle();
    this.#end(job);
  }

  /** Gives back what was not started. */
  async #giveBack(job: Job): Promise<void> {
    await job.giveBack();
    this.#end(job);
  }

  #end(job: Job): void {
    this.#jobs.delete(job);
    this.#bytes -= job.bytes;
    if (this.#behind || this.#jobs.size === 0) this.#wake();
  }

  /** What has waited for long, because handlers have become slow, is for other workers too. */
  #returnStale(): void {
    const maxMs = Math.min(MAX_WAIT_MS, this.#parts.leaseMs / 3);
    while (this.#waiting[0] && this.#waiting[0].ageMs > maxMs) {
      this.#behind = true;
      this.#giveBack(this.#waiting.shift()!);
    }
  }

  async #pause(): Promise<void> {
    if (!this.#woken) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#resume = resolve;
      const timer = setTimeout(resolve, this.#sweepMs);
      await promise;
      clearTimeout(timer);
      this.#resume = undefined;
    }
    this.#woken = false;
  }

  /** Each hour, and after a jump of the clock, once all that run have renewed their leases since. */
  #tidyInTime(): void {
    const now = performance.now();
    if (this.#clock.hasJumped()) this.#tidyAt = 0;
    if (now < this.#tidyAt || this.#clock.hasJumped()) return;
    this.#tidyAt = now + TIDY_MS;
    this.#background = this.#tidy();
  }

  async #tidy(): Promise<void> {
    const { store, retry, leaseMs } = this.#parts;
    try {
      await store.sweepUploads(TIDY_MS);
      const repaired = await store.repairSchedule(longestDelay(retry) + leaseMs);
      if (repaired > 0) this.#wake();
    } catch (error) {
      if (!this.#stopping) this.#report("tidying failed", error);
    }
  }

  #report(message: string, error: unknown): void {
    writeLog(this.#parts.log, "error", message, { error });
  }
}
