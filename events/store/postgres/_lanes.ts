/** Work that shares a statement or a transaction with other work. */
interface Waiting<TItem, TResult> {
  readonly item: TItem;
  readonly since: number;
  readonly bytes: number;
  readonly done: PromiseWithResolvers<TResult>;
}

/** The most that shares a transaction. */
const [MAX_ITEMS, MAX_BYTES] = [200, 16_777_216] as const;

/**
 * A lane: what comes while its last transaction runs waits, and then shares the next one. Each lane has one transaction
 * at a time, and no lane waits for another.
 */
export class Lane<TItem, TResult> {
  readonly #run: (items: readonly TItem[], waitedMs: readonly number[]) => Promise<
    readonly (() => TResult | Promise<TResult>)[]
  >;
  #waiting: Waiting<TItem, TResult>[] = [];
  #isRunning = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /**
   * @param run Does work together. Returns what its parts result in, or throws if all of them have failed.
   */
  constructor(
    run: (items: readonly TItem[], waitedMs: readonly number[]) => Promise<
      readonly (() => TResult | Promise<TResult>)[]
    >,
  ) {
    this.#run = run;
  }

  /**
   * Adds work.
   *
   * @param item The work.
   * @param options Its size in bytes, and the longest wait for other work, in milliseconds.
   * @returns Its result.
   */
  add(
    item: TItem,
    { bytes = 0, withinMs = 0 }: {
      readonly bytes?: number | undefined;
      readonly withinMs?: number | undefined;
    } = {},
  ): Promise<TResult> {
    const done = Promise.withResolvers<TResult>();
    this.#waiting.push({ item, since: performance.now(), bytes, done });
    if (!this.#isRunning) this.#start(withinMs);
    return done.promise;
  }

  #start(withinMs: number): void {
    if (withinMs > 0) {
      this.#timer ??= setTimeout(() => this.#start(0), withinMs);
      return;
    }
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#isRunning) return;
    this.#isRunning = true;
    queueMicrotask(() => void this.#runAll());
  }

  async #runAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#take();
      const now = performance.now();
      try {
        const results = await this.#run(
          batch.map(({ item }) => item),
          batch.map(({ since }) => now - since),
        );
        for (const [i, { done }] of batch.entries()) {
          try {
            done.resolve(results[i]!());
          } catch (error) {
            done.reject(error);
          }
        }
      } catch (error) {
        for (const { done } of batch) done.reject(error);
      }
    }
    this.#isRunning = false;
  }

  #take(): Waiting<TItem, TResult>[] {
    let [number, bytes] = [0, 0];
    while (number < Math.min(this.#waiting.length, MAX_ITEMS)) {
      bytes += this.#waiting[number]!.bytes;
      if (number > 0 && bytes > MAX_BYTES) break;
      number++;
    }
    return this.#waiting.splice(0, number);
  }
}
