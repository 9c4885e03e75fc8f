/**
 * Changes, made of the rows of an SQL database: what is the same in a SQLite file and in Postgres.
 *
 * @module
 */
import type {
  Applied,
  Bytes,
  CellChange,
  CellKey,
  Change,
  Due,
  HeadAt,
  LeavingMember,
  Move,
  Put,
  Stored,
  SumChange,
  Unreadable,
  Version,
} from "../engine.ts";
import type { EventRecord } from "../event_record.ts";
import { forgetAt } from "./rows.ts";

/** Outcome of a change that is refused. */
export type Refused = Extract<Applied, { readonly ok: false }>;

/** Thrown to take back what was written of a change that is refused. */
export class RefusedError extends Error {
  constructor(readonly refused: Refused) {
    super(refused.why);
  }
}

/** A row of an event, as far as changes look at it. */
export interface ChangedRow {
  readonly id: string;
  readonly version: Version;
  readonly own_due_at: number | null;
  readonly other_due_at: number | null;
  readonly group_key: string | null;
  readonly position: number | null;
  readonly payload: string | null;
}

/** Columns that a put gives an event beside its record. */
export interface PutColumns {
  readonly version: Version;
  readonly own_due_at: number | null;
  readonly other_due_at: number | null;
  readonly group_key: string | null;
  readonly position: number | null;
  /** The id of its payload in the table of payloads. */
  readonly payload: string | null;
  readonly forget_at: number | null;
}

/** Cell as a change makes it. */
export interface CellWrite {
  /** Its value as JSON; null if it is deleted. */
  readonly value: string | null;
  readonly forgetAt: number | null;
  readonly version: Version;
  /** Set if there was none when it was looked for. */
  readonly mustBeNew: boolean;
}

/** The rows that changes read and write: in the database, or in memory until all are written. */
export interface ChangeRows<TRow extends ChangedRow> {
  /** The time of the change. */
  readonly now: number;
  /** The largest payload in the row of its event, in bytes. */
  readonly inlineBytes: number;
  /** Finds an event by its id, unless it is forgotten. */
  find(id: string): TRow | undefined;
  eventOf(row: TRow): Stored | Unreadable;
  /** Finds the first event of an ordering group. */
  firstOf(key: string): TRow | undefined;
  /** Finds the first events of a group in their order: as many as it has places, or as are asked for. */
  firstsOf(key: string, count?: number): readonly TRow[];
  /** Finds the events of a group behind its first one, up to a position. */
  othersOf(first: TRow, through: number): readonly TRow[];
  /** Checks whether no event is in a group. */
  isEmpty(key: string): boolean;
  /** Takes the next position of a group, which has so many places from then on. */
  nextPosition(key: string, places: number): number;
  /** Notes since when a group is quiet: its last event has joined then. */
  noteJoined(key: string, since: number): void;
  /** Notes that the last event of a group has left it. */
  endGroup(key: string): void;
  versionOf(key: CellKey): Version | null;
  hasPayload(id: string): boolean;
  /**
   * Writes an event.
   *
   * @param row The event before; undefined for a new one.
   * @param record The record after.
   * @param columns The columns after.
   * @param body Its payload in the row: null for none, undefined if it stays.
   * @param mayBeKnown Set if a new event is left out if another one has its id.
   */
  put(
    row: TRow | undefined,
    record: EventRecord,
    columns: PutColumns,
    body: Bytes | null | undefined,
    mayBeKnown: boolean,
  ): void;
  delete(row: TRow): void;
  /** Takes an event out of its group, and leaves its record as it is. */
  takeFromGroup(row: TRow): void;
  /** Sets the other time of an event. */
  setOtherTime(row: TRow, time: number): void;
  move(move: Move): void;
  addPayload(id: string, body: Bytes): void;
  /** Takes a payload out of the row of its event, into the table of payloads. */
  takeOut(row: TRow, id: string): void;
  /** Takes an upload as the payload of an event. Returns false if it is gone. */
  takeUpload(id: string): boolean;
  deletePayload(id: string): void;
  writeCell(key: CellKey, write: CellWrite): void;
  addToSum(change: SumChange, version: Version): void;
}

/** The rest of a put, of which its row follows. */
type Writing = Pick<Put, "before" | "body" | "keeps" | "forMs" | "joins" | "via">;

/** An event of a change: its put, and its row before; undefined for a new event. */
interface Putting<TRow> {
  readonly put: Put;
  readonly row: TRow | undefined;
}

/** A change, while it is made: all that can refuse it is looked at before anything is written, except for uploads. */
export class ChangeMaking<TRow extends ChangedRow> {
  readonly #rows: ChangeRows<TRow>;
  readonly #change: Change;
  readonly #version: Version;
  /** The events of the puts; null for one that is left out. */
  readonly #puttings: (Putting<TRow> | null)[] = [];
  /** The groups that events leave, and whether one does that had a place. */
  #left: Map<string, boolean> | undefined;

  constructor(rows: ChangeRows<TRow>, change: Change, version: Version) {
    this.#rows = rows;
    this.#change = change;
    this.#version = version;
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
      for (const { record, version } of unchanged) {
        const row = this.#rows.find(record.id);
        if (row?.version !== version) return this.#isOther(row);
      }
    }
    if (moves) {
      for (const { event, via } of moves) {
        if (via && !leadsTo(this.#rows.find(event.id), via)) return { ok: false, why: "via" };
      }
    }
    const isAsExpected = ({ key, version }: CellChange) =>
      version === undefined || this.#rows.versionOf(key) === version;
    return cells?.every(isAsExpected) ?? true ? undefined : { ok: false, why: "cell" };
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
    if (moves) { for (const move of moves) this.#rows.move(move); }
    if (cells) this.#writeCells(cells);
    if (sums) this.#addToSums(sums);
    if (drops) { for (const { id } of drops) this.#rows.deletePayload(id); }
    return { ok: true, version: this.#version, written, head };
  }

  #checkPut(put: Put, isAgain = false): Refused | undefined {
    const { before, via } = put;
    if ("must" in before) return this.#checkNew(put, before);
    const row = this.#rows.find(idOf(before));
    if (row?.version !== before.version) {
      const refused = this.#isOther(row);
      const again = refused.found?.record && this.#puttings.length === 0 && !isAgain
        ? this.#change.turn?.again?.(refused.found)
        : undefined;
      return again ? this.#checkPut(again, true) : refused;
    }
    if (via && !leadsTo(row, via)) return { ok: false, why: "via" };
    this.#puttings.push({ put, row });
    return undefined;
  }

  #checkNew(
    put: Put,
    { id, must }: Extract<Put["before"], { readonly must: unknown }>,
  ): Refused | undefined {
    const row = must === "free" ? undefined : this.#rows.find(id);
    if (row && must !== "skip") return { ok: false, why: "id", found: this.#rows.eventOf(row) };
    const payload = put.body ? undefined : put.keeps;
    if (payload && !this.#rows.hasPayload(payload.id)) return { ok: false, why: "payload" };
    this.#puttings.push(row ? null : { put, row: undefined });
    return undefined;
  }

  #isOther(row: TRow | undefined): Extract<Refused, { readonly why: unknown }> {
    return { ok: false, why: "event", found: row && this.#rows.eventOf(row) };
  }

  /** Makes a put that joins no group. Returns its event; null if it was deleted, or its id is known by now. */
  #put({ put, row }: Putting<TRow>, isFirst: boolean): Stored | null {
    if (!row && this.#isKnownByNow(put)) return null;
    const after = put.after?.({ now: this.#rows.now }) ?? null;
    if (row && leaves(row, after)) this.#leave(row, isFirst);
    return this.#write(put, row, after);
  }

  /** Checks whether an earlier put of the same change has the id. */
  #isKnownByNow({ before }: Put): boolean {
    return this.#puttings.length > 1 && this.#rows.find(idOf(before)) !== undefined;
  }

  /** Makes a put that joins a group. */
  #join({ put, row }: Putting<TRow>, key: string): Stored | null {
    if (!row && this.#isKnownByNow(put)) return null;
    const { places = 1 } = put;
    const hasPlace = this.#rows.isEmpty(key) || (places > 1 && this.#hasPlace(key, places));
    const position = this.#rows.nextPosition(key, places);
    const after = put.after!({ now: this.#rows.now, group: { key, position }, hasPlace });
    if (after.quiet) this.#rows.noteJoined(key, after.quiet.since);
    return this.#write(put, row, after);
  }

  /** Checks for a place in a group that is not empty. While others wait, there is none. */
  #hasPlace(key: string, places: number): boolean {
    const firsts = this.#rows.firstsOf(key, places);
    return firsts.length < places && !firsts.some(waits);
  }

  /** Writes an event, and what follows for its payload. */
  #write(
    put: Writing,
    row: TRow | undefined,
    after: EventRecord | null,
    mayBeKnown = false,
  ): Stored | null {
    const body = this.#placePayload(put, row, after);
    if (!after) {
      if (row) this.#rows.delete(row);
      return null;
    }
    const [version, payload] = [this.#version, body === null ? after.payload?.id ?? null : null];
    const columns = {
      ...{ version, payload, own_due_at: after.dueAt, other_due_at: otherTime(put, row) },
      ...placeInGroup(put, row, after),
      forget_at: forgetAt(after, this.#rows.now, put.forMs),
    };
    // A payload that stays where it is stays in the row.
    this.#rows.put(row, after, columns, row ? body : body ?? null, mayBeKnown);
    return { record: after, version };
  }

  /** Puts a payload into its place. Returns what the row gets: undefined if it has its payload already, null for none. */
  #placePayload(
    { body, keeps }: Writing,
    row: TRow | undefined,
    after: EventRecord | null,
  ): Bytes | null | undefined {
    const { id } = after?.payload ?? keeps ?? {};
    if (row?.payload && row.payload !== id) this.#rows.deletePayload(row.payload);
    if (id === undefined || id === row?.payload) return null;
    if (body) {
      if (after?.payload && body.byteLength <= this.#rows.inlineBytes) return body;
      this.#rows.addPayload(id, body);
    } else if (row?.payload === null && this.#rows.eventOf(row).record?.payload?.id === id) {
      if (after?.payload) return undefined;
      this.#rows.takeOut(row, id);
    } else if (after && !this.#rows.takeUpload(id)) {
      throw new RefusedError({ ok: false, why: "payload" });
    }
    return null;
  }

  /**
   * Notes that an event leaves its group. Those that leave together with it, if it is the first one, are written here.
   * Only once all of a change have left is the next one of a group looked for.
   */
  #leave(row: TRow, isFirstPut: boolean): void {
    const { through, member } = this.#change.leave ?? {};
    const key = row.group_key!;
    const isFirst = this.#rows.firstOf(key)!.id === row.id;
    this.#notice(key, isFirst || !waits(row));
    if (!isFirstPut || through === undefined || !member || !isFirst) return;
    for (const each of this.#rows.othersOf(row, through)) {
      const { record } = this.#rows.eventOf(each);
      // One that cannot be read stays, and holds the group.
      if (record) this.#writeMember(each, member(record));
    }
  }

  #writeMember(row: TRow, { after, puts, cells, sums, ...rest }: LeavingMember): void {
    this.#write({ before: { id: row.id, must: "free" }, ...rest }, row, after);
    if (cells) this.#writeCells(cells);
    if (sums) this.#addToSums(sums);
    if (!puts) return;
    for (const put of puts) {
      if ("must" in put.before && !this.#rows.find(put.before.id)) {
        this.#write(put, undefined, put.after!({ now: this.#rows.now }), true);
      }
    }
  }

  #notice(key: string, hadPlace: boolean): void {
    const left = this.#left ??= new Map();
    left.set(key, hadPlace || left.get(key) === true);
  }

  /** Makes the next events of each group due in which there is a place. Returns the one of the first put's group. */
  #moveUp(): Stored | undefined {
    let head: Stored | undefined;
    if (!this.#left) return undefined;
    for (const [key, hasPlace] of this.#left) {
      const firsts = this.#rows.firstsOf(key);
      if (firsts.length === 0) this.#rows.endGroup(key);
      if (firsts.length === 0 || !hasPlace) continue;
      const moved = this.#fillPlaces(firsts);
      if (key === this.#puttings[0]?.row?.group_key) head = moved;
    }
    return head;
  }

  /** Makes the first events of a group due that wait. Returns the first of them. */
  #fillPlaces(firsts: readonly TRow[]): Stored | undefined {
    let head: Stored | undefined;
    for (const [i, row] of firsts.entries()) {
      if (!waits(row)) continue;
      const moved = this.#makeDue(row, { isFirst: i === 0 });
      if (moved === null) break;
      head ??= moved;
    }
    return head;
  }

  /**
   * Makes an event of a group due. One that cannot be read is due as it is, and holds its place. Returns null if it waits
   * still.
   */
  #makeDue(row: TRow, at: HeadAt): Stored | undefined | null {
    const { record, version } = this.#rows.eventOf(row);
    const { now } = this.#rows;
    if (!record) {
      this.#rows.setOtherTime(row, now);
      return undefined;
    }
    if (record.dueAt !== null) return undefined;
    const after = this.#change.leave!.head(record, now, at);
    return after && this.#write({ before: { record, version } }, row, after)!;
  }

  #leaveByMove({ event, leavesGroup }: Move): void {
    const row = leavesGroup ? this.#rows.find(event.id) : undefined;
    if (!row || row.group_key === null) return;
    const isFirst = this.#rows.firstOf(row.group_key)!.id === row.id;
    this.#notice(row.group_key, isFirst || !waits(row));
    this.#rows.takeFromGroup(row);
  }

  #writeCells(cells: readonly CellChange[]): void {
    const { now } = this.#rows;
    for (const { key, after, forMs, version } of cells) {
      if (after === undefined) continue;
      this.#rows.writeCell(key, {
        value: after === null ? null : JSON.stringify(after),
        forgetAt: forMs === undefined ? null : now + forMs,
        version: this.#version,
        mustBeNew: version === null,
      });
    }
  }

  #addToSums(sums: readonly SumChange[]): void {
    for (const sum of sums) this.#rows.addToSum(sum, this.#version);
  }
}

/** Checks for an event of a group that has no place: nothing makes it due. */
function waits({ own_due_at, other_due_at }: ChangedRow): boolean {
  return own_due_at === null && other_due_at === null;
}

/** Returns the other time of an event after a put: none if that is what has made it due. */
function otherTime({ via }: Writing, row: ChangedRow | undefined): number | null {
  const before = row?.other_due_at ?? null;
  return via && before !== null && before <= via.at ? null : before;
}

/** Returns the place of an event after a put. A record may name one that a move has taken: only joining gives one. */
function placeInGroup(
  { joins }: Writing,
  row: ChangedRow | undefined,
  after: EventRecord,
): Pick<PutColumns, "group_key" | "position"> {
  if (joins !== undefined) {
    return { group_key: after.group!.key, position: after.group!.position };
  }
  if (!row || leaves(row, after)) return { group_key: null, position: null };
  return { group_key: row.group_key, position: row.position };
}

/** Checks whether an event leaves its group if it gets a record. */
function leaves({ group_key, position }: ChangedRow, after: EventRecord | null): boolean {
  if (group_key === null) return false;
  return after?.group?.key !== group_key || after.group.position !== position;
}

/** Checks whether an entry of the schedule leads to an event as it did when it was found. */
function leadsTo(row: ChangedRow | undefined, { at, event }: Due): boolean {
  if (!row) return event === undefined;
  return row.own_due_at === at || row.other_due_at === at;
}

/** Returns the id of an event before its change. */
export function idOf(before: Put["before"]): string {
  return "must" in before ? before.id : before.record?.id ?? (before as Unreadable).id;
}
