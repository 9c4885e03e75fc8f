/** Changes of a bucket, without a store. */
import { assert, assertEquals, assertLessOrEqual } from "@std/assert";
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
} from "../../../events/store/token_bucket.ts";
import { randomOf } from "../worker/_simulation.ts";

const RULE = { limit: 10, perMs: 3_200 } as const;

const ONE = { min: 1, max: 1, soon: 0 } as const;

/** Takes a token at a time; undefined if there is no room. */
function take(bucket: TokenBucket, now: number, rule: TokenRule = RULE, aheadMs = 0) {
  return taking(bucketAt(bucket, rule, now), rule, ONE, now, aheadMs);
}

/** Counts the most uses in any time of a length. */
function most(uses: readonly number[], perMs: number): number {
  return Math.max(
    ...uses.map((at) => uses.filter((each) => each > at - perMs && each <= at).length),
  );
}

Deno.test("no time of the length has more uses than the limit, however late they come", () => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = randomOf(seed);
    const rule = { limit: 1 + Math.floor(9 * random()), perMs: 1_000 };
    const aheadMs = 60 * random();
    const uses: number[] = [];
    let bucket: TokenBucket = EMPTY;
    for (let now = 0; now < 20_000; now += Math.floor(60 * random())) {
      const taken = take(bucket, now, rule, aheadMs);
      if (!taken) continue;
      bucket = taken.after;
      assert(taken.until > now + aheadMs);
      // The last moment at which it may be used, or any other.
      uses.push(
        random() < 0.5 ? taken.until - 1 : now + Math.floor(random() * (taken.until - now)),
      );
    }
    assertLessOrEqual(most(uses, rule.perMs), rule.limit);
    assert(uses.length > 18 * rule.limit * 0.8, `${uses.length} of ${20 * rule.limit}`);
  }
});

Deno.test("what nobody waits for is taken only while half of the limit is free", () => {
  const counts: number[] = [];
  let bucket: TokenBucket = EMPTY;
  for (let i = 0; i < 7; i++) {
    const taken = taking(bucket, RULE, { min: 1, max: 1, soon: 3 }, 0, 0)!;
    bucket = taken.after;
    counts.push(taken.count);
  }
  assertEquals(counts, [3, 2, 1, 1, 1, 1, 1]);
});

Deno.test("a limit of one is a distance", () => {
  const rule = { limit: 1, perMs: 1_000 };
  const { after } = take(EMPTY, 0, rule)!;
  const room = roomAt(bucketAt(after, rule, 1), rule, 1, 1);
  assertEquals(room, 1_000 + slotMs(rule));
  assertEquals(take(after, room - 1, rule), undefined);
  assert(take(after, room, rule));
});

Deno.test("a slot in the far future, of a clock that was ahead, ends within a time", () => {
  const { after } = taking(EMPTY, RULE, { min: 10, max: 10, soon: 0 }, 1e9, 0)!;
  assertEquals(take(after, 0), undefined);
  const bucket = bucketAt(after, RULE, 0);
  assertLessOrEqual(roomAt(bucket, RULE, 1, 0), 2 * RULE.perMs + slotMs(RULE));
});

Deno.test("a bucket keeps few counts, and none is lost", () => {
  let bucket: TokenBucket = EMPTY;
  for (let i = 0; i < 200; i++) bucket = take(bucket, 20 * i, { limit: 1_000, perMs: 100 })!.after;
  for (let i = 0; i < 200; i++) {
    const rule = { limit: 1_000, perMs: 1_000_000 };
    const slots = { ...bucket, taken: [...bucket.taken, [10_000 + i, 1] as const] };
    bucket = take(slots, 10_000, rule)!.after;
    assertLessOrEqual(bucket.taken.length, 64);
  }
  const sum = bucket.taken.reduce((sum, [, count]) => sum + count, 0);
  assert(sum >= 400, `${sum}`);
});

Deno.test("a slot that is long since commits are slow ends when it does", () => {
  const rule = { limit: 1, perMs: 1_000 };
  const { after, until } = take(EMPTY, 0, rule, 4_000)!;
  assertEquals(until, 8_000);
  const seen = bucketAt(bucketAt(after, rule, 1_100), rule, 5_000);
  assertEquals(roomAt(seen, rule, 1, 5_000), 9_000);
});

Deno.test("a longer time counts what is taken in a shorter one, by few slots", () => {
  const [long, short] = [{ limit: 10_000, perMs: 1_000_000 }, { limit: 100, perMs: 1_000 }];
  let bucket = take(EMPTY, 0, long)!.after;
  for (let now = 100; now <= 500_000; now += 100) {
    bucket = take(bucket, now, short)!.after;
    assertLessOrEqual((bucket.older?.length ?? 0) + bucket.taken.length, 64);
  }
  const inLong = bucketAt(bucket, long, 500_000);
  assertEquals(takenFrom(inLong), 5_001);
  assertLessOrEqual(inLong.taken.length, 64);
  assertLessOrEqual(takenFrom(bucketAt(bucket, short, 500_000)), 12);
  assertEquals(takenFrom(bucketAt(bucket, long, 1_700_000)), 0);
});

Deno.test("a promise of a clock that was ahead does not count", () => {
  const full = taking(EMPTY, RULE, { min: 10, max: 10, soon: 0 }, 0, 0)!.after;
  const bucket = { ...bucketAt(full, RULE, 0), promisedUntil: 1e12 };
  const { after, times } = promising(bucket, RULE, [1], 0);
  assertEquals(times, [roomAt(bucket, RULE, 1, 0)]);
  assertLessOrEqual(after.promisedUntil!, 2 * RULE.perMs);
});

Deno.test("promises come one by one for an hour, and then at random", () => {
  const full = taking(EMPTY, RULE, { min: 10, max: 10, soon: 0 }, 0, 0)!.after;
  const bucket = bucketAt(full, RULE, 0);
  const counts = Array.from({ length: 20_000 }, () => 1);
  const { after, times } = promising(bucket, RULE, counts, 0, () => 0.5);
  const perToken = (3_200 + 100 + 12.5) / RULE.limit;
  assertEquals(times.slice(0, 3), [0, 1, 2].map((i) => times[0]! + i * perToken));
  const last = times[0]! + 3_600_000;
  assertLessOrEqual(Math.max(...times), last);
  assertEquals(times.at(-1), times[0]! + 1_800_000);
  assertLessOrEqual(after.promisedUntil!, last + perToken);
});

Deno.test("a promise takes no token, and is over when its time is", () => {
  const { after } = promising(EMPTY, RULE, [1, 1], 0);
  assert(take(after, 0));
  const full = taking(after, RULE, { min: 10, max: 10, soon: 0 }, 100_000, 0)!.after;
  const { times } = promising(bucketAt(full, RULE, 100_000), RULE, [1], 100_000);
  assertEquals(times, [100_000 + slotMs(RULE) + RULE.perMs]);
});

Deno.test("a bucket is kept while anything of it counts", () => {
  assertEquals(keptMs(EMPTY, 0), 60_000);
  assertEquals(keptMs(closing(EMPTY, 5_000), 1_000), 64_000);
  const { after } = take(EMPTY, 0)!;
  assertEquals(keptMs(after, 0), 60_000 + RULE.perMs + slotMs(RULE));
  assert(!isTokenBucket({ taken: [[1]] }) && !isTokenBucket([]) && isTokenBucket(after));
});
