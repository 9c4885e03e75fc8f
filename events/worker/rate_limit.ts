/**
 * Limits of how many events are begun in a time, by all processes together.
 *
 * A worker takes a token of the limit's bucket before it loads the event. Without one the event as a whole has not
 * begun, as under a limit of runs (`concurrency_limit.ts`): it waits in memory if there will be room within two seconds,
 * and otherwise goes back to the schedule, until there is.
 *
 * @module
 */
import { checkObjectOption, checkOptions, type OptionCheck } from "../../core/check_options.ts";
import type { EventRecord } from "../store/mod.ts";
import type { TokenRule } from "../store/token_bucket.ts";
import type { SharedBucket, TokenBuckets, TokenWish } from "../store/tokens.ts";
import { checkKey, checkLimitName, RULE_CHECKS, type TakeOptions } from "./take.ts";

/** Time whose events may wait in memory, in milliseconds. */
const AHEAD_MS = 1_000;

/**
 * Facts of an event that are known before it is loaded.
 *
 * @category Handlers
 */
export type RatedEvent = Pick<
  EventRecord,
  "intake" | "platform" | "source" | "type" | "action" | "repository" | "chat" | "sender"
>;

/**
 * Limit of how many events are begun in any time of a length.
 *
 * @category Handlers
 */
export interface RateOptions extends Pick<TakeOptions, "limit" | "perMs"> {
  /**
   * Name of the limit. If {@linkcode HandlerContext.take} names the same one, they share it: the first call of the
   * handler has the room that its event has begun with.
   */
  readonly name: string;
  /**
   * Part of the limit that is counted alone, or a function that finds it for an event.
   *
   * @default {""} One for all.
   */
  readonly key?: TakeOptions["key"] | ((event: RatedEvent) => TakeOptions["key"]);
}

/** Checks that an option is a limit of a rate. */
export const checkRate: OptionCheck = (doing, name, value) => {
  checkObjectOption(doing, name, value);
  const checks = {
    name: checkLimitName,
    key: (doing: string, name: string, key: unknown) => {
      if (typeof key !== "function") checkKey(doing, name, key);
    },
    ...RULE_CHECKS,
  };
  const needed = ["name", "limit", "perMs"] as const;
  checkOptions(`${doing}, in '${name}'`, value as RateOptions, checks, needed);
};

/** Rule of a rate for an event, whose key is found. */
interface FoundRate extends TokenRule {
  readonly name: string;
  readonly key: string;
}

/**
 * Finds the rooms that an event needs under limits of rates: one for each name and key, by the strictest rule. The event
 * is begun once, however many of its handlers name the limit, and of a small one there are never two tokens at a time.
 *
 * @param rates The limits.
 * @param event The event.
 * @param tokens The buckets.
 * @returns The rooms, in the order of the limits.
 * @throws {TypeError | RangeError} If the function for a key finds none.
 */
export function roomsUnder(
  rates: readonly RateOptions[],
  event: RatedEvent,
  tokens: TokenBuckets,
): RateRoom[] {
  const found = new Map<string, FoundRate>();
  for (const rate of rates) {
    const [{ name }, key] = [rate, keyOf(rate, event)];
    const id = `${name.length}:${name}${key}`;
    const { limit, perMs } = found.get(id) ?? rate;
    const strictest = { limit: Math.min(limit, rate.limit), perMs: Math.max(perMs, rate.perMs) };
    found.set(id, { name, key, ...strictest });
  }
  return [...found.values()].map((rate) => new RateRoom(rate, tokens.of(rate.name, rate.key)));
}

function keyOf({ key }: RateOptions, event: RatedEvent): string {
  const found = typeof key === "function" ? key(event) : key;
  if (found !== undefined) checkKey("find the key of the event's rate", "key", found);
  return String(found ?? "");
}

/** Room of an event under a limit. */
export class RateRoom {
  readonly #rate: FoundRate;
  readonly #bucket: SharedBucket;
  /** Time before which it must be begun, or its first call be made, by the monotonic clock. */
  #until = -Infinity;
  /** Time before which it is not free again, unless a call has it. */
  #takenUntil = -Infinity;

  /** Notes the room that is needed, and takes none yet. */
  constructor(rate: FoundRate, bucket: SharedBucket) {
    this.#rate = rate;
    this.#bucket = bucket;
  }

  /** The name of the limit. */
  get name(): string {
    return this.#rate.name;
  }

  /** Checks whether it is room under a limit. */
  isUnder(name: string, key: string): boolean {
    return this.#rate.name === name && this.#rate.key === key;
  }

  /** True if it was taken, and is neither a call's nor free again. */
  get isTaken(): boolean {
    return performance.now() < this.#takenUntil;
  }

  /** Gives the room to a call, unless that must come under a stricter rule, or it is too late. */
  handOver({ limit, perMs }: TokenRule): boolean {
    const isStricter = limit < this.#rate.limit || perMs > this.#rate.perMs;
    if (isStricter || performance.now() >= this.#until) return false;
    this.#until = this.#takenUntil = -Infinity;
    return true;
  }

  /** True if as many wait in memory as may. */
  get isCrowded(): boolean {
    const { limit, perMs } = this.#rate;
    return this.#bucket.waiting >= Math.max(1, limit * AHEAD_MS / perMs);
  }

  /** Takes the room, if it is at hand. */
  take(): boolean {
    if (performance.now() < this.#until) return true;
    return this.#give(this.#bucket.takeNow(this.#rate, 1));
  }

  /**
   * Waits for room.
   *
   * @param waitMs The longest wait, in milliseconds.
   * @param wish Called when there is room, or none in that time. With `use` it has the room.
   * @returns A function that ends the wait.
   */
  wait(
    waitMs: number,
    wish: Pick<TokenWish, "putOff" | "fail"> & { use(): boolean },
  ): () => void {
    return this.#bucket.wait(this.#rate, {
      ...{ count: 1, waitMs, putOff: wish.putOff, fail: wish.fail },
      use: (leftMs) => this.#give(leftMs) && (wish.use() || this.#give(undefined)),
    });
  }

  #give(leftMs: number | undefined): boolean {
    this.#until = leftMs === undefined ? -Infinity : performance.now() + leftMs;
    this.#takenUntil = this.#until + this.#rate.perMs;
    return leftMs !== undefined;
  }
}
