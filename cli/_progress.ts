import type { BulkProgress } from "../events/mod.ts";

/** How often the line is written: no eye sees more. */
const PERIOD_MS = 100;

/** Goes to the beginning of the line, and clears it. */
const CLEAR = "\r\x1b[K";

/** A line on a terminal that shows how far long work has come. */
export class ProgressLine {
  readonly #terminal: ((text: string) => void) | undefined;
  readonly #done: string;
  #shownAt = performance.now();
  #shown = false;
  #changed = 0;

  /**
   * Begins a line.
   *
   * @param terminal Writes to the terminal; undefined where there is none, and nothing is shown.
   * @param done What is done with events, such as `purged`; an empty text if they are only looked at.
   */
  constructor(terminal: ((text: string) => void) | undefined, done: string) {
    this.#terminal = terminal;
    this.#done = done;
  }

  /** How many events have been changed. */
  get changed(): number {
    return this.#changed;
  }

  /** Shows how far the work has come, if it is time to. */
  readonly show = ({ seen, changed }: BulkProgress): void => {
    this.#changed = changed;
    const now = performance.now();
    if (!this.#terminal || now - this.#shownAt < PERIOD_MS) return;
    this.#shownAt = now;
    this.#shown = true;
    const done = this.#done === "" ? "" : `, ${changed} ${this.#done}`;
    this.#terminal(`${CLEAR}${seen} looked at${done}`);
  };

  /** Takes the line away. */
  clear(): void {
    if (this.#shown) this.#terminal?.(CLEAR);
  }
}
