/** The time for which a commit is tried: a sender of a webhook has to be answered within 10 s. */
const TRY_MS = 4_500;

/** The longest pause between tries: a commit takes about 1 ms. */
const MAX_PAUSE_MS = 50;

/**
 * The factor by which pauses for a lock grow. With 2, a process that was refused a few times had to wait
 * for much longer than the others.
 */
const PAUSE_GROWTH = 1.3;

/**
 * Commits, and tries again while another process holds the lock of the database file: Deno's KV does not
 * wait for it. Of three processes that write to one file, two had over half of their commits refused.
 *
 * @param operation The commit.
 * @param onLocked Called when the lock is met.
 */
export async function commit(
  operation: Deno.AtomicOperation,
  onLocked?: () => void,
): Promise<Deno.KvCommitResult | Deno.KvCommitError> {
  const start = performance.now();
  for (let pauseMs = 1;; pauseMs = Math.min(MAX_PAUSE_MS, pauseMs * PAUSE_GROWTH)) {
    try {
      return await operation.commit();
    } catch (error) {
      if (!isLocked(error) || performance.now() - start > TRY_MS) throw error;
    }
    onLocked?.();
    await new Promise((resolve) => setTimeout(resolve, pauseMs * (0.5 + Math.random())));
  }
}

/** Checks whether a KV refused a commit for its size. */
export function isTooMuch(error: unknown): boolean {
  return /too (many|large)/i.test(String(error));
}

function isLocked(error: unknown): boolean {
  return error instanceof Error && error.message.includes("database is locked");
}

/**
 * Tries again, with pauses that grow and differ, while others change what a commit checks: without
 * pauses, one that needs more steps than the others would lose each time.
 *
 * @param attempt Makes a try, and gets whether it is the first; undefined if others were faster.
 * @returns The result of the try that succeeded.
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
    if (performance.now() - start > TRY_MS) break;
    // The second try at once: the first one may just not have known what is there.
    if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs * Math.random()));
  }
  throw new Error(`Others changed the same event or group for ${TRY_MS} ms`);
}
