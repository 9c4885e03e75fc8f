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
