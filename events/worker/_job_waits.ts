import { met } from "../../core/check_options.ts";
import {
  type EventStore,
  type Lease,
  type Wait,
  type WaitOptions,
  WaitRefusedError,
  type Wake,
} from "../store/mod.ts";
import { waitOf, wakeOf, withWake, withWakesBack } from "../store/waits.ts";
import type { HeldLease } from "./_held_lease.ts";
import { ParkedError, type WaitResult } from "./event.ts";

/**
 * The waits and wakes of one run of an event's handlers. A wait that has no result yet is remembered: the event
 * is parked, whatever the handler makes of the error.
 */
export class JobWaits {
  readonly #store: EventStore;
  readonly #leaseMs: number;
  readonly #lease: HeldLease;
  #wait: Wait | undefined;
  #wakes: Wake[] | undefined;
  /** The calls so far, awaited or not: they take turns. */
  #calls: Promise<unknown> = Promise.resolve();

  /**
   * Creates it for one run.
   *
   * @param parts The store, and the length of its leases.
   * @param lease The lease of the event.
   */
  constructor(
    { store, leaseMs }: { readonly store: EventStore; readonly leaseMs: number },
    lease: HeldLease,
  ) {
    this.#store = store;
    this.#leaseMs = leaseMs;
    this.#lease = lease;
  }

  /** The wait that the event is to be parked for; undefined for none. */
  get wait(): Wait | undefined {
    return this.#wait;
  }

  /** The names that the settlement wakes; undefined for none. */
  get wakes(): readonly Wake[] | undefined {
    return this.#wakes;
  }

  /** Returns the result of a wait; throws if there is none yet. */
  waitFor<TValue>(name: string, options?: WaitOptions): Promise<WaitResult<TValue>> {
    const result = this.#calls.then(() => this.#resultOf<TValue>(waitOf(name, options)));
    // Nobody may await it: its error must not end the process.
    this.#calls = result.catch(() => {});
    return result;
  }

  /** Adds a name to those that the settlement wakes. */
  wake(name: string, value: unknown): void {
    this.#wakes = withWake(this.#wakes, wakeOf(name, value));
  }

  /** Takes the names to wake out of the settlement, for the commit of a part. */
  takeWakes(): readonly Wake[] | undefined {
    const wakes = this.#wakes;
    this.#wakes = undefined;
    return wakes;
  }

  /** Puts names back that were taken out: the part could not be noted. */
  putBack(wakes: readonly Wake[] | undefined): void {
    this.#wakes = withWakesBack(wakes, this.#wakes);
  }

  /** Forgets the wait, because another handler of the event has failed. */
  drop(): void {
    this.#wait = undefined;
  }

  /** Resolves once each call has ended, awaited or not. */
  async ended(): Promise<void> {
    await this.#calls;
  }

  async #resultOf<TValue>(wait: Wait): Promise<WaitResult<TValue>> {
    const { name } = wait;
    const known = wokenBy<TValue>(this.#lease.lease, name);
    if (known) return known;
    if (this.#wait && this.#wait.name !== name) {
      throw new WaitRefusedError(
        `Cannot wait for ${met(name)}: the event waits for ${met(this.#wait.name)} already`,
      );
    }
    const early = this.#wait ? undefined : await this.#take<TValue>(name);
    if (early) return early;
    this.#wait ??= wait;
    throw new ParkedError(name);
  }

  /** Takes the value that the name was woken with before. */
  async #take<TValue>(name: string): Promise<WaitResult<TValue> | undefined> {
    const take = async (lease: Lease) => {
      if (wokenBy(lease, name)) return lease;
      return await this.#store.takeWake(lease, name);
    };
    if (await this.#lease.change(take, this.#leaseMs / 3)) {
      return wokenBy<TValue>(this.#lease.lease, name);
    }
    this.#lease.lose("lease lost, handler aborted");
    throw new Error(`Cannot wait for ${met(name)}: the lease was lost`);
  }
}

/** Reads the result of a wait from an event's record; undefined if there is none. */
function wokenBy<TValue>({ record }: Lease, name: string): WaitResult<TValue> | undefined {
  const result = record.woken?.find((each) => each.name === name);
  if (!result) return undefined;
  if (result.timedOut) return { value: undefined, timedOut: true };
  const value = result.value === undefined ? undefined : JSON.parse(result.value);
  return { value, timedOut: false };
}
