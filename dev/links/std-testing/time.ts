/** Development stand-in for `FakeTime` of `jsr:@std/testing/time`. */

interface Timer {
  due: number;
  /** Those that are due at the same time are called in this order. */
  order: number;
  readonly everyMs: number | undefined;
  readonly callback: () => void;
}

/** Globals that are faked. */
const { Date: RealDate, setTimeout, clearTimeout, setInterval, clearInterval } = globalThis;

let current: FakeTime | undefined;

/** Takes over `Date` and the timers until restored. */
export class FakeTime {
  #now: number;
  #made = 0;
  readonly #timers = new Map<number, Timer>();

  constructor(start?: number | string | Date | null) {
    if (current) throw new Error("Cannot construct FakeTime: time is already faked");
    this.#now = start === undefined || start === null ? Date.now() : new Date(start).getTime();
    if (Number.isNaN(this.#now)) throw new TypeError("Cannot construct FakeTime: invalid start");
    current = this;
    const clear = (id?: number) => void this.#timers.delete(id!);
    Object.assign(globalThis, {
      Date: this.#date(),
      setTimeout: this.#starter(false),
      clearTimeout: clear,
      setInterval: this.#starter(true),
      clearInterval: clear,
    });
  }

  /** The fake time, milliseconds since the epoch. */
  get now(): number {
    return this.#now;
  }

  /** Moves time on, calling the timers that become due. Promises settle after all of them. */
  tick(ms = 0): void {
    if (ms < 0) throw new RangeError(`Cannot move time back: by ${ms} ms`);
    const end = this.#now + ms;
    for (let next = this.#next(end); next; next = this.#next(end)) {
      const [id, timer] = next;
      this.#now = timer.due;
      if (timer.everyMs === undefined) this.#timers.delete(id);
      else [timer.due, timer.order] = [timer.due + timer.everyMs, ++this.#made];
      timer.callback();
    }
    this.#now = end;
  }

  /**
   * Lets promises settle, then moves time on as `tick` does. Like the original it neither waits between
   * two timers nor after the last: a test that needs that has to say so.
   */
  async tickAsync(ms = 0): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 0));
    this.tick(ms);
  }

  /** Gives the real time back. */
  restore(): void {
    if (current !== this) throw new Error("Cannot restore time: time is already restored");
    current = undefined;
    const real = { Date: RealDate, setTimeout, clearTimeout, setInterval, clearInterval };
    Object.assign(globalThis, real);
  }

  /** Gives the real time back. */
  [Symbol.dispose](): void {
    this.restore();
  }

  #next(end: number): [number, Timer] | undefined {
    const due = [...this.#timers].filter(([, timer]) => timer.due <= end);
    return due.sort(([, a], [, b]) => a.due - b.due || a.order - b.order)[0];
  }

  #starter(repeats: boolean) {
    return (callback: (...args: unknown[]) => void, delay = 0, ...args: unknown[]): number => {
      if (current !== this) throw new Error("Cannot start a timer: time is not faked");
      if (typeof callback !== "function") throw new TypeError("A timer's callback is no function");
      const ms = Math.max(repeats ? 1 : 0, Math.floor(delay));
      const id = ++this.#made;
      const [due, everyMs] = [this.#now + ms, repeats ? ms : undefined];
      this.#timers.set(id, { due, order: id, everyMs, callback: () => callback(...args) });
      return id;
    };
  }

  #date(): DateConstructor {
    return new Proxy(RealDate, {
      construct: (target, args) => Reflect.construct(target, args.length > 0 ? args : [this.#now]),
      apply: (target) => new target(this.#now).toString(),
      get: (target, name) => name === "now" ? () => this.#now : Reflect.get(target, name),
    });
  }
}
