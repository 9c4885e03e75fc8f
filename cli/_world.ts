/** What the tool has to do with. */
export interface CliWorld {
  /** Reads an environment variable. */
  readonly env: (name: string) => string | undefined;
  /** The time, milliseconds since the epoch. */
  readonly now: () => number;
  /** Writes a line of the result. */
  readonly out: (line: string) => void;
  /** Writes a line for the one who runs the tool. */
  readonly err: (line: string) => void;
  /** Writes to the terminal that shows the errors; undefined if they go elsewhere. */
  readonly terminal: ((text: string) => void) | undefined;
  /**
   * Has something called when the one who runs the tool wants it to end.
   *
   * @param listener What is called.
   * @returns Takes that back.
   */
  readonly onInterrupt: (listener: () => void) => () => void;
}

/** A command line that cannot be understood. The message says why, in one line. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}
