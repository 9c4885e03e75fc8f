/**
 * The time of day, which can be moved on. It takes the place of `Date` once it is moved, and leaves
 * timers alone: what a handler waits for by a timer still takes its time.
 */
export class TestClock {
  readonly #real = globalThis.Date;
  #aheadMs = 0;

  /** Moves the time on. */
  advance(ms: number): void {
    if (this.#aheadMs === 0 && ms > 0) globalThis.Date = this.#moved();
    this.#aheadMs += ms;
  }

  /** Gives the real time back. */
  restore(): void {
    globalThis.Date = this.#real;
    this.#aheadMs = 0;
  }

  #moved(): DateConstructor {
    const now = () => this.#real.now() + this.#aheadMs;
    return new Proxy(this.#real, {
      apply: () => new this.#real(now()).toString(),
      construct: (target, args: unknown[], newTarget) =>
        Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget),
      get: (target, name) => name === "now" ? now : Reflect.get(target, name),
    });
  }
}
