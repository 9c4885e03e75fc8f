/** How many ids are known at least: redeliveries mostly follow soon. Of UUIDs, they take about 3 MB. */
const MIN_KNOWN = 16_384;

/**
 * Ids that were taken in lately. A duplicate among the deliveries that share a commit makes it fail for
 * all, so the record of an id that is known is looked at before.
 */
export class RecentIds {
  #young = new Set<string>();
  #old = new Set<string>();

  /** Whether an id was added lately. */
  has(id: string): boolean {
    return this.#young.has(id) || this.#old.has(id);
  }

  /** Adds an id. */
  add(id: string): void {
    this.#young.add(id);
    if (this.#young.size < MIN_KNOWN) return;
    this.#old = this.#young;
    this.#young = new Set();
  }
}
