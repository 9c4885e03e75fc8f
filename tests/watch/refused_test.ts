/** Refused deliveries, and when they mean that a secret has changed. */
import { assertEquals } from "@std/assert";
import type { CountedDelivery } from "../../telemetry/telemetry.ts";
import { countDelivery } from "../../watch/_counting.ts";
import { unverifiedIn } from "../../watch/_refused.ts";
import { recordOf, sumOf, Tally } from "../../watch/tally.ts";

const MINUTE = 60_000;

/** Number of the minutes that are looked at. */
const MINUTES = 75;

/** Counts of a platform in a minute: its verified deliveries, and those with a wrong signature. */
type Minute = readonly [verified: number, refused: number];

/** Time of a look, in the middle of a minute. */
const NOW = 30_000_000.5 * MINUTE;

/** Looks at the last minutes, the one of the look last. Returns the number of refusals that mean a changed secret. */
function seen(...minutes: readonly Minute[]): number {
  const before = Array.from({ length: MINUTES - minutes.length }, (): Minute => [0, 0]);
  const start = Math.floor(NOW / MINUTE) - MINUTES + 1;
  const tallies = [...before, ...minutes].map(([verified, refused], i) => {
    const tally = new Tally();
    if (verified > 0) tally.count("github", "push", { received: verified });
    for (let n = 0; n < refused; n++) tally.refuse("github", "INVALID_SIG");
    // Others have no part in it.
    tally.count("gitlab", "push", { received: 1 });
    tally.refuse("gitlab", "MISSING_SIG");
    return [(start + i) * MINUTE, tally] as const;
  });
  return unverifiedIn(tallies, NOW).reduce((sum, { count }) => sum + count, 0);
}

const times = (count: number, minute: Minute): Minute[] => Array(count).fill(minute);

Deno.test("a changed secret is known two minutes after the last verified delivery", () => {
  assertEquals(seen([1, 0], [0, 3], [0, 0]), 3);
  assertEquals(seen(...times(70, [10, 0]), [4, 5], [0, 12], [0, 4]), 16);
  // Of a busy sender as well, and when it gets busier.
  assertEquals(seen(...times(70, [100, 0]), [0, 120], [0, 50]), 170);
  assertEquals(seen(...times(20, [1, 0]), [0, 2], [0, 1], [0, 500], [0, 90]), 593);
  // Earlier, a pause is as likely.
  assertEquals(seen(...times(70, [10, 0]), [0, 9]), 0);
  assertEquals(seen(...times(70, [10, 0]), [0, 0], [0, 9]), 0);
});

Deno.test("a secret that was wrong from the start is known at once", () => {
  assertEquals(seen([0, 3]), 3);
  assertEquals(seen(...times(75, [0, 50])), 75 * 50);
});

Deno.test("a stranger who sends many deliveries beside verified ones is not taken for the sender", () => {
  for (const every of [1, 2, 5, 10]) {
    const minutes = Array.from({ length: 75 }, (_, i): Minute => [i % every === 0 ? 1 : 0, 50]);
    for (let end = 30; end <= 75; end++) {
      assertEquals(seen(...minutes.slice(0, end)), 0, `every ${every}, ${end}`);
    }
  }
  // At first, it is known by its number.
  assertEquals(seen(...times(60, [1, 0]), [0, 50], [0, 25]), 0);
  // A few beside verified ones, and some more in a pause.
  assertEquals(seen([1, 0], [0, 3], [1, 0], [0, 3], [0, 3]), 0);
});

Deno.test("beside a stranger a changed secret is known after twice the longest pause", () => {
  const beside = times(75, [2, 50]);
  assertEquals(seen(...beside.slice(0, 73), [0, 50], [0, 50]), 100);
  const everyThird = Array.from({ length: 66 }, (_, i): Minute => [i % 3 === 0 ? 1 : 0, 50]);
  assertEquals(seen(...everyThird, ...times(2, [0, 50])), 0);
  // The beginning is a pause as well, of nine minutes.
  assertEquals(seen(...everyThird.slice(0, 49), ...times(26, [0, 50])), 26 * 50);
});

Deno.test("after fifty minutes without a verified delivery everything that is refused counts", () => {
  assertEquals(seen([1, 0], ...times(48, [0, 50])), 0);
  assertEquals(seen([1, 0], ...times(52, [0, 50])), 52 * 50);
});

Deno.test("a delivery is verified whatever became of it, and beside however many types", () => {
  const verified: readonly Omit<CountedDelivery, "platform">[] = [
    { outcome: "accepted", type: "push" },
    { outcome: "duplicate", type: "push" },
    { outcome: "ignored" },
    { outcome: "rejected", code: "AUTH_001", verified: true },
    { outcome: "rejected", code: "QUEUE_UNAVAILABLE", verified: true },
  ];
  for (const delivery of verified) {
    const counted = new Tally();
    for (let n = 0; n < 100; n++) {
      countDelivery(counted, { platform: "gitlab", outcome: "accepted", type: `type_${n}` });
    }
    countDelivery(counted, { ...delivery, platform: "github" });
    const tally = sumOf([recordOf(counted)]);
    for (let n = 0; n < 9; n++) tally.refuse("github", "INVALID_SIG");
    assertEquals(unverifiedIn([[NOW - MINUTE / 2, tally]], NOW), [], delivery.outcome);
  }
});
