/**
 * Things that are wrong with an app: read from its store and from what its processes have counted. The console shows it, and the
 * alarm tells it.
 *
 * @module
 */
import { duration } from "../core/duration.ts";
import type { BoundedCount, EventRecord, EventStore, HungHandler } from "../events/store/mod.ts";
import { isLate } from "../events/store/processes.ts";
import type { RecentProblem } from "../events/store/own_cells.ts";
import { CHARTS, MINUTE_MS, spanOf } from "./_chart.ts";
import { REFUSED, SECRET_CODES } from "./_refused.ts";
import type { AttemptNumbers, RecentActivity } from "./_sums.ts";
import type { Alert } from "./alert.ts";

export { SECRET_CODES } from "./_refused.ts";

/** Time for which an event may be due, as in the rule for Prometheus. */
const DUE_MS = 60_000;

/** Time for which all places of a process may be held while events are due, and while none is. */
const [HELD_MS, IDLE_HELD_MS] = [60_000, 300_000] as const;

/** Time for which a lease may be over before its process counts as gone, in milliseconds: it may be renewing it. */
const LEASE_SLACK_MS = 5_000;

/** Number and share of failed attempts from which on something is wrong. */
const [FAILED, FAILED_SHARE] = [5, 0.2] as const;

/** Number of failed attempts from which on an error is not met once only. */
const REPEATED = 3;

/** Longest texts of a handler and of an error. */
const [MAX_HANDLER, MAX_LINE] = [100, 200] as const;

/** Most running events that are read, and most dead ones. */
const [MAX_RUNNING, MAX_DEAD] = [500, 500] as const;

/** Shortest time from one reading to the next, and the rest after one as a multiple of its duration: 2 % of the time. */
const [PERIOD_MS, REST] = [1_500, 50] as const;

/** Longest time from one reading to the next while nothing changes that this process knows of. */
const IDLE_MS = 20_000;

/** Event that is running. */
export interface RunningEvent {
  /** Record of the event. */
  readonly record: EventRecord;
  /** Time at which it was leased, milliseconds since the epoch. */
  readonly since: number;
  /** True if its process has noted that its handler runs past its time limit. */
  readonly isOverdue: boolean;
}

/** Process that has noted itself and has not ended in order, with what it runs. */
export interface ProcessHealth {
  /** Id: the owner of its leases. */
  readonly id: string;
  /** Name of its machine and number there; undefined if it has not noted that. */
  readonly name: string | undefined;
  /** Version of its code. */
  readonly version: string | undefined;
  /** Time at which it has started; undefined if its note cannot be read. */
  readonly startedAt: number | undefined;
  /** Time at which it has noted itself last; undefined if its note cannot be read. */
  readonly seenAt: number | undefined;
  /** True if it has not noted itself for so long that it counts as gone: it has no places then. */
  readonly isGone: boolean;
  /** Handlers that were told to end and hold places, although their events are no longer its own. */
  readonly strays: readonly HungHandler[];
  /**
   * Number of its places that are held, also by handlers whose events are no longer its own. An event whose lease is over
   * holds none: its process was killed, or does not reach the store.
   */
  readonly held: number;
  /** Number of events that it handles at a time; undefined if it has not noted that. */
  readonly places: number | undefined;
  /** Events that it has leased, the longest-running first. */
  readonly running: readonly RunningEvent[];
  /** Time since which all of its places are held by the same events; null while one is free. */
  readonly heldSince: number | null;
}

/** State of an app, as far as it may be wrong. */
export interface Health {
  /** Time at which it was read, milliseconds since the epoch. */
  readonly at: number;
  /** Processes that have noted themselves. */
  readonly processes: readonly ProcessHealth[];
  /** True if more events run than are read. */
  readonly isCut: boolean;
  /** Event that has been due for the longest; null if none is due. */
  readonly oldestDue: Awaited<ReturnType<EventStore["inspect"]["oldestDue"]>>;
  /** Recent activity; null as long as it was not read. */
  readonly activity: RecentActivity | null;
  /**
   * Number of the events that have died in the last hour and are dead still: nobody has replayed or purged them. If more
   * than 500 are dead, only the latest of these are read, and there may be more.
   */
  readonly stillDead: BoundedCount;
  /** Problems that are new, and those that somebody was told of and that are not over. */
  readonly problems: readonly RecentProblem[];
}

/** Something that is wrong. */
export interface Wrong extends Pick<Alert, "kind" | "key" | "text" | "since"> {
  /** Event that the text names: its id, and the part of the text that names it. */
  readonly event?: { readonly id: string; readonly name: string } | undefined;
  /** Set if it is worth a message only to those who have got one when it was new. */
  readonly isOld?: boolean | undefined;
}

/**
 * Reader of what is wrong. It reads at most every 1.5 seconds, however often it is asked, and less and less often while
 * nothing changes: a page that is left open would read an idle store 1,800 times an hour.
 */
export class HealthReader {
  readonly #store: EventStore;
  readonly #activity: () => Promise<RecentActivity | null>;
  #last: Promise<Health> | undefined;
  #nextAt = -Infinity;
  /** The pause after a reading that has found nothing new, when it ends, and what was found. */
  #idleMs: number = PERIOD_MS;
  #idleUntil = -Infinity;
  #found = "";
  /** Set if something has happened since the last reading began. */
  #isStirred = false;

  /**
   * Creates a reader.
   *
   * @param store The store.
   * @param activity Reads the recent activity.
   */
  constructor(store: EventStore, activity: () => Promise<RecentActivity | null>) {
    this.#store = store;
    this.#activity = activity;
  }

  /** Notes that something has happened in this process, so that it is read again. */
  stir(): void {
    this.#isStirred = true;
    this.#idleMs = PERIOD_MS;
    this.#idleUntil = -Infinity;
  }

  /** Reads it, unless that was done a short time ago. */
  look(): Promise<Health> {
    const isDue = performance.now() >= Math.max(this.#nextAt, this.#idleUntil);
    return this.#last && !isDue ? this.#last : this.read();
  }

  /**
   * Reads it now.
   *
   * @param told Ids of problems that somebody was told of: those that are not over are read, too.
   * @returns The state.
   */
  read(told: readonly string[] = []): Promise<Health> {
    const start = performance.now();
    this.#nextAt = Infinity;
    this.#isStirred = false;
    const reading = this.#read(told);
    const end = (health: Health) => {
      const now = performance.now();
      this.#nextAt = now + Math.max(PERIOD_MS, REST * (now - start));
      if (!this.#isStirred) this.#noteIdle(health);
    };
    reading.then(end, () => this.#last = undefined);
    return this.#last = reading;
  }

  /** Waits longer and longer while the same is found. */
  #noteIdle({ processes, oldestDue, activity, stillDead }: Health): void {
    const running = processes.map(({ id, running }) => [id, ...running.map(({ since }) => since)]);
    const found = JSON.stringify([running, oldestDue?.id, activity, stillDead]);
    this.#idleMs = found === this.#found ? Math.min(2 * this.#idleMs, IDLE_MS) : PERIOD_MS;
    this.#idleUntil = performance.now() + this.#idleMs;
    this.#found = found;
  }

  async #read(told: readonly string[]): Promise<Health> {
    const [oldestDue, running, notes, activity, problems] = await Promise.all([
      this.#store.inspect.oldestDue(),
      Array.fromAsync(this.#store.list({ state: "running", maxReads: MAX_RUNNING })),
      this.#store.processes(),
      this.#activity(),
      this.#store.alertNotes.problems(told),
    ]);
    const at = Date.now();
    return {
      at,
      processes: notes.map((note) => processOf(note, running, at)),
      isCut: running.length === MAX_RUNNING,
      ...{ oldestDue, activity, problems },
      stillDead: await this.#stillDead(activity),
    };
  }

  async #stillDead(activity: RecentActivity | null): Promise<BoundedCount> {
    const dead = activity?.dead ?? 0;
    if (dead === 0) return { count: 0, isMore: false };
    // The first of the minutes in which they were counted.
    const since = (spanOf(Date.now()) - CHARTS.hour.slots + 1) * MINUTE_MS;
    const filter = { state: "dead", outcome: "failed" } as const;
    const list = this.#store.list({ ...filter, order: "newest", maxReads: MAX_DEAD });
    let count = 0;
    for await (const { settledAt } of list as AsyncIterable<EventRecord>) {
      if ((settledAt ?? 0) >= since && ++count === dead) return { count, isMore: false };
    }
    return { count, isMore: list.cursor !== undefined };
  }
}

type Note = Awaited<ReturnType<EventStore["processes"]>>[number];

/**
 * Lists the handlers of a process that were told to end and hold its places, although their events are no longer its own.
 *
 * @param ownerOf Finds the owner of an event's lease, by its id.
 */
export function straysOf(
  note: Note,
  ownerOf: (id: string) => string | undefined,
  now: number,
): HungHandler[] {
  if ("isUnreadable" in note || isLate(note, now)) return [];
  const { id: owner, hung = [], overdue = [] } = note;
  return hung.filter(({ id }) => ownerOf(id) !== owner && !overdue.includes(id));
}

/** Checks whether the lease of an event is over, and nobody renews it any more. */
export function isLeaseOver({ lease }: Pick<EventRecord, "lease">, now: number): boolean {
  return lease !== null && lease.until < now - LEASE_SLACK_MS;
}

function processOf(note: Note, all: readonly EventRecord[], now: number): ProcessHealth {
  const known = "isUnreadable" in note ? undefined : note;
  const overdue = new Set(known?.overdue);
  const running = all.filter(({ lease }) => lease?.owner === note.id)
    .map((record) => ({
      ...{ record, since: record.lease!.startedAt, isOverdue: overdue.has(record.id) },
    }))
    .sort((a, b) => a.since - b.since);
  const places = known?.places;
  const { name, version, startedAt, seenAt } = known ?? {};
  const isGone = known !== undefined && isLate(known, now);
  const own = new Set(running.map(({ record: { id } }) => id));
  // Among those that were not read, some may be its own.
  const strays = all.length === MAX_RUNNING
    ? []
    : straysOf(note, (id) => own.has(id) ? note.id : undefined, now);
  const holding = running.filter(({ record, isOverdue }) =>
    !isOverdue && !isLeaseOver(record, now)
  );
  const held = [...holding, ...strays].map(({ since }) => since).sort((a, b) => a - b);
  const heldSince = places === undefined || isGone ? null : held[places - 1] ?? null;
  return {
    ...{ id: note.id, name, version, startedAt, seenAt, isGone, strays },
    ...{ held: Math.min(held.length, places ?? Infinity), places, running, heldSince },
  };
}

/**
 * Finds what is wrong.
 *
 * @param now Time up to which the texts count, milliseconds since the epoch: that of the reading, unless a page shows it later.
 */
export function wrongIn(health: Health, now: number = health.at): Wrong[] {
  const { oldestDue, activity, stillDead, problems, at } = health;
  const found: (Wrong | undefined)[] = [
    ...health.processes.map((process) => heldIn(process, health, now)),
    oldestDue && at - oldestDue.at > DUE_MS ? dueTooLong(oldestDue, now) : undefined,
  ];
  if (activity) found.push(failing(activity, at), ...refused(activity));
  if (activity && (stillDead.count > 0 || stillDead.isMore)) {
    found.push(died(activity, stillDead, at));
  }
  found.push(...problems.map(newProblem));
  return found.filter((each) => each !== undefined);
}

/** Tells of a problem. It is wrong if an event has died of it, or attempts go on failing. */
function newProblem(
  { id, error, handler, since, isNew, isBack, hasDead, failed }: RecentProblem,
): Wrong {
  const [line = ""] = error.split("\n", 1);
  const of = handler.slice(0, MAX_HANDLER);
  const text = `${isBack ? `An error of ${of} is back` : `A new error of ${of}`}: ${
    line.slice(0, MAX_LINE)
  }`;
  const isOld = !isNew || (!hasDead && failed < REPEATED);
  return { kind: "problem", key: `problem:${id}`, since, text, ...(isOld && { isOld }) };
}

/** Shows the share of the attempts that have failed. */
export function shareOf({ attempts, failed }: AttemptNumbers): string {
  return attempts === 0 ? "none" : `${Math.round(100 * failed / attempts)} %`;
}

function dueTooLong(
  { id, at: since, record }: NonNullable<Health["oldestDue"]>,
  now: number,
): Wrong {
  const name = record ? `${id} (${record.type})` : id;
  const text = `An event has been due for ${
    duration(now - since)
  }, and nobody has taken it: ${name}`;
  return { kind: "oldest_due", key: "oldest_due", since, text, event: { id, name } };
}

/** Tells whether a process has no place left, or a handler that runs past its time limit. */
function heldIn(
  process: ProcessHealth,
  { oldestDue, at }: Health,
  now: number,
): Wrong | undefined {
  const { id, name, isGone, heldSince, places, running, strays } = process;
  if (isGone) return undefined;
  const overdue = running.find(({ isOverdue }) => isOverdue);
  const isHeld = heldSince !== null &&
    at - heldSince > (oldestDue && oldestDue.at <= at ? HELD_MS : IDLE_HELD_MS);
  const shown = isHeld ? running.at(0) ?? strays.at(0) : overdue;
  if (!shown) return undefined;
  const what = isHeld
    ? `${allPlaces(places)} of the process ${name ?? id} ${
      places === 1 ? "has" : "have"
    } been held for ${duration(now - heldSince)}, the longest by`
    : `The handler of an event runs past its time limit in the process ${name ?? id}:`;
  const event = "record" in shown
    ? { id: shown.record.id, name: `${shown.record.id} (${shown.record.type})` }
    : { id: shown.id, name: shown.id };
  return {
    ...{ kind: "places_held", key: `places_held:${id}`, since: isHeld ? heldSince : shown.since },
    text: `${what} ${event.name}, for ${duration(now - shown.since)}`,
    event,
  };
}

const allPlaces = (places: number | undefined): string =>
  places === 1 ? "The only place" : `All ${places} places`;

function failing({ recent, before }: RecentActivity, at: number): Wrong | undefined {
  const { failed, attempts } = recent;
  if (failed < FAILED || failed < FAILED_SHARE * attempts) return undefined;
  const text =
    `${shareOf(recent)} of the ${attempts} attempts of the last 15 minutes have failed ` +
    `(in the hour before: ${shareOf(before)})`;
  return { kind: "failure_rate", key: "failure_rate", since: at, text };
}

function died({ dead }: RecentActivity, { count, isMore }: BoundedCount, at: number): Wrong {
  const all = dead === 1
    ? "An event has died in the last hour"
    : `${dead} events have died in the last hour`;
  const text = isMore || count >= dead
    ? all
    : `${all}, and ${count} of them ${count === 1 ? "is" : "are"} still dead`;
  return { kind: "dead", key: "dead", since: at, text };
}

/** Finds the platforms of which no delivery has the right secret any more. */
function refused({ unverified }: RecentActivity): Wrong[] {
  const bySource = Map.groupBy(
    unverified.filter(({ code }) => Object.hasOwn(SECRET_CODES, code)),
    ({ source }) => source,
  );
  return [...bySource].flatMap(([source, all]) => {
    const count = all.reduce((sum, each) => sum + each.count, 0);
    const since = Math.min(...all.map((each) => each.since));
    const { code } = all.reduce((most, each) => each.count > most.count ? each : most);
    const text = `${count} deliveries to the platform ${source} were refused since ` +
      `${new Date(since).toISOString().slice(11, 16)} UTC: ${SECRET_CODES[code]}`;
    return count < REFUSED ? [] : [{ kind: "refused", key: `refused:${source}`, since, text }];
  });
}
