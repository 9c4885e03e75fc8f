import type { LogLevel } from "../../core/mod.ts";
import { type Timeout, Timeouts, withDeadline } from "../../core/timeouts.ts";
import type { EventRecord, EventStore, Lease } from "../store/mod.ts";
import { isCancelRequested } from "../store/settlement.ts";

/** Part of its length after which a lease is renewed. */
export const RENEWAL = 0.3;

/** Part of a lease that a worker uses, so that it has stopped when another one may start. */
const EXPIRY_MARGIN = 0.9;

/** Part of a lease by which a timer is late only if the process stood still. */
const STANDSTILL = 0.05;

/** Largest number of renewals that wait for each other: after a standstill one is tried once more. */
const MAX_RENEWALS = 2;

/** Longest time that giving back may take: Deno Deploy kills an instance 5 s after telling it to stop. */
const GIVE_BACK_TIMEOUT_MS = 500;

/** Reason to abort the signal of a change that nobody waits for any more: to make an error for each takes 12 µs. */
const ANSWERED = new Error("Nobody waits for the change any more");

/** Thrown if a change was not answered in time: the store is not reached. */
export class NoAnswerError extends Error {}

/**
 * A lease that a worker holds. It is renewed in the background until it is ended or lost. Every change of
 * the record makes a new version, and only its newest version can change it again, so changes take turns,
 * and one that meets an unknown version reads the record: if it still names this lease, the change is
 * made a second time with the version found there.
 *
 * Its signal tells the handler that the event is another worker's or is to be cancelled. A lease whose
 * event is to be cancelled is still held, until the handler has ended.
 */
export class HeldLease {
  readonly #store: EventStore;
  readonly #leaseMs: number;
  readonly #renewals: Timeouts;
  readonly #report: (level: LogLevel, message: string, fields?: object) => void;
  /** Time at which the lease was asked for, by the monotonic clock. */
  readonly #leasedAt: number;
  readonly #controller = new AbortController();
  #isCancelled = false;
  /** Called when its handler is told that the event is cancelled, or another worker's. */
  readonly #onUnwanted: () => void;
  #lease: Lease;
  /** Time until which it is held, by the monotonic clock. */
  #until: number;
  /** The changes so far: the lease's version is known only after them. */
  #changes: Promise<unknown> = Promise.resolve();
  /** The last try to settle the event. */
  #settling: Promise<unknown> = Promise.resolve();
  #isEnded = false;
  /** True if a renewal was tried since the last one that succeeded. */
  #hasTried = false;
  /** True if the process stood still since then, and no renewal has failed after that. */
  #stoodStill = false;
  /** Number of renewals that are not answered. */
  #unanswered = 0;
  #timeout: Timeout | undefined;
  /** Time for which that is set, by the monotonic clock. */
  #tickAt = Infinity;
  #wake: (() => void) | undefined;

  /**
   * Creates the lease as it is held now. It is not renewed yet.
   *
   * @param parts The store, the length of the lease, and timeouts after which one is renewed.
   * @param lease The lease.
   * @param leasedAt The time at which it was asked for, by the monotonic clock.
   * @param report Logs something about the event.
   * @param onUnwanted Called when its handler is told that the event is cancelled, or another worker's.
   */
  constructor(
    { store, leaseMs, renewals }: {
      readonly store: EventStore;
      readonly leaseMs: number;
      readonly renewals: Timeouts;
    },
    lease: Lease,
    leasedAt: number,
    report: (level: LogLevel, message: string, fields?: object) => void,
    onUnwanted: () => void,
  ) {
    this.#onUnwanted = onUnwanted;
    this.#store = store;
    this.#leaseMs = leaseMs;
    this.#renewals = renewals;
    this.#report = report;
    this.#leasedAt = leasedAt;
    this.#lease = lease;
    this.#until = leasedAt + leaseMs * EXPIRY_MARGIN;
    // Cancelled before there was a job to tell. If the lease is older than that, its first renewal tells.
    this.#lookForCancel(lease);
  }

  /** The event's record. */
  get record(): EventRecord {
    return this.#lease.record;
  }

  /** The lease as it is now. */
  get lease(): Lease {
    return this.#lease;
  }

  /** True until the lease is lost or given up, or the event settled. */
  get isHeld(): boolean {
    return !this.#isEnded;
  }

  /** Time since the lease was asked for, in milliseconds. */
  get ageMs(): number {
    return performance.now() - this.#leasedAt;
  }

  /** Aborted once the event's handler should end. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** True once somebody wants the event cancelled. */
  get isCancelled(): boolean {
    return this.#isCancelled;
  }

  /** Aborts the signal. The lease is held as before. */
  abort(reason: string | Error): void {
    this.#controller.abort(typeof reason === "string" ? new Error(reason) : reason);
  }

  /** Aborts the signal because somebody wants the event cancelled. */
  cancel(): void {
    this.#isCancelled = true;
    this.abort("The event was cancelled");
    this.#onUnwanted();
  }

  /** Renews the lease from now on. */
  keep(): void {
    if (this.#isEnded) return;
    const renewalMs = this.#leaseMs * RENEWAL;
    const now = performance.now();
    const remainingMs = this.#until - now;
    const isShort = remainingMs > 0 && remainingMs < renewalMs;
    this.#tickAt = now + (isShort ? remainingMs : renewalMs);
    this.#timeout = (isShort ? new Timeouts(remainingMs) : this.#renewals).start(this.#tick);
  }

  /** Renews the lease now, if it is held. */
  async renew(): Promise<void> {
    if (!this.#isEnded) await this.#renew();
  }

  /** Stops renewing it. Resolves once no change of it is under way. */
  end(): Promise<unknown> {
    this.#isEnded = true;
    this.#timeout?.cancel();
    this.#wake?.();
    return this.#changes;
  }

  /** Ends the lease because another worker has it or may take it now. */
  lose(message: string): void {
    if (this.#isEnded) return;
    this.end();
    this.abort("The lease was lost");
    this.#onUnwanted();
    this.#report("warn", message);
  }

  /**
   * Makes a change that leaves the event leased, in turn with the renewals.
   *
   * @param action Makes the change, and may be called twice. Its signal is aborted once it took too long.
   * @param withinMs How long it may take, in milliseconds.
   * @returns Whether it was made; false if the lease was lost.
   */
  change(
    action: (lease: Lease, signal: AbortSignal) => Promise<Lease | null>,
    withinMs: number,
  ): Promise<boolean> {
    const changing = this.#changes.then(async () => {
      if (this.#isEnded) return false;
      const standstillMs = this.#leaseMs * STANDSTILL;
      const awaited = new AbortController();
      const { signal } = awaited;
      // Later changes count on it: one that is given up is not begun anew with a newer version.
      const once = (lease: Lease) => {
        signal.throwIfAborted();
        return action(lease, signal);
      };
      const lease = await whileRunning(this.#changed(once), withinMs, standstillMs)
        .finally(() => awaited.abort(ANSWERED));
      if (!lease) return false;
      this.#lease = lease;
      this.#lookForCancel(lease);
      return true;
    });
    this.#changes = changing.catch(() => {});
    return changing;
  }

  async #changed(action: (lease: Lease) => Promise<Lease | null>): Promise<Lease | null> {
    const changed = await action(this.#lease);
    if (changed) return changed;
    const lease = await this.#found();
    return lease && await action(lease);
  }

  /** Reads the lease with the version that it has now; null if it is lost. */
  async #found(): Promise<Lease | null> {
    const found = await this.#store.recover(this.#lease);
    if (!found) return null;
    this.#lookForCancel(found);
    const { record } = this.#lease;
    // Newer events that were taken, of which the handler knows nothing because the answer was lost, come next.
    return record.newer ? { ...found, record: { ...found.record, batch: record.batch } } : found;
  }

  #lookForCancel({ record }: Lease): void {
    if (isCancelRequested(record)) this.cancel();
  }

  /**
   * Settles the event, after the changes under way.
   *
   * @param action Settles it, and may be called twice.
   * @returns The lease that it was settled with; null if that was lost.
   */
  settle(action: (lease: Lease) => Promise<boolean>): Promise<Lease | null> {
    return this.#settling = this.#settle(action);
  }

  async #settle(action: (lease: Lease) => Promise<boolean>): Promise<Lease | null> {
    await this.#changes;
    let lease: Lease | null = this.#lease;
    if (!await action(lease)) {
      lease = await this.#found();
      if (!lease || !await action(lease)) return null;
    }
    this.end();
    return lease;
  }

  /**
   * Gives the event back, even while its handler runs.
   *
   * @param action Gives it back, and may be called twice.
   * @returns The lease that it was given back with; null if that was lost.
   */
  async giveBack(action: (lease: Lease) => Promise<boolean>): Promise<Lease | null> {
    await withDeadline(this.end(), GIVE_BACK_TIMEOUT_MS / 4).catch(() => {});
    return await withDeadline(this.settle(action), GIVE_BACK_TIMEOUT_MS);
  }

  /** Waits, but no longer than the lease is held. */
  async pause(ms: number): Promise<void> {
    if (this.#isEnded) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    const timer = setTimeout(resolve, ms);
    await promise;
    clearTimeout(timer);
  }

  readonly #tick = (): void => {
    // Without a renewal another worker takes the event over, so this one has to stop before. But if this
    // process stood still, perhaps nobody did: the first renewal after that finds out.
    const now = performance.now();
    if (now - this.#tickAt > this.#leaseMs * STANDSTILL) this.#stoodStill = true;
    if (now >= this.#until && this.#hasTried && !this.#stoodStill) {
      return this.lose("lease not renewed in time, handler aborted");
    }
    if (this.#unanswered < MAX_RENEWALS) this.#renew();
    this.keep();
  };

  async #renew(): Promise<void> {
    const leaseMs = this.#leaseMs;
    let start = 0;
    this.#hasTried = true;
    this.#unanswered++;
    const renew = (lease: Lease) => {
      start = performance.now();
      return this.#store.renew(lease, leaseMs);
    };
    try {
      const isRenewed = await this.change(renew, leaseMs * RENEWAL);
      if (!isRenewed) {
        // Perhaps a settlement of this worker took it, and is not answered yet: then the event is settled.
        await withDeadline(this.#settling, leaseMs * RENEWAL).catch(() => {});
        return this.lose("lease lost, handler aborted");
      }
      this.#until = start + leaseMs * EXPIRY_MARGIN;
      this.#hasTried = this.#stoodStill = false;
    } catch (error) {
      this.#stoodStill = false;
      this.#report("error", "lease not renewed", { error });
    } finally {
      this.#unanswered--;
    }
  }
}

/**
 * Waits for a promise, but no longer than this process runs for a time. If the process stood still, its
 * timers are due before it reads the answers that have come meanwhile, so it gets another turn to.
 */
function whileRunning<T>(promise: Promise<T>, ms: number, standstillMs: number): Promise<T> {
  return new Promise((resolve, reject) => {
    let timer: ReturnType<typeof setTimeout>;
    const wait = (forMs: number) => {
      const due = performance.now() + forMs;
      timer = setTimeout(() => {
        if (performance.now() - due > standstillMs) wait(ms);
        else if (forMs > 0) wait(0);
        else reject(new NoAnswerError(`No answer within ${ms} ms`));
      }, forMs);
    };
    wait(ms);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
