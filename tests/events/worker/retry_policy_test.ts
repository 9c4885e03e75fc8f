import { assert, assertEquals, assertGreaterOrEqual, assertLessOrEqual } from "@std/assert";
import { retryDelay, type RetryPolicy } from "../../../events/worker/retry_policy.ts";

/** The delays of a policy without jitter, until it gives up. */
function delays(policy: RetryPolicy, random = 0): number[] {
  const all: number[] = [];
  for (let attempt = 1; attempt <= 1_000; attempt++) {
    const delay = retryDelay(policy, attempt, random);
    if (delay === null) return all;
    all.push(delay);
  }
  return all;
}

Deno.test("retryDelay() doubles from a second by default", () => {
  assertEquals(delays({}).slice(0, 5), [1_000, 2_000, 4_000, 8_000, 16_000]);
});

Deno.test("retryDelay() stays at an hour by default", () => {
  assertEquals(delays({}).slice(11, 14), [2_048_000, 3_600_000, 3_600_000]);
});

Deno.test("retryDelay() gives up after 36 attempts by default", () => {
  assertEquals(delays({}).length, 35);
  assertEquals(retryDelay({}, 36), null);
});

Deno.test("retryDelay() tries for more than a day by default", () => {
  const total = delays({}).reduce((sum, delay) => sum + delay, 0);
  assertGreaterOrEqual(total, 24 * 3_600_000);
});

Deno.test("retryDelay() follows the policy", () => {
  const policy = { minDelayMs: 10, maxDelayMs: 35, maxAttempts: 5 };
  assertEquals(delays(policy), [10, 20, 35, 35]);
});

Deno.test("retryDelay() gives up at once after a single attempt allowed", () => {
  assertEquals(retryDelay({ maxAttempts: 1 }, 1), null);
});

Deno.test("retryDelay() gives up on an attempt beyond the last", () => {
  assertEquals(retryDelay({ maxAttempts: 3 }, 4), null);
});

Deno.test("retryDelay() does not overflow", () => {
  assertEquals(retryDelay({ maxAttempts: Infinity }, 5_000, 0), 3_600_000);
});

Deno.test("retryDelay() lengthens a delay by a quarter at most", () => {
  assertEquals(retryDelay({}, 1, 0.5), 1_125);
  assertEquals(retryDelay({}, 1, 1), 1_250);
});

Deno.test("retryDelay() draws its own jitter, so that events come back apart", () => {
  const drawn = Array.from({ length: 100 }, () => retryDelay({ minDelayMs: 60_000 }, 1) ?? 0);
  assert(new Set(drawn).size > 1);
  for (const delay of drawn) {
    assertGreaterOrEqual(delay, 60_000);
    assertLessOrEqual(delay, 75_000);
  }
});

Deno.test("retryDelay() answers whole milliseconds", () => {
  assert(Number.isInteger(retryDelay({ minDelayMs: 3 }, 1, 0.3)));
});

Deno.test("retryDelay() stays a number however often an event was tried", () => {
  const policy = { maxDelayMs: 365 * 86_400_000, maxAttempts: 10_000 };
  assertEquals(retryDelay({ ...policy, minDelayMs: 0 }, 5_000, 0), 0);
  assertEquals(retryDelay({ ...policy, minDelayMs: 1 }, 5_000, 0), policy.maxDelayMs);
});
