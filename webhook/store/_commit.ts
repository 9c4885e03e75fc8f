/** For how long a lock is waited for: a sender of a webhook has to be answered within 10 s. */
const LOCKED_TIMEOUT_MS = 4_500;

/** The longest pause before a lock is tried again: a commit takes about 1 ms. */
const MAX_PAUSE_MS = 50;

/**
 * Commits, and tries again while another process holds the lock of the database file: Deno's KV does not
 * wait for it. Of three processes that write to one file, two had over half of their commits refused.
 */
export async function commit(
  operation: Deno.AtomicOperation,
): Promise<Deno.KvCommitResult | Deno.KvCommitError> {
  const start = performance.now();
  for (let pauseMs = 1;; pauseMs = Math.min(MAX_PAUSE_MS, pauseMs * 2)) {
    try {
      return await operation.commit();
    } catch (error) {
      if (!isLocked(error) || performance.now() - start > LOCKED_TIMEOUT_MS) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs * (0.5 + Math.random())));
  }
}

function isLocked(error: unknown): boolean {
  return error instanceof Error && error.message.includes("database is locked");
}
