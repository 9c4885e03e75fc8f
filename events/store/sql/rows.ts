/**
 * The rows of events in an SQL database.
 *
 * @module
 */
import type { BoundedCount, CellKey, ProblemCount, Scan, Version } from "../engine.ts";
import {
  type EventRecord,
  type EventRef,
  type EventState,
  isEventRecord,
  isOpen,
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
  /** See {@linkcode problemColumn}. */
  readonly problem: string | null;
  readonly version: Version;
  readonly record: TJson;
}

/** The columns, for a query. */
export const COLUMNS = [
  ...["seq", "id", "received_at", "state", "own_due_at", "other_due_at", "due_at", "group_key"],
  ...["position", "payload", "forget_at", "problem", "version", "record"],
].join(", ");

/** Ends of the column of a problem: its event is dead, or tried again. */
const [DEAD, OPEN] = [".dead", ".open"] as const;

/** Makes the column by which the events of a problem are found and counted; null for an event that has none. */
export function problemColumn({ problem, state }: EventRecord): string | null {
  if (problem === undefined || state === "done") return null;
  return `${problem}${state === "dead" ? DEAD : OPEN}`;
}

/** Lists the values of that column that a scan may mean; undefined if it means no problem. */
export function problemColumns({ filter, onlyOpen }: Scan): readonly string[] | undefined {
  const { problem, state } = filter;
  if (problem === undefined) return undefined;
  const isAny = state === undefined;
  const ends = [
    ...(isAny && !onlyOpen) || state === "dead" ? [DEAD] : [],
    ...isAny || isOpen(filter) ? [OPEN] : [],
  ];
  return ends.map((end) => problem + end);
}

/** Puts the counts of the column's values together, which are in their order. */
export function problemCounts(
  counts: readonly (readonly [column: string, count: BoundedCount])[],
): ProblemCount[] {
  const found = new Map<string, ProblemCount>();
  for (const [column, count] of counts) {
    const id = column.slice(0, column.lastIndexOf("."));
    const known = found.get(id) ?? { id, dead: NONE, retrying: NONE };
    found.set(id, { ...known, [column.endsWith(DEAD) ? "dead" : "retrying"]: count });
  }
  return [...found.values()];
}

const NONE: BoundedCount = { count: 0, isMore: false };

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
