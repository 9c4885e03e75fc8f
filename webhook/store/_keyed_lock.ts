/** Lets one task at a time run for each key, in the order in which they came. */
export class KeyedLock {
  readonly #last = new Map<string, Promise<unknown>>();

  /** Runs a task once those before it of the same key are through. */
  async run<T>(key: string, task: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key);
    const done = (async () => {
      await before?.catch(() => {});
      return await task();
    })();
    this.#last.set(key, done);
    try {
      return await done;
    } finally {
      if (this.#last.get(key) === done) this.#last.delete(key);
    }
  }
}
