/** Period over which the pace is measured. */
const PERIOD_MS = 500;

/** Largest number of events that may wait for their handlers. */
const MAX_AHEAD = 1_024;

/** Share of the time that all handlers work above which they are what is scarce, and not the KV. */
const FULL = 0.5;

/** The pace of a worker's handlers. As many events as they handle in a second may wait for them. */
export class Pace {
  readonly #concurrency: number;
  #start = -Infinity;
  #count = 0;
  #last = 0;
  #running = 0;
  /** Running times of all handlers, added up, and the time until which they are. */
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

  /** True while events wait for handlers, and not for the KV or the processor. */
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
