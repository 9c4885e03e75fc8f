import type { TokenRule } from "./token_bucket.ts";

/** A wish for tokens of a bucket. */
export interface TokenWish {
  /** The number of tokens, up to the limit. */
  readonly count: number;
  /** Longest time to wait for them, in milliseconds. */
  readonly waitMs: number;
  /** Set if nothing comes again for it: then it is promised no tokens. */
  readonly isOptional?: boolean | undefined;
  /**
   * Called with the tokens, and the time within which they must be used, in milliseconds. Returns false if they are not
   * needed any more.
   */
  use(leftMs: number): boolean;
  /** Called if there is no room in that time, with the time after which to come again, in milliseconds. */
  putOff(afterMs: number): void;
  /** Called if the store fails. */
  fail(error: unknown): void;
}

/** A bucket of tokens that all processes share. */
export interface SharedBucket {
  /** Number of wishes of this process that wait. */
  readonly waiting: number;
  /**
   * Takes tokens out of those that this process has at hand.
   *
   * @returns The time within which they must be used, in milliseconds; undefined if there are too few, others wait for
   * them, or they were taken by a rule that permits more.
   */
  takeNow(rule: TokenRule, count: number): number | undefined;
  /** Checks whether it is known that there are no tokens now, without asking the store. */
  isFull(rule: TokenRule, count: number): boolean;
  /**
   * Waits for tokens behind the other wishes of this process.
   *
   * @returns A function that ends the wait.
   */
  wait(rule: TokenRule, wish: TokenWish): () => void;
  /** Closes the bucket for a time, in milliseconds. */
  closeFor(ms: number): Promise<void>;
}

/** The buckets of a store. */
export interface TokenBuckets {
  /** Finds a bucket, the same object while it is in use. */
  of(name: string, key: string): SharedBucket;
}
