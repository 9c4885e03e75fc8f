import { type EventContent, Job, type JobParts } from "./_job.ts";
import { Pace } from "./_pace.ts";
import type { Lease, Reservation } from "./store/mod.ts";

/** How many events are claimed at a time: more do not fit a commit. */
const MAX_CLAIM = 100;

/** How long an event may wait for a handler of the worker that has leased it. */
const MAX_WAIT_MS = 1_000;

/** How many bytes of payloads are kept of events that wait for their handlers, or are being stored for them. */
const MAX_BYTES = 33_554_432;

/** How many events may be unsettled at once, their handlers through or not. */
const MAX_JOBS = 2_048;

/** The leased events of a worker: some wait for a handler, some are handled, some are being settled. */
export class JobQueue {
  /** Whether more events may be due than were taken. */
  isBehind = false;
  readonly #parts: JobParts;
  readonly #concurrency: number;
  readonly #owner: string;
  readonly #wake: () => void;
  readonly #jobs = new Set<Job>();
  readonly #waiting: Job[] = [];
  readonly #pace = new Pace();
  #running = 0;
  /** How many events are being stored as leased. */
  #reserved = 0;
  /** How many bytes of payloads are kept of them, and of those that wait: what runs is few enough. */
  #bytes = 0;
  #stopping = false;
  /** Settled once nothing is leased, for all that wait for it. */
  #empty: PromiseWithResolvers<void> | undefined;

  /**
   * @param parts What the jobs share.
   * @param concurrency How many handlers run at once.
   * @param owner Who leases the events.
   * @param wake Called when there is room for events that may be due, and when all is through.
   */
  constructor(parts: JobParts, concurrency: number, owner: string, wake: () => void) {
    this.#parts = parts;
    this.#concurrency = concurrency;
    this.#owner = owner;
    this.#wake = wake;
  }

  /** Whether nothing is leased, nor about to be. */
  get isEmpty(): boolean {
    return this.#jobs.size + this.#reserved === 0;
  }

  /** Whether anything is leased. */
  get hasJobs(): boolean {
    return this.#jobs.size > 0;
  }

  /** Resolves once nothing is leased: what is being stored as such comes after the signal to stop. */
  async emptied(): Promise<void> {
    if (!this.isEmpty) await (this.#empty ??= Promise.withResolvers<void>()).promise;
  }

  /** How many events there is room to claim for. */
  get toClaim(): number {
    // Fewer than are taken while they are stored: what is claimed may be wanted by other workers.
    const ahead = this.#bytes > MAX_BYTES / 2 ? 0 : this.#pace.ahead / 4;
    return Math.min(MAX_CLAIM, Math.floor(this.#roomWith(ahead)));
  }

  /** Takes an event while it is stored, unless those that wait for longer need the room. */
  readonly reserve = (bytes: number): Reservation | null => {
    const ahead = this.#bytes + bytes > MAX_BYTES ? 0 : this.#pace.ahead;
    const needed = this.isBehind ? (this.#concurrency + ahead) / 4 : 0;
    if (this.#stopping || this.#roomWith(ahead) <= needed) {
      this.isBehind = true;
      return null;
    }
    this.#reserved++;
    this.#bytes += bytes;
    const start = performance.now();
    const end = () => {
      this.#reserved--;
      this.#bytes -= bytes;
    };
    return {
      owner: this.#owner,
      leaseMs: this.#parts.leaseMs,
      take: (lease, delivery) => {
        end();
        this.add(lease, start, delivery);
      },
      cancel: () => {
        end();
        this.#tellIfEmpty();
      },
    };
  };

  /** Adds a leased event. */
  add(lease: Lease, leasedAt: number, content?: EventContent): void {
    const job = new Job(this.#parts, lease, leasedAt, content);
    this.#jobs.add(job);
    this.#bytes += job.bytes;
    this.#waiting.push(job);
    this.#startNext();
  }

  /** Gives back what has waited for long: handlers have become slow, and other workers may have room. */
  returnStale(): void {
    const maxMs = Math.min(MAX_WAIT_MS, this.#parts.leaseMs / 3);
    while (this.#waiting[0] && this.#waiting[0].ageMs > maxMs) {
      this.isBehind = true;
      this.#giveBack(this.#next()!);
    }
  }

  /** Starts no handler any more, and tells those that run to give up. */
  stop(): void {
    this.#stopping = true;
    for (const job of this.#jobs) job.stop();
    for (let job = this.#next(); job; job = this.#next()) this.#giveBack(job);
  }

  /** Gives back all that is left. */
  async giveBackAll(): Promise<void> {
    await Promise.all([...this.#jobs].map((job) => job.giveBack()));
  }

  /** How much room there is if so many events are taken ahead of their handlers. */
  #roomWith(ahead: number): number {
    const taken = this.#running + this.#waiting.length + this.#reserved;
    const unsettled = this.#jobs.size + this.#reserved;
    return Math.min(this.#concurrency + ahead - taken, MAX_JOBS - unsettled);
  }

  /** Takes the one that has waited the longest off those that wait. */
  #next(): Job | undefined {
    const job = this.#waiting.shift();
    if (job) this.#bytes -= job.bytes;
    return job;
  }

  #startNext(): void {
    while (this.#running < this.#concurrency) {
      const job = this.#next();
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
    if (this.isBehind) this.#wake();
    await job.settle();
    this.#end(job);
  }

  async #giveBack(job: Job): Promise<void> {
    await job.giveBack();
    this.#end(job);
  }

  #end(job: Job): void {
    this.#jobs.delete(job);
    this.#tellIfEmpty();
    if (this.isBehind || this.#jobs.size === 0) this.#wake();
  }

  #tellIfEmpty(): void {
    if (!this.isEmpty) return;
    this.#empty?.resolve();
    this.#empty = undefined;
  }
}
