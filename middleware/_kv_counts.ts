import type { RateLimitCount } from "./rate_limit_store.ts";

/** The longest pause before a locked file is tried again: a commit takes about 1 ms. */
const MAX_PAUSE_MS = 10;

/** How many counts of windows that are over each new count deletes: enough to outrun them. */
const EXPIRED_PER_INSERTION = 10;

/** 128 bits of a digest: no two clients will ever share one. */
const DIGEST_BYTES = 16;

const encoder = new TextEncoder();

/** Counts of windows that follow the clock, in a KV. */
export class KvCounts {
  readonly #kv: Deno.Kv;
  readonly #prefix: Deno.KvKey;
  readonly #lockedMs: number;

  /**
   * @param kv The KV.
   * @param prefix Under which key the counts are kept.
   * @param lockedMs For how long a locked file is tried again.
   */
  constructor(kv: Deno.Kv, prefix: Deno.KvKey, lockedMs: number) {
    this.#kv = kv;
    this.#prefix = prefix;
    this.#lockedMs = lockedMs;
  }

  /** Counts one. */
  async increment(key: string, windowMs: number): Promise<RateLimitCount> {
    const now = Date.now();
    await this.#commit(this.#kv.atomic().sum(await this.#keyOf(key, windowMs, now), 1n));
    const counted = await this.get(key, windowMs, now);
    if (counted.count <= 1) await this.#forgetExpired(now);
    return counted;
  }

  /** Looks without counting. */
  async get(key: string, windowMs: number, now: number = Date.now()): Promise<RateLimitCount> {
    const { value } = await this.#kv.get<Deno.KvU64>(await this.#keyOf(key, windowMs, now));
    return { count: Number(value?.value ?? 0), resetMs: endOf(windowMs, now) - now };
  }

  /** The end of the window leads, so that the counts of those that are over come first. */
  async #keyOf(key: string, windowMs: number, now: number): Promise<Deno.KvKey> {
    const digest = await crypto.subtle.digest("SHA-256", encoder.encode(key));
    return [
      ...this.#prefix,
      endOf(windowMs, now),
      windowMs,
      new Uint8Array(digest, 0, DIGEST_BYTES),
    ];
  }

  /** A sum takes no expiry in Deno KV, and drops the one that a key has. */
  async #forgetExpired(now: number): Promise<void> {
    const selector = { start: this.#prefix, end: [...this.#prefix, now] };
    const expired = this.#kv.list(selector, { limit: EXPIRED_PER_INSERTION });
    const commit = this.#kv.atomic();
    let found = 0;
    for await (const { key } of expired) {
      commit.delete(key);
      found++;
    }
    if (found > 0) await this.#commit(commit);
  }

  /** A file that another process writes to is locked meanwhile, and Deno's KV does not wait for it. */
  async #commit(operation: Deno.AtomicOperation): Promise<void> {
    const start = performance.now();
    for (;;) {
      try {
        return void await operation.commit();
      } catch (error) {
        const isLocked = String(error).includes("database is locked");
        if (!isLocked || performance.now() - start > this.#lockedMs) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, MAX_PAUSE_MS * Math.random()));
    }
  }
}

function endOf(windowMs: number, now: number): number {
  return (Math.floor(now / windowMs) + 1) * windowMs;
}
