import type { Bytes, Stored, Unreadable, Version } from "../engine.ts";
import type { EventRecord } from "../event_record.ts";
import { COLUMNS, type EventRow, isForgotten, recordIn, refOf } from "../sql/rows.ts";
import type { Connection, SqlValue } from "./_connection.ts";

/**
 * The largest payload in the row of its event, in bytes. It is written anew with each change of the row: an event with a
 * larger one has it in parts of another table. Half of the published example deliveries have less than 8 KB.
 */
export const INLINE_BYTES = 16 * 1024;

/** A row that is written. */
interface NewRow {
  readonly record: EventRecord;
  readonly version: Version;
  readonly forget_at: number | null;
  /** Its payload, if that is in the row. */
  readonly body: Bytes | null;
  /** The id of its payload in the table of payloads. */
  readonly payload?: string | null;
  /** Its place in an ordering group. */
  readonly group_key?: string | null;
  readonly position?: number | null;
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
  { record, version, forget_at, body, payload = null, group_key = null, position = null }: NewRow,
  known: "do nothing" | "replace",
): number {
  const { id, receivedAt, state, dueAt, settledAt } = record;
  const values: SqlValue[] = [id, receivedAt, state, dueAt, group_key, position, payload];
  values.push(settledAt, forget_at, version, JSON.stringify(record), body);
  return db.run(known === "replace" ? INSERT_OR_REPLACE : INSERT_NEW, ...values);
}

const INSERTED = ["id", "received_at", "state", "own_due_at", "group_key", "position", "payload"]
  .concat("settled_at", "forget_at", "version", "record", "body");

const INSERT = `insert into event (${INSERTED}) values (${INSERTED.map(() => "?")})
  on conflict (id) do`;

const INSERT_NEW = `${INSERT} nothing`;

const INSERT_OR_REPLACE = `${INSERT} update set other_due_at = null, problem = null, ${
  INSERTED.map((name) => `${name} = excluded.${name}`)
}`;

/** Finds an event by its id, unless it is forgotten. */
export function findRow(db: Connection, id: string, now: number): EventRow | undefined {
  const row = db.one<EventRow>(`select ${COLUMNS} from event where id = ?`, id);
  return row && !isForgotten(row, now) ? row : undefined;
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
