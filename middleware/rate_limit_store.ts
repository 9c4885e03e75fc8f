import { checkInteger } from "../core/check_options.ts";

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
   * @default {100_000} Under 20 MB.
   */
  readonly maxKeys?: number | undefined;
}

interface Entry {
  readonly key: string;
  count: number;
  readonly expiresAt: number;
  older: Entry | undefined;
  newer: Entry | undefined;
}

/** A `Map` of V8 holds no more entries. */
const MAX_MAP_SIZE = 2 ** 24;

/** How many expired keys one insertion forgets: enough to outrun insertions. */
const EXPIRED_PER_INSERTION = 2;

/** Among how many old keys the one to forget is chosen, so that a flood of new ones frees no offender. */
const CANDIDATES = 8;

/**
 * Counts in memory: for one instance, and forgotten when it restarts. Several instances each allow
 * the limit.
 *
 * Bounded in memory and constant in time, without timers: a window that begins goes to the end of a
 * list, so those that expire first are found at its start. The map's own order would not do: its first
 * key is behind all that were deleted, 80 µs away on average where 100,000 come and go, up to 300.
 */
export class MemoryRateLimitStore implements RateLimitStore {
  readonly #entries = new Map<string, Entry>();
  readonly #maxKeys: number;
  #oldest: Entry | undefined;
  #newest: Entry | undefined;

  /**
   * Makes an empty store.
   *
   * @param options How many keys are held.
   * @throws {RangeError} If `maxKeys` is not a whole number from 1 to 16,777,216.
   */
  constructor(options: MemoryRateLimitStoreOptions = {}) {
    const { maxKeys = 100_000 } = options;
    checkInteger("create the rate limit store", "maxKeys", maxKeys, { max: MAX_MAP_SIZE });
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

  /** Forgets the key with the lowest count of a few old ones; the busier ones go to the end. */
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
