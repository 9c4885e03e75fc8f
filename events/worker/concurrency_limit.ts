/**
 * Limits of how many runs of a handler go at once in a process.
 *
 * A worker takes a place for each handler that an attempt calls before it loads the event. If one has none, the event
 * as a whole has not begun: no attempt counts, and none of its handlers is called. Such an event takes no place of the
 * worker. As many as the handler may do in a second wait in memory for the next place, for a third of a lease and ten
 * seconds at most. All others go back to the schedule: for a second at first, later for up to a minute, so that an event
 * waits there for no longer than it has waited already, and another process may take it.
 *
 * @module
 */

/** Length of a run before any has ended, in milliseconds. */
const FIRST_RUN_MS = 100;

/** Share of the last run in the usual length. */
const LAST_SHARE = 0.2;

/** Time whose runs may wait in memory, in milliseconds, and their largest number. */
const [AHEAD_MS, MAX_AHEAD] = [1_000, 1_000] as const;

/** Limit of the runs of one handler in this process. */
export class ConcurrencyLimit {
  readonly #max: number;
  #running = 0;
  #usualMs = FIRST_RUN_MS;

  /** @param max The largest number of runs at once. */
  constructor(max: number) {
    this.#max = max;
  }

  /** True while no further run may begin. */
  get isReached(): boolean {
    return this.#running >= this.#max;
  }

  /** Number of events that may wait in memory for a place. */
  get ahead(): number {
    return Math.max(this.#max, Math.min(MAX_AHEAD, this.#max * AHEAD_MS / this.#usualMs));
  }

  /** Notes that a run begins. */
  begin(): void {
    this.#running++;
  }

  /** Notes that a run has ended after a time in milliseconds. */
  end(ms: number): void {
    this.#running--;
    this.#usualMs += LAST_SHARE * (ms - this.#usualMs);
  }
}

/** The places of an event under the limits of its handlers. */
export class Places {
  readonly #limits: Set<ConcurrencyLimit>;
  readonly #onLeft: () => void;
  readonly #since = performance.now();

  /**
   * Takes a place under each limit.
   *
   * @param limits The limits. None of them is reached.
   * @param onLeft Called when a place is free again.
   */
  constructor(limits: Iterable<ConcurrencyLimit>, onLeft: () => void) {
    this.#limits = new Set(limits);
    this.#onLeft = onLeft;
    for (const limit of this.#limits) limit.begin();
  }

  /** Gives the place under a limit back, once its handler has ended. */
  leave(limit: ConcurrencyLimit): void {
    if (!this.#limits.delete(limit)) return;
    limit.end(performance.now() - this.#since);
    this.#onLeft();
  }

  /** Gives all of them back. */
  leaveAll(): void {
    for (const limit of [...this.#limits]) this.leave(limit);
  }
}
