/** For how long a lock is waited for: a sender of a webhook has to be answered within 10 s. */
const LOCKED_TIMEOUT_MS = 4_500;

/** The longest pause before a lock is tried again: a commit takes about 1 ms. */
const MAX_PAUSE_MS = 50;

/**
 * By how much a pause is longer than the one before it. Twice as long, whoever was refused a few times
 * had to wait for much longer than those who were not.
 */
const PAUSE_GROWTH = 1.3;

/**
 * Commits, and tries again while another process holds the lock of the database file: Deno's KV does not
 * wait for it. Of three processes that write to one file, two had over half of their commits refused.
 *
 * @param operation What to commit.
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
      if (!isLocked(error) || performance.now() - start > LOCKED_TIMEOUT_MS) throw error;
    }
    onLocked?.();
    await new Promise((resolve) => setTimeout(resolve, pauseMs * (0.5 + Math.random())));
  }
}

/** Whether a KV refuses a commit for what is in it. */
export function isTooMuch(error: unknown): boolean {
  return /too (many|large)/i.test(String(error));
}

function isLocked(error: unknown): boolean {
  return error instanceof Error && error.message.includes("database is locked");
}
