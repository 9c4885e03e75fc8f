/** First and longest delay, in milliseconds. */
const [FIRST_MS, LONGEST_MS] = [1_000, 60_000] as const;

/** Part of a delay by which it is varied: workers that poll in step would leave an event to the same one each time. */
const VARIATION = 0.25;

/** Largest number of events that are remembered. */
const MAX_REMEMBERED = 10_000;

/** Delays of events that this process gives back, without an attempt: each is twice as long as the one before. */
export class GrowingDelays {
  /** The number of delays so far, by the ids of the events. */
  readonly #times = new Map<string, number>();

  /** Checks whether an event was delayed. */
  has(id: string): boolean {
    return this.#times.has(id);
  }

  /** Makes the next delay of an event, in milliseconds. */
  next(id: string): number {
    const times = this.#times.get(id) ?? 0;
    this.#times.delete(id);
    this.#times.set(id, times + 1);
    const [oldest] = this.#times.keys();
    if (this.#times.size > MAX_REMEMBERED) this.#times.delete(oldest!);
    return Math.min(LONGEST_MS, FIRST_MS * 2 ** times) * (1 + VARIATION * Math.random());
  }

  /** Begins the delays of an event anew. */
  forget(id: string): void {
    if (this.#times.size > 0) this.#times.delete(id);
  }
}
