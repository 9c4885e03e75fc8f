/** When a failed event is tried again, and when it is given up. */
export interface RetryPolicy {
  /**
   * The delay after the first failure, in milliseconds. It doubles with each further one.
   *
   * @default {1_000}
   */
  readonly minDelayMs?: number;
  /**
   * The longest delay, in milliseconds; jitter lengthens any delay by up to a quarter.
   *
   * @default {3_600_000} An hour.
   */
  readonly maxDelayMs?: number;
  /**
   * After how many attempts an event is given up.
   *
   * @default {36} With the default delays that is more than 24 hours after the first.
   */
  readonly maxAttempts?: number;
}

/** By how much a delay is lengthened at most, so that events that failed together come back apart. */
const JITTER = 0.25;

/**
 * Tells in how long a failed event is to be tried again: exponential backoff with jitter.
 *
 * @param policy The policy.
 * @param attempt The attempt that failed, from 1.
 * @param random A number from 0 to 1.
 * @returns Milliseconds; null if the event is to be given up.
 */
export function retryDelay(
  policy: RetryPolicy,
  attempt: number,
  random: number = Math.random(),
): number | null {
  const { minDelayMs = 1_000, maxDelayMs = 3_600_000, maxAttempts = 36 } = policy;
  if (attempt >= maxAttempts) return null;
  const delay = Math.min(maxDelayMs, minDelayMs * 2 ** (attempt - 1));
  return Math.round(delay * (1 + JITTER * random));
}
