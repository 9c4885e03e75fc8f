/** Everything outside the process that the tool uses. */
export interface CliWorld {
  /** Reads an environment variable. */
  readonly env: (name: string) => string | undefined;
  /** Reads the time, in milliseconds since the epoch. */
  readonly now: () => number;
  /** Writes a line of the result. */
  readonly out: (line: string) => void;
  /** Writes a line for the user. */
  readonly err: (line: string) => void;
  /** Writes to the terminal that shows errors; undefined if they go elsewhere. */
  readonly terminal: ((text: string) => void) | undefined;
  /**
   * Calls a listener when the user interrupts the tool.
   *
   * @param listener The listener.
   * @returns A function that removes the listener.
   */
  readonly onInterrupt: (listener: () => void) => () => void;
}

/** Error in a command line. The message explains it in one line. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}
