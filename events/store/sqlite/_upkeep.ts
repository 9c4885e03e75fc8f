import type {
  Cell,
  CheckedPage,
  Engine,
  StoredKind,
  StoreFinding,
  Tidying,
  Version,
} from "../engine.ts";
import { type EventRecord, isOpen } from "../event_record.ts";
import { encodeCellKey } from "./_cell_key.ts";
import { nameOf, readingCells } from "./_cells.ts";
import type { Connection } from "./_connection.ts";
import { COLUMNS, eventOf, type EventRow, firstOf } from "./_rows.ts";

/** The number of rows that a step of upkeep reads, or deletes. */
const PAGE = 200;

/** Kinds of cells that a check reads, with the beginnings of their keys. */
const CHECKED: readonly (readonly [StoredKind, string])[] = [
  ["name", "waiter"],
  ["state", "state"],
  ["schedule", "cron"],
  ["kept payload", "kept"],
];

type CheckOptions = Parameters<Engine["check"]>[0];

type Corrected = NonNullable<Tidying["times"]>["corrected"];

/** Parts of {@linkcode Upkeep}. */
interface UpkeepParts {
  readonly db: Connection;
  readonly now: () => number;
  readonly newVersion: () => Version;
  /** Runs statements in a transaction. */
  readonly write: <T>(work: (db: Connection) => T) => Promise<T>;
}

/** The upkeep of a file: what is forgotten is deleted, and what is wrong is found. */
export class Upkeep {
  readonly #parts: UpkeepParts;

  constructor(parts: UpkeepParts) {
    this.#parts = parts;
  }

  async tidy({ uploadsOlderThanMs, times }: Tidying): ReturnType<Engine["tidy"]> {
    const { now } = this.#parts;
    await this.#deleteAll("event", "seq", "forget_at <= ?", now());
    await this.#deleteAll("cell", "key", "forget_at <= ?", now());
    return {
      times: times ? await this.#correctTimes(times) : 0,
      // A position is a column of its event: nothing of a group can be left over.
      groups: 0,
      uploads: uploadsOlderThanMs === undefined
        ? 0
        : await this.#deleteAll("payload", "rowid", "uploaded_at < ?", now() - uploadsOlderThanMs),
    };
  }

  /** Deletes rows, some in each transaction. Returns their number. */
  async #deleteAll(
    table: string,
    key: string,
    condition: string,
    before: number,
  ): Promise<number> {
    const sql = `delete from ${table} where ${key} in
      (select ${key} from ${table} where ${condition} limit ${PAGE})`;
    for (let deleted = 0;;) {
      const step = await this.#parts.write((db) => db.run(sql, before));
      deleted += step;
      if (step < PAGE) return deleted;
    }
  }

  /** Looks at events that are due later, and corrects the times that a wrong clock has made. */
  async #correctTimes({ reads, corrected }: NonNullable<Tidying["times"]>): Promise<number> {
    const { db, now } = this.#parts;
    let [numberCorrected, read, at, seq] = [0, 0, now(), 0];
    while (read < reads) {
      const rows = db.all<EventRow>(
        `select ${COLUMNS} from event where (due_at, seq) > (?, ?) order by due_at, seq limit ?`,
        ...[at, seq, Math.min(PAGE, reads - read)],
      );
      const last = rows.at(-1);
      if (!last) break;
      [at, seq, read] = [last.due_at!, last.seq, read + rows.length];
      const changes = rows.filter((row) => this.#isTooLate(row, corrected));
      if (changes.length > 0) {
        numberCorrected += await this.#parts.write(() => this.#correct(changes, corrected));
      }
    }
    return numberCorrected;
  }

  #isTooLate(row: EventRow, corrected: Corrected): boolean {
    const { record } = eventOf(row);
    if (!record) return false;
    return corrected(record, this.#parts.now()) !== null || isOtherTooLate(row, record);
  }

  /** Corrects the times of events, unless they have changed since. */
  #correct(rows: readonly EventRow[], corrected: Corrected): number {
    const { db, now, newVersion } = this.#parts;
    let number = 0;
    for (const row of rows) {
      const record = eventOf(row).record!;
      const after = corrected(record, now());
      number += after
        ? db.run(
          `update event set own_due_at = ?, other_due_at = null, version = ?, record = ?
          where seq = ? and version = ?`,
          ...[after.dueAt, newVersion(), JSON.stringify(after), row.seq, row.version],
        )
        : db.run(
          "update event set other_due_at = null where seq = ? and version = ?",
          ...[row.seq, row.version],
        );
    }
    return number;
  }

  /** Checks all values, the events last. */
  async *check({ discard, foundAgain }: CheckOptions): AsyncGenerator<CheckedPage> {
    const { db, now } = this.#parts;
    const { list } = readingCells(db, now);
    for (const [kind, beginning] of CHECKED) {
      for await (const page of pagesOf(list([beginning]))) {
        const findings = page.filter(({ value }) => value === undefined)
          .map((cell) => this.#unreadable(kind, cell, discard));
        yield { read: page.length, findings: await Promise.all(findings) };
      }
    }
    for (let seq = 0;;) {
      const rows = db.all<EventRow>(
        `select ${COLUMNS} from event where seq > ? order by seq limit ${PAGE}`,
        seq,
      );
      if (rows.length === 0) return;
      seq = rows.at(-1)!.seq;
      const findings: StoreFinding[] = [];
      for (const row of rows) {
        const { record } = eventOf(row);
        const { id } = row;
        if (!record) findings.push({ is: "unreadable", kind: "event", name: id, at: id });
        else if (this.#isLost(row, record) && await this.#putBack(row, record, foundAgain)) {
          findings.push({ is: "put_back", eventId: id });
        }
      }
      yield { read: rows.length, findings };
    }
  }

  async #unreadable(kind: StoredKind, { key }: Cell, discard: boolean): Promise<StoreFinding> {
    const sql = "delete from cell where key = ?";
    if (discard) await this.#parts.write((db) => db.run(sql, encodeCellKey(key)));
    const name = String(key.at(-1));
    return { is: discard ? "discarded" : "unreadable", kind, name, at: nameOf(key) };
  }

  /** Checks for an open event that will never be due. */
  #isLost({ due_at, group_key, seq }: EventRow, record: EventRecord): boolean {
    if (!isOpen(record) || due_at !== null) return false;
    return group_key === null || firstOf(this.#parts.db, group_key)?.seq === seq;
  }

  async #putBack(
    row: EventRow,
    record: EventRecord,
    foundAgain: CheckOptions["foundAgain"],
  ): Promise<boolean> {
    const { now, newVersion, write } = this.#parts;
    const after = foundAgain(record, now());
    const sql = `update event set state = ?, own_due_at = ?, version = ?, record = ?
      where seq = ? and version = ? and due_at is null`;
    const values = [after.state, after.dueAt, newVersion(), JSON.stringify(after)];
    return await write((db) => db.run(sql, ...values, row.seq, row.version)) > 0;
  }
}

/** Checks for the time of a move that is behind the time of the record: waking makes an event due earlier. */
function isOtherTooLate({ other_due_at }: EventRow, { dueAt }: EventRecord): boolean {
  return other_due_at !== null && dueAt !== null && other_due_at > dueAt;
}

async function* pagesOf(cells: AsyncIterable<Cell>): AsyncGenerator<Cell[]> {
  let page: Cell[] = [];
  for await (const cell of cells) {
    if (page.push(cell) < PAGE) continue;
    yield page;
    page = [];
  }
  if (page.length > 0) yield page;
}
