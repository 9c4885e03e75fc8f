/** A command line that cannot be understood. The message says why, in one line. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}
