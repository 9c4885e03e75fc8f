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
  /** Opens the standard input; undefined if that is a terminal. */
  readonly input: () => AsyncIterable<Uint8Array> | undefined;
  /** Writes to the terminal that shows errors; undefined if they go elsewhere. */
  readonly terminal: ((text: string) => void) | undefined;
  /**
   * Asks the user at the terminal, and resolves with the line that is typed; undefined if there is no terminal
   * to read from and to show the question on.
   */
  readonly ask: ((question: string) => Promise<string>) | undefined;
  /**
   * Calls a listener when the user interrupts the tool.
   *
   * @param listener The listener.
   * @returns A function that removes the listener.
   */
  readonly onInterrupt: (listener: () => void) => () => void;
  /**
   * Waits.
   *
   * @param ms The time, in milliseconds.
   * @param signal The end of the wait: it rejects with the signal's reason.
   */
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
}

/** Error in a command line. The message explains it in one line. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** Error of a command that the user has interrupted. */
export class InterruptedError extends Error {}

/** Reads the message of an error. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Works with a signal that the user's Ctrl-C aborts. */
export async function interruptible<T>(
  { onInterrupt }: CliWorld,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const ending = new AbortController();
  const forget = onInterrupt(() => ending.abort(new InterruptedError()));
  try {
    return await work(ending.signal);
  } finally {
    forget();
  }
}

/**
 * Asks the user.
 *
 * @returns False if the answer is not yes.
 * @throws {InterruptedError} If the user interrupts the tool instead.
 */
export async function confirmed(
  question: string,
  { ask, err }: CliWorld,
  signal: AbortSignal,
): Promise<boolean> {
  const interrupted = Promise.withResolvers<never>();
  signal.addEventListener("abort", () => interrupted.reject(signal.reason));
  const answer = await Promise.race([ask!(`${question} [y/N] `), interrupted.promise]);
  if (/^\s*y(es)?\s*$/i.test(answer)) return true;
  err("Nothing was done");
  return false;
}
