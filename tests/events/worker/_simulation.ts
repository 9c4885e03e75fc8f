import { FakeTime } from "@std/testing/time";
import { setImmediate } from "node:timers";

/** Draws numbers from 0 to 1. */
export type Random = () => number;

/** A small generator of numbers from 0 to 1 with a seed: mulberry32. */
export function randomOf(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Share of the steps that move time although calls wait, so that leases can expire during a call. */
const SLOWNESS = 0.1;

/** Longest move of time in one step, in milliseconds. */
const MAX_TICK_MS = 10;

/** Turns of the event loop until nothing moves: the store gathers the writes of a turn. */
const QUIET_TURNS = 3;

/** Largest number of steps: a simulation that takes more does not end. */
const MAX_STEPS = 500_000;

/**
 * Code that waits for a KV and for timers, run in an order that a seed decides. One call at a time is
 * let through, or time is moved on, and then all that follows from it happens before the next. Clock,
 * timers, random numbers and ids are the simulation's while it lasts.
 */
export class Simulation implements Disposable {
  /** Draws what the seed decides. */
  readonly random: Random;
  /** Number of steps so far. */
  step = 0;
  readonly #time = new FakeTime(Date.UTC(2030));
  readonly #waiting: (() => Promise<void>)[] = [];
  readonly #restore: (() => void)[] = [];

  /**
   * Makes a simulation.
   *
   * @param seed The seed.
   * @param heardRate Share of the wake-ups after a commit that reach another process, from 0 to 1.
   */
  constructor(seed: number, readonly heardRate = 0.5) {
    this.random = randomOf(seed);
    let ids = 0;
    // Not by `Date`, which a test may set while the monotonic clock goes on.
    const start = this.#time.now;
    this.#replace(performance, "now", () => this.#time.now - start);
    this.#replace(Math, "random", this.random);
    const uuid = () => `00000000-0000-4000-8000-${String(ids++).padStart(12, "0")}` as const;
    this.#replace(crypto, "randomUUID", uuid);
  }

  /** Chooses one of several. */
  oneOf<T>(values: readonly T[]): T {
    return values[Math.floor(this.random() * values.length)]!;
  }

  /** Has a call wait for its turn. */
  turn<T>(call: () => Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#waiting.push(() => call().then(resolve, reject));
    return promise;
  }

  /** Lets things happen until a promise is settled. */
  async run<T>(promise: Promise<T>): Promise<T> {
    let settled = false;
    promise.then(() => settled = true, () => settled = true);
    for (const end = this.step + MAX_STEPS;; this.step++) {
      await this.#quiet();
      if (settled) return await promise;
      if (this.step > end) throw new Error(`No end after ${MAX_STEPS} steps`);
      await this.#next();
    }
  }

  /** Gives clock, timers, random numbers and ids back. */
  [Symbol.dispose](): void {
    for (const restore of this.#restore) restore();
    this.#time.restore();
  }

  /** Waits until all is through that needs neither a turn nor time. */
  async #quiet(): Promise<void> {
    for (let turn = 0; turn < QUIET_TURNS; turn++) {
      await new Promise<void>((resolve) => void setImmediate(resolve));
    }
  }

  async #next(): Promise<void> {
    const { length } = this.#waiting;
    if (length === 0 || this.random() < SLOWNESS) {
      return this.#time.tick(1 + Math.floor(this.random() * MAX_TICK_MS));
    }
    const [call] = this.#waiting.splice(Math.floor(this.random() * length), 1);
    await call!();
  }

  #replace<T extends object, K extends keyof T>(target: T, name: K, value: T[K]): void {
    const before = Object.getOwnPropertyDescriptor(target, name);
    Object.defineProperty(target, name, { value, configurable: true, writable: true });
    this.#restore.push(() => {
      if (before) Object.defineProperty(target, name, before);
      else Reflect.deleteProperty(target, name);
    });
  }
}
