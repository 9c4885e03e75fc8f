import { clearImmediate, setImmediate } from "node:timers";

/** Time that handlers may take of a turn of the event loop before everything else gets one, in milliseconds. */
const SLICE_MS = 10;

/** The pause after that, in which no handler starts: its share of the time, and its longest length in milliseconds. */
const PAUSE_SHARE = 1 / 20;
const MAX_PAUSE_MS = 50;

/** Longest wait for deliveries that are being stored, and its share of the time that a handler takes. */
const MAX_PATIENCE_MS = 20;
const PATIENCE_SHARE = 1 / 10;

/**
 * Shares the thread between the handlers and everything else. A handler that computes before it first awaits
 * something holds up every answer, and ten of them, one after the other in one turn of the event loop, hold them
 * up for ten times as long. So they start one after the other until they have taken 10 ms, and the next one
 * starts in a later turn, after a pause that lets requests through several turns.
 */
export class Turns {
  /** Time that handlers have taken since the last pause. */
  #spentMs = 0;
  /** Time that a handler takes of a turn; endless before the first. */
  #usualMs = Infinity;
  readonly #waiting: (() => void)[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isAnswering = false;
  #turn: ReturnType<typeof setImmediate> | undefined;
  #answering: ReturnType<typeof setTimeout> | undefined;
  #isStopped = false;
  #isStoring = (): boolean => false;

  /**
   * Calls a function once the deliveries are answered whose handlers it starts: two turns of the event loop later, as
   * the server sends the answer in the first. If handlers compute, or nothing is known of them, it also waits for
   * deliveries that are being stored, so that those are answered before.
   *
   * @param isStoring Tells whether there are any.
   * @param start The function. A second one is not called before the first one was.
   */
  afterAnswers(isStoring: () => boolean, start: () => void): void {
    this.#isStoring = isStoring;
    if (this.#isAnswering) return;
    this.#isAnswering = true;
    const since = performance.now();
    const go = (): void => {
      if (this.#isStopped) return;
      if (this.#waitsForStoring(since)) {
        this.#answering = setTimeout(go, 1);
        return;
      }
      this.#isAnswering = false;
      start();
    };
    // A timer costs six times as much.
    this.#turn = setImmediate(() => this.#turn = setImmediate(go));
  }

  /** Lets no start follow any more. */
  stop(): void {
    this.#isStopped = true;
    if (this.#turn) clearImmediate(this.#turn);
    clearTimeout(this.#answering);
    if (this.#waiting.length === 0) clearTimeout(this.#timer);
  }

  /**
   * Calls a function at once, or in its turn.
   *
   * @typeParam T The function's result.
   * @param call The function.
   * @returns Its result.
   */
  run<T>(call: () => T): T | Promise<Awaited<T>> {
    if (this.#spentMs < SLICE_MS && this.#waiting.length === 0) return this.#call(call);
    return new Promise((resolve, reject) => {
      this.#waiting.push(() => {
        try {
          resolve(this.#call(call) as Awaited<T>);
        } catch (error) {
          reject(error);
        }
      });
      this.#pause();
    });
  }

  /** Checks whether deliveries are being stored, and the wait for them that began at a time is not too long yet. */
  #waitsForStoring(since: number): boolean {
    const patienceMs = Math.min(MAX_PATIENCE_MS, this.#usualMs * PATIENCE_SHARE);
    return this.#isStoring() && performance.now() - since < patienceMs;
  }

  #call<T>(call: () => T): T {
    const start = performance.now();
    try {
      return call();
    } finally {
      const ms = performance.now() - start;
      this.#spentMs += ms;
      this.#usualMs = this.#usualMs === Infinity ? ms : Math.max(ms, 0.9 * this.#usualMs);
      if (this.#spentMs >= SLICE_MS) this.#pause();
    }
  }

  #pause(): void {
    if (this.#isStopped && this.#waiting.length === 0) return;
    const ms = Math.min(MAX_PAUSE_MS, this.#spentMs * PAUSE_SHARE);
    this.#timer ??= setTimeout(() => this.#goOn(performance.now()), ms);
  }

  #goOn(since: number): void {
    if (this.#waitsForStoring(since)) {
      this.#timer = setTimeout(() => this.#goOn(since), 1);
      return;
    }
    this.#timer = undefined;
    this.#spentMs = 0;
    while (this.#waiting.length > 0 && this.#spentMs < SLICE_MS) this.#waiting.shift()!();
    if (this.#waiting.length > 0) this.#pause();
  }
}
