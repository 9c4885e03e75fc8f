import { OvertakenError, untilDone } from "../../core/tries.ts";
import { met } from "../../core/check_options.ts";
import { withDeadline } from "../../core/timeouts.ts";
import { type Cell, type CellKey, type Engine, UndecodableError } from "./engine.ts";
import { limitKey } from "./limits.ts";
import type { StoreCore } from "./store_core.ts";
import {
  bucketAt,
  closing,
  EMPTY,
  isTokenBucket,
  keptMs,
  promising,
  roomAt,
  slotMs,
  takenFrom,
  taking,
  type TokenBucket,
  type TokenRule,
  wasAhead,
} from "./token_bucket.ts";
import type { SharedBucket, TokenBuckets, TokenWish } from "./tokens.ts";

/** Part of the limit that a process takes at a time, at most. */
const LOT = 1 / 20;

/** Time in which half of the time of a slow commit is forgotten, in milliseconds. */
const HALF_FORGOTTEN_MS = 2_000;

/** Longest time for a read or a commit, in milliseconds. Locally it takes one or two. */
const ANSWER_MS = 10_000;

/** Time for which it is taken for true that there is no room, in milliseconds: somebody may open a limit again. */
const KNOWN_MS = 1_000;

/** Time for which a wish is put off that other processes have overtaken for too long, in milliseconds. */
const OVERTAKEN_MS = 2_000;

/** Number of buckets that a process remembers before it forgets those that are not in use. */
const MIN_REMEMBERED = 1_000;

/** A wish that waits. */
interface Waiting extends TokenWish {
  readonly rule: TokenRule;
  /** The time since which it waits, milliseconds since the epoch. */
  readonly since: number;
  /** The time up to which it waits, milliseconds since the epoch. */
  readonly until: number;
}

/**
 * The buckets of a store, as this process uses them. It takes tokens in lots: as many as are waited for here, or as it
 * has used lately while half of the limit is free, up to a 20th of the limit. A lot is counted in one commit, and may be
 * used until its slot ends: what is left of it then is lost.
 *
 * @param core The store. Its worker is told of the waits for room.
 * @returns The buckets.
 */
export function tokenBuckets(core: StoreCore): TokenBuckets {
  const buckets = new Map<string, LocalBucket>();
  const pace = new CommitPace();
  let sweepAt = MIN_REMEMBERED;
  return {
    of(name, key) {
      const id = `${name.length}:${name}${key}`;
      const known = buckets.get(id);
      if (known) return known;
      if (buckets.size >= sweepAt) {
        for (const [id, bucket] of buckets) if (!bucket.isInUse) buckets.delete(id);
        sweepAt = Math.max(MIN_REMEMBERED, 2 * buckets.size);
      }
      const bucket = new LocalBucket(core, limitKey(name, key), pace);
      buckets.set(id, bucket);
      return bucket;
    },
  };
}

/** The time that commits take. */
class CommitPace {
  #slowMs = 0;
  #since = 0;

  /** The time of a slow commit, in milliseconds: what was long ago counts less. */
  get ms(): number {
    return this.#slowMs * 2 ** ((this.#since - performance.now()) / HALF_FORGOTTEN_MS);
  }

  note(ms: number): void {
    [this.#slowMs, this.#since] = [Math.max(ms, this.ms), performance.now()];
  }
}

class LocalBucket implements SharedBucket {
  readonly #engine: Engine;
  readonly #local: StoreCore["local"];
  readonly #key: CellKey;
  readonly #pace: CommitPace;
  #waiting: Waiting[] = [];
  /** Number of tokens at hand, and the end of their slot. */
  #left = 0;
  #until = -Infinity;
  /** Number of tokens of the bucket that are taken with these, and the length of time that it was counted for. */
  #taken = 0;
  #perMs = 0;
  /** The bucket when there was no room, and the time up to which that is taken for true, by the monotonic clock. */
  #full: TokenBucket | undefined;
  #fullUntil = -Infinity;
  /** The last time at which the first wish had to wait for room. */
  #fullAt = -Infinity;
  readonly #use = new Use();
  #isServing = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor({ engine, local }: StoreCore, key: CellKey, pace: CommitPace) {
    this.#engine = engine;
    this.#local = local;
    this.#key = key;
    this.#pace = pace;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  get isInUse(): boolean {
    return this.#isServing || this.#waiting.length > 0 || this.#engine.now() < this.#until;
  }

  takeNow(rule: TokenRule, count: number): number | undefined {
    if (this.#waiting.length > 0) return undefined;
    const now = this.#engine.now();
    if (!this.#hasAtHand(rule, count, now)) return undefined;
    this.#left -= count;
    this.#use.note(count, now);
    return this.#until - now;
  }

  isFull(rule: TokenRule, count: number): boolean {
    const now = this.#engine.now();
    return this.#isKnown && this.#noneBefore(rule, count, now) > now;
  }

  wait(rule: TokenRule, wish: TokenWish): () => void {
    const since = this.#engine.now();
    const waiting = { ...wish, rule, since, until: since + wish.waitMs };
    this.#waiting.push(waiting);
    queueMicrotask(() => void this.#serve());
    return () => void this.#remove(waiting);
  }

  async closeFor(ms: number): Promise<void> {
    this.#left = 0;
    const until = this.#engine.now() + ms;
    await untilDone(async () => {
      const cell = await this.#read();
      return await this.#write(cell, closing(bucketIn(cell), until)) ? true : undefined;
    });
    this.#left = 0;
    this.#full = undefined;
    void this.#serve();
  }

  #remove(wish: Waiting): boolean {
    const at = this.#waiting.indexOf(wish);
    if (at < 0) return false;
    this.#waiting.splice(at, 1);
    if (this.#waiting.length === 0) clearTimeout(this.#timer);
    else if (at === 0) queueMicrotask(() => void this.#serve());
    return true;
  }

  /** Serves what waits, one after the other, until there is no room. */
  async #serve(): Promise<void> {
    if (this.#isServing) return;
    this.#isServing = true;
    clearTimeout(this.#timer);
    try {
      while (this.#waiting.length > 0) {
        if (this.#giveFirst()) continue;
        if (this.#mustWait()) break;
        await this.#negotiate();
      }
    } catch (error) {
      const putsOff = error instanceof OvertakenError;
      for (const wish of this.#waiting.splice(0)) {
        if (!putsOff) wish.fail(error);
        else this.#putOff(wish, wish.isOptional ? 0 : OVERTAKEN_MS * (1 + Math.random()));
      }
    } finally {
      this.#isServing = false;
    }
    const [first] = this.#waiting;
    if (first) this.#wakeFor(first, this.#engine.now());
  }

  get #isKnown(): boolean {
    return performance.now() < this.#fullUntil;
  }

  /** Calculates the time before which there is no room, as far as is known. */
  #noneBefore(rule: TokenRule, count: number, now: number): number {
    return this.#full ? roomAt(bucketAt(this.#full, rule, now), rule, count, now) : now;
  }

  #wakeFor({ rule, count }: Waiting, now: number): void {
    const roomMs = this.#noneBefore(rule, count, now) - now;
    const ms = Math.ceil(Math.min(roomMs, this.#fullUntil - performance.now()));
    this.#timer = setTimeout(() => void this.#serve(), Math.max(0, ms));
  }

  /** Checks whether there are tokens at hand. A rule may be stricter than the one by which they were taken. */
  #hasAtHand(rule: TokenRule, count: number, now: number): boolean {
    return count <= this.#left && now < this.#until && rule.limit >= this.#taken &&
      rule.perMs <= this.#perMs;
  }

  /** Gives the first wish its tokens out of the lot. */
  #giveFirst(): boolean {
    const now = this.#engine.now();
    const { rule, count, use, since } = this.#waiting[0]!;
    if (!this.#hasAtHand(rule, count, now)) return false;
    this.#waiting.shift();
    // What begins by that may take more at once.
    this.#left -= count;
    if (!use(this.#until - now)) this.#left += count;
    else {
      this.#use.note(count, now);
      // Otherwise it has waited for a commit alone.
      if (since <= this.#fullAt) this.#count("waited");
    }
    return true;
  }

  /** Checks that there is no room yet, and that all who wait can do so. */
  #mustWait(): boolean {
    if (!this.#full || !this.#isKnown) return false;
    const now = this.#engine.now();
    const { rule, count } = this.#waiting[0]!;
    if (now >= this.#noneBefore(rule, count, now)) return false;
    if (this.#late(this.#full, now).length > 0) return false;
    this.#fullAt = now;
    return true;
  }

  /** Takes a lot or, if there is no room, puts off what cannot wait for it. */
  async #negotiate(): Promise<void> {
    await untilDone(async () => {
      const cell = await this.#read();
      const [first] = this.#waiting;
      if (!first) return true;
      const { rule } = first;
      const now = this.#engine.now();
      const bucket = bucketAt(bucketIn(cell), rule, now);
      const lot = taking(bucket, rule, this.#lotOf(first, now), now, 2 * this.#pace.ms);
      if (!lot) return await this.#refuse(cell, bucket, first, now);
      const start = performance.now();
      if (!await this.#write(cell, lot.after)) return undefined;
      this.#pace.note(performance.now() - start);
      const left = lot.until === this.#until ? this.#left : 0;
      [this.#left, this.#until, this.#full] = [left + lot.count, lot.until, undefined];
      [this.#taken, this.#perMs] = [takenFrom(lot.after), rule.perMs];
      this.#use.slotMs = slotMs(rule);
      return true;
    });
  }

  #lotOf({ rule, count: min }: Waiting, now: number): Parameters<typeof taking>[2] {
    const most = Math.max(1, Math.floor(rule.limit * LOT));
    let wanted = 0;
    // A part of what one counts for would be lost.
    for (const { count } of this.#waiting) {
      if (wanted + count > most) break;
      wanted += count;
    }
    return { min, max: Math.max(min, wanted), soon: Math.min(most, this.#use.lately(now)) };
  }

  async #refuse(
    cell: Cell,
    bucket: TokenBucket,
    first: Waiting,
    now: number,
  ): Promise<true | undefined> {
    const { rule } = first;
    const late = this.#late(bucket, now);
    const coming = late.filter(({ isOptional }) => !isOptional);
    if (coming.length > 0 || wasAhead(bucketIn(cell), bucket, now)) {
      const { after, times } = promising(bucket, rule, coming.map((wish) => wish.count), now);
      if (!await this.#write(cell, after)) return undefined;
      // While the first one waits, the others have no room.
      const soonest = late.includes(first) ? now : roomAt(bucket, rule, first.count, now);
      coming.forEach((wish, i) => {
        if (this.#remove(wish)) this.#putOff(wish, Math.max(times[i]!, soonest) - now);
      });
    }
    for (const wish of late) if (wish.isOptional && this.#remove(wish)) this.#putOff(wish, 0);
    [this.#full, this.#fullUntil] = [bucket, performance.now() + KNOWN_MS];
    return true;
  }

  #putOff(wish: Waiting, afterMs: number): void {
    wish.putOff(afterMs);
    if (!wish.isOptional) this.#count("put_off");
  }

  /** Finds the wishes that cannot wait until there is room for them and for all before them. */
  #late(bucket: TokenBucket, now: number): Waiting[] {
    let before = 0;
    return this.#waiting.filter(({ rule, count, until }) => {
      const rounds = Math.floor((before + count - 1) / rule.limit);
      const inRound = before + count - rounds * rule.limit;
      const roundsMs = rounds * (rule.perMs + slotMs(rule));
      const own = rule.perMs === bucket.perMs ? bucket : bucketAt(bucket, rule, now);
      const isLate = roomAt(own, rule, inRound, now) + roundsMs > Math.max(until, now);
      if (!isLate) before += count;
      return isLate;
    });
  }

  #count(outcome: "waited" | "put_off"): void {
    this.#local.listener?.count?.({ is: "limited", limit: String(this.#key[1]), outcome });
  }

  async #read(): Promise<Cell> {
    return (await withDeadline(this.#engine.cells([this.#key]), ANSWER_MS))[0]!;
  }

  async #write({ key, version }: Cell, after: TokenBucket): Promise<boolean> {
    const forMs = keptMs(after, this.#engine.now());
    const change = { cells: [{ key, version, after, forMs }], urgency: "work" } as const;
    return (await withDeadline(this.#engine.apply(change), ANSWER_MS)).ok;
  }
}

/** The tokens that a process has used in this slot, and in the one before. */
class Use {
  slotMs = 0;
  #since = -Infinity;
  #now = 0;
  #before = 0;

  note(count: number, now: number): void {
    const ms = now - this.#since;
    if (ms >= this.slotMs) {
      this.#before = ms < 2 * this.slotMs ? this.#now : 0;
      [this.#since, this.#now] = [now, 0];
    }
    this.#now += count;
  }

  /** Finds the larger of the two numbers; 0 if both slots are over. */
  lately(now: number): number {
    return now - this.#since < 2 * this.slotMs ? Math.max(this.#now, this.#before) : 0;
  }
}

/** Takes the bucket from its cell. */
function bucketIn({ key, value }: Cell): TokenBucket {
  if (value === null) return EMPTY;
  if (isTokenBucket(value)) return value;
  throw new UndecodableError(`the limit ${met(key.slice(1).join("/"))}`);
}
