import { type Timeout, Timeouts } from "../../core/timeouts.ts";

/** Shortest time between two log records about a handler that runs past its time limit. */
const REMIND_MS = 60_000;

/** The time limit of an attempt: the worker's, or the longest among a router's handlers that run. */
export class TimeLimit {
  /** True once it was reached. It does not change then. */
  isReached = false;
  #ms: number;
  readonly #onReached: (isFirst: boolean) => void;
  #timeout: Timeout | undefined;
  /** Timeouts of some of the handlers. */
  #others: Timeout[] | undefined;
  #running: (() => Iterable<string>) | undefined;
  #hasEnded = false;

  /**
   * Begins the limit of the worker.
   *
   * @param timeouts The worker's, which have that length.
   * @param ms The length.
   * @param onReached Called when it is reached, and from time to time after that.
   */
  constructor(timeouts: Timeouts, ms: number, onReached: (isFirst: boolean) => void) {
    this.#ms = ms;
    this.#onReached = onReached;
    this.#timeout = timeouts.start(this.#onTimeout);
  }

  /** Its length, in milliseconds. */
  get ms(): number {
    return this.#ms;
  }

  /** The names of the handlers that run; undefined if they have none. */
  get running(): string | undefined {
    return [...this.#running?.() ?? []].join(", ") || undefined;
  }

  /**
   * Sets another limit.
   *
   * @param ms The length.
   * @param inMs The time from now on after which it is reached.
   */
  set(ms: number, inMs: number = ms): void {
    if (this.#hasEnded || this.isReached) return;
    this.#timeout?.cancel();
    this.#ms = ms;
    this.#timeout = new Timeouts(inMs).start(this.#onTimeout);
  }

  /** Starts a timeout of one of several handlers, which ends with the attempt. */
  start(ms: number, onTimeout: () => void): Timeout {
    const timeout = new Timeouts(ms).start(onTimeout);
    (this.#others ??= []).push(timeout);
    return timeout;
  }

  /** Takes a finder of the names of the handlers that run, for the log. */
  nameBy(running: () => Iterable<string>): void {
    this.#running = running;
  }

  /** Ends all of its timeouts. */
  end(): void {
    this.#hasEnded = true;
    this.#timeout?.cancel();
    for (const timeout of this.#others ?? []) timeout.cancel();
  }

  readonly #onTimeout = (): void => {
    this.#timeout = new Timeouts(Math.max(this.#ms, REMIND_MS)).start(this.#onTimeout);
    const isFirst = !this.isReached;
    this.isReached = true;
    this.#onReached(isFirst);
  };
}
