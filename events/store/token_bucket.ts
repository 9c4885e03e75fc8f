/**
 * A bucket of tokens that all processes share: the limit of a service, over any time of a length. It is one cell, and
 * these are its changes, bucket in and bucket out.
 *
 * The bucket counts tokens by slots of a 32nd of that length. A token may be used until its slot ends, and is free again
 * that length after the end. So a service that counts the calls of any time of that length never sees more than the
 * limit, and a token goes round in 33 slots: 97 % of the limit can be used.
 *
 * An event that finds no room is put off. The bucket notes up to which time it has promised tokens, so that events come
 * back one by one. A promise is a hint: it takes no token.
 *
 * @module
 */
import { isCount, isTime, listOf, orNone, shape } from "../../core/shape.ts";

/** Number of slots of the length of time. */
const SLOTS = 32;

/** Largest number of counts in a bucket: it has some 40, and more if rules differ in the length of time. */
const MAX_COUNTS = 64;

/** Number of slots of a longer time for which counts are kept that the rule at hand does not need. */
const OLDER_SLOTS = 16;

/**
 * Longest time for which events are promised tokens one by one: in milliseconds, and as a number of times of the length.
 * If the events that have a promise are deleted, others may wait that long.
 */
const [MAX_PROMISED_MS, MAX_PROMISED_TIMES] = [3_600_000, 10] as const;

/** Longest time in which a bucket is taken to be stored, in milliseconds. */
const MAX_AHEAD_MS = 20_000;

/** Part of the limit of which tokens are taken that nobody waits for: what is lost of the rest is missed. */
const SPARE = 1 / 2;

/** Part of the length of time by which a promise is later than its token: an event takes a while to come back. */
const LATE = 1 / 256;

/** Time that a bucket is kept after it is as good as new, in milliseconds: the clocks of two machines may differ. */
const KEPT_MS = 60_000;

/** Rule of a bucket: a number of tokens for any time of a length. */
export interface TokenRule {
  /** The largest number of tokens. */
  readonly limit: number;
  /** The length of time, in milliseconds. */
  readonly perMs: number;
}

/** A number of tokens, and the end of their slot, milliseconds since the epoch: they may be used before it. */
type Count = readonly [until: number, count: number];

/** A bucket, as its cell has it, with its rule by the last call; that is undefined before the first one. */
export interface TokenBucket extends Partial<TokenRule> {
  /** The tokens that are taken, in the order of their slots. */
  readonly taken: readonly Count[];
  /** The time before which there are no tokens; undefined for none. */
  readonly closedUntil?: number | undefined;
  /** The time up to which tokens are promised to events that were put off; undefined for none. */
  readonly promisedUntil?: number | undefined;
  /** The length of time of another rule, which is longer, and until when what is taken counts for that. */
  readonly longest?: readonly [perMs: number, until: number] | undefined;
  /** The tokens that count for that rule alone. */
  readonly older?: readonly Count[] | undefined;
}

/** An empty bucket. */
export const EMPTY: TokenBucket = { taken: [] };

const isCounts = listOf((value) =>
  Array.isArray(value) && value.length === 2 && isTime(value[0]) && isCount(value[1])
);

/** Checks whether a stored value is a bucket that this version can read. */
export const isTokenBucket: (value: unknown) => value is TokenBucket = shape<TokenBucket>({
  limit: orNone(isCount),
  perMs: orNone(isTime),
  taken: isCounts,
  closedUntil: orNone(isTime),
  promisedUntil: orNone(isTime),
  longest: orNone((value) => listOf(isTime, 2)(value) && (value as unknown[]).length === 2),
  older: orNone(isCounts),
});

/** Calculates the length of a slot, in milliseconds. */
export function slotMs({ perMs }: Pick<TokenRule, "perMs">): number {
  return Math.ceil(perMs / SLOTS);
}

/**
 * Finds the state of a bucket at a time: tokens that are free again are gone. A slot in the far future, of a clock that
 * was ahead, ends sooner.
 */
export function bucketAt(bucket: TokenBucket, rule: TokenRule, now: number): TokenBucket {
  const { longest: _, older: before = [], ...rest } = bucket;
  const longest = longestOf(bucket, rule, now);
  const [perMs] = longest ?? [rule.perMs];
  const latest = now + perMs + slotMs({ perMs });
  // Of slow commits a slot may be longer than the time.
  const isFar = (until: number) => until > latest + 2 * MAX_AHEAD_MS;
  const taken: Count[] = [];
  const older: Count[] = [];
  for (const [until, count] of [...before, ...bucket.taken]) {
    if (until + rule.perMs > now) taken.push([isFar(until) ? latest : until, count]);
    else if (until + perMs > now) older.push([until, count]);
  }
  const at = { ...rest, limit: rule.limit, perMs: rule.perMs, taken };
  return longest ? { ...at, longest, older: inLongSlots(older, perMs) } : at;
}

/**
 * Checks whether a slot of a bucket ends sooner by its state at a time, since a clock was ahead. Unless that is stored, it
 * ends as much later as it is looked at later.
 */
export function wasAhead(bucket: TokenBucket, { taken }: TokenBucket, now: number): boolean {
  const last = Math.max(now, ...taken.map(([until]) => until));
  return bucket.taken.some(([until]) => until > last);
}

/** Finds another rule with a longer time, if one was used and what was taken then still counts for it. */
function longestOf(
  { perMs = 0, taken, longest }: TokenBucket,
  rule: TokenRule,
  now: number,
): TokenBucket["longest"] {
  const [last = -Infinity] = taken.at(-1) ?? [];
  const known = [...longest ? [longest] : [], [perMs, last + perMs] as const]
    .filter(([ms, until]) => ms > rule.perMs && until > now);
  return known.toSorted(([a], [b]) => b - a)[0];
}

/** Joins the counts of each slot of a longer time: the latest end counts. */
function inLongSlots(counts: readonly Count[], perMs: number): Count[] {
  const joined = new Map<number, Count>();
  for (const [until, count] of counts) {
    const slot = Math.floor(until * OLDER_SLOTS / perMs);
    joined.set(slot, [until, count + (joined.get(slot)?.[1] ?? 0)]);
  }
  return [...joined.values()];
}

/** Counts the tokens that are taken from a bucket at a time. */
export function takenFrom({ taken }: TokenBucket): number {
  return taken.reduce((sum, [, tokens]) => sum + tokens, 0);
}

/**
 * Calculates when a number of tokens is free, if nobody else takes any.
 *
 * @param bucket The bucket at a time.
 * @param rule Its rule.
 * @param count The number of tokens, up to the limit.
 * @param now That time.
 * @returns The time, milliseconds since the epoch.
 */
export function roomAt(
  { taken, closedUntil = -Infinity }: TokenBucket,
  { limit, perMs }: TokenRule,
  count: number,
  now: number,
): number {
  let missing = Math.min(count, limit) - limit;
  for (const [, tokens] of taken) missing += tokens;
  let at = now;
  for (const [until, tokens] of taken) {
    if (missing <= 0) break;
    missing -= tokens;
    at = until + perMs;
  }
  return Math.max(at, closedUntil);
}

/**
 * Takes tokens.
 *
 * @param bucket The bucket at a time.
 * @param rule Its rule.
 * @param wanted The least and the largest number that is waited for, and the number that may soon be.
 * @param now That time.
 * @param aheadMs The time in which the bucket will be stored, in milliseconds: they may be used for longer than that.
 * @returns The bucket after, and the tokens with the end of their slot; undefined if there is no room.
 */
export function taking(
  bucket: TokenBucket,
  rule: TokenRule,
  { min, max, soon }: { readonly min: number; readonly max: number; readonly soon: number },
  now: number,
  aheadMs: number,
): { readonly after: TokenBucket; readonly count: number; readonly until: number } | undefined {
  if ((bucket.closedUntil ?? now) > now) return undefined;
  const used = takenFrom(bucket);
  const spare = Math.min(soon, Math.floor(rule.limit * SPARE) - used);
  // What is less than a call counts for would be lost.
  const [wanted, room] = [Math.max(max, spare - spare % min), rule.limit - used];
  const count = wanted <= room ? wanted : room - room % min;
  if (count < min) return undefined;
  const [length, ahead] = [slotMs(rule), Math.min(aheadMs, MAX_AHEAD_MS)];
  const [soonest, latest] = [now + Math.max(ahead, length / 4), now + Math.max(2 * ahead, length)];
  const slot = bucket.taken.find(([until]) => until >= soonest && until <= latest);
  const until = slot?.[0] ?? Math.ceil(latest);
  const others = bucket.taken.filter((each) => each !== slot);
  const taken = [...others, [until, count + (slot?.[1] ?? 0)] as const];
  return { after: { ...bucket, taken: inOrder(taken) }, count, until };
}

/** Sorts counts by their slots, and joins the oldest ones if they are too many: the later end counts. */
function inOrder(taken: readonly Count[]): Count[] {
  const sorted = taken.toSorted(([a], [b]) => a - b);
  const over = sorted.splice(0, sorted.length - MAX_COUNTS);
  const [until, count] = sorted[0]!;
  sorted[0] = [until, over.reduce((sum, [, tokens]) => sum + tokens, count)];
  return sorted;
}

/**
 * Promises tokens to events that are put off, each at a time of its own.
 *
 * @param bucket The bucket at a time.
 * @param rule Its rule.
 * @param counts The number of tokens of each event.
 * @param now That time.
 * @param random Draws a number from 0 to 1, for events that would have to wait for too long.
 * @returns The bucket after, and the times in the same order, milliseconds since the epoch.
 */
export function promising(
  bucket: TokenBucket,
  rule: TokenRule,
  counts: readonly number[],
  now: number,
  random: () => number = Math.random,
): { readonly after: TokenBucket; readonly times: readonly number[] } {
  const perToken = (rule.perMs + slotMs(rule) + rule.perMs * LATE) / rule.limit;
  const longestMs = Math.max(MAX_PROMISED_MS, MAX_PROMISED_TIMES * rule.perMs);
  let promisedUntil = bucket.promisedUntil ?? -Infinity;
  const times = counts.map((count) => {
    const first = roomAt(bucket, rule, count, now);
    // A clock that was ahead has promised that.
    if (promisedUntil > first + 2 * longestMs) promisedUntil = -Infinity;
    const at = Math.max(first, promisedUntil);
    if (at > first + longestMs) return first + random() * longestMs;
    promisedUntil = at + count * perToken;
    return at;
  });
  return {
    after: promisedUntil === -Infinity ? bucket : { ...bucket, promisedUntil },
    times,
  };
}

/** Closes a bucket up to a time, unless it is closed for longer. */
export function closing(bucket: TokenBucket, until: number): TokenBucket {
  return { ...bucket, closedUntil: Math.max(until, bucket.closedUntil ?? -Infinity) };
}

/**
 * Opens a bucket that is closed. What is promised is promised for when it is not closed any more, so that is dropped.
 *
 * @returns The bucket after; undefined if it is open.
 */
export function opening(
  { closedUntil = -Infinity, promisedUntil: _, ...rest }: TokenBucket,
  now: number,
): TokenBucket | undefined {
  return closedUntil > now ? rest : undefined;
}

/** Calculates for how long a bucket is kept: until it is as good as new, in milliseconds. */
export function keptMs(
  { taken, older = [], perMs = 0, closedUntil = 0, promisedUntil = 0, longest }: TokenBucket,
  now: number,
): number {
  const [last = 0] = taken.at(-1) ?? older.at(-1) ?? [];
  const until = Math.max(last + Math.max(perMs, longest?.[0] ?? 0), closedUntil, promisedUntil);
  const leftMs = Math.max(0, until - now);
  return Math.ceil(leftMs) + KEPT_MS;
}
