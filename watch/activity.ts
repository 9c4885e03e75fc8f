import { type LogSink, writeLog } from "../core/mod.ts";
import { withDeadline } from "../core/timeouts.ts";
import type { EventStore } from "../events/store/mod.ts";
import { isLate } from "../events/store/processes.ts";
import type { ConsoleRecords, NewConsoleRecord } from "../events/store/own_cells.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { Chart, CHARTS, MINUTE_MS, type Period, quarterOf, RECENT, spanOf } from "./_chart.ts";
import { countAttempt, countDelivery, countStep } from "./_counting.ts";
import { RefusalRecords } from "./_refusal_records.ts";
import { SHARED_MS, Sharing } from "./_sharing.ts";
import { type Activity, activityOf, type RecentActivity, recentOf } from "./_sums.ts";
import type { NotedRefusals } from "./refusals.ts";
import { isTallyRecord, MAX_TYPES, recordOf, sumOf, type Tallies, Tally } from "./tally.ts";

export { type Period, PERIODS } from "./_chart.ts";
export type { RefusedNumbers } from "./_refused.ts";
export type { Activity, AttemptNumbers, RecentActivity } from "./_sums.ts";

/** Minutes that stay in memory: the last hour and what it is compared with. They include two quarters. */
const MAX_MINUTES = 62 + RECENT;

/** Latest delay of writing a record behind the end of its minute: instances take turns so. */
const MAX_DELAY_MS = 2_000;

/** Most records of a commit, which holds 819,200 bytes: a record takes 20 KB at most. */
const WRITTEN_AT_ONCE = 20;

/** Time for which what was read is shown again: an instance that is alone hardly reads. */
const READ_MS = 10_000;

/** Longest wait of a page for a reading: the first one of a day of 100 instances takes half a second. */
const MAX_WAIT_MS = 50;

/** Spans by which the clock of another instance may be ahead. */
const AHEAD = 2;

/** Most records that one reading takes. */
const MAX_RECORDS = 20_000;

/**
 * Counts what happens in this process, keeps it, and adds it up with what the others have counted.
 *
 * Each process has a record for each minute, written once when the minute is over, and one for each quarter
 * of an hour, written anew with each of these: so an hour takes 60 records of a process and a day 96, and one without
 * anything to count none. What belongs to the current minute is in memory. Nothing is read before somebody looks, and what
 * does not change any more is read once.
 */
export class ActivityCounter {
  readonly telemetry: Telemetry;
  /** Called whenever something is counted. */
  onCount: () => void = () => {};
  readonly #id = crypto.randomUUID().slice(0, 8);
  readonly #delayMs = Math.random() * MAX_DELAY_MS;
  readonly #records: ConsoleRecords;
  readonly #processes: EventStore["processes"];
  readonly #log: LogSink;
  /** Counts by minute since the epoch, in the order in which they began. */
  readonly #minutes = new Map<number, Tally>();
  /** Minutes with counts that are not written. */
  readonly #unwritten = new Set<number>();
  readonly #charts = { hour: new Chart("hour"), day: new Chart("day") };
  #minute = NaN;
  #tally = new Tally();
  #workers = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #writing = Promise.resolve();
  readonly #refusals: RefusalRecords;
  readonly #sharing: Sharing;

  /**
   * Creates a counter.
   *
   * @param store The store of the app.
   * @param log The log for what cannot be written or read.
   */
  constructor(store: Pick<EventStore, "consoleRecords" | "processes">, log: LogSink) {
    const records = store.consoleRecords;
    this.#records = records;
    this.#processes = () => store.processes();
    this.#log = log;
    this.#refusals = new RefusalRecords(records, this.#id, CHARTS.day.forMs);
    this.#sharing = new Sharing(records, () => this.#writeNext(spanOf(Date.now())));
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
    await this.#sharing.stop();
    await this.#writing;
    this.#workers = 0;
    await this.#write(Infinity);
  }

  /**
   * Adds up the activity of all instances.
   *
   * @returns The number of instances that run a worker, and what was counted; null as long as nothing was read.
   */
  async read(period: Period): Promise<{ workers: number | null; activity: Activity | null }> {
    const chart = await this.#upToDate(period);
    if (!chart.isRead) return { workers: null, activity: null };
    return {
      workers: chart.workers + (this.#workers > 0 ? 1 : 0),
      activity: activityOf(
        CHARTS[period].slotMs,
        this.#talliesOf(chart, Date.now()).slice(-CHARTS[period].slots),
      ),
    };
  }

  /**
   * Adds up what tells whether something is wrong, of all instances.
   *
   * @returns The numbers; null as long as nothing was read.
   */
  async recent(): Promise<RecentActivity | null> {
    const chart = await this.#upToDate("hour");
    const now = Date.now();
    return chart.isRead ? recentOf(this.#talliesOf(chart, now), now) : null;
  }

  /** Lists the refused deliveries of all instances, those of the last one first. What others have noted is read. */
  refused(): Promise<NotedRefusals[]> {
    return this.#refusals.list();
  }

  /** Reads what the others have counted, unless that was done a short time ago. */
  async #upToDate(period: Period): Promise<Chart> {
    const chart = this.#charts[period];
    const now = Date.now();
    const isShared = chart.workers > 0;
    const ageMs = chart.readAt === undefined ? Infinity : Math.abs(now - chart.readAt);
    if (isShared) this.#sharing.tell(now);
    if (ageMs >= (isShared ? SHARED_MS : READ_MS)) {
      await within(MAX_WAIT_MS, chart.reading ??= this.#readInto(chart, now));
    }
    return chart;
  }

  #counting(): Telemetry {
    const count = () => this.#current();
    return {
      nameRequest: () => {},
      storing: (_, store) => store(undefined),
      countDelivery: (delivery) => {
        countDelivery(count(), delivery);
        if (delivery.outcome === "rejected") this.#refusals.note(delivery);
      },
      countStep: (step) => countStep(count, step),
      attempt: (event) => ({
        run: (part) => part(),
        handlerEnded: () => {},
        settled: (outcome, _failure, joined) => countAttempt(count, event, outcome, joined),
      }),
      watchOldestDue: () => {
        this.#workers++;
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
    this.onCount();
    this.#sharing.noteCount();
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

  /** Writes the counts up to a minute. */
  async #write(last: number): Promise<void> {
    const minutes = new Set([...this.#unwritten].filter((minute) => minute <= last));
    const quarters = new Set([...minutes].map(quarterOf));
    const records = [
      ...[...minutes].map((minute) => this.#record("hour", minute)),
      ...[...quarters].map((quarter) => this.#record("day", quarter)),
    ];
    for (const minute of minutes) this.#unwritten.delete(minute);
    try {
      for (let i = 0; i < records.length; i += WRITTEN_AT_ONCE) {
        await this.#records.write(records.slice(i, i + WRITTEN_AT_ONCE));
      }
      await this.#refusals.write(Math.min(last, spanOf(Date.now())));
    } catch (error) {
      for (const minute of minutes) if (this.#minutes.has(minute)) this.#unwritten.add(minute);
      writeLog(this.#log, "warn", "console counts not written", { error });
    }
  }

  /** Makes the record of what this process has counted in a span. */
  #record(period: Period, number: number): NewConsoleRecord {
    const { kind, forMs, slotMs } = CHARTS[period];
    const value = recordOf(sumOf(this.#own(slotMs).get(number) ?? [], MAX_TYPES));
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

  /** Counts the workers of other instances, by the notes of all: a worker of this one has one as well. */
  async #countWorkers(now: number): Promise<number> {
    const notes = (await this.#processes()).filter((note) =>
      !("isUnreadable" in note) && !isLate(note, now)
    );
    return Math.max(0, notes.length - this.#workers);
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
  #talliesOf({ period, spans }: Chart, now: number): Tallies {
    const { slotMs, read: slots } = CHARTS[period];
    const last = spanOf(now, slotMs);
    const own = this.#own(slotMs);
    return Array.from({ length: slots }, (_, i) => {
      const number = last - slots + 1 + i;
      const read = spans.get(number);
      const held = this.#holds(period, number, now) ? own.get(number) ?? [] : [];
      return [number * slotMs, sumOf(read ? [read, ...held] : held)] as const;
    });
  }
}

/** Waits for a task that does not reject, for a time at most. */
export const within = (ms: number, task: Promise<void>): Promise<void> =>
  withDeadline(task, ms).catch(() => {});
