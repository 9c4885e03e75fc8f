/** Smallest number of ids that are remembered: most redeliveries follow soon. UUIDs take about 3 MB. */
const MIN_REMEMBERED = 16_384;

/**
 * The ids of the events that were taken in lately. One duplicate makes a group commit fail for all its deliveries, so
 * an id that is known here is looked up before.
 */
export class RecentIds {
  #young = new Set<string>();
  #old = new Set<string>();

  /** Checks whether an id was added lately. */
  has(id: string): boolean {
    return this.#young.has(id) || this.#old.has(id);
  }

  /** Adds an id. */
  add(id: string): void {
    this.#young.add(id);
    if (this.#young.size < MIN_REMEMBERED) return;
    this.#old = this.#young;
    this.#young = new Set();
  }
}
