/**
 * The slots of a schedule, and what is remembered of them: pure functions, which decide what is to be made.
 *
 * One note for each schedule says up to which time its slots are made. An instance that finds a slot due
 * writes into the note that it makes it, then stores the event, then writes that it is made. Each write
 * checks the note's version, so of many instances one makes the slot. If that one dies, another takes over
 * after a while, and the event's id keeps the slot from becoming two events. An id is forgotten after the
 * store's retention: a slot that may have been made longer ago than that is not made again.
 *
 * A note is of one expression and time zone, its plan. A version of the app that finds the note of another
 * plan begins now. While both versions run, each goes by the time up to which it has made its slots itself.
 *
 * Somebody may pause a schedule: the note says so, whatever the plan, until somebody resumes it. The slots that become
 * due meanwhile are left out, each by one instance.
 *
 * @module
 */
import { isText, isTime, orNone, shape } from "../../core/shape.ts";
import type { Times } from "./cron_expression.ts";

/**
 * Handling of the slots that passed while no instance ran.
 *
 * @category Flows
 */
export type MissedSlots = "last" | "none" | "all";

/** Note of the slots that are made. */
export interface SlotNote {
  /** Expression and time zone that the slots are of. */
  readonly plan: string;
  /** Time up to which all slots are made, milliseconds since the epoch. */
  readonly at: number;
  /** Slots that are being made, or were when their instance died. */
  readonly making?: Making | undefined;
  /** Set while the schedule is paused. */
  readonly paused?: Pause | undefined;
  /** Last slots that were made, up to ten. */
  readonly latest?: readonly number[] | undefined;
}

/** Pause of a schedule. */
interface Pause {
  /** Time at which it was paused, milliseconds since the epoch. */
  readonly at: number;
  /** Person or tool that has paused it, for people; undefined if that was not said. */
  readonly by?: string | undefined;
}

/** Slots that an instance makes. */
interface Making {
  /** Instance that makes them. */
  readonly owner: string;
  /** Last one of them. */
  readonly until: number;
  /** Time at which it began, milliseconds since the epoch. */
  readonly since: number;
  /** Time at which the first of the instances began that have tried to make them. */
  readonly firstTriedAt: number;
}

/** Situation that a step is decided in. */
export interface Situation {
  /** Expression and time zone of the schedule. */
  readonly plan: string;
  /** Times of the schedule. */
  readonly times: Times;
  /** Handling of missed slots. */
  readonly missed: MissedSlots;
  /** Time, milliseconds since the epoch. */
  readonly now: number;
  /** Time up to which this instance knows that the slots are made; undefined if it has just started. */
  readonly since: number | undefined;
  /** Name of this instance. */
  readonly owner: string;
  /** Time for which the store knows the ids of events, in milliseconds. */
  readonly retentionMs: number;
}

/** Decision for a schedule. */
export type Step =
  /** Nothing is due. */
  | { readonly is: "nothing" }
  /** Another instance makes the slots that are due. */
  | { readonly is: "wait" }
  /** The schedule begins now: it is new or changed, or a clock was ahead. */
  | { readonly is: "begin"; readonly note: SlotNote; readonly ahead?: number }
  /** Slots are to be made, if any, in their order, and perhaps more of them later. `left` are left out. */
  | {
    readonly is: "make";
    readonly slots: readonly number[];
    readonly left: number;
    readonly hasMore: boolean;
    readonly making: SlotNote;
    readonly made: SlotNote;
    /** The reason for which all are left out: somebody has paused the schedule, or it is slow. */
    readonly leftOutBy?: "pause" | "slowness" | undefined;
  };

/** Largest number of slots that are made up at once. */
const MAX_MADE_UP = 100;

/** Largest number of slots between two notes: what fails in between begins again behind the last note. */
const MAX_AT_ONCE = 10;

/** Largest number of slots that are counted: each takes 0.04 ms. */
const MAX_COUNTED = 1_000;

/** Lateness above which a slot counts as missed: a process needs time to restart, and a platform to wake one. */
const MISSED_MS = 120_000;

/** Number of slots in a note, and the most that wait for a schedule of which nobody begins one. */
export const MAX_LATEST = 10;

/** Time after which the slots of an instance that does not go on are made by another one. */
export const TAKE_OVER_MS = 10_000;

/** Time by which the note may be ahead: clocks differ. If it is more, a clock was wrong. */
export const AHEAD_MS = 300_000;

/**
 * Reads a note.
 *
 * @param stored The note, as it was stored.
 * @returns The note; undefined if this version cannot read it.
 */
export function readNote(stored: unknown): SlotNote | undefined {
  return isNote(stored) ? stored as SlotNote : undefined;
}

const isNote = shape({
  plan: isText,
  at: isTime,
  making: orNone(shape({ owner: isText, until: isTime, since: isTime, firstTriedAt: isTime })),
  paused: orNone(shape({ at: isTime, by: orNone(isText) })),
  latest: orNone(isTimes),
});

function isTimes(value: unknown): boolean {
  return Array.isArray(value) && value.every(isTime);
}

/**
 * Decides what is to be done for a schedule.
 *
 * @param stored The note, as it was read; undefined if there is none.
 * @param situation The schedule, the time, and this instance.
 * @returns The decision.
 * @throws {Error} If this version cannot read the note: then the schedule stops, and the note is left as it is.
 */
export function nextStep(stored: unknown, situation: Situation): Step {
  const { plan, now, since, owner, retentionMs } = situation;
  const note = readNote(stored);
  if (stored !== undefined && !note) {
    throw new Error(
      "Cannot read the note of the schedule: another version wrote it, or it is damaged",
    );
  }
  const isOwn = note?.plan === plan;
  const from = isOwn ? note.at : since;
  const paused = note?.paused;
  const noteAt = (at: number, latest = note?.latest): SlotNote => ({
    ...{ plan, at },
    ...(paused && { paused }),
    ...(latest && { latest }),
  });
  if (stored === undefined || from === undefined) return { is: "begin", note: noteAt(now) };
  if (from > now + AHEAD_MS) return { is: "begin", note: noteAt(now), ahead: from };
  const due = dueSlots(from, situation);
  if (!due) return { is: "nothing" };
  const making = isOwn ? note.making : undefined;
  const isOthers = making !== undefined && making.owner !== owner;
  if (isOthers && Math.abs(now - making.since) < TAKE_OVER_MS) return { is: "wait" };
  // Their ids may be forgotten, and with them that they were made.
  const isUnknown = making !== undefined && now - making.firstTriedAt >= retentionMs;
  const known = isUnknown ? due.slots.filter((slot) => slot > making.until) : due.slots;
  const wanted = paused ? [] : known;
  const slots = wanted.slice(0, MAX_AT_ONCE);
  const hasMore = slots.length < wanted.length;
  const until = hasMore ? slots.at(-1)! : due.until;
  const firstTriedAt = making?.firstTriedAt ?? now;
  return {
    is: "make",
    slots,
    left: due.left + due.slots.length - wanted.length,
    hasMore,
    making: {
      ...noteAt(from),
      making: { owner, until, since: now, firstTriedAt },
    },
    made: slots.length === 0
      ? noteAt(until)
      : noteAt(until, [...note?.latest ?? [], ...slots].slice(-MAX_LATEST)),
    leftOutBy: paused && "pause",
  };
}

/**
 * Leaves out the slots of a schedule that is slow.
 *
 * @param step The step that makes them.
 * @returns The step that leaves them out.
 */
export function leavingOut(step: Step & { readonly is: "make" }): Step & { readonly is: "make" } {
  const { making: { latest }, made: { latest: _, ...made }, slots, left } = step;
  return {
    ...step,
    ...{ slots: [], left: left + slots.length, leftOutBy: "slowness" },
    made: { ...made, ...(latest && { latest }) },
  };
}

/**
 * Tells whether a slot is made up.
 *
 * @param slot The slot.
 * @param now The time.
 * @returns True if it is made much later than it was due.
 */
export function isMadeUp(slot: number, now: number): boolean {
  return now - slot > MISSED_MS;
}

/** Finds the slots after a time that are to be made, and the last one that is due; undefined if none is. */
function dueSlots(
  from: number,
  { times, missed, now }: Situation,
): { readonly slots: number[]; readonly left: number; readonly until: number } | undefined {
  const [until] = times.latest(now, 1);
  if (until === undefined || until <= from) return undefined;
  const slots = chosen(times, missed, until, now).filter((slot) => slot > from);
  let left = -slots.length;
  for (let slot = times.next(from); slot !== undefined && slot <= until; slot = times.next(slot)) {
    if (++left === MAX_COUNTED) break;
  }
  return { slots, left, until };
}

function chosen(times: Times, missed: MissedSlots, until: number, now: number): number[] {
  if (missed === "all") return times.latest(until, MAX_MADE_UP).reverse();
  return missed === "none" && isMadeUp(until, now) ? [] : [until];
}
