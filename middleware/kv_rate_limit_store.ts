import {
  checkFunction,
  checkOptions,
  checkPart,
  MAX_TIMER_MS,
  met,
  type OptionCheck,
  wholeNumber,
} from "../core/check_options.ts";
import { CommitMarks, commitUnlocked } from "../core/kv_commits.ts";
import { consoleSink, type LogSink, writeLog } from "../core/log.ts";
import { withDeadline } from "../core/timeouts.ts";
import {
  MemoryRateLimitStore,
  type RateLimitCount,
  type RateLimitStore,
} from "./rate_limit_store.ts";

const DOING = "create the rate limit store";

/** Counts of expired windows that each new count deletes: enough to keep up with them. */
const EXPIRED_PER_INSERTION = 10;

/** Length of a digest: with 128 bits, no two clients will ever share one. */
const DIGEST_BYTES = 16;

/** Checks a prefix: a KV would store half of a surrogate pair as another character, and two limiters count together. */
const checkPrefix: OptionCheck = (doing, name, value) => {
  const isPart = (part: unknown) => typeof part !== "string" || part.isWellFormed();
  if (Array.isArray(value) && value.every(isPart)) return;
  const wanted = "a key of well-formed texts and other parts";
  throw new TypeError(`Cannot ${doing}: '${name}' must be ${wanted}, got ${met(value)}`);
};

const CHECKS = {
  prefix: checkPrefix,
  timeoutMs: wholeNumber({ max: MAX_TIMER_MS }),
  recoveryMs: wholeNumber({ max: MAX_TIMER_MS }),
  log: checkFunction,
};

/**
 * Store of counts in a Deno KV, for all instances that share it.
 *
 * A count takes one commit and one read, no matter how many instances count at the same time. The first
 * count of a client's window also lists and deletes up to 10 counts of windows that are over. Windows
 * follow the clock, not the client's first request, so that instances agree on them without asking. Keys
 * are stored as digests.
 *
 * While the KV fails, the instance counts in memory. A failure neither refuses requests nor lifts the
 * limit.
 *
 * @example
 * ```ts
 * import { Hono } from "@hono/hono";
 * import { createRateLimiter, errorHandler, KvRateLimitStore } from "@org/edge-base/middleware";
 * import { assertEquals } from "@std/assert";
 *
 * using kv = await Deno.openKv(":memory:");
 * const store = new KvRateLimitStore(kv);
 * const instances = [1, 2].map(() => {
 *   const app = new Hono();
 *   app.onError(errorHandler);
 *   app.use(createRateLimiter({ limit: 1, window: 3_600_000, store }));
 *   return app.get("/", (c) => c.text("hello"));
 * });
 *
 * assertEquals((await instances[0]!.request("/")).status, 200);
 * assertEquals((await instances[1]!.request("/")).status, 429);
 * ```
 *
 * @category Middleware
 */
export class KvRateLimitStore implements RateLimitStore {
  readonly #counts: KvCounts;
  readonly #timeoutMs: number;
  readonly #recoveryMs: number;
  readonly #log: LogSink;
  readonly #memory = new MemoryRateLimitStore();
  /** Time until which the KV is not used, by the monotonic clock. */
  #failedUntil = -Infinity;

  /**
   * Creates a store. Several can share a KV.
   *
   * @param kv The KV. The store does not close it.
   * @param options The key prefix, the time limits and the log.
   * @throws {TypeError} If the KV or an option has the wrong type, or a text of the prefix is not well-formed.
   * @throws {RangeError} If `timeoutMs` or `recoveryMs` is not a whole number from 1 to 2,147,483,647.
   */
  constructor(kv: Deno.Kv, options: {
    /**
     * Key prefix of the counts. Each limiter needs its own.
     *
     * @default {["rate-limits"]}
     */
    readonly prefix?: Deno.KvKey | undefined;
    /**
     * Longest wait for the KV, in milliseconds. After it, the instance counts in memory.
     *
     * @default {1_000}
     */
    readonly timeoutMs?: number | undefined;
    /**
     * Time after a failure during which the KV is not used, in milliseconds.
     *
     * @default {5_000}
     */
    readonly recoveryMs?: number | undefined;
    /**
     * Log for failures of the KV.
     *
     * @default {consoleSink}
     */
    readonly log?: LogSink | undefined;
  } = {}) {
    checkOptions(DOING, options, CHECKS);
    checkPart(DOING, kv, "atomic", "the KV must be what Deno.openKv() resolves with");
    const { prefix = ["rate-limits"], log = consoleSink } = options;
    const { timeoutMs = 1_000, recoveryMs = 5_000 } = options;
    this.#counts = new KvCounts(kv, prefix, timeoutMs);
    this.#timeoutMs = timeoutMs;
    this.#recoveryMs = recoveryMs;
    this.#log = log;
  }

  /**
   * Counts a request.
   *
   * @param key The key of the client.
   * @param windowMs The length of the window, in milliseconds.
   * @returns The count of the key, this request included.
   */
  increment(key: string, windowMs: number): Promise<RateLimitCount> {
    return this.#ask((store) => store.increment(key, windowMs));
  }

  /**
   * Reads a count without counting.
   *
   * @param key The key of the client.
   * @param windowMs The length of the window, in milliseconds.
   * @returns The count of the key.
   */
  get(key: string, windowMs: number): Promise<RateLimitCount> {
    return this.#ask((store) => store.get(key, windowMs));
  }

  /** Asks the KV, or the memory while that fails. */
  async #ask(
    ask: (store: RateLimitStore) => RateLimitCount | Promise<RateLimitCount>,
  ): Promise<RateLimitCount> {
    if (performance.now() >= this.#failedUntil) {
      try {
        return await withDeadline(Promise.resolve(ask(this.#counts)), this.#timeoutMs);
      } catch (error) {
        this.#fail(error);
      }
    }
    return await ask(this.#memory);
  }

  #fail(error: unknown): void {
    if (performance.now() < this.#failedUntil) return;
    this.#failedUntil = performance.now() + this.#recoveryMs;
    writeLog(this.#log, "error", "rate limits counted in memory", { error });
  }
}

const encoder = new TextEncoder();

/** Counts in a KV, by windows that follow the clock. */
class KvCounts implements RateLimitStore {
  readonly #kv: Deno.Kv;
  readonly #prefix: Deno.KvKey;
  readonly #marks: CommitMarks;
  readonly #tryMs: number;

  /**
   * @param kv The KV.
   * @param prefix The key prefix of the counts.
   * @param tryMs The time for which a locked file is tried again.
   */
  constructor(kv: Deno.Kv, prefix: Deno.KvKey, tryMs: number) {
    this.#kv = kv;
    this.#prefix = prefix;
    this.#marks = new CommitMarks(kv, [...prefix, "commit"]);
    this.#tryMs = tryMs;
  }

  /** Counts a request. */
  async increment(key: string, windowMs: number): Promise<RateLimitCount> {
    const now = Date.now();
    const kvKey = await this.#keyOf(key, windowMs, now);
    await this.#marks.commit(this.#kv.atomic().sum(kvKey, 1n), [], { tryMs: this.#tryMs });
    const counted = await this.get(key, windowMs, now);
    if (counted.count <= 1) await this.#forgetExpired(now);
    return counted;
  }

  /** Reads a count without counting. */
  async get(key: string, windowMs: number, now: number = Date.now()): Promise<RateLimitCount> {
    const { value } = await this.#kv.get<Deno.KvU64>(await this.#keyOf(key, windowMs, now));
    return { count: Number(value?.value ?? 0), resetMs: endOf(windowMs, now) - now };
  }

  /** Makes the key of a count. The end of the window leads, so that expired windows come first. */
  async #keyOf(key: string, windowMs: number, now: number): Promise<Deno.KvKey> {
    // As JSON: half of a surrogate pair would be encoded as another character, and two clients be one.
    const digest = await crypto.subtle.digest("SHA-256", encoder.encode(JSON.stringify(key)));
    return [
      ...this.#prefix,
      endOf(windowMs, now),
      windowMs,
      new Uint8Array(digest, 0, DIGEST_BYTES),
    ];
  }

  /** Deletes expired counts: in Deno KV a sum has no expiry, and removes the one that a key has. */
  async #forgetExpired(now: number): Promise<void> {
    const selector = { start: [...this.#prefix, 0], end: [...this.#prefix, now] };
    const expired = this.#kv.list(selector, { limit: EXPIRED_PER_INSERTION });
    const operation = this.#kv.atomic();
    let found = 0;
    for await (const { key } of expired) {
      operation.delete(key);
      found++;
    }
    if (found > 0) await commitUnlocked(operation, { tryMs: this.#tryMs });
  }
}

function endOf(windowMs: number, now: number): number {
  return (Math.floor(now / windowMs) + 1) * windowMs;
}
