import type {
  Applied,
  Bytes,
  CellChange,
  Change,
  Due,
  LeavingMember,
  Move,
  Put,
  Stored,
  SumChange,
  Unreadable,
  Version,
} from "../engine.ts";
import type { EventRecord } from "../event_record.ts";
import { encodeCellKey } from "../cell_key.ts";
import { nameOf, readCell } from "./_cells.ts";
import { type Connection, LostTransactionError } from "./_connection.ts";
import type { Guard, SqliteTx } from "./_guard.ts";
import { changeOneEvent } from "./_one_event.ts";
import {
  COLUMNS,
  eventOf,
  type EventRow,
  findRow,
  firstOf,
  forgetAt,
  INLINE_BYTES,
  insertEvent,
} from "./_rows.ts";

/** Size of the parts of a payload, in bytes. */
export const PART_BYTES = 256 * 1024;

/** Number of parts that a transaction deletes of a payload: 2 MB. */
const DELETED_PARTS = 8;

/** The time of the upload of a payload whose first parts are deleted: the upkeep finds the rest by it. */
const DELETED = 0;

type Refused = Extract<Applied, { readonly ok: false }>;

/** Thrown to take back what was written of a change that is refused. */
class RefusedError extends Error {
  constructor(readonly refused: Refused) {
    super(refused.why);
  }
}

/** The rest of a put, of which its row follows. */
type Writing = Pick<Put, "before" | "body" | "keeps" | "forMs" | "joins" | "via">;

/** Circumstances of a change. */
interface Making {
  readonly now: number;
  /** The version of what it writes. */
  readonly version: Version;
  readonly guard: Guard;
  /** Gets the ids of payloads of which a rest is left to be deleted, if it is made. */
  readonly rests: string[];
}

/** An event of a change: its put, and its row before; undefined for a new event. */
interface Putting {
  readonly put: Put;
  readonly row: EventRow | undefined;
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
  const making = new ChangeMaking(db, change as Change, at);
  const refused = making.check();
  if (refused) return refused;
  const { effects } = change;
  if (!effects && !making.mayBeRefused) return making.write();
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
    const making = new ChangeMaking(db, callEffects(make, at.guard), at);
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

/** A change, while it is made. */
class ChangeMaking {
  readonly #db: Connection;
  readonly #change: Change;
  readonly #now: number;
  readonly #version: Version;
  readonly #rests: string[];
  /** The events of the puts; null for one that is left out. */
  readonly #puttings: (Putting | null)[] = [];
  /** The groups that events leave, and whether their first one does. */
  #left: Map<string, boolean> | undefined;

  constructor(db: Connection, change: Change, { now, version, rests }: Making) {
    this.#db = db;
    this.#change = change;
    this.#now = now;
    this.#version = version;
    this.#rests = rests;
  }

  /** Checks all that the change depends on. Returns the reason for which it is refused. */
  check(): Refused | undefined {
    const { puts, unchanged, cells, moves } = this.#change;
    if (puts) {
      for (const put of puts) {
        const refused = this.#checkPut(put);
        if (refused) return refused;
      }
    }
    if (unchanged) {
      for (const event of unchanged) {
        const refused = this.#checkVersion(event.record.id, event.version);
        if (refused) return refused;
      }
    }
    if (moves) {
      for (const { event, via } of moves) {
        if (via && !leadsTo(this.#row(event.id), via)) return { ok: false, why: "via" };
      }
    }
    if (cells?.some((cell) => !this.#isAsExpected(cell))) return { ok: false, why: "cell" };
    return undefined;
  }

  /** True if it may be refused while it is written: a payload that was uploaded may be gone by now. */
  get mayBeRefused(): boolean {
    return this.#change.puts?.some(({ body, before }) => !body && "must" in before) ?? false;
  }

  /** Writes the change. */
  write(): Applied {
    const { moves, cells, sums, drops } = this.#change;
    const written: (Stored | null)[] = this.#puttings.map((putting, i) =>
      putting && putting.put.joins === undefined ? this.#put(putting, i === 0) : null
    );
    if (moves) { for (const move of moves) this.#leaveByMove(move); }
    const head = this.#moveUp();
    // An event that joins comes last: whether it is the first one depends on those that leave.
    for (const [i, putting] of this.#puttings.entries()) {
      if (putting?.put.joins !== undefined) written[i] = this.#join(putting, putting.put.joins);
    }
    if (moves) { for (const move of moves) this.#move(move); }
    if (cells) this.#writeCells(cells);
    if (sums) this.#addToSums(sums);
    if (drops) { for (const { id } of drops) this.#deletePayload(id); }
    return { ok: true, version: this.#version, written, head };
  }

  #checkPut(put: Put, isAgain = false): Refused | undefined {
    const { before, via } = put;
    if ("must" in before) return this.#checkNew(put, before);
    const row = this.#row(idOf(before));
    if (row?.version !== before.version) {
      const found = row && eventOf(row);
      const again = found?.record && this.#puttings.length === 0 && !isAgain
        ? this.#change.turn?.again?.(found)
        : undefined;
      return again ? this.#checkPut(again, true) : { ok: false, why: "event", found };
    }
    if (via && !leadsTo(row, via)) return { ok: false, why: "via" };
    this.#puttings.push({ put, row });
    return undefined;
  }

  #checkNew(
    put: Put,
    { id, must }: Extract<Put["before"], { readonly must: unknown }>,
  ): Refused | undefined {
    const row = must === "free" ? undefined : this.#row(id);
    if (row && must !== "skip") return { ok: false, why: "id", found: eventOf(row) };
    const payload = put.body ? undefined : put.keeps;
    if (payload && !this.#hasPayload(payload.id)) return { ok: false, why: "payload" };
    this.#puttings.push(row ? null : { put, row: undefined });
    return undefined;
  }

  #checkVersion(id: string, version: Version): Refused | undefined {
    const row = this.#row(id);
    if (row?.version === version) return undefined;
    return { ok: false, why: "event", found: row && eventOf(row) };
  }

  #isAsExpected({ key, version }: CellChange): boolean {
    return version === undefined || readCell(this.#db, key, this.#now).version === version;
  }

  /** Makes a put that joins no group. Returns its event; null if it was deleted, or its id is known by now. */
  #put({ put, row }: Putting, isFirst: boolean): Stored | null {
    if (!row && this.#isKnownByNow(put)) return null;
    const after = put.after?.({ now: this.#now }) ?? null;
    if (row && leaves(row, after)) this.#leave(row, isFirst);
    return this.#write(put, row, after);
  }

  /** Checks whether an earlier put of the same change has the id. */
  #isKnownByNow({ before }: Put): boolean {
    return this.#puttings.length > 1 && this.#row(idOf(before)) !== undefined;
  }

  /** Makes a put that joins a group. */
  #join({ put, row }: Putting, key: string): Stored | null {
    if (!row && this.#isKnownByNow(put)) return null;
    const isFirst = firstOf(this.#db, key) === undefined;
    const position = this.#nextPosition(key);
    const after = put.after!({ now: this.#now, group: { key, position }, isFirst });
    if (after.quiet) {
      const sql =
        "update ordering_group set joined_at = max(coalesce(joined_at, 0), ?) where key = ?";
      this.#db.run(sql, after.quiet.since, key);
    }
    return this.#write(put, row, after);
  }

  #nextPosition(key: string): number {
    const sql = `insert into ordering_group (key, next) values (?, 1)
      on conflict (key) do update set next = next + 1 returning next - 1 as position`;
    return this.#db.one<{ position: number }>(sql, key)!.position;
  }

  /** Writes an event, and what follows for its payload. */
  #write(put: Writing, row: EventRow | undefined, after: EventRecord | null): Stored | null {
    const body = this.#placePayload(put, row, after);
    if (!after) {
      if (row) this.#db.run("delete from event where seq = ?", row.seq);
      return null;
    }
    const payload = body === null ? after.payload?.id : undefined;
    if (row) this.#update(put, row, after, { body, payload });
    else this.#insert(put, after, { body: body ?? null, payload });
    return { record: after, version: this.#version };
  }

  /** Puts a payload into its place. Returns what the row gets: undefined if it has its payload already, null for none. */
  #placePayload(
    { body, keeps }: Writing,
    row: EventRow | undefined,
    after: EventRecord | null,
  ): Bytes | null | undefined {
    const { id } = after?.payload ?? keeps ?? {};
    if (row?.payload && row.payload !== id) this.#deletePayload(row.payload);
    if (id === undefined || id === row?.payload) return null;
    if (body) {
      if (after?.payload && body.byteLength <= INLINE_BYTES) return body;
      addPayload(this.#db, id, body);
    } else if (row?.payload === null && eventOf(row).record?.payload?.id === id) {
      if (after?.payload) return undefined;
      this.#takeOut(row, id);
    } else if (after) this.#takeUpload(id);
    return null;
  }

  #insert(
    { joins, forMs }: Writing,
    record: EventRecord,
    place: { readonly body: Bytes | null; readonly payload: string | undefined },
  ): void {
    const [now, version] = [this.#now, this.#version];
    const forget_at = forgetAt(record, now, forMs);
    const isInGroup = joins !== undefined;
    insertEvent(this.#db, { record, version, forget_at, isInGroup, ...place }, "replace");
  }

  #update(
    { before, via, joins, forMs }: Writing,
    row: EventRow,
    after: EventRecord,
    { body, payload = null! }: {
      readonly body: Bytes | null | undefined;
      readonly payload: string | undefined;
    },
  ): void {
    const isOther = via !== undefined && row.other_due_at !== null && row.other_due_at <= via.at;
    // A record may name a position that a move has taken from it: only joining gives one.
    const isIn = joins !== undefined || !leaves(row, after);
    const [key, position] = joins === undefined
      ? [row.group_key, row.position]
      : [after.group!.key, after.group!.position];
    const keepsBody = body === undefined || (body === null && payload && payload === row.payload);
    if (keepsBody && !isOther && isIn && joins === undefined && runsOn(before, row, after)) {
      // A column in the statement has its indexes written, even if its value stays.
      const sql = "update event set version = ?, record = ? where seq = ?";
      return void this.#db.run(sql, this.#version, JSON.stringify(after), row.seq);
    }
    this.#db.run(
      `update event set received_at = ?, state = ?, own_due_at = ?, other_due_at = ?, group_key = ?, position = ?,
        payload = ?, settled_at = ?, forget_at = ?, version = ?, record = ?
        ${body === undefined ? "" : ", body = ?"} where seq = ?`,
      ...[after.receivedAt, after.state, after.dueAt, isOther ? null : row.other_due_at],
      ...(isIn ? [key, position] : [null, null]),
      ...[payload, after.settledAt, forgetAt(after, this.#now, forMs)],
      ...[this.#version, JSON.stringify(after), ...(body === undefined ? [] : [body]), row.seq],
    );
  }

  /** Takes a payload that is kept out of the row of its event. */
  #takeOut({ seq }: EventRow, id: string): void {
    const sql = "insert into payload (id, part, body) select ?, 0, body from event where seq = ?";
    this.#db.run(sql, id, seq);
  }

  #takeUpload(id: string): void {
    if (this.#db.run("update payload set uploaded_at = null where id = ? and part = 0", id) > 0) {
      return;
    }
    throw new RefusedError({ ok: false, why: "payload" });
  }

  #deletePayload(id: string): void {
    if (deleteParts(this.#db, id)) this.#rests.push(id);
  }

  /**
   * Notes that an event leaves its group. Those that leave together with it, if it is the first one, are written here.
   * Only once all of a change have left is the next one of a group looked for.
   */
  #leave(row: EventRow, isFirstPut: boolean): void {
    const { through, member } = this.#change.leave ?? {};
    const key = row.group_key!;
    const first = firstOf(this.#db, key)!;
    this.#notice(key, row.seq === first.seq);
    if (!isFirstPut || through === undefined || !member || row.seq !== first.seq) return;
    const rows = this.#db.all<EventRow>(
      `select ${COLUMNS} from event where group_key = ? and position > ? and position <= ? order by position`,
      ...[key, row.position, through],
    );
    for (const each of rows) {
      const { record } = eventOf(each);
      // One that cannot be read stays, and holds the group.
      if (record) this.#writeMember(each, member(record));
    }
  }

  #writeMember(row: EventRow, { after, puts, cells, sums, ...rest }: LeavingMember): void {
    this.#write({ before: { id: row.id, must: "free" }, ...rest }, row, after);
    if (cells) this.#writeCells(cells);
    if (sums) this.#addToSums(sums);
    if (!puts) return;
    for (const put of puts) {
      if ("must" in put.before && !this.#row(put.before.id)) {
        this.#write(put, undefined, put.after!({ now: this.#now }));
      }
    }
  }

  #notice(key: string, isFirst: boolean): void {
    const left = this.#left ??= new Map();
    left.set(key, isFirst || left.get(key) === true);
  }

  /** Makes the next event of each group due that its first one has left. Returns that of the first put's group. */
  #moveUp(): Stored | undefined {
    let head: Stored | undefined;
    if (!this.#left) return undefined;
    for (const [key, hasFirstLeft] of this.#left) {
      const next = firstOf(this.#db, key);
      if (!next) this.#db.run("delete from ordering_group where key = ?", key);
      if (!next || !hasFirstLeft) continue;
      const moved = this.#makeDue(next);
      if (key === this.#firstKey) head = moved;
    }
    return head;
  }

  /** Makes the next event of a group due. One that cannot be read is due as it is, and holds the group. */
  #makeDue(row: EventRow): Stored | undefined {
    const { record, version } = eventOf(row);
    if (!record) {
      this.#db.run("update event set other_due_at = ? where seq = ?", this.#now, row.seq);
      return undefined;
    }
    if (record.dueAt !== null) return undefined;
    const after = this.#change.leave!.head(record, this.#now);
    return this.#write({ before: { record, version } }, row, after)!;
  }

  #leaveByMove({ event, leavesGroup }: Move): void {
    const row = leavesGroup ? this.#row(event.id) : undefined;
    if (!row || row.group_key === null) return;
    this.#notice(row.group_key, firstOf(this.#db, row.group_key)!.seq === row.seq);
    this.#db.run("update event set group_key = null, position = null where seq = ?", row.seq);
  }

  #move({ event, afterMs, via }: Move): void {
    const at = via?.at ?? null;
    this.#db.run(
      `update event set own_due_at = nullif(own_due_at, ?), other_due_at = coalesce(?, nullif(other_due_at, ?))
      where id = ? and received_at = ?`,
      ...[at, afterMs === null ? null : this.#now + afterMs, at, event.id, event.receivedAt],
    );
  }

  #writeCells(cells: readonly CellChange[]): void {
    for (const { key, after, forMs } of cells) {
      if (after === undefined) continue;
      const bytes = encodeCellKey(key);
      if (after === null) this.#db.run("delete from cell where key = ?", bytes);
      else {
        this.#db.run(
          "insert or replace into cell (key, name, value, forget_at, version) values (?, ?, ?, ?, ?)",
          ...[bytes, nameOf(key), JSON.stringify(after)],
          ...[forMs === undefined ? null : this.#now + forMs, this.#version],
        );
      }
    }
  }

  #addToSums(sums: readonly SumChange[]): void {
    for (const change of sums) {
      const isSet = "to" in change;
      this.#db.run(
        `insert into cell (key, name, total, version) values (?, ?, ?, ?) on conflict (key) do update
        set total = ${isSet ? "" : "total + "}excluded.total, version = excluded.version`,
        ...[encodeCellKey(change.key), nameOf(change.key)],
        ...[isSet ? change.to : change.by, this.#version],
      );
    }
  }

  get #firstKey(): string | null | undefined {
    return this.#puttings[0]?.row?.group_key;
  }

  #hasPayload(id: string): boolean {
    return this.#db.one("select 1 from payload where id = ? and part = 0", id) !== undefined;
  }

  #row(id: string): EventRow | undefined {
    return findRow(this.#db, id, this.#now);
  }
}

/** Writes a payload. */
function addPayload(db: Connection, id: string, body: Bytes): void {
  for (let part = 0; part === 0 || part * PART_BYTES < body.byteLength; part++) {
    addPart(db, id, body, part);
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

/** Checks whether an event leaves its group if it gets a record. */
function leaves({ group_key, position }: EventRow, after: EventRecord | null): boolean {
  if (group_key === null) return false;
  return after?.group?.key !== group_key || after.group.position !== position;
}

/** Checks whether an entry of the schedule leads to an event as it did when it was found. */
function leadsTo(row: EventRow | undefined, { at, event }: Due): boolean {
  if (!row) return event === undefined;
  return row.own_due_at === at || row.other_due_at === at;
}

function idOf(before: Put["before"]): string {
  return "must" in before ? before.id : before.record?.id ?? (before as Unreadable).id;
}

/** Checks for an event that runs on, as its row has it but for the record. */
function runsOn(before: Put["before"], row: EventRow, after: EventRecord): boolean {
  const isRunning = "record" in before && before.record?.state === "running" &&
    after.state === "running";
  return isRunning && after.dueAt === row.own_due_at && after.receivedAt === row.received_at;
}
