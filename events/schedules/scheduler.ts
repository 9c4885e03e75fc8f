import { type LogSink, writeLog } from "../../core/mod.ts";
import { withDeadline } from "../../core/timeouts.ts";
import { ClosedError } from "../store/engine.ts";
import type { EventStore, StoreListener } from "../store/mod.ts";
import type { Times } from "./cron_expression.ts";
import { slotDelivery, slotIdOf } from "./slot_event.ts";
import {
  AHEAD_MS,
  isMadeUp,
  leavingOut,
  MAX_LATEST,
  type MissedSlots,
  nextStep,
  type Step,
  TAKE_OVER_MS,
} from "./slots.ts";

/**
 * A schedule of an app.
 *
 * @category Flows
 */
export interface Schedule {
  /** Name: the type of its events. */
  readonly name: string;
  /** Cron expression of five fields, or a name such as `@daily`. */
  readonly expression: string;
  /** Time zone of the expression. */
  readonly timeZone: string;
  /** Handling of the slots that passed while no instance ran. */
  readonly missed: MissedSlots;
}

/** A schedule whose expression was read. */
export interface TimedSchedule extends Schedule {
  /** Its times. */
  readonly times: Times;
}

/** Options of {@linkcode Scheduler}. */
export interface SchedulerOptions {
  /** Schedules. */
  readonly schedules: readonly TimedSchedule[];
  /** Store that their slots become events in, and that has the notes on what is made. */
  readonly store: Pick<EventStore, "accept" | "get" | "retentionMs" | "scheduleNotes">;
  /** Log. */
  readonly log: LogSink;
  /** Called with the slots that were made or left out, to be counted. */
  readonly count?: StoreListener["count"];
}

/** Longest timer: a machine may sleep meanwhile, or its clock be set. */
const MAX_TIMER_MS = 60_000;

/**
 * Longest time that an instance holds back which has not made the slot before. Nearly always that leaves a
 * slot to the instance that made the last one, and the others read only that it is made.
 */
const SPREAD_MS = 2_000;

/** Longest time for the slots of a schedule; a remote database stores a hundred in a second or two. */
const TIMEOUT_MS = 60_000;

/** Number of the slots that were made up or left out. */
interface SlotCount {
  madeUp: number;
  leftOut: number;
  leftOutBy: (Step & { readonly is: "make" })["leftOutBy"];
}

/** Makes the slots of schedules events. Any number of instances makes each one once. */
export class Scheduler {
  readonly #options: SchedulerOptions;
  readonly #owner = crypto.randomUUID();
  readonly #watched: readonly Watched[];
  #running: Promise<void> = Promise.resolve();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isStopped = false;

  constructor(options: SchedulerOptions) {
    this.#options = options;
    this.#watched = options.schedules.map((schedule) => new Watched(schedule));
  }

  /** Makes slots as they become due, until it is stopped. */
  start(): void {
    this.tick().then(() => this.#setTimer());
  }

  /**
   * Makes the slots that are due. What fails is logged, and tried again.
   *
   * @param now The time, milliseconds since the epoch.
   * @returns A promise that resolves once that is done.
   */
  tick(now?: number): Promise<void> {
    return this.#running = this.#running.then(() => this.#tick(now ?? Date.now()));
  }

  /**
   * Finds the first slot after a time.
   *
   * @param after The time.
   * @returns The slot; undefined if there is none.
   */
  nextAfter(after: number): number | undefined {
    const slots = this.#options.schedules.map(({ times }) => times.next(after) ?? Infinity);
    const first = Math.min(...slots);
    return first === Infinity ? undefined : first;
  }

  /**
   * Stops.
   *
   * @returns A promise that resolves once no slot is being made.
   */
  stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    return this.#running;
  }

  #setTimer(): void {
    if (this.#isStopped) return;
    const now = Date.now();
    const waitMs = Math.min(...this.#watched.map((each) => each.wakeAt)) - now;
    this.#timer = setTimeout(() => this.start(), Math.min(Math.max(waitMs, 1), MAX_TIMER_MS));
  }

  async #tick(now: number): Promise<void> {
    for (const watched of this.#watched) {
      if (this.#isStopped) return;
      if (!watched.isDue(now)) continue;
      try {
        await withDeadline(this.#makeDue(watched, now), TIMEOUT_MS);
      } catch (error) {
        watched.putOff(now);
        if (this.#isStopped) return;
        const fields = { schedule: watched.schedule.name, retryInMs: TAKE_OVER_MS, error };
        writeLog(this.#options.log, "error", "cron schedule failed, to be tried again", fields);
        // The store is closed, and the worker has ended for the same reason.
        if (error instanceof ClosedError) return void this.stop();
      }
    }
  }

  async #makeDue(watched: Watched, now: number): Promise<void> {
    const count: SlotCount = { madeUp: 0, leftOut: 0, leftOutBy: undefined };
    try {
      while (await this.#makeSome(watched, now, count) && !this.#isStopped);
    } finally {
      const { madeUp, leftOut, leftOutBy } = count;
      const schedule = watched.schedule.name;
      const { log } = this.#options;
      if (leftOutBy === "pause") {
        writeLog(log, "info", "cron schedule is paused", { schedule, leftOut });
      } else if (leftOutBy === "slowness") {
        writeLog(log, "warn", "cron schedule is slow", { schedule, leftOut });
      } else if (madeUp + leftOut > 0) {
        writeLog(log, "info", "cron schedule had missed slots", { schedule, madeUp, leftOut });
      }
    }
  }

  /** Makes slots that are due, and tells whether there are more. */
  async #makeSome(
    watched: Watched,
    now: number,
    count: SlotCount,
  ): Promise<boolean> {
    const { scheduleNotes: notes, retentionMs } = this.#options.store;
    const { schedule: { name, times, missed }, plan, since } = watched;
    const { value, version } = await notes.read(name);
    const owner = this.#owner;
    const decided = nextStep(value, { plan, times, missed, now, since, owner, retentionMs });
    const isSlow = decided.is === "make" && decided.slots.length > 0 && missed !== "all" &&
      await this.#isSlow(name, decided.making.latest);
    const step = isSlow ? leavingOut(decided) : decided;
    if (step.is === "begin") await this.#begin(watched, step, version, now);
    else if (step.is === "nothing") watched.hasMade(now, false);
    if (step.is === "wait") watched.putOff(now);
    if (step.is !== "make") return false;
    const { slots, left, hasMore, making, made, leftOutBy } = step;
    const own = slots.length === 0 ? version : await notes.write(name, making, version);
    // Another instance was faster.
    if (own === null) return watched.putOff(now);
    for (const slot of slots) await this.#make(name, slot, now);
    const isNoted = await notes.write(name, made, own) !== null;
    // Another instance has left the slots out, or somebody has resumed it.
    if (!isNoted && leftOutBy) return watched.putOff(now);
    count.leftOutBy = leftOutBy;
    count.madeUp += slots.filter((slot) => isMadeUp(slot, now)).length;
    count.leftOut += left;
    this.#count(name, "left_out", left);
    watched.hasMade(hasMore ? slots.at(-1)! : now, true);
    return hasMore;
  }

  async #begin(
    watched: Watched,
    { note, ahead }: Step & { readonly is: "begin" },
    version: string | null,
    now: number,
  ): Promise<void> {
    const { store: { scheduleNotes: notes }, log } = this.#options;
    const { name, expression, timeZone, times } = watched.schedule;
    const isFirst = await notes.write(name, note, version) !== null;
    watched.hasMade(now, isFirst);
    // Another instance has begun at the same time, and says so.
    if (!isFirst) return;
    const next = times.next(now);
    const fields = { schedule: name, expression, timeZone, next: next && textOf(next) };
    if (ahead === undefined) return writeLog(log, "info", "cron schedule begins", fields);
    const wasAt = textOf(ahead);
    writeLog(log, "warn", "cron schedule begins again: a clock was ahead", { ...fields, wasAt });
  }

  /**
   * Tells whether the event of one slot goes on or is tried again, and that of a later one waits for it. If nobody has begun
   * any, since no place is free or no worker runs, as many wait as a note has.
   */
  async #isSlow(name: string, latest: readonly number[] = []): Promise<boolean> {
    const eventOf = (slot: number) => this.#options.store.get(slotIdOf(name, slot));
    const last = latest.at(-1);
    const waiting = last === undefined ? null : await eventOf(last);
    if (waiting?.state !== "queued" || waiting.attempt > 0) return false;
    const earlier = await Promise.all(latest.slice(0, -1).map(eventOf));
    const unfinished = earlier.filter((each) =>
      each?.state === "running" || each?.state === "queued"
    );
    return unfinished.length === MAX_LATEST - 1 ||
      unfinished.some((each) => each?.state === "running" || each!.attempt > 0);
  }

  /** Makes a slot an event, unless it is one: a dead one would be replaced, and handled again. */
  async #make(name: string, slot: number, now: number): Promise<void> {
    const { store } = this.#options;
    if (await store.get(slotIdOf(name, slot))) return;
    const { duplicate } = await store.accept(slotDelivery(name, slot, isMadeUp(slot, now)));
    if (!duplicate) this.#count(name, isMadeUp(slot, now) ? "made_up" : "made", 1);
  }

  #count(schedule: string, outcome: "made" | "made_up" | "left_out", count: number): void {
    if (count > 0) this.#options.count?.({ is: "slots", schedule, outcome, count });
  }
}

/** A schedule, and what this instance knows of its slots. */
class Watched {
  readonly schedule: TimedSchedule;
  /** Expression and time zone, in one text. */
  readonly plan: string;
  /** Time up to which the slots are made; undefined at the start. */
  since: number | undefined;
  /** Time at which this instance looks by itself. */
  wakeAt = -Infinity;
  #dueAt = -Infinity;

  constructor(schedule: TimedSchedule) {
    this.schedule = schedule;
    this.plan = `${schedule.expression} ${schedule.timeZone}`;
  }

  isDue(now: number): boolean {
    return now >= this.#dueAt || (this.since ?? now) > now + AHEAD_MS;
  }

  /** Notes that all slots up to a time are made, by this instance or another. */
  hasMade(now: number, byThis: boolean): void {
    this.since = now;
    this.#dueAt = this.schedule.times.next(now) ?? Infinity;
    this.wakeAt = this.#dueAt + (byThis ? 0 : Math.random() * SPREAD_MS);
  }

  /** Looks again later, and has no more to do now: another instance makes the slots, or the store has failed. */
  putOff(now: number): false {
    this.wakeAt = now + TAKE_OVER_MS;
    return false;
  }
}

function textOf(time: number): string {
  return new Date(time).toISOString();
}
