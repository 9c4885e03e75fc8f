import type { Bytes, Stored, Unreadable, Version } from "../engine.ts";
import { type EventRecord, type EventRef, isEventRecord } from "../event_record.ts";
import type { Connection, SqlValue } from "./_connection.ts";

/**
 * The largest payload in the row of its event, in bytes. It is written anew with each change of the row: an event with a
 * larger one has it in parts of another table. Half of the published example deliveries have less than 8 KB.
 */
export const INLINE_BYTES = 16 * 1024;

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

/** A row that is written. */
interface NewRow {
  readonly record: EventRecord;
  readonly version: Version;
  readonly forget_at: number | null;
  /** Its payload, if that is in the row. */
  readonly body: Bytes | null;
  /** The id of its payload in the table of payloads. */
  readonly payload?: string | undefined;
  /** Set if it is in its group. */
  readonly isInGroup?: boolean | undefined;
}

/**
 * Adds an event.
 *
 * @param db The connection.
 * @param row The row.
 * @param known What becomes of an event that has the id: `replace` is for one that is forgotten.
 * @returns The number of rows that were written.
 */
export function insertEvent(
  db: Connection,
  { record, version, forget_at, body, payload = null!, isInGroup }: NewRow,
  known: "do nothing" | "replace",
): number {
  const { id, receivedAt, state, dueAt, settledAt, group } = record;
  const values: SqlValue[] = [id, receivedAt, state, dueAt];
  if (isInGroup && group) values.push(group.key, group.position);
  else values.push(null, null);
  values.push(payload, settledAt, forget_at, version, JSON.stringify(record), body);
  return db.run(known === "replace" ? INSERT_OR_REPLACE : INSERT_NEW, ...values);
}

const INSERTED = ["id", "received_at", "state", "own_due_at", "group_key", "position", "payload"]
  .concat("settled_at", "forget_at", "version", "record", "body");

const INSERT = `insert into event (${INSERTED}) values (${INSERTED.map(() => "?")})
  on conflict (id) do`;

const INSERT_NEW = `${INSERT} nothing`;

const INSERT_OR_REPLACE = `${INSERT} update set other_due_at = null, ${
  INSERTED.map((name) => `${name} = excluded.${name}`)
}`;

/** Finds the time at which an event is forgotten. */
export function forgetAt({ state }: EventRecord, now: number, forMs?: number): number | null {
  return state === "done" && forMs !== undefined ? now + forMs : null;
}

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
