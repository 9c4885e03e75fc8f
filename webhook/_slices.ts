import { overloaded } from "./body_budget.ts";

/** Size of a slice: decoding and hashing one takes 1 to 2 ms. */
export const SLICE_BYTES = 524_288;

/** Work in slices: each call of `next()` does one slice. */
export type Sliced<T> = Generator<unknown, T>;

interface Task {
  readonly isGivenUp: () => boolean;
  /** Does the next slice, and returns whether it was the last. */
  readonly next: () => boolean;
  readonly reject: (error: unknown) => void;
}

/**
 * Does work on large bodies, one slice in each turn of the event loop. However much is sent, everything
 * else waits for one slice, and not for 24 bodies of 25 MiB. The bodies take turns, one after the other,
 * and a body that is evicted meanwhile is released at once.
 */
export class Slices {
  #tasks: Task[] = [];

  /**
   * Does work in its turn.
   *
   * @typeParam T The work's result.
   * @param work The work.
   * @param isGivenUp Checks whether the result is no longer wanted.
   * @returns The result.
   * @throws {HttpError} 503 `OVERLOADED` if the work is given up.
   */
  run<T>(work: Sliced<T>, isGivenUp: () => boolean): Promise<T> {
    return new Promise((resolve, reject) => {
      const next = () => {
        const { done, value } = work.next();
        if (done) resolve(value);
        return done === true;
      };
      this.#tasks.push({ isGivenUp, next, reject });
      if (this.#tasks.length === 1) setTimeout(this.#turn);
    });
  }

  readonly #turn = (): void => {
    for (const { isGivenUp, reject } of this.#tasks) if (isGivenUp()) reject(overloaded());
    this.#tasks = this.#tasks.filter(({ isGivenUp }) => !isGivenUp());
    const [task] = this.#tasks;
    if (task && isFinished(task)) this.#tasks.shift();
    if (this.#tasks.length > 0) setTimeout(this.#turn);
  };
}

function isFinished({ next, reject }: Task): boolean {
  try {
    return next();
  } catch (error) {
    reject(error);
    return true;
  }
}
