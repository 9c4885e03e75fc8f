import { Refusal, STORE_TIMEOUT_MS } from "./_http.ts";

/** Time after which a turn is given on although its work has not ended, in milliseconds: a database may never answer. */
const LONGEST_MS = 30_000;

/** Turns of work that is hard for the database: a few at a time, in the order in which they were asked for. */
export class Turns {
  #free: number;
  readonly #waiting = new Set<() => void>();
  readonly #maxWaiting: number;

  /**
   * @param max The number of those at a time.
   * @param maxWaiting The largest number of those that wait, if they are for requests, which wait for 20 s.
   */
  constructor(max: number, maxWaiting = Infinity) {
    this.#free = max;
    this.#maxWaiting = maxWaiting;
  }

  /**
   * Does work in its turn.
   *
   * @param work The work.
   * @returns Its result.
   * @throws {Refusal} 503 if too many requests wait, or this one has waited in vain: the work is not done.
   * @throws {unknown} As the work does.
   */
  async take<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--;
    else await this.#turn();
    let isOver = false;
    const giveOn = () => {
      if (isOver) return;
      isOver = true;
      const [next] = this.#waiting;
      if (next) next();
      else this.#free++;
    };
    const timer = setTimeout(giveOn, LONGEST_MS);
    try {
      return await work();
    } finally {
      clearTimeout(timer);
      giveOn();
    }
  }

  #turn(): Promise<void> {
    if (this.#waiting.size >= this.#maxWaiting) throw busy();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const begin = () => {
      this.#waiting.delete(begin);
      clearTimeout(timer);
      resolve();
    };
    const giveUp = () => {
      this.#waiting.delete(begin);
      reject(busy());
    };
    const timer = this.#maxWaiting < Infinity ? setTimeout(giveUp, STORE_TIMEOUT_MS) : undefined;
    this.#waiting.add(begin);
    return promise;
  }
}

const busy = () =>
  new Refusal(503, "Too busy", "Too many search at once. Try again.", { "Retry-After": "3" });
