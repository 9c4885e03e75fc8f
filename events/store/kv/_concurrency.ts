import { Timeouts } from "../../../core/timeouts.ts";

/** Longest time that a task keeps others waiting: a remote KV never answers some calls. */
const TASK_TIMEOUT_MS = 5_000;

/** The tasks of a key that wait for the running one. */
interface Waiting {
  /** Tasks that go first, in the order in which they came. */
  readonly urgent: (() => void)[];
  /** Other tasks, in the order in which they came. */
  readonly rest: (() => void)[];
}

/**
 * Runs one task at a time for each key. This only saves tries that would fail: correctness rests on the
 * checks of the commits.
 */
export class KeyedLock {
  readonly #timeouts = new Timeouts(TASK_TIMEOUT_MS);
  readonly #held = new Map<string, Waiting>();

  /**
   * Runs a task when its turn comes: when each task of its key before it has ended, or has run for 5 s.
   *
   * @param isUrgent Set if it goes before the other tasks that wait already.
   */
  async run<T>(key: string, task: () => Promise<T>, isUrgent = false): Promise<T> {
    const waiting = this.#held.get(key);
    if (waiting) {
      await new Promise<void>((resolve) =>
        (isUrgent ? waiting.urgent : waiting.rest).push(resolve)
      );
    } else this.#held.set(key, { urgent: [], rest: [] });
    try {
      return await this.#timeouts.limit(task());
    } finally {
      this.#release(key);
    }
  }

  #release(key: string): void {
    const { urgent, rest } = this.#held.get(key)!;
    const next = urgent.shift() ?? rest.shift();
    if (next) next();
    else this.#held.delete(key);
  }
}

/** Runs tasks, up to a number of them at a time. */
export class Pool {
  readonly #size: number;
  readonly #running = new Set<Promise<void>>();
  #failure: { readonly reason: unknown } | undefined;

  constructor(size: number) {
    this.#size = size;
  }

  /** Starts a task as soon as there is room. Rejects once a task has failed. */
  async add(task: () => Promise<void>): Promise<void> {
    while (this.#running.size >= this.#size) await Promise.race(this.#running);
    this.#throwIfFailed();
    const running = task()
      .catch((reason) => void (this.#failure ??= { reason }))
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  /** Waits for the running tasks. Rejects if a task has failed. */
  async done(): Promise<void> {
    await Promise.all(this.#running);
    this.#throwIfFailed();
  }

  #throwIfFailed(): void {
    if (this.#failure) throw this.#failure.reason;
  }
}
