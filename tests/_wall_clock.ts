/** Wall clock that a test can advance. It takes the place of `Date.now()` in its scope. */
export class WallClock implements Disposable {
  readonly #real = Date.now;
  #aheadMs = 0;

  /** Takes the place of the real clock. */
  constructor() {
    Date.now = () => this.#real() + this.#aheadMs;
  }

  /**
   * Advances the clock.
   *
   * @param ms The time to advance by, in milliseconds; less than 0 sets it back.
   */
  advance(ms: number): void {
    this.#aheadMs += ms;
  }

  /** Restores the real clock. */
  [Symbol.dispose](): void {
    Date.now = this.#real;
  }
}
