import type { Tally } from "./tally.ts";

/** Length of a minute. */
export const MINUTE_MS = 60_000;

const HOUR_MS = 3_600_000;

/** Minutes by which the minutes of the last hour are compared with those before: a quarter of an hour with an hour. */
export const RECENT = 15;

/**
 * Periods of the charts: the kind of their records, the length of a slot, the number of slots that are shown and of those
 * that are read, and the time for which a record is kept.
 */
export const CHARTS = {
  hour: { kind: "minute", slotMs: MINUTE_MS, slots: 60, read: 60 + RECENT, forMs: 2 * HOUR_MS },
  day: { kind: "quarter", slotMs: HOUR_MS / 4, slots: 96, read: 96, forMs: 26 * HOUR_MS },
} as const;

/** Period of the charts. */
export type Period = keyof typeof CHARTS;

/** Periods of the charts, the default first. */
export const PERIODS = Object.keys(CHARTS) as readonly Period[];

/** Spans at the end whose records may still change. */
const OPEN_SPANS = 3;

/** Counts that were read for one chart. */
export class Chart {
  readonly period: Period;
  /** Counts of the other instances by span. */
  readonly spans = new Map<number, Tally>();
  reading: Promise<void> | undefined;
  readAt: number | undefined;
  /** True if a reading has succeeded. */
  isRead = false;
  workers = 0;
  /** Span from which on records may have changed since they were read. */
  #open = -Infinity;

  constructor(period: Period) {
    this.period = period;
  }

  /**
   * Forgets what is not shown any more, and everything if the clock was set back.
   *
   * @returns The first span that is to be read.
   */
  begin(last: number): number {
    if (last < this.#open) {
      this.spans.clear();
      this.#open = -Infinity;
    }
    const first = last - CHARTS[this.period].read + 1;
    for (const number of this.spans.keys()) if (number < first) this.spans.delete(number);
    return Math.max(this.#open, first);
  }

  /** Takes what was read from a span on. */
  take(from: number, last: number, spans: ReadonlyMap<number, Tally>): void {
    for (let number = from; number <= last; number++) this.spans.delete(number);
    for (const [number, tally] of spans) this.spans.set(number, tally);
    this.#open = last - OPEN_SPANS;
    this.isRead = true;
  }
}

/** Numbers the span of a time: the minutes, or the spans of another length, since the epoch. */
export function spanOf(time: number, slotMs: number = MINUTE_MS): number {
  return Math.floor(time / slotMs);
}

/** Numbers the quarter of an hour that a minute is in. */
export const quarterOf = (minute: number) => spanOf(minute * MINUTE_MS, CHARTS.day.slotMs);
