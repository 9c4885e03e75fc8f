import { type LogSink, writeLog } from "../core/mod.ts";
import type { ConsoleRecords, NewConsoleRecord } from "../events/store/kv/console_records.ts";
import {
  type Attempt,
  type AttemptedEvent,
  type AttemptOutcome,
  type CountedDelivery,
  takenMs,
  type Telemetry,
} from "../telemetry/telemetry.ts";
import type { Activity, ActivitySlot, Period, TypeNumbers } from "./_console_data.ts";
import { within } from "./_counts.ts";
import { isTallyRecord, percentile, recordOf, sumOf, Tally, tallyOf } from "./_tally.ts";

/** Lengths of the spans that records are of, in milliseconds. */
const MINUTE_MS = 60_000;
const QUARTER_MS = 900_000;
const MINUTES = QUARTER_MS / MINUTE_MS;

/** Times for which records are kept: those that a chart shows, and some more. */
const MINUTE_KEPT_MS = 2 * 3_600_000;
const QUARTER_KEPT_MS = 26 * 3_600_000;

/** Minutes that stay in memory: those of the chart of an hour, which include two quarters. */
const MAX_MINUTES = 62;

/** Latest delay of writing a record behind the end of its minute: instances take turns so. */
const MAX_DELAY_MS = 2_000;

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

/** Kinds of charts: their records, the length of a slot, and the number of slots. */
const CHARTS = {
  hour: { kind: "minute", slotMs: MINUTE_MS, slots: 60 },
  day: { kind: "quarter", slotMs: QUARTER_MS, slots: 96 },
} as const satisfies Record<Period, unknown>;

/** Activity as the first page shows it. */
export interface ReadActivity {
  /** Number of instances that run a worker; null as long as nothing was read. */
  readonly workers: number | null;
  /** Counts and times; null as long as nothing was read. */
  readonly activity: Activity | null;
}

/**
 * Counts what happens in this process, keeps it, and adds it up with that of others.
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
  readonly #read = { hour: new Chart("hour"), day: new Chart("day") };
  #minute = NaN;
  #tally = new Tally();
  #workers = 0;
  #hadWorker = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #writing = Promise.resolve();

  /** @param onCount Called whenever something is counted. */
  constructor(records: ConsoleRecords, log: LogSink, onCount: () => void = () => {}) {
    this.#records = records;
    this.#log = log;
    this.#onCount = onCount;
    this.telemetry = this.#counting();
  }

  /** Begins to write a record each minute. The timer does not keep the process alive. */
  start(): void {
    const untilNextMs = MINUTE_MS - Date.now() % MINUTE_MS + this.#delayMs;
    const timer = setTimeout(() => {
      this.start();
      this.#writeNext(minuteOf(Date.now()) - 1);
    }, untilNextMs);
    Deno.unrefTimer(timer);
    this.#timer = timer;
  }

  /** Writes what is not written yet, and ends the timer. */
  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#writing;
    const isKnown = this.#hadWorker || this.#unwritten.size > 0;
    this.#workers = 0;
    if (isKnown) await this.#write(minuteOf(Date.now()), true);
  }

  /** Adds up the activity of all instances. */
  async read(period: Period): Promise<ReadActivity> {
    const chart = this.#read[period];
    const now = Date.now();
    const isFresh = chart.readAt !== undefined && Math.abs(now - chart.readAt) < READ_MS;
    if (!isFresh) await within(MAX_WAIT_MS, chart.reading ??= this.#readInto(chart, now));
    return this.#shown(chart, Date.now());
  }

  #counting(): Telemetry {
    const count = () => this.#current();
    return {
      nameRequest: () => {},
      storing: (_, store) => store(undefined),
      countDelivery: (delivery) => countDelivery(count(), delivery),
      countStep: () => {},
      attempt: (event) => new CountedAttempt(count, event),
      watchOldestDue: () => {
        this.#workers++;
        this.#hadWorker = true;
        this.#writeNext(minuteOf(Date.now()));
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
    const minute = minuteOf(Date.now());
    if (minute === this.#minute) {
      this.#unwritten.add(minute);
      return this.#tally;
    }
    this.#minute = minute;
    // Known if the clock was set back.
    this.#tally = this.#minutes.get(minute) ?? new Tally();
    this.#minutes.set(minute, this.#tally);
    this.#unwritten.add(minute);
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
    const now = Date.now();
    const minutes = [...this.#unwritten].filter((minute) => isEnd || minute <= last);
    const quarters = new Set(minutes.map(quarterOf));
    if (this.#workers > 0 || isEnd) minutes.push(last);
    if (minutes.length === 0) return;
    const records = [
      ...[...new Set(minutes)].map((minute) => this.#minuteRecord(minute, now)),
      ...[...quarters].map((quarter) => this.#quarterRecord(quarter, now)),
    ];
    for (const minute of minutes) this.#unwritten.delete(minute);
    try {
      // A commit holds 819,200 bytes, and a record takes 20 KB at most.
      for (let i = 0; i < records.length; i += 20) {
        await this.#records.write(records.slice(i, i + 20));
      }
    } catch (error) {
      for (const minute of minutes) if (this.#minutes.has(minute)) this.#unwritten.add(minute);
      writeLog(this.#log, "warn", "console counts not written", { error });
    }
  }

  #minuteRecord(number: number, now: number): NewConsoleRecord {
    const tally = this.#minutes.get(number) ?? new Tally();
    const value = recordOf(tally, now, this.#workers > 0);
    return { kind: "minute", number, id: this.#id, value, expireIn: MINUTE_KEPT_MS };
  }

  #quarterRecord(number: number, now: number): NewConsoleRecord {
    const sum = new Tally();
    for (const [minute, tally] of this.#minutes) if (quarterOf(minute) === number) sum.add(tally);
    const value = recordOf(sum, now, this.#workers > 0);
    return { kind: "quarter", number, id: this.#id, value, expireIn: QUARTER_KEPT_MS };
  }

  /** Reads the records that are not known, or may have changed. */
  async #readInto(chart: Chart, now: number): Promise<void> {
    try {
      const { kind, slotMs } = CHARTS[chart.period];
      const last = Math.floor(now / slotMs);
      chart.forget(last);
      const spans = new Map<number, Tally[]>();
      chart.workers = await this.#countWorkers(now);
      const from = chart.firstOpen(last);
      for await (const { number, id, value } of this.#between(kind, from, last + 1 + AHEAD)) {
        const isOwn = id === this.#id && this.#holds(chart.period, number, now);
        if (isOwn || !isTallyRecord(value)) continue;
        const tallies = spans.get(number);
        if (tallies) tallies.push(tallyOf(value));
        else spans.set(number, [tallyOf(value)]);
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
    const minute = minuteOf(now);
    for await (const { id, value } of this.#between("minute", minute - 3, minute + 1 + AHEAD)) {
      if (id === this.#id || !isTallyRecord(value)) continue;
      // A clock that is a little ahead makes no difference.
      running.set(id, value.worker === true && Math.abs(now - value.at) < WORKER_MS);
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
    return number >= quarterOf(minuteOf(now)) - 1;
  }

  #shown(chart: Chart, now: number): ReadActivity {
    if (!chart.isRead) return { workers: null, activity: null };
    const { slotMs, slots } = CHARTS[chart.period];
    const last = Math.floor(now / slotMs);
    const own = Map.groupBy(
      [...this.#minutes].filter(([minute]) =>
        this.#holds(chart.period, Math.floor(minute * MINUTE_MS / slotMs), now)
      ),
      ([minute]) => Math.floor(minute * MINUTE_MS / slotMs),
    );
    const tallies = Array.from({ length: slots }, (_, i) => {
      const number = last - slots + 1 + i;
      const parts = (own.get(number) ?? []).map(([, tally]) => tally);
      return [number, sumOf([...chart.spans.get(number) ?? [], ...parts])] as const;
    });
    return {
      workers: chart.workers + (this.#workers > 0 ? 1 : 0),
      activity: activityOf(slotMs, tallies),
    };
  }
}

/** Counts that were read for one chart. */
class Chart {
  readonly period: Period;
  /** Counts of the other instances by span. */
  readonly spans = new Map<number, Tally[]>();
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

  /** Returns the first span that is to be read. */
  firstOpen(last: number): number {
    return Math.max(this.#open, last - CHARTS[this.period].slots + 1);
  }

  /** Forgets what is not shown any more, and everything if the clock was set back. */
  forget(last: number): void {
    if (last < this.#open) {
      this.spans.clear();
      this.#open = -Infinity;
    }
    const first = last - CHARTS[this.period].slots + 1;
    for (const number of this.spans.keys()) if (number < first) this.spans.delete(number);
  }

  /** Takes what was read from a span on. */
  take(from: number, last: number, spans: ReadonlyMap<number, readonly Tally[]>): void {
    for (let number = from; number <= last; number++) this.spans.delete(number);
    for (const [number, tallies] of spans) this.spans.set(number, [sumOf(tallies)]);
    this.#open = last - OPEN_SPANS;
    this.isRead = true;
  }
}

/** Attempt whose end is counted. */
class CountedAttempt implements Attempt {
  readonly #current: () => Tally;
  readonly #event: AttemptedEvent;

  constructor(current: () => Tally, event: AttemptedEvent) {
    this.#current = current;
    this.#event = event;
  }

  run<T>(part: () => T): T {
    return part();
  }

  handlerEnded(): void {}

  settled(outcome: AttemptOutcome): void {
    const { platform, intake = platform, type, batch } = this.#event;
    const isFailed = outcome === "retried" || outcome === "dead";
    if (outcome !== "handled" && !isFailed) return;
    const tally = this.#current();
    const ofType = tally.of(intake, type);
    const events = batch?.events ?? 1;
    if (isFailed) {
      tally.failed += events;
      ofType.failed += events;
      return;
    }
    tally.handled += events;
    ofType.handled += events;
    tally.time(takenMs(this.#event));
  }
}

function countDelivery(tally: Tally, delivery: CountedDelivery): void {
  const { platform, intake = platform, outcome, type, code = "INTERNAL" } = delivery;
  if (outcome === "rejected") tally.refuse(code);
  if (outcome !== "accepted") return;
  tally.received++;
  if (type !== undefined) tally.of(intake, type).received++;
}

function activityOf(
  slotMs: number,
  tallies: readonly (readonly [number, Tally])[],
): Activity {
  const sum = sumOf(tallies.map(([, tally]) => tally));
  const [p50, p99] = [percentile(sum, 0.5), percentile(sum, 0.99)];
  const types = [...sum.types]
    .sort((a, b) => b.received - a.received || b.handled - a.handled)
    .map((type) => ({ ...type }));
  return {
    slotMs,
    slots: tallies.map(([number, tally]): ActivitySlot => {
      const { received, refused, handled, failed } = tally;
      return { at: number * slotMs, received, refused, handled, failed };
    }),
    refusedBy: [...sum.codes].map(([code, count]) => ({ code, count }))
      .sort((a, b) => b.count - a.count),
    types: types.slice(0, SHOWN_TYPES),
    moreTypes: moreOf(types.slice(SHOWN_TYPES)),
    latency: p50 === null || p99 === null ? null : { p50, p99 },
  };
}

/** Adds up the numbers of the types that are not shown; undefined if all are. */
function moreOf(types: readonly TypeNumbers[]): Activity["moreTypes"] {
  if (types.length === 0) return undefined;
  const total = (name: keyof TypeNumbers) => types.reduce((sum, each) => sum + each[name], 0);
  const [received, handled] = [total("received"), total("handled")];
  return { count: types.length, received, handled, failed: total("failed") };
}

function minuteOf(time: number): number {
  return Math.floor(time / MINUTE_MS);
}

function quarterOf(minute: number): number {
  return Math.floor(minute / MINUTES);
}
