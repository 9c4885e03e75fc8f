import { type EventContent, Job, type JobParts } from "./_job.ts";
import { Pace } from "./_pace.ts";
import type { Lease, Reservation } from "../store/mod.ts";

/** How many events are claimed at a time: more do not fit a commit. */
const MAX_CLAIM = 100;

/** How long an event may wait for a handler of the worker that has leased it. */
const MAX_WAIT_MS = 1_000;

/** How many bytes of payloads are kept of events that wait for their handlers, or are being stored for them. */
const MAX_BYTES = 33_554_432;

/** For how long events have been due that get most handlers from then on, before what is just being stored. */
const LATE_MS = 500;

/** How many events are taken while they are stored for each late one that is started. */
const TAKEN_PER_LATE = 0.5;

/** How many events may be unsettled at once, their handlers through or not, if no more run at once. */
const MAX_JOBS = 2_048;

/**
 * The leased events of a worker: some wait for a handler, some are handled, some are being settled. Some
 * were claimed, and some taken while they were stored, which costs less than half. So those are taken as
 * long as there is room. But once events are late for want of handlers, most handlers are for what was
 * claimed: it is what waits the longest, and it would never be handled while more comes than can be.
 */
export class JobQueue {
  /** Whether more events may be due than were taken. */
  isBehind = false;
  readonly #parts: JobParts;
  readonly #concurrency: number;
  readonly #owner: string;
  readonly #wake: () => void;
  readonly #jobs = new Set<Job>();
  /** Those that wait for a handler and were claimed, and those that were taken. */
  readonly #claimed: Job[] = [];
  readonly #taken: Job[] = [];
  readonly #pace: Pace;
  /** How many events are being stored as leased. */
  #reserved = 0;
  /** How many bytes of payloads are kept of them, and of those that wait: what runs is few enough. */
  #bytes = 0;
  /** Whether events have been due for long that were not claimed yet. */
  #isLate = false;
  /** How many events may be taken although others are late. */
  #credit = 0;
  /** Whether the event that was started last was a claimed one. */
  #hadClaimed = false;
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
    this.#pace = new Pace(concurrency);
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
    const ahead = this.#bytes > MAX_BYTES / 2 ? 0 : this.#pace.ahead;
    // Fewer than are taken while they are stored: what is claimed may be wanted by other workers.
    const own = this.#concurrency + ahead / 4 - this.#pace.running - this.#claimed.length;
    return Math.min(MAX_CLAIM, Math.floor(Math.min(own, this.#roomWith(ahead))));
  }

  /** Whether an event is leased here, as far as this worker knows. */
  readonly holds = (id: string): boolean => {
    for (const job of this.#jobs) if (job.id === id && !job.isLost) return true;
    return false;
  };

  /** Takes an event while it is stored, unless those that wait for longer need the room. */
  readonly reserve = (bytes: number): Reservation | null => {
    const ahead = this.#bytes + bytes > MAX_BYTES ? 0 : this.#pace.ahead;
    // Where handlers are not what is short, it would only cost more to take fewer.
    const isShared = this.#isLate && this.#pace.isFull;
    const needed = this.isBehind && !isShared ? (this.#concurrency + ahead) / 4 : 0;
    const isBarred = this.#stopping || (isShared && this.#credit < 1);
    if (isBarred || this.#roomWith(ahead) <= needed) {
      this.isBehind = true;
      return null;
    }
    if (isShared) this.#credit--;
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
        this.#add(this.#taken, lease, start, delivery);
      },
      cancel: () => {
        end();
        this.#tellIfEmpty();
      },
    };
  };

  /** Adds the events that a claim for so many has leased, in the order in which they were due. */
  add(leases: readonly Lease[], limit: number, leasedAt: number): void {
    this.isBehind = leases.length === limit;
    // What is left is due since then, at the most.
    const leftSince = this.isBehind ? leases.at(-1)?.dueSince ?? Infinity : Infinity;
    this.#isLate = Date.now() - leftSince > LATE_MS;
    if (!this.#isLate) this.#credit = 0;
    for (const { body, ...lease } of leases) {
      this.#add(this.#claimed, lease, leasedAt, body && { body });
    }
  }

  /** Gives back what has waited for long: handlers have become slow, and other workers may have room. */
  returnStale(): void {
    const maxMs = Math.min(MAX_WAIT_MS, this.#parts.leaseMs / 3);
    for (const list of [this.#claimed, this.#taken]) {
      while (list[0] && list[0].ageMs > maxMs) {
        this.isBehind = true;
        this.#giveBack(this.#first(list)!);
      }
    }
  }

  /** Starts no handler any more, and tells those that run to give up. */
  stop(): void {
    this.#stopping = true;
    for (const job of this.#jobs) job.stop();
    for (const list of [this.#claimed, this.#taken]) {
      while (list.length > 0) this.#giveBack(this.#first(list)!);
    }
  }

  /** Gives back all that is left. */
  async giveBackAll(): Promise<void> {
    await Promise.all([...this.#jobs].map((job) => job.giveBack()));
  }

  /** How much room there is if so many events are taken ahead of their handlers. */
  #roomWith(ahead: number): number {
    const waiting = this.#claimed.length + this.#taken.length;
    const taken = this.#pace.running + waiting + this.#reserved;
    const unsettled = this.#jobs.size + this.#reserved;
    const maxUnsettled = Math.max(MAX_JOBS, 2 * this.#concurrency);
    return Math.min(this.#concurrency + ahead - taken, maxUnsettled - unsettled);
  }

  #add(list: Job[], lease: Lease, leasedAt: number, content?: EventContent): void {
    const job = new Job(this.#parts, lease, leasedAt, content);
    this.#jobs.add(job);
    this.#bytes += job.bytes;
    list.push(job);
    this.#startNext();
  }

  /** Takes the one that has waited the longest off those that wait. */
  #first(list: Job[]): Job | undefined {
    const job = list.shift();
    if (job) this.#bytes -= job.bytes;
    return job;
  }

  /** Takes a claimed event and one that was taken by turns, as long as there are both. */
  #next(): Job | undefined {
    const isClaimed = this.#taken.length === 0 || (this.#claimed.length > 0 && !this.#hadClaimed);
    const job = this.#first(isClaimed ? this.#claimed : this.#taken);
    this.#hadClaimed = isClaimed;
    if (job && isClaimed && this.#isLate) {
      this.#credit = Math.min(this.#concurrency, this.#credit + TAKEN_PER_LATE);
    }
    return job;
  }

  #startNext(): void {
    while (this.#pace.running < this.#concurrency) {
      const job = this.#next();
      if (!job) return;
      // A lease that took half its time to come is not worth starting on.
      if (this.#stopping || job.ageMs > this.#parts.leaseMs / 2) this.#giveBack(job);
      else this.#work(job);
    }
  }

  async #work(job: Job): Promise<void> {
    this.#pace.begin();
    await job.handle();
    this.#pace.end();
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
