/** The time by which the clocks of two machines may differ: chosen. */
export const CLOCK_SLACK_MS = 1_000;

/** Timeout of a list. */
export class Timeout {
  /** Time at which the timeout ends, by the monotonic clock. */
  readonly at: number;
  /** Function to call then. */
  readonly callback: () => void;
  /** Timeout that ends after this one. */
  next: Timeout | undefined;
  /** Timeout that ends before this one. */
  previous: Timeout | undefined;
  readonly #remove: (timeout: Timeout) => void;

  /**
   * Creates a timeout that is in no list yet.
   *
   * @param at The time at which it ends, by the monotonic clock.
   * @param callback The function to call then.
   * @param remove Takes it out of its list.
   */
  constructor(at: number, callback: () => void, remove: (timeout: Timeout) => void) {
    this.at = at;
    this.callback = callback;
    this.#remove = remove;
  }

  /** Cancels the timeout: its callback will not be called. */
  cancel(): void {
    this.#remove(this);
  }
}

/** One timer for several lists of timeouts. It is set for the timeout that ends first. */
export class SharedTimer {
  /** Lists that hold a running timeout. */
  readonly #lists = new Set<Timeouts>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Time that the timer is set for, by the monotonic clock. */
  #at = Infinity;

  /** Adds a list whose first timeout ends at a time of the monotonic clock. */
  add(list: Timeouts, at: number): void {
    this.#lists.add(list);
    this.#setFor(at);
  }

  /** Removes a list. A timer that is set for it keeps running while there are other lists. */
  delete(list: Timeouts): void {
    this.#lists.delete(list);
    if (this.#lists.size === 0) this.#clear();
  }

  #setFor(at: number): void {
    if (at >= this.#at) return;
    this.#clear();
    this.#at = at;
    // `setTimeout` cuts off parts of a millisecond. A process that was frozen may be late already.
    const delayMs = Math.max(0, Math.ceil(at - performance.now()));
    this.#timer = setTimeout(this.#wake, delayMs);
  }

  #clear(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#at = Infinity;
  }

  readonly #wake = (): void => {
    // The timer fired for this time, even if the clock is a fraction of a millisecond short of it.
    const now = Math.max(performance.now(), this.#at);
    this.#clear();
    for (const list of [...this.#lists]) list.end(now);
    this.#setFor(Math.min(...[...this.#lists].map(({ nextAt }) => nextAt)));
  };
}

/**
 * Timeouts of one length. They end in the order in which they start, so one timer serves all of them.
 *
 * With a timer for each timeout, an event had four of them: 8 % of the CPU time. Setting a timer
 * each time a list became empty took another 3 %, so several lists can share one.
 */
export class Timeouts {
  readonly #ms: number;
  #first: Timeout | undefined;
  #last: Timeout | undefined;
  readonly #timer: SharedTimer;

  /**
   * Creates a list without timeouts.
   *
   * @param ms The length of each timeout, in milliseconds.
   * @param timer The timer that ends them. Lists may share it.
   */
  constructor(ms: number, timer: SharedTimer = new SharedTimer()) {
    this.#ms = ms;
    this.#timer = timer;
  }

  /** Time at which the next timeout ends, by the monotonic clock. */
  get nextAt(): number {
    return this.#first?.at ?? Infinity;
  }

  /**
   * Starts a timeout.
   *
   * @param callback The function to call when it ends.
   * @returns The timeout, which can be cancelled.
   */
  start(callback: () => void): Timeout {
    const timeout = new Timeout(performance.now() + this.#ms, callback, this.#remove);
    timeout.previous = this.#last;
    const last = this.#last;
    this.#last = timeout;
    if (last) last.next = timeout;
    else {
      this.#first = timeout;
      this.#timer.add(this, timeout.at);
    }
    return timeout;
  }

  /**
   * Waits for a promise, but no longer than the length of these timeouts.
   *
   * @param promise The promise. A late result is ignored.
   * @param late Makes the error if the promise takes longer.
   * @returns The promise's value.
   * @throws {Error} If the promise takes longer.
   */
  limit<T>(promise: Promise<T>, late?: () => Error): Promise<T> {
    return new Promise((resolve, reject) => {
      const giveUp = () => reject(late ? late() : new Error(`No answer within ${this.#ms} ms`));
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

  readonly #remove = (timeout: Timeout): void => {
    const { previous, next } = timeout;
    // A timeout that has ended or was cancelled is no longer in the list.
    if (!previous && this.#first !== timeout) return;
    if (previous) previous.next = next;
    else this.#first = next;
    if (next) next.previous = previous;
    else this.#last = previous;
    timeout.previous = timeout.next = undefined;
    if (!this.#first) this.#timer.delete(this);
  };

  /** Ends the timeouts that are due at a time of the monotonic clock. */
  end(now: number): void {
    // A timeout that a callback starts is not due yet.
    for (let first = this.#first; first && first.at <= now; first = this.#first) {
      this.#remove(first);
      first.callback();
    }
  }
}

/**
 * Waits for a promise, but not forever: a remote KV that swallows a call never settles it.
 *
 * @param promise The promise. A late result is ignored.
 * @param ms The longest wait, in milliseconds. It may be over already, and be negative.
 * @param signal A signal that ends the wait early.
 * @returns The promise's value.
 * @throws {Error} If the promise takes longer, or the signal is aborted.
 */
export async function withDeadline<T>(
  promise: Promise<T>,
  ms: number,
  signal?: AbortSignal,
): Promise<T> {
  // Not `Promise.withResolvers`: the intake also runs on Node 20.
  let giveUp!: (reason: Error) => void;
  const given = new Promise<never>((_resolve, reject) => giveUp = reject);
  // Deno warns of a negative time.
  const leftMs = Math.max(0, ms);
  const timer = setTimeout(() => giveUp(new Error(`No answer within ${leftMs} ms`)), leftMs);
  const onAbort = () => giveUp(new Error("Stopped waiting"));
  signal?.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([promise, given]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
}

/**
 * Waits for a time, or until a signal is aborted.
 *
 * @param ms The time, in milliseconds.
 * @param signal The signal, if any.
 * @throws The signal's reason, if it is aborted before.
 */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const interrupt = () => {
      clearTimeout(timer);
      reject(signal!.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", interrupt);
      resolve();
    }, ms);
    signal?.addEventListener("abort", interrupt, { once: true });
  });
}
