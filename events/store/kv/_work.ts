import type { BulkOptions, BulkResult } from "../bulk_options.ts";

/** Work on many events: counts what is looked at and changed, and tells of it. */
export class Work {
  readonly #options: BulkOptions;
  readonly #left: Set<string>;
  #seen = 0;
  #changed = 0;

  /** Begins work; of the ids it is told which of them are left. */
  constructor(options: BulkOptions = {}, ids: readonly string[] = []) {
    this.#options = options;
    this.#left = new Set(ids);
  }

  /** Whether it is to end. */
  get ended(): boolean {
    return this.#options.signal?.aborted ?? false;
  }

  /** What came of it so far. */
  get result(): BulkResult {
    return { changed: this.#changed, left: [...this.#left] };
  }

  /** Counts an event that was looked at. */
  sawOne(): void {
    this.#seen++;
    this.#tell();
  }

  /** Counts events that were changed. */
  hasChanged(ids: readonly string[]): void {
    for (const id of ids) this.#left.delete(id);
    this.#changed += ids.length;
    this.#tell();
  }

  #tell(): void {
    this.#options.onProgress?.({ seen: this.#seen, changed: this.#changed });
  }
}
