/** For how long changes of the same thing are waited for: a sender has to be answered within 10 s. */
const TIMEOUT_MS = 4_500;

/** The longest pause between tries. */
const MAX_PAUSE_MS = 50;

/**
 * Tries again, with pauses that grow and differ, while others change what a commit checks: without
 * pauses, one that needs more steps than the others would lose each time.
 *
 * @param attempt Makes a try, told whether it is the first; undefined if others were faster.
 * @returns What the attempt that succeeded returned.
 * @throws {Error} If none succeeds in time.
 */
export async function untilDone<T>(
  attempt: (isFirst: boolean) => Promise<T | undefined>,
): Promise<T> {
  const start = performance.now();
  let isFirst = true;
  for (let pauseMs = 0;; pauseMs = Math.min(MAX_PAUSE_MS, 2 * pauseMs + 1)) {
    const result = await attempt(isFirst);
    isFirst = false;
    if (result !== undefined) return result;
    if (performance.now() - start > TIMEOUT_MS) break;
    // Once at once: the first try may just not have known what is there.
    if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs * Math.random()));
  }
  throw new Error(`Others changed the same event or group for ${TIMEOUT_MS} ms`);
}
