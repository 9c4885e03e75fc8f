import { Timeouts } from "../../../core/timeouts.ts";

/** A task that a remote KV swallows must not keep those behind it waiting for ever. */
const TASK_TIMEOUT_MS = 5_000;

/** The tasks of a key that wait for the one that runs. */
interface Waiting {
  /** Those that go first, in the order in which they came. */
  readonly urgent: (() => void)[];
  /** All others, in the order in which they came. */
  readonly rest: (() => void)[];
}

/**
 * Lets one task at a time run for each key. It spares tries that would fail, and nothing relies on it:
 * what a commit checks decides.
 */
export class KeyedLock {
  readonly #timeouts = new Timeouts(TASK_TIMEOUT_MS);
  readonly #held = new Map<string, Waiting>();

  /**
   * Runs a task once no other of its key runs, or those before it have taken 5 s each.
   *
   * @param isUrgent Whether it goes before those that are not and wait already.
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
