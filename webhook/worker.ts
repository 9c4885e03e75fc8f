import { consoleSink, type LogLevel, type LogSink, writeLog } from "../middleware/mod.ts";
import { type EventHandler, toEvent } from "./event.ts";
import { retryDelay, type RetryPolicy } from "./retry_policy.ts";
import type { CommitEffects, EventStore, Lease } from "./store/mod.ts";

/** Options of {@linkcode startWorker}. */
export interface WorkerOptions {
  /**
   * How many events are handled at the same time.
   *
   * @default {10}
   */
  readonly concurrency?: number;
  /**
   * How long an event is leased, in milliseconds. The lease is renewed while the handler runs; when the
   * process dies, another takes the event over after this time.
   *
   * @default {30_000}
   */
  readonly leaseMs?: number;
  /**
   * How often the schedule is looked at without a ring, in milliseconds: how late a retry, or an event
   * taken in by another process, can be noticed.
   *
   * @default {1_000}
   */
  readonly sweepMs?: number;
  /** When a failed event is tried again. */
  readonly retry?: RetryPolicy;
  /**
   * Where the worker reports failures.
   *
   * @default {consoleSink}
   */
  readonly log?: LogSink;
}

/** A running worker. */
export interface EventWorker {
  /**
   * Stops taking events, aborts the handlers' signals, and waits for the handlers. An event whose
   * handler is not through by then is given back.
   *
   * @param graceMs How long to wait, in milliseconds.
   * @returns A promise that resolves once nothing runs any more, or all is given back.
   */
  stop(graceMs?: number): Promise<void>;
}

/** How often the remains of uploads are looked for, and how old they are then. */
const UPLOAD_SWEEP_MS = 3_600_000;

interface Job {
  lease: Lease;
  readonly controller: AbortController;
  /** The renewal under way: the lease's version is known only when it is through. */
  renewal: Promise<void>;
  /** Whether the event is no longer this worker's to settle. */
  lost: boolean;
}

/**
 * Starts a worker: it takes events from the store as they become due, calls the handler, and settles
 * them by how that ends. A store's bell wakes one worker; start one per store.
 *
 * @param store The event store.
 * @param handler What handles the events.
 * @param options How many at the same time, how leased, how retried.
 * @returns The worker.
 * @throws {RangeError} If an option is not a positive number.
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
export function startWorker(
  store: EventStore,
  handler: EventHandler,
  options: WorkerOptions = {},
): EventWorker {
  return new StoreWorker(store, handler, options);
}

class StoreWorker implements EventWorker {
  readonly #store: EventStore;
  readonly #handler: EventHandler;
  readonly #concurrency: number;
  readonly #leaseMs: number;
  readonly #sweepMs: number;
  readonly #retry: RetryPolicy;
  readonly #log: LogSink;
  readonly #owner = crypto.randomUUID();
  readonly #jobs = new Map<Job, Promise<void>>();
  readonly #loop: Promise<void>;
  #stopping = false;
  #woken = false;
  #resume: (() => void) | undefined;

  constructor(store: EventStore, handler: EventHandler, options: WorkerOptions) {
    this.#store = store;
    this.#handler = handler;
    this.#concurrency = positive("concurrency", options.concurrency ?? 10);
    this.#leaseMs = positive("leaseMs", options.leaseMs ?? 30_000);
    this.#sweepMs = positive("sweepMs", options.sweepMs ?? 1_000);
    this.#retry = options.retry ?? {};
    this.#log = options.log ?? consoleSink;
    store.listen(this.#wake).catch((error) => this.#report("error", "bell failed", { error }));
    this.#loop = this.#run();
  }

  async stop(graceMs = 4_000): Promise<void> {
    this.#stopping = true;
    this.#wake();
    await this.#loop;
    for (const job of this.#jobs.keys()) job.controller.abort(new Error("The worker stops"));
    const grace = Promise.withResolvers<void>();
    const timer = setTimeout(grace.resolve, graceMs);
    await Promise.race([Promise.all(this.#jobs.values()), grace.promise]);
    clearTimeout(timer);
    await Promise.all([...this.#jobs.keys()].map((job) => this.#giveBack(job)));
  }

  readonly #wake = (): void => {
    this.#woken = true;
    this.#resume?.();
  };

  async #run(): Promise<void> {
    let sweptAt = -Infinity;
    while (!this.#stopping) {
      if (performance.now() - sweptAt > UPLOAD_SWEEP_MS) {
        sweptAt = performance.now();
        await this.#try("sweep failed", () => this.#store.sweepUploads(UPLOAD_SWEEP_MS));
      }
      const limit = this.#concurrency - this.#jobs.size;
      const claim = { limit, owner: this.#owner, leaseMs: this.#leaseMs };
      const leases = limit === 0
        ? []
        : await this.#try("claim failed", () => this.#store.claim(claim));
      for (const lease of leases ?? []) this.#start(lease);
      // A full claim may have left more behind; else there is nothing to do until something happens.
      if (limit === 0 || leases?.length !== limit) await this.#pause();
    }
  }

  async #pause(): Promise<void> {
    if (!this.#woken && !this.#stopping) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#resume = resolve;
      const timer = setTimeout(resolve, this.#sweepMs);
      await promise;
      clearTimeout(timer);
      this.#resume = undefined;
    }
    this.#woken = false;
  }

  #start(lease: Lease): void {
    const controller = new AbortController();
    const job: Job = { lease, controller, renewal: Promise.resolve(), lost: false };
    const done = this.#work(job).finally(() => {
      this.#jobs.delete(job);
      this.#wake();
    });
    this.#jobs.set(job, done);
  }

  async #work(job: Job): Promise<void> {
    const timer = setInterval(() => this.#renew(job), this.#leaseMs / 3);
    const effects: CommitEffects[] = [];
    let failure: { error: unknown } | undefined;
    try {
      const event = toEvent(job.lease.record, await this.#store.load(job.lease));
      const { signal } = job.controller;
      await this.#handler(event, { signal, settleWith: (each) => void effects.push(each) });
    } catch (error) {
      failure = { error };
    }
    clearInterval(timer);
    await job.renewal;
    if (job.lost) return;
    await this.#try("event not settled, it will be handled again", async () => {
      const settled = failure
        ? await this.#fail(job.lease, failure.error)
        : await this.#store.complete(
          job.lease,
          (commit) => effects.forEach((each) => each(commit)),
        );
      if (!settled) this.#report("warn", "lease lost, event not settled", describe(job.lease));
    });
  }

  #fail(lease: Lease, error: unknown): Promise<boolean> {
    if (this.#stopping) return this.#store.release(lease);
    const retryInMs = retryDelay(this.#retry, lease.record.attempt);
    const fields = { ...describe(lease), error };
    if (retryInMs === null) {
      this.#report("error", "event failed for the last time, now dead", fields);
      return this.#store.bury(lease, error);
    }
    this.#report("warn", "event failed, to be tried again", { ...fields, retryInMs });
    return this.#store.retry(lease, retryInMs, error);
  }

  #renew(job: Job): void {
    const renewal = async () => {
      const lease = await this.#store.renew(job.lease, this.#leaseMs);
      if (lease) {
        job.lease = lease;
        return;
      }
      job.lost = true;
      job.controller.abort(new Error("The lease was lost"));
      this.#report("warn", "lease lost, handler aborted", describe(job.lease));
    };
    if (job.lost) return;
    job.renewal = job.renewal.then(() => this.#try("lease not renewed", renewal));
  }

  async #giveBack(job: Job): Promise<void> {
    job.lost = true;
    await job.renewal;
    await this.#try("event not given back", () => this.#store.release(job.lease));
  }

  async #try<T>(message: string, action: () => Promise<T>): Promise<T | undefined> {
    try {
      return await action();
    } catch (error) {
      this.#report("error", message, { error });
      return undefined;
    }
  }

  #report(level: LogLevel, message: string, fields: Record<string, unknown>): void {
    writeLog(this.#log, level, message, fields);
  }
}

function describe({ record }: Lease): Record<string, unknown> {
  const { id, platform, type, attempt, requestId } = record;
  return { id, platform, type, attempt, requestId: requestId ?? undefined };
}

function positive(name: string, value: number): number {
  if (Number.isFinite(value) && value > 0) return value;
  throw new RangeError(`Cannot start the worker: '${name}' must be positive, got ${value}`);
}
