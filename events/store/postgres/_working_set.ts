import { encodeCellKey } from "../cell_key.ts";
import type { Bytes, CellKey, Move, Stored, SumChange, Unreadable, Version } from "../engine.ts";
import type { EventRecord } from "../event_record.ts";
import type { CellWrite, ChangeRows, PutColumns } from "../sql/change_making.ts";
import { COLUMNS, isForgotten, nameOf } from "../sql/rows.ts";
import { bytesArray, numberArray, textArray, utf8Array } from "./_arrays.ts";
import type { Session } from "./_connections.ts";
import {
  eventOf,
  type EventRow,
  type EventWrite,
  INSERT_EVENTS,
  insertedValues,
  UPDATE_EVENTS,
  updatedValues,
} from "./_rows.ts";
import { keyText, textOfKey } from "../sql/key_texts.ts";
import { shownText } from "./_texts.ts";

/** Size of the parts of a payload, in bytes. */
export const PART_BYTES = 1_048_576;

/** An event in a working set. */
export interface SetEvent extends PutColumns {
  /** The number of its row; undefined if the event is new. */
  readonly seq: number | undefined;
  readonly id: string;
  readonly receivedAt: number;
  /** Its event as it was read or written last. */
  readonly event: Stored | Unreadable;
}

/** An ordering group in a working set. */
interface SetGroup {
  next: number;
  places: number;
  joinedAt: number | null;
  /** Its first members. */
  members: SetEvent[];
  /** The position up to which its members are known; infinite if all are. */
  knownTo: number;
  isChanged: boolean;
}

/** Rows that are read and locked before changes are made. */
export interface Needs {
  readonly ids: Set<string>;
  /**
   * Ordering groups: the last position of a batch that leaves, the number of members that may leave beside it, and the
   * largest number of places that those who join ask for.
   */
  readonly groups: Map<string, { through: number; leaving: number; places: number }>;
  /** Cells by their keys in hexadecimal digits. */
  readonly cells: Map<string, Uint8Array>;
  readonly payloads: Set<string>;
}

/** Members of ordering groups that are read: those of a batch that leaves, and a number of others. */
type Members = Map<string, { readonly through: number; readonly count: number }>;

/** Thrown if a change must be made again: it met what it had not read. */
export class AgainError extends Error {
  /** @param met The group that must be locked, or the payloads that are not there. */
  constructor(
    readonly met: { readonly group?: string; readonly lost?: readonly string[] } = {},
  ) {
    super("The change is made again");
  }
}

interface CellRow {
  readonly key: Uint8Array;
  readonly version: string;
}

type PayloadPart = readonly [id: string, part: number, body: Uint8Array];

/**
 * The rows that changes need. They are read and locked, then the changes are made of them one after the other, without
 * the database, and then all that has changed is written: each step is one statement, however many the changes are.
 */
export class WorkingSet implements ChangeRows<SetEvent> {
  readonly now: number;
  readonly inlineBytes = PART_BYTES;
  readonly #lost: ReadonlySet<string>;
  readonly #events = new Map<string, SetEvent | null>();
  readonly #groups = new Map<string, SetGroup>();
  /** Versions of the events that are not locked, by the numbers of their rows. */
  readonly #unlocked = new Map<number, Version>();
  /** Versions of the cells that are there. */
  readonly #cells = new Map<string, Version>();
  readonly #payloads = new Set<string>();

  /** Events to write, by their ids. */
  readonly #written = new Map<string, SetEvent>();
  /** Ids of those whose records are written, and not only other columns. */
  readonly #recorded = new Set<string>();
  readonly #bodies = new Map<string, Bytes | null>();
  /** Ids of events that are left out if they are known: nobody has looked. */
  readonly #mayBeKnown = new Set<string>();
  readonly #deleted: number[] = [];
  readonly #parts: PayloadPart[] = [];
  readonly #takenOut: (readonly [id: string, seq: number])[] = [];
  readonly #takenUploads = new Set<string>();
  readonly #deletedPayloads: string[] = [];
  readonly #cellWrites = new Map<string, KeyedCellWrite>();
  readonly #sums: SumWrite[] = [];

  private constructor(now: number, lost: ReadonlySet<string>) {
    this.now = now;
    this.#lost = lost;
  }

  /**
   * Reads what changes need.
   *
   * @param db A transaction, or a session if nothing is locked.
   * @param needs What is read.
   * @param options The time, whether the rows are locked, and the uploads that are known to be gone.
   * @returns The rows.
   */
  static async read(
    db: Session,
    { ids, groups, cells, payloads }: Needs,
    { now, isLocking = true, lost = new Set() }: {
      readonly now: number;
      readonly isLocking?: boolean;
      readonly lost?: ReadonlySet<string>;
    },
  ): Promise<WorkingSet> {
    const set = new WorkingSet(now, lost);
    const lock = isLocking ? "for update" : "";
    // Groups come first, and what is behind them is read by later statements: then their members stay as they are.
    if (groups.size > 0) await set.#readGroups(db, [...groups.keys()], lock);
    if (ids.size > 0) await set.#readEvents(db, [...ids], lock);
    if (groups.size > 0) await set.#readAllMembers(db, groups, lock);
    if (cells.size > 0) await set.#readCells(db, cells, lock);
    if (payloads.size > 0) await set.#readPayloads(db, [...payloads]);
    return set;
  }

  find(id: string): SetEvent | undefined {
    return this.#events.get(id) ?? undefined;
  }

  eventOf({ event }: SetEvent): Stored | Unreadable {
    return event;
  }

  firstOf(key: string): SetEvent | undefined {
    return this.#group(key).members[0];
  }

  firstsOf(key: string, count?: number): readonly SetEvent[] {
    const { members, places } = this.#group(key);
    return members.slice(0, count ?? places);
  }

  othersOf(first: SetEvent, through: number): SetEvent[] {
    return this.#group(first.group_key!).members.slice(1)
      .filter(({ position }) => position! <= through);
  }

  isEmpty(key: string): boolean {
    const { members, knownTo } = this.#group(key);
    return members.length === 0 && knownTo === Infinity;
  }

  nextPosition(key: string, places: number): number {
    const group = this.#group(key);
    [group.places, group.isChanged] = [places, true];
    return group.next++;
  }

  noteJoined(key: string, since: number): void {
    const group = this.#group(key);
    [group.joinedAt, group.isChanged] = [Math.max(group.joinedAt ?? 0, since), true];
  }

  /** Groups without events are deleted once all changes are made. */
  endGroup(): void {}

  /** Returns a group that is locked. */
  #group(key: string): SetGroup {
    const group = this.#groups.get(key);
    if (!group) throw new AgainError({ group: key });
    return group;
  }

  hasPayload(id: string): boolean {
    return this.#payloads.has(id);
  }

  versionOf(key: CellKey): Version | null {
    return this.#cells.get(encodeCellKey(key).toHex()) ?? null;
  }

  put(
    before: SetEvent | undefined,
    record: EventRecord,
    columns: PutColumns,
    body: Bytes | null | undefined,
    mayBeKnown: boolean,
  ): void {
    const { id, receivedAt } = record;
    const event = { record, version: columns.version };
    const after: SetEvent = { ...columns, id, receivedAt, seq: before?.seq, event };
    if (before) this.#leave(before);
    this.#events.set(id, after);
    this.#written.set(id, after);
    this.#recorded.add(id);
    if (body !== undefined) this.#bodies.set(id, body);
    if (mayBeKnown) this.#mayBeKnown.add(id);
    this.#enter(after);
  }

  takeFromGroup(event: SetEvent): void {
    this.#set(event, { group_key: null, position: null });
  }

  setOtherTime(event: SetEvent, time: number): void {
    this.#set(event, { other_due_at: time });
  }

  move({ event: { id, receivedAt }, afterMs, via }: Move): void {
    const event = this.find(id);
    if (!event || event.receivedAt !== receivedAt) return;
    const without = (time: number | null) => via && time === via.at ? null : time;
    this.#set(event, {
      own_due_at: without(event.own_due_at),
      other_due_at: afterMs === null ? without(event.other_due_at) : this.now + afterMs,
    });
  }

  /** Changes columns of an event, and neither its record nor its version. */
  #set(before: SetEvent, columns: Partial<Omit<PutColumns, "version">>): void {
    const after = { ...before, ...columns };
    this.#leave(before);
    this.#events.set(before.id, after);
    this.#written.set(before.id, after);
    this.#enter(after);
  }

  delete(event: SetEvent): void {
    this.#leave(event);
    this.#events.set(event.id, null);
    this.#written.delete(event.id);
    this.#bodies.delete(event.id);
    if (event.seq !== undefined) this.#deleted.push(event.seq);
  }

  #leave({ id, group_key }: SetEvent): void {
    const group = group_key === null ? undefined : this.#groups.get(group_key);
    if (!group) return;
    group.members = group.members.filter((member) => member.id !== id);
  }

  #enter(event: SetEvent): void {
    const group = event.group_key === null ? undefined : this.#groups.get(event.group_key);
    if (!group || event.position! > group.knownTo) return;
    const at = group.members.findIndex(({ position }) => position! > event.position!);
    group.members.splice(at < 0 ? group.members.length : at, 0, event);
  }

  addPayload(id: string, body: Bytes): void {
    for (let part = 0; part === 0 || part * PART_BYTES < body.byteLength; part++) {
      const begin = part * PART_BYTES;
      this.#parts.push([id, part, body.subarray(begin, begin + PART_BYTES)]);
    }
  }

  takeOut({ seq }: SetEvent, id: string): void {
    this.#takenOut.push([id, seq!]);
  }

  takeUpload(id: string): boolean {
    if (this.#lost.has(id)) return false;
    this.#takenUploads.add(id);
    return true;
  }

  deletePayload(id: string): void {
    this.#deletedPayloads.push(id);
  }

  writeCell(key: CellKey, write: CellWrite): void {
    const bytes = encodeCellKey(key);
    this.#cellWrites.set(bytes.toHex(), { ...write, key, bytes });
    this.#cells.set(bytes.toHex(), write.version);
  }

  addToSum(change: SumChange, version: Version): void {
    const isSet = "to" in change;
    const bytes = encodeCellKey(change.key);
    const value = isSet ? change.to : change.by;
    this.#sums.push({ key: change.key, bytes, value, isSet, version });
  }

  async #readGroups(db: Session, keys: string[], lock: string): Promise<void> {
    // Locking one that is not there takes a row, so that nobody else makes it meanwhile.
    const sql = lock
      ? `insert into @ordering_group as known (key, next, places)
        select key, 0, 1 from unnest($1::text[]) as key order by key
        on conflict (key) do update set next = known.next returning key, next, places, joined_at`
      : "select key, next, places, joined_at from @ordering_group where key = any($1::text[])";
    type Row = Readonly<{ key: string; next: number; places: number; joined_at: number | null }>;
    for (const key of keys) {
      this.#groups.set(key, {
        ...{ next: 0, places: 1, joinedAt: null, isChanged: false },
        ...{ members: [], knownTo: Infinity },
      });
    }
    for (const { key, joined_at, ...row } of await db.all<Row>(sql, textArray(keys.map(keyText)))) {
      Object.assign(this.#groups.get(textOfKey(key))!, { ...row, joinedAt: joined_at });
    }
  }

  async #readEvents(db: Session, ids: string[], lock: string): Promise<void> {
    const rows = await db.all<EventRow>(
      `select ${COLUMNS} from @event where id = any($1::text[]) order by id ${lock}`,
      textArray(ids.map(keyText)),
    );
    for (const row of rows) {
      if (isForgotten(row, this.now)) continue;
      const event = setEventOf(row);
      this.#events.set(event.id, event);
    }
  }

  async #readAllMembers(db: Session, needs: Needs["groups"], lock: string): Promise<void> {
    const [single, several]: Members[] = [new Map(), new Map()];
    for (const [key, { through, leaving, places: asked }] of needs) {
      const places = Math.max(asked, this.#groups.get(key)!.places);
      // Those that will have a place when the others have left.
      (places > 1 ? several : single)!.set(key, { through, count: leaving + places });
    }
    if (single!.size > 0) await this.#readMembers(db, single!, lock);
    // Their holders change those that have a place, and wait for the group only when they leave it: to lock them after
    // the group would be a deadlock. Of those that wait somebody may change the steps meanwhile.
    if (several!.size > 0) await this.#readMembers(db, several!, "");
  }

  async #readMembers(db: Session, needs: Members, lock: string): Promise<void> {
    const keys = [...needs.keys()];
    const limits = [...needs.values()];
    const rows = await db.all<EventRow>(
      `select ${columnsOf("member")} from unnest($1::text[], $2::float8[], $3::float8[])
        as needed (group_key, through, members)
      cross join lateral (
        select ${COLUMNS} from @event where group_key = needed.group_key order by position
        limit needed.members + (
          select count(*) from @event where group_key = needed.group_key and position <= needed.through
        ) ${lock}
      ) as member order by group_key, position`,
      ...[
        textArray(keys.map(keyText)),
        numberArray(limits.map(({ through }) => through)),
        numberArray(limits.map(({ count }) => count)),
      ],
    );
    for (const row of rows) {
      const read = setEventOf(row);
      const event = this.#events.get(read.id) ?? read;
      if (event === read && lock === "") this.#unlocked.set(row.seq, row.version);
      this.#events.set(event.id, event);
      this.#groups.get(event.group_key!)!.members.push(event);
    }
    for (const [key, { through, count }] of needs) {
      const group = this.#groups.get(key)!;
      const others = group.members.filter(({ position }) => position! > through);
      if (others.length >= count) group.knownTo = group.members.at(-1)!.position!;
    }
  }

  async #readCells(db: Session, cells: Needs["cells"], lock: string): Promise<void> {
    const rows = await db.all<CellRow>(
      `select key, version from @cell where key = any($1::bytea[])
        and (forget_at is null or forget_at > $2::float8) order by key ${lock}`,
      ...[bytesArray([...cells.values()]), this.now],
    );
    for (const { key, version } of rows) this.#cells.set(key.toHex(), version);
  }

  async #readPayloads(db: Session, ids: string[]): Promise<void> {
    const rows = await db.all<{ id: string }>(
      "select distinct id from @payload where id = any($1::text[])",
      textArray(ids.map(keyText)),
    );
    for (const { id } of rows) this.#payloads.add(textOfKey(id));
  }

  /**
   * Writes all that has changed.
   *
   * @param db The transaction.
   * @throws {AgainError} If somebody else has stored an id, changed an event, or deleted an upload, meanwhile.
   */
  async write(db: Session): Promise<void> {
    await this.#writePayloads(db);
    if (this.#deleted.length > 0) {
      const sql = "delete from @event where seq = any($1::float8[]::bigint[])";
      await db.run(sql, numberArray(this.#deleted));
    }
    await this.#writeEvents(db);
    await this.#writeGroups(db);
    await this.#writeCells(db);
    if (this.#sums.length > 0) await this.#writeSums(db);
  }

  async #writePayloads(db: Session): Promise<void> {
    if (this.#takenOut.length > 0) {
      await db.run(
        `insert into @payload (id, part, body) select taken.id, 0, body
        from unnest($1::text[], $2::float8[]) as taken (id, seq) join @event as known on known.seq = taken.seq::bigint`,
        textArray(this.#takenOut.map(([id]) => keyText(id))),
        numberArray(this.#takenOut.map(([, seq]) => seq)),
      );
    }
    if (this.#parts.length > 0) await insertParts(db, this.#parts);
    if (this.#takenUploads.size > 0) {
      const taken = await db.all<{ id: string }>(
        "update @payload set uploaded_at = null where id = any($1::text[]) and part = 0 returning id",
        textArray([...this.#takenUploads].map(keyText)),
      );
      const there = new Set(taken.map(({ id }) => id));
      const lost = [...this.#takenUploads].filter((id) => !there.has(keyText(id)));
      if (lost.length > 0) throw new AgainError({ lost });
    }
    if (this.#deletedPayloads.length > 0) {
      const sql = "delete from @payload where id = any($1::text[])";
      await db.run(sql, textArray(this.#deletedPayloads.map(keyText)));
    }
  }

  async #writeEvents(db: Session): Promise<void> {
    const inserted: Parameters<typeof insertedValues>[1][number][] = [];
    const updated: Parameters<typeof updatedValues>[0][number][] = [];
    const [moved, bodies]: [SetEvent[], (readonly [number, Bytes])[]] = [[], []];
    const withoutBody: number[] = [];
    for (const each of this.#written.values()) {
      const { seq, event, id } = each;
      const body = this.#bodies.get(id);
      if (!event.record || !this.#recorded.has(id)) moved.push(each);
      else if (seq === undefined) {
        inserted.push({ ...each, record: event.record, body: body ?? null });
      } else {
        updated.push({ ...each, record: event.record, seq });
        if (body === null) withoutBody.push(seq);
        if (body) bodies.push([seq, body]);
      }
    }
    if (updated.length > 0) {
      const values = updatedValues(updated, withoutBody, this.#unlocked);
      if (await db.run(UPDATE_EVENTS, ...values) < updated.length) throw new AgainError();
    }
    if (bodies.length > 0) await this.#writeBodies(db, bodies);
    if (moved.length > 0) await this.#writeMoved(db, moved);
    if (inserted.length === 0) return;
    const rows = await db.all<{ id: string }>(
      INSERT_EVENTS,
      ...insertedValues(this.now, inserted),
    );
    await this.#writeProblems(db, inserted);
    if (rows.length === inserted.length) return;
    const added = new Set(rows.map(({ id }) => id));
    const isLeftOut = ({ record: { id } }: { record: EventRecord }) =>
      !added.has(keyText(id)) && !this.#mayBeKnown.has(id);
    if (inserted.some(isLeftOut)) throw new AgainError();
  }

  /** Writes the problems of new events that have failed elsewhere: they were imported. */
  async #writeProblems(db: Session, inserted: readonly EventWrite[]): Promise<void> {
    const failed = inserted.filter(({ record }) => record.problem !== undefined);
    if (failed.length === 0) return;
    await db.run(
      `update @event as known set problem = failed.problem, problem_at = received_at
      from unnest($1::text[], $2::text[], $3::text[]) as failed (id, problem, version)
      where known.id = failed.id and known.version = failed.version`,
      textArray(failed.map(({ record }) => keyText(record.id))),
      textArray(failed.map(({ record }) => record.problem!)),
      textArray(failed.map(({ version }) => version)),
    );
  }

  async #writeBodies(db: Session, bodies: (readonly [number, Bytes])[]): Promise<void> {
    await db.run(
      `update @event as known set body = changed.body
      from unnest($1::float8[], $2::bytea[]) as changed (seq, body) where known.seq = changed.seq::bigint`,
      numberArray(bodies.map(([seq]) => seq)),
      bytesArray(bodies.map(([, body]) => body)),
    );
  }

  /** Writes the times and positions of events whose records stay as they are. */
  async #writeMoved(db: Session, events: readonly SetEvent[]): Promise<void> {
    await db.run(
      `update @event as known set own_due_at = changed.own_due_at, other_due_at = changed.other_due_at,
        group_key = changed.group_key, position = changed.position
      from unnest($1::float8[], $2::float8[], $3::float8[], $4::text[], $5::float8[])
        as changed (seq, own_due_at, other_due_at, group_key, position) where known.seq = changed.seq::bigint`,
      numberArray(events.map(({ seq }) => seq!)),
      numberArray(events.map(({ own_due_at }) => own_due_at)),
      numberArray(events.map(({ other_due_at }) => other_due_at)),
      textArray(events.map(({ group_key }) => group_key && keyText(group_key))),
      numberArray(events.map(({ position }) => position)),
    );
  }

  async #writeGroups(db: Session): Promise<void> {
    const groups = [...this.#groups];
    const empty = groups.filter(([key]) => this.isEmpty(key));
    const changed = groups.filter(([key, { isChanged }]) => isChanged && !this.isEmpty(key));
    if (empty.length > 0) {
      const sql = "delete from @ordering_group where key = any($1::text[])";
      await db.run(sql, textArray(empty.map(([key]) => keyText(key))));
    }
    if (changed.length > 0) {
      await db.run(
        `update @ordering_group as known
        set next = changed.next, places = changed.places, joined_at = changed.joined_at
        from unnest($1::text[], $2::float8[], $3::float8[], $4::float8[])
          as changed (key, next, places, joined_at)
        where known.key = changed.key`,
        textArray(changed.map(([key]) => keyText(key))),
        numberArray(changed.map(([, { next }]) => next)),
        numberArray(changed.map(([, { places }]) => places)),
        numberArray(changed.map(([, { joinedAt }]) => joinedAt)),
      );
    }
  }

  async #writeCells(db: Session): Promise<void> {
    const writes = [...this.#cellWrites.values()];
    const deleted = writes.filter(({ value }) => value === null);
    const written = writes.filter(({ value }) => value !== null);
    if (deleted.length > 0) {
      const sql = "delete from @cell where key = any($1::bytea[])";
      await db.run(sql, bytesArray(deleted.map(({ bytes }) => bytes)));
    }
    if (written.length === 0) return;
    const count = await db.run(
      `insert into @cell as known (key, name, value, forget_at, version, total)
      select key, name, value, forget_at, version, null
      from unnest($1::bytea[], $2::text[], $3::bytea[], $4::float8[], $5::text[])
        as written (key, name, value, forget_at, version) order by key
      on conflict (key) do update set name = excluded.name, value = excluded.value, forget_at = excluded.forget_at,
        version = excluded.version, total = null
      where known.forget_at <= $6::float8 or known.key <> all($7::bytea[])`,
      bytesArray(written.map(({ bytes }) => bytes)),
      textArray(written.map(({ key }) => shownText(nameOf(key)))),
      utf8Array(written.map(({ value }) => value)),
      numberArray(written.map(({ forgetAt }) => forgetAt)),
      textArray(written.map(({ version }) => version)),
      this.now,
      bytesArray(written.filter(({ mustBeNew }) => mustBeNew).map(({ bytes }) => bytes)),
    );
    if (count < written.length) throw new AgainError();
  }

  /** Adds to sums. Two changes of one are made one after the other. */
  async #writeSums(db: Session): Promise<void> {
    const sums = new Map<string, SumWrite>();
    for (const sum of this.#sums) {
      const hex = sum.bytes.toHex();
      const before = sums.get(hex);
      const isSet = sum.isSet || before?.isSet === true;
      sums.set(hex, { ...sum, isSet, value: (sum.isSet ? 0 : before?.value ?? 0) + sum.value });
    }
    const all = [...sums.values()];
    await db.run(
      `insert into @cell as known (key, name, total, version)
      select key, name, total, version from unnest($1::bytea[], $2::text[], $3::float8[], $4::text[])
        as added (key, name, total, version) order by key
      on conflict (key) do update set version = excluded.version,
        total = case when known.key = any($5::bytea[]) then 0 else coalesce(known.total, 0) end + excluded.total`,
      bytesArray(all.map(({ bytes }) => bytes)),
      textArray(all.map(({ key }) => shownText(nameOf(key)))),
      numberArray(all.map(({ value }) => value)),
      textArray(all.map(({ version }) => version)),
      bytesArray(all.filter(({ isSet }) => isSet).map(({ bytes }) => bytes)),
    );
  }
}

/** A cell that is written, with its key. */
interface KeyedCellWrite extends CellWrite {
  readonly key: CellKey;
  readonly bytes: Uint8Array;
}

/** A sum that is added to. */
interface SumWrite {
  readonly key: CellKey;
  readonly bytes: Uint8Array;
  readonly value: number;
  readonly isSet: boolean;
  readonly version: Version;
}

/** Writes parts of payloads. */
export async function insertParts(
  db: Session,
  parts: readonly PayloadPart[],
  uploadedAt: number | null = null,
): Promise<void> {
  await db.run(
    `insert into @payload (id, part, body, uploaded_at)
    select id, part, body, $4::float8 from unnest($1::text[], $2::float8[], $3::bytea[]) as added (id, part, body)`,
    textArray(parts.map(([id]) => keyText(id))),
    numberArray(parts.map(([, part]) => part)),
    bytesArray(parts.map(([, , body]) => body)),
    uploadedAt,
  );
}

function setEventOf(row: EventRow): SetEvent {
  const { group_key, payload } = row;
  const event = eventOf(row);
  const { id, receivedAt } = event.record ?? event as Unreadable;
  return {
    ...row,
    ...{ id, receivedAt, event },
    group_key: group_key && textOfKey(group_key),
    payload: payload && textOfKey(payload),
  };
}

function columnsOf(table: string): string {
  return COLUMNS.split(", ").map((name) => `${table}.${name}`).join(", ");
}
