import {
  checkObjectOption,
  checkOptions,
  numberFrom,
  type OptionCheck,
  wholeNumber,
} from "../../core/check_options.ts";

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

/** A delay between attempts. */
const checkDelay = numberFrom(0, MAX_DELAY_MS);

const CHECKS = { minDelayMs: checkDelay, maxDelayMs: checkDelay, maxAttempts: wholeNumber() };

/** Checks a policy: an option of that name. */
export const checkRetryPolicy: OptionCheck = (doing, name, value) => {
  checkObjectOption(doing, name, value);
  checkOptions<RetryPolicy>(`${doing}, in '${name}'`, value as RetryPolicy, CHECKS);
};

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
  // 2 ** 1024 is infinite, and 0 times that is NaN.
  const delay = Math.min(maxDelayMs, minDelayMs * 2 ** Math.min(attempt - 1, MAX_DOUBLINGS));
  return Math.round(delay * (1 + JITTER * random));
}
