import type { HungHandler, Lease, Reservation } from "../store/mod.ts";
import { Job, type JobListener, type JobParts } from "./_job.ts";
import { GrowingDelays } from "./_growing_delays.ts";
import { Turns } from "./_turns.ts";
import { MAX_PUT_OFF_MS } from "../store/settlement.ts";
import { ConcurrencyLimit } from "./concurrency_limit.ts";
import { RateRoom } from "./rate_limit.ts";

/** Period over which the pace is measured. */
const PERIOD_MS = 500;

/** Largest number of events that may wait for their handlers. With 1,024 a drain took 10 MB more, and was no faster. */
const MAX_AHEAD = 256;

/** Share of busy handlers above which handlers are the bottleneck, and not the store. */
const FULL = 0.5;

/** Largest number of events in a claim: more do not fit a commit. */
const MAX_CLAIM = 100;

/** Longest time that an event waits for a handler of the worker that has leased it. */
const MAX_WAIT_MS = 1_000;

/** Longest time that an event waits for a place under the limit of its handler. */
const MAX_HELD_MS = 10_000;

/** Longest time that an event waits for room under the limit of a rate. */
const MAX_RATED_MS = 2_000;

/** Largest number of bytes of payloads that wait for handlers, or are being stored for local hand-off. */
const MAX_BYTES = 33_554_432;

/** Lateness of due events, in milliseconds, above which most handlers are for them. */
const LATE_MS = 500;

/** Number of local hand-offs for each late event that is started. */
const HAND_OFFS_PER_LATE = 0.5;

/**
 * Number of jobs after whose end the collections of jobs are copied. When a Map or Set grows or has been deleted from, V8
 * makes its table anew, and the old table refers to the new one. Once one that is no longer used is in the old generation
 * of the heap, all later tables stay until the next full collection, with the jobs that were in them: a third of what
 * survived the small collections. A copy ends that chain.
 */
const COPIED_AFTER = 1_000;

/** A job that waits, and the limit that it waits for. */
interface HeldJob {
  readonly job: Job;
  limit: ConcurrencyLimit | RateRoom;
  /** Ends its wait for room under the limit of a rate. */
  endWait?: (() => void) | undefined;
}

/** Largest number of cancelled events that are remembered until they are added. */
const MAX_EARLY = 10_000;

/** Time within which a handler ends that heeds its signal, in milliseconds: one that has not is noted. */
const HUNG_MS = 1_000;

/** Largest number of unsettled events, whether handled or not, unless more handlers run at once. */
const MAX_JOBS = 2_048;

/**
 * The leased events of a worker. Each waits for a handler, is being handled, or is being settled. It was
 * claimed from the schedule, or came by local hand-off.
 *
 * A hand-off is leased in the commit that stores it, which costs less than half of storing and claiming
 * one. So hand-offs are accepted as long as there is room.
 *
 * When due events are late, most handlers are for claimed events. These have waited the longest. Without
 * this rule they would never be handled while more events come in than the handlers can take.
 *
 * A handler that has reached its time limit no longer counts as running, but its job stays until it ends.
 */
export class JobQueue implements JobListener {
  /** True if more events may be due than were claimed. */
  isBehind = false;
  readonly #parts: JobParts;
  readonly #turns = new Turns();
  readonly #concurrency: number;
  readonly #owner: string;
  readonly #wake: () => void;
  /** Undefined once it was called. */
  #onStuck: (() => void) | undefined;
  /** Jobs whose handlers run past their time limit. */
  readonly #overdue = new Set<Job>();
  /** Jobs whose handlers were told to end, since their events are cancelled or another worker's. */
  readonly #unwanted = new Set<Job>();
  #jobs = new Set<Job>();
  /** The first job of each event. A second one is given back. */
  #byId = new Map<string, Job>();
  /** Number of jobs that have ended. */
  #ended = 0;
  /** Their ids that claims have left out. */
  readonly #leftOut = new Set<string>();
  /** Jobs that wait for a handler, by how they came. */
  readonly #claimed: Job[] = [];
  readonly #handedOff: Job[] = [];
  /** Jobs that take no place of the worker: a handler of each has as many runs as it may. */
  #held: HeldJob[] = [];
  readonly #delays = new GrowingDelays();
  /** Number of the hand-offs, from the first on, whose deliveries have been answered. */
  #answered = 0;
  readonly #pace: Pace;
  readonly #early = new EarlyCancellations();
  /** Number of events that are being stored as leased. */
  #reserved = 0;
  /** Bytes of the payloads that are being stored or wait. Those being handled are too few to count. */
  #bytes = 0;
  /** True while unclaimed events have been due for long. */
  #isLate = false;
  /** Number of local hand-offs that are accepted although other events are late. */
  #credit = 0;
  /** True if the last event started was a claimed one. */
  #wasClaimed = false;
  #stopping = false;
  /** Set if everything that is leased is left as it is: the process is as good as dead. */
  #isAbandoned = false;
  /** Settled once nothing is leased. */
  #empty: PromiseWithResolvers<void> | undefined;

  /**
   * Creates a queue without jobs.
   *
   * @param parts The settings of all jobs, but for their turns.
   * @param concurrency The largest number of handlers that run at once.
   * @param owner The name of the worker in the leases.
   * @param wake Called when the worker should look for due events, and when the queue is empty.
   * @param onStuck Called once as many handlers are overdue as may run at once.
   */
  constructor(
    parts: Omit<JobParts, "turns">,
    concurrency: number,
    owner: string,
    wake: () => void,
    onStuck?: () => void,
  ) {
    this.#parts = { ...parts, turns: this.#turns };
    this.#onStuck = onStuck;
    this.#concurrency = concurrency;
    this.#owner = owner;
    this.#wake = wake;
    this.#pace = new Pace(concurrency);
  }

  /** True if nothing is leased, nor about to be. */
  get isEmpty(): boolean {
    return this.#jobs.size + this.#reserved === 0;
  }

  /** True if anything is leased. */
  get hasJobs(): boolean {
    return this.#jobs.size > 0;
  }

  /** Resolves once nothing is leased, nor about to be. */
  async emptied(): Promise<void> {
    if (!this.isEmpty) await (this.#empty ??= Promise.withResolvers<void>()).promise;
  }

  /** Number of events that there is room to claim. */
  get toClaim(): number {
    const ahead = this.#bytes > MAX_BYTES / 2 ? 0 : this.#pace.ahead;
    // Claims are smaller than what hand-offs may fill: other workers may have room for those events.
    const own = this.#concurrency + ahead / 4 - this.#pace.running - this.#claimed.length;
    return Math.min(MAX_CLAIM, Math.floor(Math.min(own, this.#roomWith(ahead))));
  }

  /**
   * Tells whether an event is worked on here; once it is not, a claim follows. Its handler may run
   * although its lease was lost, and no second one is to run beside it. An event that has no handler here is left to
   * others for a while.
   */
  readonly holds = (id: string, dueAt: number): boolean => {
    const isHeld = this.#byId.has(id);
    if (isHeld) this.#leftOut.add(id);
    return isHeld || this.#parts.versions.isLeft(id, dueAt);
  };

  /** Aborts the handler of an event that is to be cancelled. If it still waits, it is not started. */
  readonly cancel = (id: string): void => {
    const job = this.#find(id);
    if (!job) return this.#early.add(id);
    job.cancel();
    if (this.#unhold((held) => held.job === job)) this.#giveBack(job);
  };

  /** Makes room for an event while it is stored, unless events that wait for longer need the room. */
  readonly reserve = (bytes: number): Reservation | null => {
    const ahead = this.#bytes + bytes > MAX_BYTES ? 0 : this.#pace.ahead;
    // If handlers are not the bottleneck, accepting fewer hand-offs would only cost more.
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
    const leasedAt = performance.now();
    const leasing = this.#early.beginLeasing();
    const end = () => {
      this.#early.endLeasing(leasing);
      this.#reserved--;
      this.#bytes -= bytes;
    };
    return {
      owner: this.#owner,
      leaseMs: this.#parts.leaseMs,
      take: (lease, delivery) => {
        const { body, payload } = delivery ?? {};
        this.#add(this.#handedOff, new Job(this.#parts, lease, leasedAt, body, payload));
        end();
        if (this.#stopping) this.#giveBackWaiting();
        else this.#turns.afterAnswers(this.#isStoring, this.#startAnswered);
      },
      cancel: () => {
        end();
        this.#checkEmpty();
      },
    };
  };

  /**
   * Begins a claim.
   *
   * @param limit The largest number of its events.
   * @returns The function that ends it, and adds its events in the order in which they were due.
   */
  beginClaim(limit: number): (leases: readonly Lease[]) => void {
    const leasedAt = performance.now();
    const leasing = this.#early.beginLeasing();
    return (leases) => {
      this.#noteClaim(leases, limit);
      for (const { body, ...lease } of leases) {
        this.#add(this.#claimed, new Job(this.#parts, lease, leasedAt, body));
      }
      this.#startNext();
      this.#early.endLeasing(leasing);
    };
  }

  /** Notes whether more events are due than a claim could take, and for how long they have been. */
  #noteClaim(leases: readonly Lease[], limit: number): void {
    this.isBehind = leases.length === limit;
    // Unclaimed events became due after the last claimed one.
    const dueSince = this.isBehind ? leases.at(-1)?.dueSince ?? Infinity : Infinity;
    this.#isLate = Date.now() - dueSince > LATE_MS;
    if (!this.#isLate) this.#credit = 0;
  }

  /** Has the events noted whose handlers were told to end and have not, so that everybody sees which places they hold. */
  noteHung(): void {
    const before = Date.now() - HUNG_MS;
    const hung: HungHandler[] = [];
    for (const { id, hungSince: since = Infinity } of this.#unwanted) {
      if (since <= before) hung.push({ id, since });
    }
    this.#parts.versions.noteHung(hung);
  }

  /** Gives back what has waited for long: handlers have become slow, and other workers may have room. */
  returnStale(): void {
    const maxMs = Math.min(MAX_WAIT_MS, this.#parts.leaseMs / 3);
    for (const list of [this.#claimed, this.#handedOff]) {
      while (list[0] && list[0].ageMs > maxMs) {
        this.isBehind = true;
        this.#giveBack(this.#remove(list)!);
      }
    }
    this.#putOffStale();
  }

  /** Starts no more handlers, and aborts those that run. */
  stop(): void {
    this.#stopping = true;
    this.#turns.stop();
    for (const job of this.#jobs) job.stop();
    this.#giveBackWaiting();
  }

  /** Leaves everything as it is, for whoever takes the leases over. Nothing of it is settled or given back. */
  abandon(): void {
    this.#stopping = this.#isAbandoned = true;
    this.#turns.stop();
    for (const job of this.#jobs) job.abandon();
    this.#giveBackWaiting();
  }

  /** Renews all leases now. */
  async renewAll(): Promise<void> {
    await Promise.all([...this.#jobs].map((job) => job.renew()));
  }

  #giveBackWaiting(): void {
    for (const list of [this.#claimed, this.#handedOff]) {
      while (list.length > 0) this.#giveBack(this.#remove(list)!);
    }
    for (let held; (held = this.#unhold(() => true));) this.#giveBack(held.job);
  }

  /** Gives back everything that is still leased. */
  async giveBackAll(): Promise<void> {
    await Promise.all([...this.#jobs].map((job) => job.giveBack()));
  }

  readonly #isStoring = (): boolean => this.#reserved > 0;

  #find(id: string): Job | undefined {
    const job = this.#byId.get(id);
    return job?.isHeld ? job : undefined;
  }

  /** Counts the events that there is room for, given how many may wait for their handlers. */
  #roomWith(ahead: number): number {
    const waiting = this.#claimed.length + this.#handedOff.length;
    const occupied = this.#pace.running + waiting + this.#reserved;
    const unsettled = this.#jobs.size + this.#reserved;
    const maxUnsettled = Math.max(MAX_JOBS, 2 * this.#concurrency);
    return Math.min(this.#concurrency + ahead - occupied, maxUnsettled - unsettled);
  }

  #add(list: Job[], job: Job): void {
    this.#jobs.add(job);
    if (this.#byId.has(job.id)) this.#leftOut.add(job.id);
    else this.#byId.set(job.id, job);
    if (this.#isAbandoned) job.abandon();
    if (this.#early.take(job.id)) job.cancel();
    this.#bytes += job.bytes;
    list.push(job);
  }

  /** Starts the jobs that were handed off, once their deliveries are answered. */
  readonly #startAnswered = (): void => {
    this.#answered = this.#handedOff.length;
    this.#startNext();
  };

  /** Removes the job that has waited the longest. */
  #remove(list: Job[]): Job | undefined {
    const job = list.shift();
    if (!job) return undefined;
    this.#bytes -= job.bytes;
    if (list === this.#handedOff && this.#answered > 0) this.#answered--;
    return job;
  }

  /** Removes a claimed job and one that was handed off by turns, as long as there are both. */
  #next(): Job | undefined {
    const isClaimed = this.#answered === 0 || (this.#claimed.length > 0 && !this.#wasClaimed);
    const job = this.#remove(isClaimed ? this.#claimed : this.#handedOff);
    this.#wasClaimed = isClaimed;
    if (job && isClaimed && this.#isLate) {
      this.#credit = Math.min(this.#concurrency, this.#credit + HAND_OFFS_PER_LATE);
    }
    return job;
  }

  /**
   * True while the last place is for a job that was handed off, since it is its turn: its delivery is about to be answered.
   * Otherwise jobs that are claimed meanwhile would take each place that gets free.
   */
  get #isKeptFree(): boolean {
    return this.#wasClaimed && this.#answered === 0 && this.#handedOff.length > 0 &&
      this.#pace.running === this.#concurrency - 1;
  }

  #startNext(): void {
    this.#startHeld();
    while (this.#pace.running < this.#concurrency && !this.#isKeptFree) {
      const job = this.#next();
      if (!job) return;
      const isSecond = this.#byId.get(job.id) !== job;
      // A lease that took half its time to come is not worth starting on.
      if (this.#stopping || isSecond || job.ageMs > this.#parts.leaseMs / 2) this.#giveBack(job);
      else this.#startWithin(job);
    }
  }

  /** Starts a job if the limits of its handlers permit it. Otherwise it waits for them, if not too many do. */
  #startWithin(job: Job): void {
    const limit = job.takePlaces(this.#startHeld);
    if (!limit) return this.#run(job);
    if (job.isCancelled) return void this.#giveBack(job);
    const held: HeldJob = { job, limit };
    if (limit instanceof ConcurrencyLimit) {
      const before = this.#held.filter((held) => held.limit === limit).length;
      if (before >= limit.ahead) return void this.#putOff(held);
    }
    this.#held.push(held);
    this.#bytes += job.bytes;
    if (limit instanceof RateRoom) this.#awaitRoom(held, limit);
  }

  /** Waits for room under the limit of a rate, if there will be some soon. */
  #awaitRoom(held: HeldJob, room: RateRoom): void {
    const maxMs = Math.min(MAX_RATED_MS, this.#parts.leaseMs / 3) - held.job.ageMs;
    const putOff = (afterMs?: number) => {
      held.endWait = undefined;
      if (this.#unhold((each) => each === held)) void this.#putOff(held, afterMs);
    };
    held.endWait = room.wait(room.isCrowded ? 0 : Math.max(0, maxMs), {
      use: () => {
        held.endWait = undefined;
        if (this.#stopping || this.#pace.running >= this.#concurrency) return false;
        if (this.#unhold((each) => each === held && this.#mayStart(each))) {
          this.#startAfterWait(held);
        }
        return true;
      },
      putOff,
      fail: (error) => {
        held.job.report("error", "limit not read, event put off", { limit: room.name, error });
        putOff();
      },
    });
  }

  /** Checks whether a job has what it has waited for; otherwise it goes on waiting. */
  #mayStart(held: HeldJob): boolean {
    if (held.endWait) return false;
    if (held.limit instanceof ConcurrencyLimit && held.limit.isReached) return false;
    const limit = held.job.takePlaces(this.#startHeld);
    if (!limit) return true;
    held.limit = limit;
    if (limit instanceof RateRoom) this.#awaitRoom(held, limit);
    return false;
  }

  /** Starts the jobs that have waited for a limit which permits them now. */
  readonly #startHeld = (): void => {
    if (this.#held.length === 0 || this.#stopping) return;
    this.#putOffStale();
    while (this.#pace.running < this.#concurrency) {
      const held = this.#unhold((each) => this.#mayStart(each));
      if (!held) return;
      this.#startAfterWait(held);
    }
  };

  #startAfterWait({ job }: HeldJob): void {
    this.#delays.forget(job.id);
    this.#run(job);
  }

  /** Puts back what has waited for a limit for long: its lease, which is not renewed, may end before it begins. */
  #putOffStale(): void {
    const maxMs = Math.min(MAX_HELD_MS, this.#parts.leaseMs / 3);
    for (let held; (held = this.#unhold(({ job }) => job.ageMs > maxMs));) this.#putOff(held);
  }

  /** Takes out the first job that waits for a limit and meets a condition. */
  #unhold(condition: (held: HeldJob) => boolean): HeldJob | undefined {
    const at = this.#held.findIndex(condition);
    if (at < 0) return undefined;
    const [held] = this.#held.splice(at, 1);
    this.#bytes -= held!.job.bytes;
    held!.endWait?.();
    return held;
  }

  async #putOff({ job, limit }: HeldJob, afterMs = this.#delays.next(job.id)): Promise<void> {
    const name = limit instanceof RateRoom ? limit.name : undefined;
    await job.putBack(Math.min(MAX_PUT_OFF_MS, Math.ceil(afterMs)), name);
    this.#end(job);
  }

  #run(job: Job): void {
    this.#parts.versions.stir();
    this.#pace.begin();
    void job.run(this).then(() => this.#end(job));
  }

  /** Gives the place of a job to the next one. */
  onFree(): void {
    this.#pace.end();
    this.#startNext();
    if (this.isBehind) this.#wake();
  }

  /** Notes that a handler runs past its time limit. */
  onOverdue(job: Job): void {
    this.#overdue.add(job);
    this.#noteOverdue();
    if (this.#overdue.size < this.#concurrency) return;
    const onStuck = this.#onStuck;
    this.#onStuck = undefined;
    onStuck?.();
  }

  /** Notes that a handler has ended that ran past its time limit. */
  onLateEnd(job: Job): void {
    if (this.#overdue.delete(job)) this.#noteOverdue();
  }

  /** Remembers a handler that was told to end. */
  onUnwanted(job: Job): void {
    this.#unwanted.add(job);
  }

  #noteOverdue(): void {
    this.#parts.versions.noteOverdue([...this.#overdue].map(({ id }) => id));
  }

  async #giveBack(job: Job): Promise<void> {
    await job.giveBack();
    this.#end(job);
  }

  #end(job: Job): void {
    this.#jobs.delete(job);
    this.#unwanted.delete(job);
    if (this.#overdue.delete(job)) this.#noteOverdue();
    if (this.#byId.get(job.id) === job) this.#byId.delete(job.id);
    const wasLeftOut = !this.#byId.has(job.id) && this.#leftOut.delete(job.id);
    if (++this.#ended % COPIED_AFTER === 0) {
      this.#jobs = new Set(this.#jobs);
      this.#byId = new Map(this.#byId);
    }
    this.#checkEmpty();
    if (this.isBehind || wasLeftOut || this.#jobs.size === 0) this.#wake();
  }

  #checkEmpty(): void {
    if (!this.isEmpty) return;
    this.#empty?.resolve();
    this.#empty = undefined;
  }
}

/**
 * The events that were cancelled after they were leased and before they were added: a claim that has
 * committed still reads payloads. An id is remembered until everything has ended that was being leased
 * when the event was cancelled.
 */
class EarlyCancellations {
  #begun = 0;
  /** The claims and reservations under way, by their numbers, in order. */
  readonly #underWay = new Set<number>();
  /** The ids, with the number of what was begun last, in order. */
  readonly #ids = new Map<string, number>();

  /** Notes that events are being leased, and returns the number of that. */
  beginLeasing(): number {
    this.#underWay.add(++this.#begun);
    return this.#begun;
  }

  /** Notes that what was begun with a number has ended. */
  endLeasing(number: number): void {
    this.#underWay.delete(number);
    if (this.#ids.size > 0) this.#forget();
  }

  /** Remembers an id if the event may be among those that are being leased. */
  add(id: string): void {
    if (this.#underWay.size === 0 || this.#ids.size >= MAX_EARLY) return;
    this.#ids.delete(id);
    this.#ids.set(id, this.#begun);
  }

  /** Tells whether an event was cancelled, and forgets that. */
  take(id: string): boolean {
    return this.#ids.delete(id);
  }

  #forget(): void {
    const [oldest = Infinity] = this.#underWay;
    for (const [id, number] of this.#ids) {
      if (number >= oldest) return;
      this.#ids.delete(id);
    }
  }
}

/** The pace of a worker's handlers. As many events as they handle in a second may wait for them. */
class Pace {
  readonly #concurrency: number;
  #start = -Infinity;
  #count = 0;
  #last = 0;
  #running = 0;
  /** Sum of the running times of all handlers, and the time up to which it was computed. */
  #runMs = 0;
  #until = performance.now();
  #isFull = false;

  constructor(concurrency: number) {
    this.#concurrency = concurrency;
  }

  /** Number of handlers that run. */
  get running(): number {
    return this.#running;
  }

  /** Notes that a handler starts. */
  begin(): void {
    this.#update();
    this.#running++;
  }

  /** Notes that a handler has ended. */
  end(): void {
    this.#update();
    this.#running--;
    this.#count++;
  }

  /** Number of events that may wait for a handler. */
  get ahead(): number {
    this.#update();
    return Math.min(MAX_AHEAD, 2 * Math.max(this.#last, this.#count));
  }

  /** True while handlers are the bottleneck, and not the store or the processor. */
  get isFull(): boolean {
    this.#update();
    return this.#isFull;
  }

  #update(): void {
    const now = performance.now();
    this.#runMs += this.#running * (now - this.#until);
    this.#until = now;
    const ms = now - this.#start;
    if (ms < PERIOD_MS) return;
    this.#last = ms < 2 * PERIOD_MS ? this.#count : 0;
    this.#isFull = this.#runMs > FULL * this.#concurrency * ms;
    this.#start = now;
    this.#count = 0;
    this.#runMs = 0;
  }
}
