/**
 * Refused deliveries that mean that a secret has changed.
 *
 * Anybody can send deliveries with a wrong signature. If a secret has changed, all deliveries of its platform fail, so what
 * is refused matters only if nothing is verified any more. A platform has pauses, too, so two signs tell a stranger: others
 * were refused beside verified deliveries before, or they come much faster than its deliveries did. Then nothing must be
 * verified for longer than is usual.
 *
 * @module
 */
import { MINUTE_MS } from "./_chart.ts";
import { numbersOf, partsOf, type Tallies, type Tally } from "./tally.ts";

/**
 * Error codes of deliveries whose sender has another secret, or another clock, and what they mean. Deliveries without any
 * signature are not among them: whoever finds the address sends those.
 */
export const SECRET_CODES: Readonly<Record<string, string>> = {
  INVALID_SIG: "the signature does not match",
  INVALID_TOKEN: "the token does not match",
  STALE_SIG: "the signature is too old, or ahead of time",
};

/** Number of refused deliveries without a verified one from which on something is wrong. */
export const REFUSED = 3;

/**
 * Time without a verified delivery from which on refused ones may mean a changed secret, in milliseconds. Another instance
 * shows what it has verified up to 72 seconds after the minute of that.
 */
const SILENT_MS = 90_000;

/** Numbers of a stranger: refused in two minutes, and that as a multiple of the most that were verified in a minute. */
const [FLOOD, FLOOD_RATE] = [30, 5] as const;

/** Multiple of the longest pause before, for which nothing is verified if what is refused may be a stranger's. */
const PAUSES = 2;

/** Refusals by one platform with one error code. */
export interface RefusedNumbers {
  /** Name of the platform. */
  readonly source: string;
  /** Error code. */
  readonly code: string;
  /** Number of deliveries. */
  readonly count: number;
}

/** Refusals, with the beginning of the minute of the first one, milliseconds since the epoch. */
export type RefusedSince = RefusedNumbers & { readonly since: number };

/** Counts of a platform in a minute. */
interface Minute {
  readonly at: number;
  readonly verified: number;
  /** Refusals because of the secret. */
  readonly refused: readonly RefusedNumbers[];
}

/** Lists the refusals of a span by platform and code, the most first. */
export function refusedIn({ codes }: Tally): RefusedNumbers[] {
  return [...codes].map(([name, [count]]) => {
    const [source, code] = partsOf(name);
    return { source, code, count: count! };
  }).sort((a, b) => b.count - a.count);
}

/**
 * Finds the refusals that mean that a secret has changed, by platform and code.
 *
 * @param tallies Counts by minute, the current one last.
 * @param now The time, milliseconds since the epoch.
 */
export function unverifiedIn(tallies: Tallies, now: number): RefusedSince[] {
  const refused = tallies.map(([, tally]) =>
    refusedIn(tally).filter(({ code }) => Object.hasOwn(SECRET_CODES, code))
  );
  const sources = new Set(refused.flat().map(({ source }) => source));
  return [...sources].flatMap((source) => {
    const minutes = tallies.map(([at, tally], i): Minute => ({
      ...{ at, verified: verifiedIn(tally, source) },
      refused: refused[i]!.filter((each) => each.source === source),
    }));
    const last = minutes.findLastIndex(({ verified }) => verified > 0);
    const [before, after] = [minutes.slice(0, last + 1), minutes.slice(last + 1)];
    return isChanged(before, after, now) ? sinceIn(after) : [];
  });
}

/** Counts the verified deliveries of a platform. Records of earlier versions have only the number of those that were stored. */
function verifiedIn({ verified, types }: Tally, source: string): number {
  const isOf = ([name]: readonly [string, unknown]) => partsOf(name)[0] === source;
  const [, [count = 0] = []] = [...verified].find(isOf) ?? [];
  const received = [...types].filter(isOf).map(([, numbers]) => numbersOf(numbers).received);
  return Math.max(count, received.reduce((sum, each) => sum + each, 0));
}

/** Checks whether what is refused means that a secret has changed, by the minutes up to the last verified delivery. */
function isChanged(before: readonly Minute[], after: readonly Minute[], now: number): boolean {
  const last = before.at(-1);
  if (!last) return true;
  const silentMs = now - last.at - MINUTE_MS;
  const first = after.findIndex(({ refused }) => refused.length > 0);
  if (silentMs < SILENT_MS || first < 0 || now - after[first]!.at < MINUTE_MS) return false;
  // In the minute of the last verified delivery either may have come first.
  const isBeside = refusalsIn(before.slice(0, -1)) >= REFUSED;
  // Only their first minutes count: a sender with another secret may be busier later.
  const most = Math.max(...before.map(({ verified }) => verified));
  const isFlood = refusalsIn(after.slice(first, first + 2)) > Math.max(FLOOD, FLOOD_RATE * most);
  return (!isBeside && !isFlood) || silentMs > PAUSES * longestPauseMs(before);
}

function refusalsIn(minutes: readonly Minute[]): number {
  return minutes.flatMap(({ refused }) => refused).reduce((sum, { count }) => sum + count, 0);
}

/** Measures the longest time without a verified delivery: also the one before the first of them. */
function longestPauseMs(minutes: readonly Minute[]): number {
  let [longest, pause] = [0, 0];
  for (const { verified } of minutes) {
    pause = verified > 0 ? 0 : pause + MINUTE_MS;
    longest = Math.max(longest, pause);
  }
  return longest;
}

/** Adds refusals up by their codes. */
function sinceIn(minutes: readonly Minute[]): RefusedSince[] {
  const found = new Map<string, RefusedSince>();
  for (const { at, refused } of minutes) {
    for (const each of refused) {
      const { since = at, count = 0 } = found.get(each.code) ?? {};
      found.set(each.code, { ...each, since, count: count + each.count });
    }
  }
  return [...found.values()];
}
