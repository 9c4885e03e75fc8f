import { met } from "../../core/check_options.ts";
import { MAX_PUT_OFF_MS } from "../store/settlement.ts";
import { slotMs, type TokenRule } from "../store/token_bucket.ts";
import type { SharedBucket } from "../store/tokens.ts";
import { RetryLaterError } from "./event.ts";
import type { TakeOptions } from "./take.ts";

/** Longest wait for room by default, in milliseconds: twice the second of Telegram's limit for a chat. */
const WAIT_MS = 2_000;

/** The tokens that a run has taken: if it has to begin anew, it takes them again. */
export class TakenTokens {
  readonly #counts = new Map<SharedBucket, { readonly since: number; count: number }>();

  /** Notes that tokens were taken. */
  note(bucket: SharedBucket, count: number, rule: TokenRule): void {
    const now = performance.now();
    const known = this.#counts.get(bucket);
    if (known && now < known.since + rule.perMs) known.count += count;
    else this.#counts.set(bucket, { since: now, count });
  }

  /** Counts those that are not free again, all of them or some. */
  of(bucket: SharedBucket, { perMs }: TokenRule): number {
    const { since, count } = this.#counts.get(bucket) ?? { since: -Infinity, count: 0 };
    return performance.now() < since + perMs ? count : 0;
  }
}

/**
 * Makes the error of a call for which there will never be room: the attempt itself has taken it, and would do so again
 * if it was put off. If it can wait until that is free again, it only has to wait.
 *
 * @param name The name of the limit.
 * @param options The rule, the number of tokens, and the longest wait.
 * @param taken The number of tokens that the attempt has taken.
 * @returns The error; undefined if there may be room.
 */
export function neverRoom(
  name: string,
  { limit, perMs, count = 1, waitMs = WAIT_MS }: TakeOptions,
  taken: number,
): Error | undefined {
  if (taken + count <= limit || waitMs >= perMs + slotMs({ perMs })) return undefined;
  return new RangeError(
    `Cannot take part in the limit ${
      met(name)
    }: this attempt has taken ${taken} of ${limit} already, ` +
      "by `rate` or `take`, and would take that again. Make each call in a step of its own, with its own `take`",
  );
}

/**
 * Waits for tokens of a bucket, if there are none at hand.
 *
 * @param bucket The bucket.
 * @param name The name of its limit, for the error.
 * @param options The rule, the number of tokens, and the longest wait.
 * @param signal A signal that ends the wait.
 * @throws {RetryLaterError} If there will be no room in that time.
 * @throws The signal's reason, if it is aborted.
 */
export function waitForTokens(
  bucket: SharedBucket,
  name: string,
  { limit, perMs, count = 1, waitMs = WAIT_MS }: TakeOptions,
  signal: AbortSignal,
): Promise<void> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    let cancel = () => {};
    const interrupt = () => {
      cancel();
      reject(signal.reason);
    };
    const end = (settle: () => void) => {
      signal.removeEventListener("abort", interrupt);
      settle();
      return true;
    };
    signal.addEventListener("abort", interrupt, { once: true });
    cancel = bucket.wait({ limit, perMs }, {
      ...{ count, waitMs },
      use: () => end(resolve),
      putOff: (afterMs) => end(() => reject(noRoom(name, afterMs))),
      fail: (error) => end(() => reject(error)),
    });
  });
}

/**
 * Takes tokens of a bucket if there are any now. Otherwise it asks for none later.
 *
 * @param bucket The bucket.
 * @param options The rule, and the number of tokens.
 * @returns Whether it has taken them.
 */
export function takeIfRoom(
  bucket: SharedBucket,
  { limit, perMs, count = 1 }: TakeOptions,
): Promise<boolean> {
  const rule = { limit, perMs };
  if (bucket.isFull(rule, count)) return Promise.resolve(false);
  return new Promise((resolve, reject) => {
    bucket.wait(rule, {
      ...{ count, waitMs: 0, isOptional: true },
      use: () => {
        resolve(true);
        return true;
      },
      putOff: () => resolve(false),
      fail: reject,
    });
  });
}

/** Makes the error of an event that comes again when there is room. */
function noRoom(name: string, afterMs: number): RetryLaterError {
  return new RetryLaterError(`No room under the limit ${met(name)}`, {
    afterMs: Math.min(MAX_PUT_OFF_MS, Math.max(0, Math.ceil(afterMs))),
  });
}
