/**
 * Monotonic clock that only a test advances: on a busy machine nothing else passes. It takes the place of
 * `performance.now()` in its scope.
 */
export class MonotonicClock implements Disposable {
  /** Whole milliseconds: the difference of two broken numbers would be a little more or less than it is. */
  #now = Math.ceil(performance.now());

  /** Takes the place of the real clock. */
  constructor() {
    performance.now = () => this.#now;
  }

  /**
   * Advances the clock.
   *
   * @param ms The time to advance by, in milliseconds.
   */
  advance(ms: number): void {
    this.#now += ms;
  }

  /** Restores the real clock. */
  [Symbol.dispose](): void {
    Reflect.deleteProperty(performance, "now");
  }
}
