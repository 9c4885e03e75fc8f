import type { Stored, Unreadable, Version } from "../engine.ts";
import { type EventRecord, type EventRef, isEventRecord } from "../event_record.ts";
import type { Connection } from "./_connection.ts";

/** The columns of an event that the engine works with. */
export interface EventRow {
  readonly seq: number;
  readonly id: string;
  readonly received_at: number;
  readonly own_due_at: number | null;
  readonly other_due_at: number | null;
  readonly due_at: number | null;
  readonly group_key: string | null;
  readonly position: number | null;
  readonly payload: string | null;
  readonly forget_at: number | null;
  readonly version: Version;
  readonly record: string;
}

/** The columns, for a query. */
export const COLUMNS =
  "seq, id, received_at, own_due_at, other_due_at, due_at, group_key, position, payload, " +
  "forget_at, version, record";

/** Finds an event by its id, unless it is forgotten. */
export function findRow(db: Connection, id: string, now: number): EventRow | undefined {
  const row = db.one<EventRow>(`select ${COLUMNS} from event where id = ?`, id);
  return row && !isForgotten(row, now) ? row : undefined;
}

/** Checks for a done event that is remembered no longer, and is not deleted yet. */
export function isForgotten({ forget_at }: EventRow, now: number): boolean {
  return forget_at !== null && forget_at <= now;
}

/** Finds the first event of an ordering group. */
export function firstOf(db: Connection, key: string): EventRow | undefined {
  return db.one<EventRow>(
    `select ${COLUMNS} from event where group_key = ? order by position limit 1`,
    key,
  );
}

/** Reads the event of a row. */
export function eventOf(row: EventRow): Stored | Unreadable {
  const { version } = row;
  const record = recordIn(row.record);
  return record ? { record, version } : { ...refOf(row), version };
}

export function refOf({ id, received_at: receivedAt }: EventRow): EventRef {
  return { id, receivedAt };
}

function recordIn(text: string): EventRecord | undefined {
  try {
    const record: unknown = JSON.parse(text);
    return isEventRecord(record) ? record : undefined;
  } catch {
    return undefined;
  }
}
