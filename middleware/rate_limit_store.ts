import { checkOptions, wholeNumber } from "../core/check_options.ts";

/**
 * Count of a key in its current window.
 *
 * @category Middleware
 */
export interface RateLimitCount {
  /** Number of requests that were counted in the window. */
  readonly count: number;
  /** Time until the window ends, in milliseconds. */
  readonly resetMs: number;
}

/**
 * Store of a rate limiter's counts. It decides when the windows of a key begin.
 *
 * @category Middleware
 */
export interface RateLimitStore {
  /**
   * Counts a request.
   *
   * @param key The key of the client.
   * @param windowMs The length of the window, in milliseconds.
   * @returns The count of the key, this request included.
   */
  increment(key: string, windowMs: number): RateLimitCount | Promise<RateLimitCount>;
  /**
   * Reads a count without counting.
   *
   * @param key The key of the client.
   * @param windowMs The length of the window, in milliseconds.
   * @returns The count of the key.
   */
  get(key: string, windowMs: number): RateLimitCount | Promise<RateLimitCount>;
}

interface Entry {
  readonly key: string;
  count: number;
  readonly expiresAt: number;
  older: Entry | undefined;
  newer: Entry | undefined;
}

/** Most entries of a `Map` in V8. */
const MAX_MAP_SIZE = 2 ** 24;

/** Expired keys that each insertion forgets: enough to keep up with insertions. */
const EXPIRED_PER_INSERTION = 2;

/**
 * Number of old keys to choose from when one must be forgotten: a flood of new keys must not free an
 * offender.
 */
const CANDIDATES = 8;

/**
 * Store of counts in the memory of one instance. Counts are lost when it restarts, and each of several
 * instances allows the limit.
 *
 * It needs bounded memory, constant time and no timers. A new window goes to the end of a list, so the
 * windows that expire first are at its start. The order of the map would not do: to find its first key, V8
 * walks past all deleted ones, which takes 80 µs on average and up to 300 if 100,000 keys come and go.
 *
 * @category Middleware
 */
export class MemoryRateLimitStore implements RateLimitStore {
  readonly #entries = new Map<string, Entry>();
  readonly #maxKeys: number;
  #oldest: Entry | undefined;
  #newest: Entry | undefined;

  /**
   * Creates an empty store.
   *
   * @param options The number of keys.
   * @throws {RangeError} If `maxKeys` is not a whole number from 1 to 16,777,216.
   */
  constructor(options: {
    /**
     * Most keys that are held. Beyond that, an old key with few requests is forgotten.
     *
     * @default {100_000} Under 20 MB.
     */
    readonly maxKeys?: number | undefined;
  } = {}) {
    const checks = { maxKeys: wholeNumber({ max: MAX_MAP_SIZE }) };
    checkOptions("create the rate limit store", options, checks);
    this.#maxKeys = options.maxKeys ?? 100_000;
  }

  /** Number of keys that are held. */
  get size(): number {
    return this.#entries.size;
  }

  /**
   * Counts a request.
   *
   * @param key The key of the client.
   * @param windowMs The length of the window, in milliseconds.
   * @returns The count of the key, this request included.
   */
  increment(key: string, windowMs: number): RateLimitCount {
    const now = performance.now();
    const entry = this.#current(key, now) ?? this.#begin(key, now + windowMs, now);
    entry.count++;
    return { count: entry.count, resetMs: Math.min(windowMs, entry.expiresAt - now) };
  }

  /**
   * Reads a count without counting.
   *
   * @param key The key of the client.
   * @param windowMs The length of the window, in milliseconds.
   * @returns The count of the key.
   */
  get(key: string, windowMs: number): RateLimitCount {
    const now = performance.now();
    const { count = 0, expiresAt = Infinity } = this.#current(key, now) ?? {};
    return { count, resetMs: Math.min(windowMs, expiresAt - now) };
  }

  #current(key: string, now: number): Entry | undefined {
    const entry = this.#entries.get(key);
    return entry && entry.expiresAt > now ? entry : undefined;
  }

  #begin(key: string, expiresAt: number, now: number): Entry {
    const expired = this.#entries.get(key);
    if (expired) this.#forget(expired);
    this.#forgetExpired(now);
    if (this.#entries.size >= this.#maxKeys) this.#forgetOne();
    const entry: Entry = { key, count: 0, expiresAt, older: undefined, newer: undefined };
    this.#entries.set(key, entry);
    this.#append(entry);
    return entry;
  }

  #forgetExpired(now: number): void {
    for (let looked = 0; looked < EXPIRED_PER_INSERTION; looked++) {
      if (!this.#oldest || this.#oldest.expiresAt > now) return;
      this.#forget(this.#oldest);
    }
  }

  /** Forgets the key with the lowest count among a few old ones, and moves the others to the end. */
  #forgetOne(): void {
    const old: Entry[] = [];
    for (let each = this.#oldest; each && old.length < CANDIDATES; each = each.newer) {
      old.push(each);
      if (each.count === 1) break;
    }
    const forgotten = old.reduce((lowest, each) => each.count < lowest.count ? each : lowest);
    this.#forget(forgotten);
    for (const busier of old) {
      if (busier === forgotten) continue;
      this.#unlink(busier);
      this.#append(busier);
    }
  }

  #forget(entry: Entry): void {
    this.#entries.delete(entry.key);
    this.#unlink(entry);
  }

  #append(entry: Entry): void {
    entry.older = this.#newest;
    entry.newer = undefined;
    if (this.#newest) this.#newest.newer = entry;
    else this.#oldest = entry;
    this.#newest = entry;
  }

  #unlink({ older, newer }: Entry): void {
    if (older) older.newer = newer;
    else this.#oldest = newer;
    if (newer) newer.older = older;
    else this.#newest = older;
  }
}
