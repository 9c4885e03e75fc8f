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

/** Wakes lists of timeouts: one timer for all of them, set for the one that ends first. */
export class SharedTimer {
  /** Those in which something waits. */
  readonly #lists = new Set<Timeouts>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** What it is set for, by the monotonic clock. */
  #at = Infinity;

  /** Wakes a list from now on, the first time at a time of the monotonic clock. */
  add(list: Timeouts, at: number): void {
    this.#lists.add(list);
    this.#setFor(at);
  }

  /** Does not wake a list any more. A timer that is set for it goes on while there are others. */
  delete(list: Timeouts): void {
    this.#lists.delete(list);
    if (this.#lists.size === 0) this.#clear();
  }

  #setFor(at: number): void {
    if (at >= this.#at) return;
    this.#clear();
    this.#at = at;
    // Parts of a millisecond are cut off. A process that stood still may be late for it already.
    const delayMs = Math.max(0, Math.ceil(at - performance.now()));
    this.#timer = setTimeout(this.#wake, delayMs);
  }

  #clear(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#at = Infinity;
  }

  readonly #wake = (): void => {
    // What it was set for is over, even if another clock says that some of a millisecond is left.
    const now = Math.max(performance.now(), this.#at);
    this.#clear();
    for (const list of [...this.#lists]) list.end(now);
    this.#setFor(Math.min(...[...this.#lists].map(({ nextAt }) => nextAt)));
  };
}

/**
 * Timeouts of one length. They end in the order they are started in, so one timer at a time does for all
 * of them: with a timer for each, an event had four, which took 8 % of the processor's time. Lists that
 * share a timer need not set one each time that one of them is empty, which took another 3 %.
 */
export class Timeouts {
  readonly #ms: number;
  #first: Entry | undefined;
  #last: Entry | undefined;
  readonly #timer: SharedTimer;

  /**
   * @param ms Their length, in milliseconds.
   * @param timer What ends them.
   */
  constructor(ms: number, timer: SharedTimer = new SharedTimer()) {
    this.#ms = ms;
    this.#timer = timer;
  }

  /** When the next one is over, by the monotonic clock. */
  get nextAt(): number {
    return this.#first?.at ?? Infinity;
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
    const last = this.#last;
    this.#last = entry;
    if (last) last.next = entry;
    else {
      this.#first = entry;
      this.#timer.add(this, entry.at);
    }
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
    if (!this.#first) this.#timer.delete(this);
  };

  /** Ends those that are over at a time of the monotonic clock. */
  end(now: number): void {
    // One that is started meanwhile has its time before it.
    for (let first = this.#first; first && first.at <= now; first = this.#first) {
      this.#remove(first);
      first.callback();
    }
  }
}
