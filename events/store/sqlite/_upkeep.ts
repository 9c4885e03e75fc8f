import type { CheckedPage, Engine, StoreFinding, Tidying, Version } from "../engine.ts";
import { type EventRecord, isOpen } from "../event_record.ts";
import type { Connection } from "./_connection.ts";
import { COLUMNS, eventOf, type EventRow, firstOf } from "./_rows.ts";

/** The number of rows that a step of upkeep reads, or deletes. */
const PAGE = 200;

/** A text that comes after each id. */
const BEHIND_ALL_IDS = "\u{10ffff}";

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

  /** The time in the schedule up to which the last look with a limit has come. */
  #looked = -Infinity;

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
        : await this.#deleteUploads(now() - uploadsOlderThanMs),
    };
  }

  /** Deletes uploads, one in each transaction. Returns their number. */
  async #deleteUploads(before: number): Promise<number> {
    const sql = `delete from payload where id =
      (select id from payload where uploaded_at < ? order by uploaded_at limit 1)`;
    for (let deleted = 0;; deleted++) {
      if (await this.#parts.write((db) => db.run(sql, before)) === 0) return deleted;
    }
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

  /**
   * Looks at events that are due later, and corrects the times that a wrong clock has made. With a limit, more of which
   * may have the time of the last one, it goes on where the last look has ended, and to the end if it finds one: a clock
   * is seldom wrong once.
   */
  async #correctTimes({ reads, corrected }: NonNullable<Tidying["times"]>): Promise<number> {
    const { db, now, write } = this.#parts;
    let at = reads === Infinity ? now() : Math.max(now(), this.#looked);
    let [id, changed, read] = [BEHIND_ALL_IDS, 0, 0];
    this.#looked = -Infinity;
    while (true) {
      const rows = db.all<EventRow>(
        `select ${COLUMNS} from event where due_at is not null and (due_at, id) > (?, ?) order by due_at, id limit ${PAGE}`,
        ...[at, id],
      );
      const wrong: EventRow[] = [];
      for (const row of rows) {
        if (read++ >= reads && row.due_at !== at && changed + wrong.length === 0) {
          this.#looked = at;
          return 0;
        }
        [at, id] = [row.due_at!, row.id];
        if (this.#isTooLate(row, corrected)) wrong.push(row);
      }
      if (wrong.length > 0) changed += await write(() => this.#correct(wrong, corrected));
      if (rows.length < PAGE) return changed;
    }
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

  /** Checks the events. */
  async *check({ foundAgain }: CheckOptions): AsyncGenerator<CheckedPage> {
    const { db } = this.#parts;
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
