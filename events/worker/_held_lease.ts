import { type Timeout, Timeouts } from "../../core/timeouts.ts";
import { withDeadline } from "../../core/deadline.ts";
import type { EventRecord, EventStore, Lease } from "../store/mod.ts";

/** After which part of its length a lease is renewed. */
export const RENEWAL = 0.3;

/** How much of its lease a worker uses, so that it has stopped when another one may start. */
const EXPIRY_MARGIN = 0.9;

/** How long giving back may take: Deno Deploy kills an instance 5 s after it told it to stop. */
const GIVE_BACK_TIMEOUT_MS = 500;

/** What a lease is held with. */
export interface HeldLeaseParts {
  readonly store: EventStore;
  readonly leaseMs: number;
  /** After what time a lease is renewed. */
  readonly renewals: Timeouts;
}

/** Who has to know what becomes of a lease. */
export interface LeaseHolder {
  /** The lease was lost: nothing of the event is to be done any more. */
  onLost(message: string): void;
  /** A renewal failed; the next one may not. */
  onError(error: unknown): void;
}

/** A lease that a worker holds: renewed, lost when it cannot be, and given back. */
export class HeldLease {
  readonly #parts: HeldLeaseParts;
  readonly #holder: LeaseHolder;
  readonly #since: number;
  #lease: Lease;
  /** Until when it is held, by the monotonic clock. */
  #until: number;
  /** The changes so far: the lease's version is known only once they are through. */
  #changes: Promise<unknown> = Promise.resolve();
  #isLost = false;
  /** Whether a renewal was tried since the last one that succeeded. */
  #hasTried = false;
  #timeout: Timeout | undefined;
  #wake: (() => void) | undefined;

  /**
   * @param parts The store, and how long the lease is.
   * @param lease The lease.
   * @param since When it was asked for, by the monotonic clock.
   * @param holder Who holds it.
   */
  constructor(parts: HeldLeaseParts, lease: Lease, since: number, holder: LeaseHolder) {
    this.#parts = parts;
    this.#lease = lease;
    this.#since = since;
    this.#until = since + parts.leaseMs * EXPIRY_MARGIN;
    this.#holder = holder;
  }

  /** The event's record. */
  get record(): EventRecord {
    return this.#lease.record;
  }

  /** The lease as it is now. */
  get lease(): Lease {
    return this.#lease;
  }

  /** Whether the event is no longer this holder's. */
  get isLost(): boolean {
    return this.#isLost;
  }

  /** For how long it has been held, in milliseconds. */
  get ageMs(): number {
    return performance.now() - this.#since;
  }

  /** Renews the lease from now on. */
  keep(): void {
    if (this.#isLost) return;
    const { renewals, leaseMs } = this.#parts;
    const remainingMs = this.#until - performance.now();
    const isShort = remainingMs > 0 && remainingMs < leaseMs * RENEWAL;
    this.#timeout = (isShort ? new Timeouts(remainingMs) : renewals).start(this.#tick);
  }

  /** Ends it: the event is settled, or somebody else's. Resolves once no change of it is under way. */
  async end(): Promise<void> {
    this.#isLost = true;
    this.#timeout?.cancel();
    this.#wake?.();
    await this.#changes;
  }

  /**
   * Does something that makes a new version of the lease, in turn with the renewals. It is done a second
   * time if the lease is still held, but its version was unknown: the answer to a change was lost.
   */
  change(
    action: (lease: Lease) => Promise<Lease | null>,
    withinMs: number,
  ): Promise<boolean> {
    const changing = this.#changes.then(async () => {
      if (this.#isLost) return false;
      const lease = await withDeadline(this.#changed(this.#lease, action), withinMs);
      if (lease) this.#lease = lease;
      return lease !== null;
    });
    this.#changes = changing.catch(() => {});
    return changing;
  }

  async #changed(
    lease: Lease,
    action: (lease: Lease) => Promise<Lease | null>,
  ): Promise<Lease | null> {
    const changed = await action(lease);
    if (changed) return changed;
    const recovered = await this.#parts.store.recover(lease);
    return recovered && await action(recovered);
  }

  /** Settles the event with the lease, a second time if it is still held but its version was unknown. */
  async settle(action: (lease: Lease) => Promise<boolean>): Promise<boolean> {
    await this.#changes;
    if (await action(this.#lease)) return true;
    const lease = await this.#parts.store.recover(this.#lease);
    if (!lease) return false;
    this.#lease = lease;
    return await action(lease);
  }

  /** Gives the event back, whatever its handler still does. */
  async giveBack(): Promise<void> {
    await withDeadline(this.end(), GIVE_BACK_TIMEOUT_MS / 4).catch(() => {});
    const releasing = this.settle((lease) => this.#parts.store.release(lease));
    await withDeadline(releasing, GIVE_BACK_TIMEOUT_MS);
  }

  /** Tells the holder that the lease is lost. */
  lose(message: string): void {
    if (this.#isLost) return;
    this.end();
    this.#holder.onLost(message);
  }

  /** Waits, but not for longer than the lease is held. */
  async pause(ms: number): Promise<void> {
    if (this.#isLost) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    const timer = setTimeout(resolve, ms);
    await promise;
    clearTimeout(timer);
  }

  readonly #tick = (): void => {
    // Without a renewal another worker takes the event over: by then this one has to have stopped. If
    // this process stood still instead, nobody may have, and the first renewal since then tells.
    if (performance.now() >= this.#until && this.#hasTried) {
      return this.lose("lease not renewed in time, handler aborted");
    }
    this.#renew();
    this.keep();
  };

  async #renew(): Promise<void> {
    const { store, leaseMs } = this.#parts;
    let start = 0;
    this.#hasTried = true;
    const renew = (lease: Lease) => {
      start = performance.now();
      return store.renew(lease, leaseMs);
    };
    try {
      const renewed = await this.change(renew, leaseMs * RENEWAL);
      if (!renewed) return this.lose("lease lost, handler aborted");
      this.#until = start + leaseMs * EXPIRY_MARGIN;
      this.#hasTried = false;
    } catch (error) {
      this.#holder.onError(error);
    }
  }
}
