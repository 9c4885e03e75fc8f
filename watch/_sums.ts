/**
 * Numbers that are made of the counts of all instances: for the charts, and to tell what is wrong.
 *
 * @module
 */
import { CHARTS, RECENT } from "./_chart.ts";
import { refusedIn, type RefusedNumbers, type RefusedSince, unverifiedIn } from "./_refused.ts";
import { numbersOf, partsOf, sumOf, type Tallies, totalOf, type TypeNumbers } from "./tally.ts";

/** Most types of events that are shown. */
const SHOWN_TYPES = 20;

/** Counts of all instances during a span of time, for one bar of a chart. */
export interface ActivitySlot extends TypeNumbers {
  /** Beginning, milliseconds since the epoch. */
  readonly at: number;
  /** Number of deliveries refused. */
  readonly refused: number;
}

/** Numbers of attempts. */
export interface AttemptNumbers {
  /** Number of attempts that were handled or failed. */
  readonly attempts: number;
  /** Number of those that failed. */
  readonly failed: number;
}

/** Part of the activity that tells what is wrong. */
export interface RecentActivity {
  /** Attempts of the last 15 minutes. */
  readonly recent: AttemptNumbers;
  /** Attempts of the hour before those. */
  readonly before: AttemptNumbers;
  /** Beginning of the last minute in which an attempt failed, milliseconds since the epoch; null if none did in that time. */
  readonly lastFailedAt: number | null;
  /** Number of events that have died in the last hour. */
  readonly dead: number;
  /** Refusals of the last 75 minutes because of a secret that has changed. */
  readonly unverified: readonly RefusedSince[];
}

/** Activity of all instances, from their records of each minute. */
export interface Activity {
  /** Length of a slot, in milliseconds: a minute for an hour, 15 minutes for a day. */
  readonly slotMs: number;
  /** Slots in their order, those without activity among them. */
  readonly slots: readonly ActivitySlot[];
  /** Numbers of refused deliveries by platform and error code, the largest first. */
  readonly refusedBy: readonly RefusedNumbers[];
  /** Numbers of all types together. */
  readonly total: TypeNumbers;
  /**
   * Numbers by source and type of event, those with most received first, at most 20. The source is the name of a
   * platform or one of the app. It is empty for the rest, whose type is `other`.
   */
  readonly types: readonly ({ readonly source: string; readonly type: string } & TypeNumbers)[];
  /** Number of the types that are not among those, and their sums; undefined if all are. */
  readonly moreTypes?: ({ readonly count: number } & TypeNumbers) | undefined;
  /**
   * Times from the receipt of an event until it was handled, without planned waits, in milliseconds; null
   * without any. They are right to 9 %.
   */
  readonly latency: { readonly p50: number; readonly p99: number } | null;
}

/** Adds up what was counted. */
export function activityOf(slotMs: number, tallies: Tallies): Activity {
  const sum = sumOf(tallies.map(([, tally]) => tally));
  const [p50, p99] = [sum.percentile(0.5), sum.percentile(0.99)];
  const types = [...sum.types]
    .map(([name, numbers]) => [name, numbersOf(numbers)] as const)
    .sort(([, a], [, b]) =>
      b.received + b.emitted - a.received - a.emitted || b.handled - a.handled
    );
  const more = [...sum.types].filter(([name]) =>
    !types.slice(0, SHOWN_TYPES).some(([shown]) => shown === name)
  );
  return {
    slotMs,
    slots: tallies.map(([at, { types, refused }]) => ({ at, refused, ...totalOf(types) })),
    refusedBy: refusedIn(sum),
    types: types.slice(0, SHOWN_TYPES).map(([name, numbers]) => {
      const [source, type] = partsOf(name);
      return { source, type, ...numbers };
    }),
    moreTypes: more.length === 0 ? undefined : { count: more.length, ...totalOf(more) },
    total: totalOf(sum.types),
    latency: p50 === undefined || p99 === undefined ? null : { p50, p99 },
  };
}

/** Adds up what tells whether something is wrong. */
export function recentOf(tallies: Tallies, now: number): RecentActivity {
  const attemptsIn = (part: Tallies): AttemptNumbers => {
    const all = part.map(([, { types }]) => totalOf(types));
    const sum = (name: "attempts" | "failed") => all.reduce((sum, each) => sum + each[name], 0);
    return { attempts: sum("attempts"), failed: sum("failed") };
  };
  const hour = tallies.slice(-CHARTS.hour.slots);
  return {
    recent: attemptsIn(tallies.slice(-RECENT)),
    before: attemptsIn(tallies.slice(0, -RECENT)),
    lastFailedAt: tallies.findLast(([, { types }]) => totalOf(types).failed > 0)?.[0] ?? null,
    dead: hour.reduce((sum, [, { types }]) => sum + totalOf(types).dead, 0),
    unverified: unverifiedIn(tallies, now),
  };
}
