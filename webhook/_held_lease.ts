import { type Timeout, Timeouts } from "./timeouts.ts";
import { withDeadline } from "./deadline.ts";
import type { EventRecord, EventStore, Lease } from "./store/mod.ts";

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
    const isShort = remainingMs < leaseMs * RENEWAL;
    this.#timeout = (isShort ? new Timeouts(remainingMs) : renewals).start(this.#tick);
  }

  /** Ends it: the event is settled, or somebody else's. Resolves once no change of it is under way. */
  async end(): Promise<void> {
    this.#isLost = true;
    this.#timeout?.cancel();
    this.#wake?.();
    await this.#changes;
  }

  /** Does something that makes a new version of the lease, in turn with the renewals. */
  change(action: (lease: Lease) => Promise<Lease | null>): Promise<boolean> {
    const changing = this.#changes.then(async () => {
      const lease = this.#isLost ? null : await action(this.#lease);
      if (lease) this.#lease = lease;
      return lease !== null;
    });
    this.#changes = changing.catch(() => {});
    return changing;
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
    // Without a renewal another worker takes the event over: by then this one has to have stopped.
    if (performance.now() >= this.#until) {
      return this.lose("lease not renewed in time, handler aborted");
    }
    this.#renew();
    this.keep();
  };

  async #renew(): Promise<void> {
    try {
      if (!(await this.change(this.#renewed))) this.lose("lease lost, handler aborted");
    } catch (error) {
      this.#holder.onError(error);
    }
  }

  readonly #renewed = async (lease: Lease): Promise<Lease | null> => {
    const { store, leaseMs } = this.#parts;
    const start = performance.now();
    const renewing = (async () => {
      const renewed = await store.renew(lease, leaseMs);
      if (renewed) return renewed;
      const recovered = await store.recover(lease);
      return recovered && await store.renew(recovered, leaseMs);
    })();
    const renewed = await withDeadline(renewing, leaseMs * RENEWAL);
    this.#until = start + leaseMs * EXPIRY_MARGIN;
    return renewed;
  };
}
