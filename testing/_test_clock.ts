/**
 * Clock that can be advanced. It replaces `Date` when it is first advanced. It does not touch timers, so a
 * handler that waits for a timer still takes its time.
 */
export class TestClock {
  readonly #real = globalThis.Date;
  #aheadMs = 0;

  /** Advances the time of day. */
  advance(ms: number): void {
    if (this.#aheadMs === 0 && ms > 0) globalThis.Date = this.#moved();
    this.#aheadMs += ms;
  }

  /** Restores the real time. */
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
