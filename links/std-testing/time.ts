/** Development stand-in for `FakeTime` of `jsr:@std/testing/time`, over npm's fake timers. */
import FakeTimers from "npm:@sinonjs/fake-timers@15.5.0";

/** Takes over `Date` and the timers until restored. */
export class FakeTime {
  #clock: FakeTimers.Clock;

  constructor(start?: number | string | Date | null) {
    this.#clock = FakeTimers.install({
      now: start === undefined || start === null ? Date.now() : new Date(start),
      toFake: ["Date", "setTimeout", "clearTimeout", "setInterval", "clearInterval"],
    });
  }

  /** The fake time, milliseconds since the epoch. */
  get now(): number {
    return this.#clock.now;
  }

  /** Moves time on, calling the timers that become due. */
  tick(ms = 0): void {
    this.#clock.tick(ms);
  }

  /** Moves time on, letting promises settle between the timers. */
  async tickAsync(ms = 0): Promise<void> {
    await this.#clock.tickAsync(ms);
  }

  /** Gives the real time back. */
  restore(): void {
    this.#clock.uninstall();
  }

  /** Gives the real time back. */
  [Symbol.dispose](): void {
    this.restore();
  }
}
