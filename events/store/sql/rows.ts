/**
 * The rows of events in an SQL database.
 *
 * @module
 */
import type { CellKey, Scan, Version } from "../engine.ts";
import {
  type EventRecord,
  type EventRef,
  type EventState,
  isEventRecord,
  OPEN_STATES,
} from "../event_record.ts";

/** The columns of an event that an engine works with. */
export interface EventRow<TJson = string> {
  readonly seq: number;
  readonly id: string;
  readonly received_at: number;
  readonly state: EventState;
  readonly own_due_at: number | null;
  readonly other_due_at: number | null;
  readonly due_at: number | null;
  readonly group_key: string | null;
  readonly position: number | null;
  readonly payload: string | null;
  readonly forget_at: number | null;
  /** The problem by which it has failed, and the time of receipt of the event that it is of: see {@linkcode HAS_FAILED}. */
  readonly problem: string | null;
  readonly problem_at: number | null;
  readonly version: Version;
  readonly record: TJson;
}

/** The columns, for a query. */
export const COLUMNS = [
  ...["seq", "id", "received_at", "state", "own_due_at", "other_due_at", "due_at", "group_key"],
  ...["position", "payload", "forget_at", "problem", "problem_at", "version", "record"],
].join(", ");

/**
 * The condition of the index of the events that have failed, beside that they have a problem. A program of the first layout
 * leaves the columns of the problem as they are when it settles an event, or puts another one in its row: so they count
 * only for the event that they are of, until that is done.
 */
export const HAS_FAILED = "state <> 'done' and problem_at = received_at";

/** Returns the time in the column beside the one of an event's problem. */
export function problemAt({ problem, receivedAt }: EventRecord): number | null {
  return problem === undefined ? null : receivedAt;
}

/** Makes the conditions that choose the events of a problem, one for each state that a scan may mean. */
export function inProblem({ filter: { state }, onlyOpen = false }: Scan, id: string): string[] {
  const all = onlyOpen ? OPEN_STATES : [...OPEN_STATES, "dead"];
  return all.filter((each) => state === undefined || each === state).map((each) =>
    `problem = ${id} and state = '${each}' and ${HAS_FAILED}`
  );
}

/** Finds the time at which an event is forgotten. */
export function forgetAt({ state }: EventRecord, now: number, forMs?: number): number | null {
  return state === "done" && forMs !== undefined ? now + forMs : null;
}

/** Checks for a done event that is remembered no longer, and is not deleted yet. */
export function isForgotten({ forget_at }: Pick<EventRow, "forget_at">, now: number): boolean {
  return forget_at !== null && forget_at <= now;
}

/** Reads the record of an event; undefined if this version cannot. */
export function recordIn(json: string): EventRecord | undefined {
  try {
    const record: unknown = JSON.parse(json);
    return isEventRecord(record) ? record : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the id of an event, and the time at which it came. */
export function refOf(
  { id, received_at: receivedAt }: Pick<EventRow, "id" | "received_at">,
): EventRef {
  return { id, receivedAt };
}

/** Names a cell for people. */
export function nameOf(key: CellKey): string {
  return key.map((part) => part instanceof Uint8Array ? part.toHex() : String(part)).join("/");
}

/** Makes versions that no other process makes. */
export function versions(): () => Version {
  const [high, low] = crypto.getRandomValues(new Uint32Array(2));
  const own = (high! * 2 ** 21 + (low! >>> 11)).toString(36);
  let number = 0;
  return () => `${own}-${(number++).toString(36)}`;
}
