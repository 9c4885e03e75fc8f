/**
 * The records of acts: what is kept of who did what, when, and to how many.
 *
 * @module
 */
import {
  isBoolean,
  isCount,
  isInteger,
  isOneOf,
  isText,
  isTime,
  orNone,
  shape,
} from "../core/shape.ts";
import { STORED_STATES } from "../events/store/event_record.ts";
import type { ConsoleRecordKey, NewConsoleRecord } from "../events/store/own_cells.ts";
import { type ActKind, type ActQuery, askedAtOf, type DeedKind, DEEDS, KINDS } from "./_query.ts";

/** Time for which records of acts are kept, and the lists of their events. */
export const KEPT_MS = 90 * 86_400_000;

/**
 * Time without a sign of life after which an act counts as interrupted: with the second between two signs, and the two
 * between two refreshes of a page, somebody who looks sees it within ten seconds.
 */
const INTERRUPTED_MS = 6_000;

const ACT_STATES = ["running", "finished", "failed", "interrupted", "stopped"] as const;

/** Kept record of an act: who did what, when, and to how many. */
export interface Act {
  /** Id, which begins with the time of the question that was asked before. */
  readonly id: string;
  /** Kind. */
  readonly kind: ActKind | DeedKind;
  /** Time at which it began, milliseconds since the epoch. */
  readonly at: number;
  /** Session and address of who did it, for people: `operator 3f2a from 203.0.113.7`. */
  readonly by: string;
  /** Id of the sender in whose name a question was answered. */
  readonly as?: number | undefined;
  /** Event that it was done to; undefined for all that match. */
  readonly eventId?: string | undefined;
  /**
   * Type of that event, and the repository or chat that it belongs to, or what else it was done to, for people. Of all
   * events of a problem it is the first line of an error.
   */
  readonly about?: string | undefined;
  /** Choice of events, of an act on many. */
  readonly query?: ActQuery | undefined;
  /** Number of events changed so far. */
  readonly changed: number;
  /** Number of events in the batch that was cancelled with its first event; 0 without a batch. */
  readonly batch: number;
  /**
   * Number of further events that are being changed. Of an act that failed or was interrupted, they may be
   * changed or not.
   */
  readonly underway: number;
  /** Number of events that cannot be replayed, since they are done and their payloads are not kept. */
  readonly notKept: number;
  /** Number of events read so far: those that the question was about. */
  readonly seen: number;
  /** Number of events that were counted before an act on many. It changes no more, and the rest of batches that it cancels. */
  readonly of?: number | undefined;
  /** Number of lists of the events that an act on many has changed. */
  readonly lists?: number | undefined;
  /** Set if it has changed more events than are listed. */
  readonly isCut?: boolean | undefined;
  /** Number of times that an act on many was resumed. */
  readonly resumed?: number | undefined;
  /** Session and address of who resumed it last. */
  readonly resumedBy?: string | undefined;
  /** State: an act whose process has died is `interrupted`. */
  readonly state: typeof ACT_STATES[number];
  /** Session and address of who stopped it. */
  readonly stoppedBy?: string | undefined;
  /** Error, if it failed. */
  readonly error?: string | undefined;
}

/** Tells whether an act has ended before its last event: one on many can be resumed then. */
export const isResumable = ({ state }: Act): boolean =>
  state === "failed" || state === "interrupted" || state === "stopped";

const isQuery = shape({
  state: isOneOf(STORED_STATES),
  ...{ type: orNone(isText), source: orNone(isText), place: orNone(isText), group: orNone(isText) },
  ...{ problem: orNone(isText), q: orNone(isText), name: orNone(isText) },
  ...{ from: orNone(isTime), before: orNone(isTime) },
});

const isActShape = shape({
  v: isOneOf([1]),
  id: isText,
  kind: isOneOf([...KINDS, ...DEEDS]),
  ...{ at: isTime, aliveAt: isTime, by: isText, as: orNone(isInteger) },
  ...{ eventId: orNone(isText), about: orNone(isText), query: orNone(isQuery) },
  ...{ changed: isCount, batch: isCount, underway: isCount, notKept: isCount, seen: isCount },
  state: isOneOf(ACT_STATES),
  ...{ stoppedBy: orNone(isText), error: orNone(isText) },
  ...{ of: orNone(isCount), lists: orNone(isCount), isCut: orNone(isBoolean) },
  ...{ resumed: orNone(isCount), resumedBy: orNone(isText) },
});

/** Finds the place of an act, or of the wish to stop it, by the id of the act; undefined if it is none. */
export function keyOf(kind: "act" | "stop", id: string): ConsoleRecordKey | undefined {
  const number = askedAtOf(id);
  return number === undefined ? undefined : { kind, number, id };
}

/** Makes the record of an act that is alive. */
export function actRecord(act: Act): NewConsoleRecord {
  const value = { v: 1, ...act, aliveAt: Date.now() };
  return { ...keyOf("act", act.id)!, value, forMs: KEPT_MS };
}

/** Reads a record; null if it is of another version, or damaged. */
export function actOf(value: unknown, { id, number }: ConsoleRecordKey): Act | null {
  if (!isActShape(value)) return null;
  const { v: _, aliveAt, ...act } = value as Act & { readonly v: 1; readonly aliveAt: number };
  if (act.id !== id || askedAtOf(id) !== number) return null;
  const isSilent = Date.now() - aliveAt > INTERRUPTED_MS;
  return act.state === "running" && isSilent ? { ...act, state: "interrupted" } : act;
}
