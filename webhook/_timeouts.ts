/** A timeout under way. */
export interface Timeout {
  /** Ends it: its callback is not called any more. */
  cancel(): void;
}

class Entry implements Timeout {
  /** When it is over, by the monotonic clock. */
  readonly at: number;
  readonly callback: () => void;
  next: Entry | undefined;
  previous: Entry | undefined;
  readonly #remove: (entry: Entry) => void;

  constructor(at: number, callback: () => void, remove: (entry: Entry) => void) {
    this.at = at;
    this.callback = callback;
    this.#remove = remove;
  }

  cancel(): void {
    this.#remove(this);
  }
}

/**
 * Timeouts of one length. They end in the order they are started in, so one timer at a time does for all
 * of them: with a timer for each, an event had four, which took 8 % of the processor's time.
 */
export class Timeouts {
  readonly #ms: number;
  #first: Entry | undefined;
  #last: Entry | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** What the timer was set for. */
  #awaited: Entry | undefined;

  /** @param ms Their length, in milliseconds. */
  constructor(ms: number) {
    this.#ms = ms;
  }

  /**
   * Starts one.
   *
   * @param callback Called once it is over.
   * @returns What ends it before.
   */
  start(callback: () => void): Timeout {
    const entry = new Entry(performance.now() + this.#ms, callback, this.#remove);
    entry.previous = this.#last;
    if (this.#last) this.#last.next = entry;
    else this.#first = entry;
    this.#last = entry;
    if (this.#timer === undefined) this.#await(entry, this.#ms);
    return entry;
  }

  /**
   * Waits for something, but not for longer than they are.
   *
   * @param promise What is waited for. What it comes to too late is not looked at.
   * @returns What it comes to.
   * @throws {Error} If it takes longer.
   */
  limit<T>(promise: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const giveUp = () => reject(new Error(`No answer within ${this.#ms} ms`));
      const timeout = this.start(giveUp);
      promise.then((value) => {
        timeout.cancel();
        resolve(value);
      }, (error) => {
        timeout.cancel();
        reject(error);
      });
    });
  }

  readonly #remove = (entry: Entry): void => {
    const { previous, next } = entry;
    // One that is over, or was ended before, is in the list no longer.
    if (!previous && this.#first !== entry) return;
    if (previous) previous.next = next;
    else this.#first = next;
    if (next) next.previous = previous;
    else this.#last = previous;
    entry.previous = entry.next = undefined;
    if (this.#first) return;
    clearTimeout(this.#timer);
    this.#timer = this.#awaited = undefined;
  };

  #await(entry: Entry, ms: number): void {
    this.#awaited = entry;
    this.#timer = setTimeout(this.#end, ms);
  }

  readonly #end = (): void => {
    const now = performance.now();
    const ended = this.#timer;
    // What the timer was set for is over, even if another clock says that some of a millisecond is left.
    for (let first = this.#awaited; first && first === this.#first;) {
      this.#remove(first);
      first.callback();
      first = this.#first && this.#first.at <= now ? this.#first : undefined;
    }
    if (this.#first && this.#timer === ended) this.#await(this.#first, this.#first.at - now);
  };
}
