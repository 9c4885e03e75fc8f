/** Over how long the pace is measured. */
const PERIOD_MS = 500;

/** How much is taken ahead at most. */
const MAX_AHEAD = 1_024;

/** From which part of their time on that handlers work they are what is short, and not the KV. */
const FULL = 0.5;

/** Tells how many events a worker may take ahead of its handlers: as many as they get through in a second. */
export class Pace {
  readonly #concurrency: number;
  #start = -Infinity;
  #count = 0;
  #last = 0;
  #running = 0;
  /** Until when it is known for how long handlers have run, all together, and that time. */
  #until = performance.now();
  #runMs = 0;
  #isFull = false;

  /** @param concurrency How many handlers run at once. */
  constructor(concurrency: number) {
    this.#concurrency = concurrency;
  }

  /** How many handlers run. */
  get running(): number {
    return this.#running;
  }

  /** Notes that a handler starts. */
  begin(): void {
    this.#turn();
    this.#running++;
  }

  /** Notes that an event was handled. */
  end(): void {
    this.#turn();
    this.#running--;
    this.#count++;
  }

  /** How many events may be taken ahead. */
  get ahead(): number {
    this.#turn();
    return Math.min(MAX_AHEAD, 2 * Math.max(this.#last, this.#count));
  }

  /** Whether events wait for handlers: else the KV or the processor is what they wait for. */
  get isFull(): boolean {
    this.#turn();
    return this.#isFull;
  }

  #turn(): void {
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
