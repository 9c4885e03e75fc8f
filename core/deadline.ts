/**
 * Waits for something, but not for ever: a remote KV that swallows a call never settles it.
 *
 * @param promise What is waited for. What it comes to too late is not looked at.
 * @param ms For how long, in milliseconds.
 * @param signal Ends the waiting before.
 * @returns What it comes to.
 * @throws {Error} If it takes longer, or the signal is aborted.
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
  const onAbort = () => giveUp(new Error("Not waited for any longer"));
  signal?.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([promise, given]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
}
