import { encodeCellKey } from "../cell_key.ts";
import type { Applied, Bytes, CellKey, Change, Move, SumChange, Version } from "../engine.ts";
import type { EventRecord } from "../event_record.ts";
import {
  type CellWrite,
  ChangeMaking,
  type ChangeRows,
  type PutColumns,
  RefusedError,
} from "../sql/change_making.ts";
import { COLUMNS, type EventRow, nameOf, problemAt } from "../sql/rows.ts";
import { readCell } from "./_cells.ts";
import { type Connection, LostTransactionError } from "./_connection.ts";
import type { Guard, SqliteTx } from "./_guard.ts";
import { changeOneEvent } from "./_one_event.ts";
import { eventOf, findRow, firstOf, INLINE_BYTES, insertEvent } from "./_rows.ts";

/** Size of the parts of a payload, in bytes. */
export const PART_BYTES = 256 * 1024;

/** Number of parts that a transaction deletes of a payload: 2 MB. */
const DELETED_PARTS = 8;

/** The time of the upload of a payload whose first parts are deleted: the upkeep finds the rest by it. */
const DELETED = 0;

/** Circumstances of a change. */
interface Making {
  readonly now: number;
  /** The version of what it writes. */
  readonly version: Version;
  readonly guard: Guard;
  /** Gets the ids of payloads of which a rest is left to be deleted, if it is made. */
  readonly rests: string[];
}

/**
 * Makes a change in the transaction that is open. All that can refuse it is looked at before anything is written. Only
 * effects, and events that leave their group together, may still refuse it then: those are made within a savepoint.
 *
 * @param db The connection.
 * @param change The change.
 * @param at Its circumstances.
 * @returns The outcome. If it is refused, nothing was written.
 */
export function makeChange(
  db: Connection,
  change: Change<SqliteTx>,
  at: Making,
): Applied {
  const made = changeOneEvent(db, change as Change, at);
  if (made) return made;
  const making = new ChangeMaking(new SqliteRows(db, at), change as Change, at.version);
  const refused = making.check();
  if (refused) return refused;
  const { effects } = change;
  if (!effects && !takesUploads(change)) return making.write();
  return orNothing(db, () => {
    if (effects) callEffects(effects, at.guard);
    return making.write();
  });
}

/**
 * Makes a change, of which a function writes a part itself, in the transaction that is open.
 *
 * @param db The connection.
 * @param make The function.
 * @param at Its circumstances.
 * @returns The outcome. If it is refused, nothing was written.
 */
export function makeTransaction(
  db: Connection,
  make: (tx: SqliteTx) => Change,
  at: Making,
): Applied {
  return orNothing(db, () => {
    const change = callEffects(make, at.guard);
    const making = new ChangeMaking(new SqliteRows(db, at), change, at.version);
    const refused = making.check();
    if (refused) throw new RefusedError(refused);
    return making.write();
  });
}

/** Makes a change within a savepoint: what was written of it is taken back if it is refused. */
function orNothing(db: Connection, make: () => Applied): Applied {
  try {
    return db.within(make);
  } catch (error) {
    if (error instanceof RefusedError) return error.refused;
    throw error instanceof LostTransactionError ? error.cause : error;
  }
}

/** Calls a handler's writes. If they have ended the transaction, what others have in it is gone as well. */
function callEffects<T>(effects: (tx: SqliteTx) => T, guard: Guard): T {
  try {
    return guard.call(effects);
  } catch (error) {
    if (error instanceof LostTransactionError) throw error;
    throw new RefusedError({ ok: false, why: "effects", error });
  }
}

/** Checks for a change that may be refused while it is written: a payload that was uploaded may be gone by now. */
function takesUploads({ puts }: Pick<Change, "puts">): boolean {
  return puts?.some(({ body, before }) => !body && "must" in before) ?? false;
}

/** The rows of a file that a change reads and writes. */
class SqliteRows implements ChangeRows<EventRow> {
  readonly now: number;
  readonly inlineBytes = INLINE_BYTES;
  readonly eventOf = eventOf;
  readonly #db: Connection;
  readonly #rests: string[];

  constructor(db: Connection, { now, rests }: Making) {
    this.now = now;
    this.#db = db;
    this.#rests = rests;
  }

  find(id: string): EventRow | undefined {
    return findRow(this.#db, id, this.now);
  }

  firstOf(key: string): EventRow | undefined {
    return firstOf(this.#db, key);
  }

  firstsOf(key: string, count?: number): EventRow[] {
    const places = "coalesce((select places from ordering_group where key = ?), 1)";
    return this.#db.all<EventRow>(
      `select ${COLUMNS} from event where group_key = ? order by position limit ${
        count === undefined ? places : "?"
      }`,
      ...[key, count ?? key],
    );
  }

  othersOf({ group_key, position }: EventRow, through: number): EventRow[] {
    return this.#db.all<EventRow>(
      `select ${COLUMNS} from event where group_key = ? and position > ? and position <= ? order by position`,
      ...[group_key, position, through],
    );
  }

  isEmpty(key: string): boolean {
    return this.firstOf(key) === undefined;
  }

  nextPosition(key: string, places: number): number {
    const sql = `insert into ordering_group (key, next, places) values (?, 1, ?)
      on conflict (key) do update set next = next + 1, places = excluded.places
      returning next - 1 as position`;
    return this.#db.one<{ position: number }>(sql, key, places)!.position;
  }

  noteJoined(key: string, since: number): void {
    const sql =
      "update ordering_group set joined_at = max(coalesce(joined_at, 0), ?) where key = ?";
    this.#db.run(sql, since, key);
  }

  endGroup(key: string): void {
    this.#db.run("delete from ordering_group where key = ?", key);
  }

  versionOf(key: CellKey): Version | null {
    return readCell(this.#db, key, this.now).version;
  }

  hasPayload(id: string): boolean {
    return this.#db.one("select 1 from payload where id = ? limit 1", id) !== undefined;
  }

  put(
    row: EventRow | undefined,
    record: EventRecord,
    columns: PutColumns,
    body: Bytes | null | undefined,
  ): void {
    if (row) return this.#update(row, record, columns, body);
    insertEvent(this.#db, { ...columns, record, body: body ?? null }, "replace");
    const { problem, id } = record;
    // It was imported.
    if (problem === undefined) return;
    this.#db.run(
      "update event set problem = ?, problem_at = received_at where id = ?",
      problem,
      id,
    );
  }

  #update(
    row: EventRow,
    record: EventRecord,
    columns: PutColumns,
    body: Bytes | null | undefined,
  ): void {
    const { seq } = row;
    const { own_due_at, other_due_at, group_key, position, payload, forget_at, version } = columns;
    const keepsBody = body === undefined || (body === null && payload && payload === row.payload);
    const isSame = hasProblemOf(row, record);
    if (keepsBody && runsOn(row, record, columns)) {
      // A column in the statement has its indexes written, even if its value stays.
      const sql = "update event set version = ?, record = ? where seq = ?";
      return void this.#db.run(sql, version, JSON.stringify(record), seq);
    }
    this.#db.run(
      `update event set received_at = ?, state = ?, own_due_at = ?, other_due_at = ?, group_key = ?, position = ?,
        payload = ?, settled_at = ?, forget_at = ?, version = ?, record = ?
        ${body === undefined ? "" : ", body = ?"} ${
        isSame ? "" : ", problem = ?, problem_at = ?"
      } where seq = ?`,
      ...[record.receivedAt, record.state, own_due_at, other_due_at, group_key, position, payload],
      ...[record.settledAt, forget_at, version, JSON.stringify(record)],
      ...(body === undefined ? [] : [body]),
      ...(isSame ? [] : [record.problem ?? null, problemAt(record)]),
      seq,
    );
  }

  delete({ seq }: EventRow): void {
    this.#db.run("delete from event where seq = ?", seq);
  }

  takeFromGroup({ seq }: EventRow): void {
    this.#db.run("update event set group_key = null, position = null where seq = ?", seq);
  }

  setOtherTime({ seq }: EventRow, time: number): void {
    this.#db.run("update event set other_due_at = ? where seq = ?", time, seq);
  }

  move({ event, afterMs, via }: Move): void {
    const at = via?.at ?? null;
    this.#db.run(
      `update event set own_due_at = nullif(own_due_at, ?), other_due_at = coalesce(?, nullif(other_due_at, ?))
      where id = ? and received_at = ?`,
      ...[at, afterMs === null ? null : this.now + afterMs, at, event.id, event.receivedAt],
    );
  }

  addPayload(id: string, body: Bytes): void {
    for (let part = 0; part === 0 || part * PART_BYTES < body.byteLength; part++) {
      addPart(this.#db, id, body, part);
    }
  }

  takeOut({ seq }: EventRow, id: string): void {
    const sql = "insert into payload (id, part, body) select ?, 0, body from event where seq = ?";
    this.#db.run(sql, id, seq);
  }

  takeUpload(id: string): boolean {
    const sql = "update payload set uploaded_at = null where id = ? and part = 0";
    return this.#db.run(sql, id) > 0;
  }

  deletePayload(id: string): void {
    if (deleteParts(this.#db, id)) this.#rests.push(id);
  }

  writeCell(key: CellKey, { value, forgetAt, version }: CellWrite): void {
    const bytes = encodeCellKey(key);
    if (value === null) this.#db.run("delete from cell where key = ?", bytes);
    else {
      this.#db.run(
        "insert or replace into cell (key, name, value, forget_at, version) values (?, ?, ?, ?, ?)",
        ...[bytes, nameOf(key), value, forgetAt, version],
      );
    }
  }

  addToSum(change: SumChange, version: Version): void {
    const isSet = "to" in change;
    this.#db.run(
      `insert into cell (key, name, total, version) values (?, ?, ?, ?) on conflict (key) do update
      set total = ${isSet ? "" : "total + "}excluded.total, version = excluded.version`,
      ...[encodeCellKey(change.key), nameOf(change.key), isSet ? change.to : change.by, version],
    );
  }
}

/**
 * Writes a part of a payload.
 *
 * @param db The connection.
 * @param id The id of the payload.
 * @param body The payload.
 * @param part The number of the part: the first one is 0.
 * @param uploadedAt Set for the first part if no event names the payload yet: the time, milliseconds since the epoch.
 */
export function addPart(
  db: Connection,
  id: string,
  body: Bytes,
  part: number,
  uploadedAt: number | null = null,
): void {
  const begin = part * PART_BYTES;
  const values = [id, part, body.subarray(begin, begin + PART_BYTES), uploadedAt] as const;
  db.run("insert into payload (id, part, body, uploaded_at) values (?, ?, ?, ?)", ...values);
}

/**
 * Deletes some parts of a payload, which nobody names any more.
 *
 * @param db The connection.
 * @param id The id of the payload.
 * @param from The number of the first part that is still there.
 * @returns True if a rest is left, for {@linkcode deleteRest}.
 */
export function deleteParts(db: Connection, id: string, from = 0): boolean {
  const end = from + DELETED_PARTS;
  const sql = "delete from payload where id = ? and part >= ? and part < ?";
  if (db.run(sql, id, from, end) < DELETED_PARTS) return false;
  return db.run("update payload set uploaded_at = ? where id = ? and part = ?", DELETED, id, end) >
    0;
}

/**
 * Deletes some parts of a payload whose first ones are deleted.
 *
 * @param db The connection.
 * @param id The id of the payload.
 * @returns True if a rest is left still.
 */
export function deleteRest(db: Connection, id: string): boolean {
  const sql = "select min(part) as part from payload where id = ? and uploaded_at = ?";
  const { part } = db.one<{ part: number | null }>(sql, id, DELETED)!;
  return part !== null && deleteParts(db, id, part);
}

/** Columns that an event which runs on seldom changes. */
const STAYING = ["own_due_at", "other_due_at", "group_key", "position"] as const;

/** Checks that a row has the problem of a record. */
function hasProblemOf(row: EventRow, record: EventRecord): boolean {
  return row.problem === (record.problem ?? null) && row.problem_at === problemAt(record);
}

/** Checks for an event that runs on, as its row has it but for the record. */
function runsOn(row: EventRow, record: EventRecord, columns: PutColumns): boolean {
  const { state, receivedAt } = record;
  return row.state === "running" && state === "running" && row.received_at === receivedAt &&
    hasProblemOf(row, record) &&
    STAYING.every((name) => row[name] === columns[name]);
}
