import { checkInteger, checkKeys, checkObject, met } from "../../core/check_options.ts";

/** Beginning of all errors about a wrong policy. */
const DOING = "start the worker";

/**
 * Delays between the attempts at an event, and their number.
 *
 * @category Event store and worker
 */
export interface RetryPolicy {
  /**
   * The delay after the first failure, in milliseconds. It doubles with each further one.
   *
   * @default {1_000}
   */
  readonly minDelayMs?: number | undefined;
  /**
   * The longest delay, in milliseconds; jitter lengthens any delay by up to a quarter.
   *
   * @default {3_600_000} An hour.
   */
  readonly maxDelayMs?: number | undefined;
  /**
   * Number of attempts after which an event is given up.
   *
   * @default {36} With the default delays that is 24 to 30 hours after the first.
   */
  readonly maxAttempts?: number | undefined;
}

/** Largest part by which a delay is lengthened, so that events that failed together come back apart. */
const JITTER = 0.25;

/** Number of doublings after which a millisecond is longer than the longest delay. */
const MAX_DOUBLINGS = 40;

/** The longest delay that makes sense: a year. */
const MAX_DELAY_MS = 365 * 86_400_000;

/**
 * Checks a policy.
 *
 * @param policy The policy.
 * @throws {TypeError} If it is no object, or has another option.
 * @throws {RangeError} If a delay is not from 0 to a year, or `maxAttempts` not a positive integer.
 */
export function checkRetryPolicy(policy: RetryPolicy): void {
  checkObject(DOING, policy, "'retry'");
  checkKeys(`${DOING}, in 'retry'`, policy, ["minDelayMs", "maxDelayMs", "maxAttempts"]);
  const { minDelayMs = 0, maxDelayMs = 0, maxAttempts = 1 } = policy;
  for (const [name, value] of Object.entries({ minDelayMs, maxDelayMs })) {
    if (typeof value === "number" && value >= 0 && value <= MAX_DELAY_MS) continue;
    throw new RangeError(
      `Cannot ${DOING}: 'retry.${name}' must be from 0 to ${MAX_DELAY_MS}, got ${met(value)}`,
    );
  }
  checkInteger(DOING, "retry.maxAttempts", maxAttempts, { max: Number.MAX_SAFE_INTEGER });
}

/**
 * Calculates the delay until a failed event is tried again: exponential backoff with jitter.
 *
 * @param policy The policy.
 * @param attempt The attempt that failed, from 1.
 * @param random A number from 0 to 1.
 * @returns Milliseconds; null if the event is to be given up.
 * @category Event store and worker
 */
export function retryDelay(
  policy: RetryPolicy,
  attempt: number,
  random: number = Math.random(),
): number | null {
  const { minDelayMs = 1_000, maxDelayMs = 3_600_000, maxAttempts = 36 } = policy;
  if (attempt >= maxAttempts) return null;
  // 2 ** 1024 is infinite, and 0 times that is no number.
  const delay = Math.min(maxDelayMs, minDelayMs * 2 ** Math.min(attempt - 1, MAX_DOUBLINGS));
  return Math.round(delay * (1 + JITTER * random));
}
