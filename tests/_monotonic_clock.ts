/** Monotonic clock that a test can advance. It takes the place of `performance.now()` in its scope. */
export class MonotonicClock implements Disposable {
  readonly #real = performance.now.bind(performance);
  #aheadMs = 0;

  /** Takes the place of the real clock. */
  constructor() {
    performance.now = () => this.#real() + this.#aheadMs;
  }

  /**
   * Advances the clock.
   *
   * @param ms The time to advance by, in milliseconds.
   */
  advance(ms: number): void {
    this.#aheadMs += ms;
  }

  /** Restores the real clock. */
  [Symbol.dispose](): void {
    Reflect.deleteProperty(performance, "now");
  }
}
