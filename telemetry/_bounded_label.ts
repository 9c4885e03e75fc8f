/** What a value is replaced by where there are too many, or it has not the form of one. */
const OTHER = "_OTHER";

/** Values of a label as they are used, up to a number of them: each makes a time series of its own. */
export class BoundedLabel {
  readonly #max: number;
  readonly #known = new Set<string>();

  /**
   * @param max How many values there may be beside `_OTHER`.
   */
  constructor(max: number) {
    this.#max = max;
  }

  /** The value, or `_OTHER`. */
  of(value: string): string {
    if (this.#known.has(value)) return value;
    if (this.#known.size >= this.#max || !/^[\w.:-]{1,100}$/.test(value)) return OTHER;
    this.#known.add(value);
    return value;
  }
}
