/**
 * Waits for something, but not for ever: a remote KV that swallows a call never settles it.
 *
 * @throws {Error} If it takes longer. What it comes to afterwards is not looked at.
 */
export async function withDeadline<T>(promise: Promise<T>, ms: number): Promise<T> {
  const deadline = Promise.withResolvers<never>();
  const timer = setTimeout(() => deadline.reject(new Error(`No answer within ${ms} ms`)), ms);
  try {
    return await Promise.race([promise, deadline.promise]);
  } finally {
    clearTimeout(timer);
  }
}
