import { Timeouts } from "../timeouts.ts";

/** A task that a remote KV swallows must not keep those behind it waiting for ever. */
const TASK_TIMEOUT_MS = 5_000;

/**
 * Lets one task at a time run for each key, in the order in which they came. It spares tries that would
 * fail, and nothing relies on it: what a commit checks decides.
 */
export class KeyedLock {
  readonly #timeouts = new Timeouts(TASK_TIMEOUT_MS);
  readonly #last = new Map<string, Promise<unknown>>();

  /** Runs a task once those before it of the same key are through, or have taken 5 s. */
  async run<T>(key: string, task: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key);
    const done = (async () => {
      await before?.catch(() => {});
      return await this.#timeouts.limit(task());
    })();
    this.#last.set(key, done);
    try {
      return await done;
    } finally {
      if (this.#last.get(key) === done) this.#last.delete(key);
    }
  }
}
