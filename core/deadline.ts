/**
 * Waits for a promise, but not forever: a remote KV that swallows a call never settles it.
 *
 * @param promise The promise. A late result is ignored.
 * @param ms The longest wait, in milliseconds.
 * @param signal A signal that ends the wait early.
 * @returns The promise's value.
 * @throws {Error} If the promise takes longer, or the signal is aborted.
 */
export async function withDeadline<T>(
  promise: Promise<T>,
  ms: number,
  signal?: AbortSignal,
): Promise<T> {
  // Not `Promise.withResolvers`: the intake also runs on Node 20.
  let giveUp!: (reason: Error) => void;
  const given = new Promise<never>((_resolve, reject) => giveUp = reject);
  const timer = setTimeout(() => giveUp(new Error(`No answer within ${ms} ms`)), ms);
  const onAbort = () => giveUp(new Error("Stopped waiting"));
  signal?.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([promise, given]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
}
