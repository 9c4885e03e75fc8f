/** How a key stands in its current window. */
export interface RateLimitCount {
  /** How many requests were counted in the window. */
  readonly count: number;
  /** Until the window ends, in milliseconds. */
  readonly resetMs: number;
}

/** Where a rate limiter counts. When a key's windows begin is for the store to say. */
export interface RateLimitStore {
  /**
   * Counts a request.
   *
   * @param key Whose request it is.
   * @param windowMs The length of the window, in milliseconds.
   * @returns How the key stands, this request included.
   */
  increment(key: string, windowMs: number): RateLimitCount | Promise<RateLimitCount>;
  /**
   * Looks without counting.
   *
   * @param key Whose requests.
   * @param windowMs The length of the window, in milliseconds.
   * @returns How the key stands.
   */
  get(key: string, windowMs: number): RateLimitCount | Promise<RateLimitCount>;
}

/** Options of {@linkcode MemoryRateLimitStore}. */
export interface MemoryRateLimitStoreOptions {
  /**
   * How many keys are held at most. Beyond that an old one with few requests is forgotten.
   *
   * @default {100_000} About 15 MB.
   */
  readonly maxKeys?: number | undefined;
}

interface Entry {
  count: number;
  expiresAt: number;
}

/** How many expired keys one insertion forgets: enough to outrun insertions. */
const EXPIRED_PER_INSERTION = 2;

/** Among how many old keys the one to forget is chosen, so that a flood of new ones frees no offender. */
const CANDIDATES = 8;

/**
 * Counts in memory: for one instance, and forgotten when it restarts. Several instances each allow
 * the limit.
 *
 * Bounded in memory and constant in time, without timers: a window that begins goes to the end of the
 * map, so those that expire first are found at its start.
 */
export class MemoryRateLimitStore implements RateLimitStore {
  readonly #entries = new Map<string, Entry>();
  readonly #maxKeys: number;

  /**
   * Makes an empty store.
   *
   * @param options How many keys are held.
   * @throws {RangeError} If `maxKeys` is not a positive integer.
   */
  constructor(options: MemoryRateLimitStoreOptions = {}) {
    const { maxKeys = 100_000 } = options;
    if (!Number.isSafeInteger(maxKeys) || maxKeys < 1) {
      throw new RangeError(
        `Cannot create the rate limit store: 'maxKeys' must be a positive integer, got ${maxKeys}`,
      );
    }
    this.#maxKeys = maxKeys;
  }

  /** How many keys are held. */
  get size(): number {
    return this.#entries.size;
  }

  /**
   * Counts a request.
   *
   * @param key Whose request it is.
   * @param windowMs The length of the window, in milliseconds.
   * @returns How the key stands, this request included.
   */
  increment(key: string, windowMs: number): RateLimitCount {
    const now = performance.now();
    const entry = this.#current(key, now) ?? this.#begin(key, now + windowMs, now);
    entry.count++;
    return { count: entry.count, resetMs: Math.min(windowMs, entry.expiresAt - now) };
  }

  /**
   * Looks without counting.
   *
   * @param key Whose requests.
   * @param windowMs The length of the window, in milliseconds.
   * @returns How the key stands.
   */
  get(key: string, windowMs: number): RateLimitCount {
    const now = performance.now();
    const entry = this.#current(key, now);
    return entry
      ? { count: entry.count, resetMs: Math.min(windowMs, entry.expiresAt - now) }
      : { count: 0, resetMs: windowMs };
  }

  #current(key: string, now: number): Entry | undefined {
    const entry = this.#entries.get(key);
    return entry && entry.expiresAt > now ? entry : undefined;
  }

  #begin(key: string, expiresAt: number, now: number): Entry {
    this.#entries.delete(key);
    this.#forgetExpired(now);
    if (this.#entries.size >= this.#maxKeys) this.#forgetOne();
    const entry = { count: 0, expiresAt };
    this.#entries.set(key, entry);
    return entry;
  }

  #forgetExpired(now: number): void {
    let looked = 0;
    for (const [key, { expiresAt }] of this.#entries) {
      if (expiresAt > now || looked++ === EXPIRED_PER_INSERTION) return;
      this.#entries.delete(key);
    }
  }

  /** Forgets the key with the lowest count of a few old ones; the busier ones go to the end. */
  #forgetOne(): void {
    const old: [string, Entry][] = [];
    for (const each of this.#entries) {
      if (old.push(each) === CANDIDATES || each[1].count === 1) break;
    }
    const lowest = Math.min(...old.map(([, { count }]) => count));
    const forgotten = old.findIndex(([, { count }]) => count === lowest);
    for (const [key] of old) this.#entries.delete(key);
    for (const [key, entry] of old.toSpliced(forgotten, 1)) this.#entries.set(key, entry);
  }
}
