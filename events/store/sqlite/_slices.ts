import { setImmediate } from "node:timers";

/** Longest time that work holds the event loop before others have their turn, in milliseconds. */
const SLICE_MS = 5;

/** The slices of long work, which lets others have their turn between two of them. */
export class Slices {
  #since = performance.now();

  /** Returns what to wait for before the work goes on; undefined if the slice has time left. */
  next(): Promise<void> | undefined {
    return performance.now() - this.#since < SLICE_MS ? undefined : this.#nextTurn();
  }

  async #nextTurn(): Promise<void> {
    // Two turns: the first one may be the current one.
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    this.#since = performance.now();
  }
}
