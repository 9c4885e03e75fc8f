import { type LogSink, writeLog } from "../core/mod.ts";
import { SCHEDULE } from "../events/store/emission.ts";
import type {
  ConsoleRecordKey,
  ConsoleRecords,
  NewConsoleRecord,
} from "../events/store/own_cells.ts";
import {
  type AttemptedEvent,
  type AttemptOutcome,
  type CountedDelivery,
  type CountedStep,
  takenMs,
  type Telemetry,
} from "../telemetry/telemetry.ts";
import { withDeadline } from "../core/timeouts.ts";
import { isRefusalList, merged, type NotedRefusals, RefusalNotes } from "./refusals.ts";
import {
  isTallyRecord,
  MAX_TYPES,
  numbersOf,
  partsOf,
  recordOf,
  sumOf,
  Tally,
  totalOf,
  type TypeNumbers,
} from "./tally.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/** Minutes by which the minutes of the last hour are compared with those before: a quarter of an hour with an hour. */
const RECENT = 15;

/**
 * Periods of the charts: the kind of their records, the length of a slot, the number of slots that are shown and of those
 * that are read, and the time for which a record is kept.
 */
const CHARTS = {
  hour: { kind: "minute", slotMs: MINUTE_MS, slots: 60, read: 60 + RECENT, forMs: 2 * HOUR_MS },
  day: { kind: "quarter", slotMs: HOUR_MS / 4, slots: 96, read: 96, forMs: 26 * HOUR_MS },
} as const;

/** Period of the charts. */
export type Period = keyof typeof CHARTS;

/** Periods of the charts, the default first. */
export const PERIODS = Object.keys(CHARTS) as readonly Period[];

/** Minutes that stay in memory: the last hour and what it is compared with. They include two quarters. */
const MAX_MINUTES = 62 + RECENT;

/** Latest delay of writing a record behind the end of its minute: instances take turns so. */
const MAX_DELAY_MS = 2_000;

/** Most records of a commit, which holds 819,200 bytes: a record takes 20 KB at most. */
const WRITTEN_AT_ONCE = 20;

/** Time after which a worker without a record counts as gone. */
const WORKER_MS = 130_000;

/** Time for which what was read is shown again: an instance that is alone hardly reads. */
const READ_MS = 10_000;

/** The same while others are there, and the time from a count to its record while somebody looks there. */
const SHARED_MS = 2_000;

/** Time for which an instance is told that somebody looks, and after which it is told so again. */
const [WATCHED_MS, TOLD_AGAIN_MS] = [60_000, 20_000] as const;

/** Time between two looks of an instance that counts whether somebody looks at another one. */
const LOOK_MS = 5_000;

/** Longest wait of a page for a reading: the first one of a day of 100 instances takes half a second. */
const MAX_WAIT_MS = 50;

/** Spans at the end whose records may still change. */
const OPEN_SPANS = 3;

/** Spans by which the clock of another instance may be ahead. */
const AHEAD = 2;

/** Most types of events that are shown. */
const SHOWN_TYPES = 20;

/** Most records of refused deliveries that are read: each instance that has refused one writes one in a minute. */
const MAX_REFUSED = 100;

/** Most records that one reading takes. */
const MAX_RECORDS = 20_000;

/** Counts of all instances during a span of time, for one bar of a chart. */
export interface ActivitySlot extends TypeNumbers {
  /** Beginning, milliseconds since the epoch. */
  readonly at: number;
  /** Number of deliveries refused. */
  readonly refused: number;
}

/** Refusals by one platform with one error code. */
export interface RefusedNumbers {
  /** Name of the platform. */
  readonly source: string;
  /** Error code. */
  readonly code: string;
  /** Number of deliveries. */
  readonly count: number;
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
  /** Number of events that have died in the last hour. */
  readonly dead: number;
  /**
   * Refusals of the last hour by the platforms that have verified no delivery since, with the beginning of the minute of
   * the first one, milliseconds since the epoch.
   */
  readonly unverified: readonly (RefusedNumbers & { readonly since: number })[];
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
  /** Notes of the deliveries that this process has refused. */
  readonly refusals = new RefusalNotes();
  /** Called whenever something is counted. */
  onCount: () => void = () => {};
  readonly #id = crypto.randomUUID().slice(0, 8);
  readonly #delayMs = Math.random() * MAX_DELAY_MS;
  readonly #records: ConsoleRecords;
  readonly #log: LogSink;
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
  /** Place of the record of what was refused. */
  #refusedAt: ConsoleRecordKey | undefined;
  readonly #sharing: Sharing;

  constructor(records: ConsoleRecords, log: LogSink) {
    this.#records = records;
    this.#log = log;
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
    return chart.isRead ? recentOf(this.#talliesOf(chart, Date.now())) : null;
  }

  /** Lists the refused deliveries of all instances, those of the last one first. What others have noted is read. */
  async refused(): Promise<NotedRefusals[]> {
    const others = new Map<string, readonly NotedRefusals[]>();
    for await (const { id, value } of this.#records.last("refused", MAX_REFUSED)) {
      // The latest record of an instance has all that it has noted.
      const isKnown = id === this.#id || others.has(id);
      if (!isKnown && isRefusalList(value)) others.set(id, value);
    }
    return merged([this.refusals.list(), ...others.values()]);
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
        if (delivery.outcome === "rejected") this.refusals.note(delivery);
      },
      countStep: (step) => countStep(count, step),
      attempt: (event) => ({
        run: (part) => part(),
        handlerEnded: () => {},
        settled: (outcome, _failure, joined) => countAttempt(count, event, outcome, joined),
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
      await this.#writeRefused(last);
    } catch (error) {
      for (const minute of minutes) if (this.#minutes.has(minute)) this.#unwritten.add(minute);
      writeLog(this.#log, "warn", "console counts not written", { error });
    }
  }

  /** Writes what this process has refused, if there is anything new. The record before is not needed any more. */
  async #writeRefused(minute: number): Promise<void> {
    const value = this.refusals.take();
    if (!value) return;
    const before = this.#refusedAt;
    const key = { kind: "refused", number: minute, id: this.#id } as const;
    await this.#records.write([{ ...key, value, forMs: CHARTS.day.forMs }]);
    this.#refusedAt = key;
    if (before && before.number !== minute) await this.#records.delete(before);
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

/** Times with what was counted from each on. */
type Tallies = readonly (readonly [at: number, Tally])[];

/** Cell by which instances are told that somebody looks at one of them. */
const WATCHED = { kind: "watched", number: 0, id: "all" } as const;

/**
 * Counts of the running minute that instances show each other while somebody looks: they are written soon after
 * something was counted, so that it adds up the same on the pages of each.
 *
 * The page tells so in a cell, if there are other instances, three times a minute. An instance that counts something
 * reads that cell, every five seconds. One that counts nothing does nothing.
 */
class Sharing {
  readonly #records: ConsoleRecords;
  readonly #write: () => void;
  #toldAt = -Infinity;
  #lookedAt = -Infinity;
  #looking: Promise<void> | undefined;
  #watchedUntil = -Infinity;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isStopped = false;

  /** @param write Writes the counts of the running minute. */
  constructor(records: ConsoleRecords, write: () => void) {
    this.#records = records;
    this.#write = write;
  }

  /** Tells the others that somebody looks. */
  tell(now: number): void {
    this.#watchedUntil = now + WATCHED_MS;
    if (this.#isStopped || Math.abs(now - this.#toldAt) < TOLD_AGAIN_MS) return;
    this.#toldAt = now;
    const value = { until: this.#watchedUntil };
    this.#records.write([{ ...WATCHED, value, forMs: WATCHED_MS }]).catch(() =>
      this.#toldAt = -Infinity
    );
  }

  /** Notes that something was counted. */
  noteCount(): void {
    const now = Date.now();
    if (this.#timer !== undefined || this.#isStopped) return;
    if (now < this.#watchedUntil) {
      this.#timer = setTimeout(() => {
        this.#timer = undefined;
        this.#write();
      }, SHARED_MS);
      Deno.unrefTimer(this.#timer);
    } else if (!this.#looking && Math.abs(now - this.#lookedAt) >= LOOK_MS) {
      this.#lookedAt = now;
      this.#looking = this.#look().finally(() => this.#looking = undefined);
    }
  }

  /** Looks whether somebody looks at another instance; what was counted meanwhile is shown, too. */
  async #look(): Promise<void> {
    const value = await this.#records.read(WATCHED).catch(() => undefined);
    const { until } = Object(value);
    if (typeof until !== "number" || until <= Date.now() || until > Date.now() + 2 * WATCHED_MS) {
      return;
    }
    this.#watchedUntil = until;
    this.noteCount();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#looking;
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

function countDelivery(tally: Tally, delivery: CountedDelivery): void {
  const { platform, intake = platform, outcome, type = "", code = "INTERNAL" } = delivery;
  if (outcome === "rejected") tally.refuse(intake, code);
  if (outcome === "accepted") tally.count(intake, type, { received: 1 });
}

/** Counts an event of the app's own. */
function countStep(count: () => Tally, step: CountedStep): void {
  if (step.is === "emitted") count().count(step.source, step.type, { emitted: 1 });
  const isMade = step.is === "slots" && step.outcome !== "left_out";
  if (isMade) count().count(SCHEDULE, step.schedule, { emitted: step.count });
}

/** Counts the end of an attempt: an attempt once, and each of its events. */
function countAttempt(
  count: () => Tally,
  event: AttemptedEvent,
  outcome: AttemptOutcome,
  joined = 0,
): void {
  const numbers = numbersAfter(outcome, (event.batch?.events ?? 1) + joined);
  if (!numbers) return;
  const { platform, intake = platform, type } = event;
  const tally = count();
  tally.count(intake, type, numbers);
  if (outcome === "handled") tally.time(takenMs(event));
}

/** Finds what the end of an attempt adds; undefined if it adds nothing: the event is given back, or another worker's. */
function numbersAfter(outcome: AttemptOutcome, events: number): Partial<TypeNumbers> | undefined {
  if (outcome === "handled") return { handled: events, attempts: 1 };
  if (outcome === "retried") return { failed: 1, attempts: 1 };
  if (outcome === "dead") return { dead: events, failed: 1, attempts: 1 };
  if (outcome === "ignored" || outcome === "cancelled") return { [outcome]: events };
  if (outcome === "parked") return { parked: 1 };
  return outcome === "put_off" ? { putOff: 1 } : undefined;
}

function activityOf(slotMs: number, tallies: Tallies): Activity {
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

function refusedIn({ codes }: Tally): RefusedNumbers[] {
  return [...codes].map(([name, [count]]) => {
    const [source, code] = partsOf(name);
    return { source, code, count: count! };
  }).sort((a, b) => b.count - a.count);
}

function recentOf(tallies: Tallies): RecentActivity {
  const attemptsIn = (part: Tallies): AttemptNumbers => {
    const all = part.map(([, { types }]) => totalOf(types));
    const sum = (name: "attempts" | "failed") => all.reduce((sum, each) => sum + each[name], 0);
    return { attempts: sum("attempts"), failed: sum("failed") };
  };
  const hour = tallies.slice(-CHARTS.hour.slots);
  return {
    recent: attemptsIn(tallies.slice(-RECENT)),
    before: attemptsIn(tallies.slice(0, -RECENT)),
    dead: hour.reduce((sum, [, { types }]) => sum + totalOf(types).dead, 0),
    unverified: unverifiedIn(hour),
  };
}

/** Finds the refusals that no verified delivery of the same platform has followed, by platform and code. */
function unverifiedIn(hour: Tallies): RecentActivity["unverified"] {
  const found = new Map<string, RefusedNumbers & { since: number }>();
  for (const [at, tally] of hour) {
    const verified = new Set(
      [...tally.types].filter(([, numbers]) => numbersOf(numbers).received > 0)
        .map(([name]) => partsOf(name)[0]),
    );
    for (const refused of refusedIn(tally)) {
      const key = `${refused.source}:${refused.code}`;
      const { since = at, count = 0 } = found.get(key) ?? {};
      found.set(key, { ...refused, since, count: count + refused.count });
    }
    for (const [key, { source }] of found) if (verified.has(source)) found.delete(key);
  }
  return [...found.values()];
}

/** Numbers the span of a time: the minutes, or the spans of another length, since the epoch. */
function spanOf(time: number, slotMs: number = MINUTE_MS): number {
  return Math.floor(time / slotMs);
}

const quarterOf = (minute: number) => spanOf(minute * MINUTE_MS, CHARTS.day.slotMs);

/** Waits for a task that does not reject, for a time at most. */
export const within = (ms: number, task: Promise<void>): Promise<void> =>
  withDeadline(task, ms).catch(() => {});
