import { type LogSink, writeLog } from "../core/mod.ts";
import type { ConsoleRecords, NewConsoleRecord } from "../events/store/own_cells.ts";
import {
  type AttemptedEvent,
  type AttemptOutcome,
  type CountedDelivery,
  takenMs,
  type Telemetry,
} from "../telemetry/telemetry.ts";
import { within } from "./_counts.ts";
import {
  isTallyRecord,
  MAX_TYPES,
  numbersOf,
  recordOf,
  sumOf,
  Tally,
  totalOf,
  type TypeNumbers,
} from "./_tally.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/**
 * Periods of the charts: the kind of their records, the length of a slot, the number of slots, and the time for
 * which a record is kept.
 */
const CHARTS = {
  hour: { kind: "minute", slotMs: MINUTE_MS, slots: 60, forMs: 2 * HOUR_MS },
  day: { kind: "quarter", slotMs: HOUR_MS / 4, slots: 96, forMs: 26 * HOUR_MS },
} as const;

/** Period of the charts. */
export type Period = keyof typeof CHARTS;

/** Periods of the charts, the default first. */
export const PERIODS = Object.keys(CHARTS) as readonly Period[];

/** Minutes that stay in memory: the chart of an hour needs them, and they include two quarters. */
const MAX_MINUTES = 62;

/** Latest delay of writing a record behind the end of its minute: instances take turns so. */
const MAX_DELAY_MS = 2_000;

/** Most records of a commit, which holds 819,200 bytes: a record takes 20 KB at most. */
const WRITTEN_AT_ONCE = 20;

/** Time after which a worker without a record counts as gone. */
const WORKER_MS = 130_000;

/** Time for which what was read is shown again: other instances write once a minute. */
const READ_MS = 10_000;

/** Longest wait of a page for a reading: the first one of a day of 100 instances takes half a second. */
const MAX_WAIT_MS = 50;

/** Spans at the end whose records may still change. */
const OPEN_SPANS = 3;

/** Spans by which the clock of another instance may be ahead. */
const AHEAD = 2;

/** Most types of events that are shown. */
const SHOWN_TYPES = 20;

/** Most records that one reading takes. */
const MAX_RECORDS = 20_000;

/** Counts of all instances during a span of time, for one bar of a chart. */
export interface ActivitySlot extends TypeNumbers {
  /** Beginning, milliseconds since the epoch. */
  readonly at: number;
  /** Number of deliveries refused. */
  readonly refused: number;
}

/** Activity of all instances, from their records of each minute. */
export interface Activity {
  /** Length of a slot, in milliseconds: a minute for an hour, 15 minutes for a day. */
  readonly slotMs: number;
  /** Slots in their order, those without activity among them. */
  readonly slots: readonly ActivitySlot[];
  /** Numbers of refused deliveries by error code, the largest first. */
  readonly refusedBy: readonly { readonly code: string; readonly count: number }[];
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

/**
 * Counts what happens in this process, keeps it, and adds it up with what the others have counted.
 *
 * Each process has a record for each minute, written once when the minute is over, and one for each quarter
 * of an hour, written anew with each of these: so an hour takes 60 records of a process and a day 96. What
 * belongs to the current minute is in memory. When a worker starts, the record of that minute is written at
 * once, so that others know of it. Nothing is read before somebody looks, and what does not change
 * any more is read once.
 */
export class ActivityCounter {
  readonly telemetry: Telemetry;
  readonly #id = crypto.randomUUID().slice(0, 8);
  readonly #delayMs = Math.random() * MAX_DELAY_MS;
  readonly #records: ConsoleRecords;
  readonly #log: LogSink;
  readonly #onCount: () => void;
  /** Counts by minute since the epoch, in the order in which they began. */
  readonly #minutes = new Map<number, Tally>();
  /** Minutes with counts that are not written. */
  readonly #unwritten = new Set<number>();
  readonly #charts = { hour: new Chart("hour"), day: new Chart("day") };
  #minute = NaN;
  #tally = new Tally();
  #workers = 0;
  #hadWorker = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #writing = Promise.resolve();

  /** @param onCount Called whenever something is counted. */
  constructor(records: ConsoleRecords, log: LogSink, onCount: () => void) {
    this.#records = records;
    this.#log = log;
    this.#onCount = onCount;
    this.telemetry = this.#counting();
  }

  /** Begins to write a record each minute. The timer does not keep the process alive. */
  start(): void {
    const untilNextMs = MINUTE_MS - Date.now() % MINUTE_MS + this.#delayMs;
    this.#timer = setTimeout(() => {
      this.start();
      this.#writeNext(spanOf(Date.now()) - 1);
    }, untilNextMs);
    Deno.unrefTimer(this.#timer);
  }

  /** Writes what is not written yet, and ends the timer. */
  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#writing;
    const isKnown = this.#hadWorker || this.#unwritten.size > 0;
    this.#workers = 0;
    if (isKnown) await this.#write(spanOf(Date.now()), true);
  }

  /**
   * Adds up the activity of all instances.
   *
   * @returns The number of instances that run a worker, and what was counted; null as long as nothing was read.
   */
  async read(period: Period): Promise<{ workers: number | null; activity: Activity | null }> {
    const chart = this.#charts[period];
    const now = Date.now();
    const isFresh = chart.readAt !== undefined && Math.abs(now - chart.readAt) < READ_MS;
    if (!isFresh) await within(MAX_WAIT_MS, chart.reading ??= this.#readInto(chart, now));
    if (!chart.isRead) return { workers: null, activity: null };
    return {
      workers: chart.workers + (this.#workers > 0 ? 1 : 0),
      activity: this.#activityOf(chart, Date.now()),
    };
  }

  #counting(): Telemetry {
    const count = () => this.#current();
    return {
      nameRequest: () => {},
      storing: (_, store) => store(undefined),
      countDelivery: (delivery) => countDelivery(count(), delivery),
      countStep: () => {},
      attempt: (event) => ({
        run: (part) => part(),
        handlerEnded: () => {},
        settled: (outcome) => countAttempt(count, event, outcome),
      }),
      watchOldestDue: () => {
        this.#workers++;
        this.#hadWorker = true;
        this.#writeNext(spanOf(Date.now()));
        let isWatched = true;
        return () => {
          if (isWatched) this.#workers--;
          isWatched = false;
        };
      },
    };
  }

  /** Finds the counts of the current minute. */
  #current(): Tally {
    this.#onCount();
    const minute = spanOf(Date.now());
    this.#unwritten.add(minute);
    if (minute === this.#minute) return this.#tally;
    this.#minute = minute;
    // Known if the clock was set back.
    this.#tally = this.#minutes.get(minute) ?? new Tally();
    this.#minutes.set(minute, this.#tally);
    while (this.#minutes.size > MAX_MINUTES) {
      const [first] = this.#minutes.keys();
      this.#minutes.delete(first!);
      this.#unwritten.delete(first!);
    }
    return this.#tally;
  }

  /** Writes the counts up to a minute, after what is being written. */
  #writeNext(last: number): void {
    this.#writing = this.#writing.then(() => this.#write(last));
  }

  /** Writes the counts up to a minute, and that a worker runs. */
  async #write(last: number, isEnd = false): Promise<void> {
    const minutes = new Set([...this.#unwritten].filter((minute) => isEnd || minute <= last));
    const quarters = new Set([...minutes].map(quarterOf));
    if (this.#workers > 0 || isEnd) minutes.add(last);
    const records = [
      ...[...minutes].map((minute) => this.#record("hour", minute)),
      ...[...quarters].map((quarter) => this.#record("day", quarter)),
    ];
    for (const minute of minutes) this.#unwritten.delete(minute);
    try {
      for (let i = 0; i < records.length; i += WRITTEN_AT_ONCE) {
        await this.#records.write(records.slice(i, i + WRITTEN_AT_ONCE));
      }
    } catch (error) {
      for (const minute of minutes) if (this.#minutes.has(minute)) this.#unwritten.add(minute);
      writeLog(this.#log, "warn", "console counts not written", { error });
    }
  }

  /** Makes the record of what this process has counted in a span. */
  #record(period: Period, number: number): NewConsoleRecord {
    const { kind, forMs, slotMs } = CHARTS[period];
    const value = recordOf(
      sumOf(this.#own(slotMs).get(number) ?? [], MAX_TYPES),
      this.#workers > 0,
    );
    return { kind, number, id: this.#id, value, forMs };
  }

  /** Groups what this process has counted by the spans of a length. */
  #own(slotMs: number): Map<number, Tally[]> {
    const own = new Map<number, Tally[]>();
    for (const [minute, tally] of this.#minutes) {
      const number = spanOf(minute * MINUTE_MS, slotMs);
      own.set(number, [...own.get(number) ?? [], tally]);
    }
    return own;
  }

  /** Reads the records that are not known, or may have changed. */
  async #readInto(chart: Chart, now: number): Promise<void> {
    try {
      const { kind, slotMs } = CHARTS[chart.period];
      const last = spanOf(now, slotMs);
      const from = chart.begin(last);
      const spans = new Map<number, Tally>();
      chart.workers = await this.#countWorkers(now);
      for await (const { number, id, value } of this.#between(kind, from, last + 1 + AHEAD)) {
        const isOwn = id === this.#id && this.#holds(chart.period, number, now);
        if (isOwn || !isTallyRecord(value)) continue;
        const sum = spans.get(number) ?? sumOf([]);
        sum.add(value);
        spans.set(number, sum);
      }
      chart.take(from, last, spans);
    } catch (error) {
      writeLog(this.#log, "warn", "console counts not read", { error });
    } finally {
      chart.readAt = now;
      chart.reading = undefined;
    }
  }

  /** Counts the other instances whose latest record says that a worker runs. */
  async #countWorkers(now: number): Promise<number> {
    const running = new Map<string, boolean>();
    const minute = spanOf(now);
    for await (const { id, value } of this.#between("minute", minute - 3, minute + 1 + AHEAD)) {
      if (id === this.#id || !isTallyRecord(value)) continue;
      // A clock that is a little ahead makes no difference.
      running.set(id, value.worker && Math.abs(now - value.at) < WORKER_MS);
    }
    return [...running.values()].filter((isRunning) => isRunning).length;
  }

  async *#between(kind: "minute" | "quarter", from: number, before: number) {
    let left = MAX_RECORDS;
    for await (const record of this.#records.between(kind, from, before)) {
      if (left-- <= 0) return;
      yield record;
    }
  }

  /** Checks whether all that this process has counted in a span is in memory. */
  #holds(period: Period, number: number, now: number): boolean {
    if (period === "hour") return this.#minutes.has(number);
    return number >= quarterOf(spanOf(now)) - 1;
  }

  /** Adds up what was read and what this process holds, slot by slot. */
  #activityOf({ period, spans }: Chart, now: number): Activity {
    const { slotMs, slots } = CHARTS[period];
    const last = spanOf(now, slotMs);
    const own = this.#own(slotMs);
    const tallies = Array.from({ length: slots }, (_, i) => {
      const number = last - slots + 1 + i;
      const read = spans.get(number);
      const held = this.#holds(period, number, now) ? own.get(number) ?? [] : [];
      return [number * slotMs, sumOf(read ? [read, ...held] : held)] as const;
    });
    return activityOf(slotMs, tallies);
  }
}

/** Counts that were read for one chart. */
class Chart {
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
    const first = last - CHARTS[this.period].slots + 1;
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

function countDelivery(tally: Tally, delivery: CountedDelivery): void {
  const { platform, intake = platform, outcome, type = "", code = "INTERNAL" } = delivery;
  if (outcome === "rejected") tally.refuse(code);
  if (outcome === "accepted") tally.count(intake, type, { received: 1 });
}

/** Counts the end of an attempt. */
function countAttempt(count: () => Tally, event: AttemptedEvent, outcome: AttemptOutcome): void {
  const { platform, intake = platform, type, batch } = event;
  const isFailed = outcome === "retried" || outcome === "dead";
  if (outcome !== "handled" && !isFailed) return;
  const tally = count();
  tally.count(intake, type, { [isFailed ? "failed" : "handled"]: batch?.events ?? 1 });
  if (!isFailed) tally.time(takenMs(event));
}

function activityOf(slotMs: number, tallies: readonly (readonly [number, Tally])[]): Activity {
  const sum = sumOf(tallies.map(([, tally]) => tally));
  const [p50, p99] = [sum.percentile(0.5), sum.percentile(0.99)];
  const types = [...sum.types]
    .sort(([, a], [, b]) => b[0]! - a[0]! || b[1]! - a[1]!);
  const more = types.slice(SHOWN_TYPES);
  return {
    slotMs,
    slots: tallies.map(([at, { types, refused }]) => ({ at, refused, ...totalOf(types) })),
    refusedBy: [...sum.codes].map(([code, [count]]) => ({ code, count: count! }))
      .sort((a, b) => b.count - a.count),
    types: types.slice(0, SHOWN_TYPES).map(([name, numbers]) => {
      const [source = "", ...type] = name.split(":");
      return { source, type: type.join(":"), ...numbersOf(numbers) };
    }),
    moreTypes: more.length === 0 ? undefined : { count: more.length, ...totalOf(more) },
    latency: p50 === undefined || p99 === undefined ? null : { p50, p99 },
  };
}

/** Numbers the span of a time: the minutes, or the spans of another length, since the epoch. */
function spanOf(time: number, slotMs: number = MINUTE_MS): number {
  return Math.floor(time / slotMs);
}

const quarterOf = (minute: number) => spanOf(minute * MINUTE_MS, CHARTS.day.slotMs);
