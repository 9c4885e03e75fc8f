import { overloaded } from "./body_budget.ts";

/** How many bytes a slice has: they are decoded and hashed in 1 to 2 ms. */
export const SLICE_BYTES = 524_288;

/** Work in slices: each call of `next()` does one. */
export type Sliced<T> = Generator<unknown, T>;

interface Task {
  readonly isGivenUp: () => boolean;
  /** Does a slice; tells whether it was the last. */
  readonly goOn: () => boolean;
  readonly reject: (error: unknown) => void;
}

/**
 * Does work on large bodies, a slice in each turn of the event loop: whatever is sent by however many,
 * all else waits for one slice, and not for 24 bodies of 25 MiB. A body after the other is worked on, and
 * one that is evicted meanwhile is let go of at once.
 */
export class Slices {
  #tasks: Task[] = [];

  /**
   * Does work in its turn.
   *
   * @typeParam T What it comes to.
   * @param work The work.
   * @param isGivenUp Tells whether it is not wanted any more.
   * @returns What it comes to.
   * @throws {HttpError} 503 `OVERLOADED` if it is given up.
   */
  run<T>(work: Sliced<T>, isGivenUp: () => boolean): Promise<T> {
    return new Promise((resolve, reject) => {
      const goOn = () => {
        const { done, value } = work.next();
        if (done) resolve(value);
        return done === true;
      };
      this.#tasks.push({ isGivenUp, goOn, reject });
      if (this.#tasks.length === 1) setTimeout(this.#turn);
    });
  }

  readonly #turn = (): void => {
    for (const { isGivenUp, reject } of this.#tasks) if (isGivenUp()) reject(overloaded());
    this.#tasks = this.#tasks.filter(({ isGivenUp }) => !isGivenUp());
    const [task] = this.#tasks;
    if (task && isThrough(task)) this.#tasks.shift();
    if (this.#tasks.length > 0) setTimeout(this.#turn);
  };
}

function isThrough({ goOn, reject }: Task): boolean {
  try {
    return goOn();
  } catch (error) {
    reject(error);
    return true;
  }
}
