/** Over how long the pace is measured. */
const PERIOD_MS = 500;

/** How much is taken ahead at most. */
const MAX_AHEAD = 1_024;

/** Tells how many events a worker may take ahead of its handlers: as many as they get through in a second. */
export class Pace {
  #start = -Infinity;
  #count = 0;
  #last = 0;

  /** Notes that an event was handled. */
  note(): void {
    this.#turn();
    this.#count++;
  }

  /** How many events may be taken ahead. */
  get ahead(): number {
    this.#turn();
    return Math.min(MAX_AHEAD, 2 * Math.max(this.#last, this.#count));
  }

  #turn(): void {
    const now = performance.now();
    if (now - this.#start < PERIOD_MS) return;
    this.#last = now - this.#start < 2 * PERIOD_MS ? this.#count : 0;
    this.#start = now;
    this.#count = 0;
  }
}
