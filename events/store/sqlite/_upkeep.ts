import type { CheckedPage, Engine, StoreFinding, Tidying, Version } from "../engine.ts";
import { type EventRecord, isOpen } from "../event_record.ts";
import { COLUMNS, type EventRow } from "../sql/rows.ts";
import { deleteParts } from "./_change.ts";
import type { Connection } from "./_connection.ts";
import { eventOf, findRow, firstOf } from "./_rows.ts";
import { Slices } from "./_slices.ts";

/** The number of rows that a step of upkeep reads, or deletes. */
const PAGE = 200;

/** Time between two looks for what is forgotten, in milliseconds: nobody finds it any more, and it only takes space. */
const FORGET_MS = 600_000;

/** A text that comes after each id. */
const BEHIND_ALL_IDS = "\u{10ffff}";

type CheckOptions = Parameters<Engine["check"]>[0];

/** An event that is due too late, and its record with the right time, if it is the record that is wrong. */
interface Wrong {
  readonly row: EventRow;
  readonly record: EventRecord;
  readonly after: EventRecord | null | undefined;
}

/** Parts of {@linkcode Upkeep}. */
interface UpkeepParts {
  readonly db: Connection;
  readonly now: () => number;
  readonly newVersion: () => Version;
  /** Runs statements in a transaction. */
  readonly write: <T>(work: () => T) => Promise<T>;
}

/** The upkeep of a file: what is forgotten is deleted, and what is wrong is found. */
export class Upkeep {
  readonly #parts: UpkeepParts;

  /** The time in the schedule up to which the last look with a limit has come. */
  #looked = -Infinity;
  /** Version of the content in which no time is wrong. */
  #rightIn: string | undefined;
  /** Time of the next look for what is forgotten, by the monotonic clock. */
  #forgetAt = -Infinity;

  constructor(parts: UpkeepParts) {
    this.#parts = parts;
  }

  async tidy({ uploadsOlderThanMs, times, groups = false }: Tidying): ReturnType<Engine["tidy"]> {
    const { now } = this.#parts;
    if (performance.now() >= this.#forgetAt) {
      this.#forgetAt = performance.now() + FORGET_MS;
      await this.#deleteForgotten("event", "seq");
      await this.#deleteForgotten("cell", "key");
    }
    return {
      times: times ? await this.#correctTimes(times) : 0,
      groups: groups ? await this.#repairGroups() : 0,
      uploads: uploadsOlderThanMs === undefined
        ? 0
        : await this.#deleteUploads(now() - uploadsOlderThanMs),
    };
  }

  /** Deletes uploads, some parts in each transaction. Returns their number. */
  async #deleteUploads(before: number): Promise<number> {
    const { db, write } = this.#parts;
    const sql = "select id, part from payload where uploaded_at < ? order by uploaded_at limit 1";
    let deleted = 0;
    const deleteSome = () => {
      const first = db.one<{ id: string; part: number }>(sql, before);
      if (first && !deleteParts(db, first.id, first.part)) deleted++;
      return first !== undefined;
    };
    while (await write(deleteSome));
    return deleted;
  }

  /** Deletes rows that are forgotten, some in each transaction. */
  async #deleteForgotten(table: string, key: string): Promise<void> {
    const { db, now, write } = this.#parts;
    const sql = `delete from ${table} where ${key} in
      (select ${key} from ${table} where forget_at <= ? limit ${PAGE})`;
    while (await write(() => db.run(sql, now())) === PAGE);
  }

  /**
   * Deletes groups without events, and makes the first event of any other one due that is not: somebody may have deleted
   * or changed rows by hand.
   */
  async #repairGroups(): Promise<number> {
    const { db, write } = this.#parts;
    const page = `select key from ordering_group where key > ? order by key limit ${PAGE}`;
    const empty = `key in (${page}) and not exists (select 1 from event where group_key = key)`;
    const first =
      `(select seq from event where group_key = page.key order by position limit 1) from (${page}) as page`;
    for (let [repaired, after] = [0, ""];;) {
      const last = db.all<{ key: string }>(page, after).at(-1);
      if (!last) return repaired;
      const from = after;
      repaired += await write(() => {
        const firsts = db.all<EventRow>(
          `select ${COLUMNS} from event where due_at is null and seq in (select ${first})`,
          from,
        );
        for (const row of firsts) this.#makeDue(row, eventOf(row).record);
        return firsts.length + db.run(`delete from ordering_group where ${empty}`, from);
      });
      after = last.key;
    }
  }

  /** Makes an event due by the time of its record, or now if it has none: whoever claims it changes its record. */
  #makeDue({ seq }: EventRow, record: EventRecord | undefined): void {
    const { db, now } = this.#parts;
    const own = record?.dueAt ?? null;
    const other = own === null ? now() : null;
    db.run("update event set own_due_at = ?, other_due_at = ? where seq = ?", own, other, seq);
  }

  /**
   * Looks at events that are due later, and corrects the times that a wrong clock has made. With a limit, more of which
   * may have the time of the last one, it goes on where the last look has ended, and to the end if it finds one: a clock
   * is seldom wrong once.
   */
  async #correctTimes({ reads, corrected }: NonNullable<Tidying["times"]>): Promise<number> {
    const { db, now, write } = this.#parts;
    const slices = new Slices();
    const version = db.contentVersion;
    if (reads !== Infinity && version === this.#rightIn) return 0;
    const isWhole = reads === Infinity || this.#looked < now();
    let at = isWhole ? now() : this.#looked;
    let [id, changed, read] = [BEHIND_ALL_IDS, 0, 0];
    this.#looked = -Infinity;
    for (;; await slices.next()) {
      const rows = db.all<EventRow>(
        `select ${COLUMNS} from event where due_at is not null and (due_at, id) > (?, ?) order by due_at, id limit ${PAGE}`,
        ...[at, id],
      );
      const wrong: Wrong[] = [];
      for (const row of rows) {
        if (read++ >= reads && row.due_at !== at && changed + wrong.length === 0) {
          this.#looked = at;
          return 0;
        }
        [at, id] = [row.due_at!, row.id];
        const { record } = eventOf(row);
        const after = record && corrected(record, now());
        if (record && (after || isOtherTooLate(row, record))) wrong.push({ row, record, after });
      }
      if (wrong.length > 0) changed += await write(() => this.#correct(wrong));
      if (rows.length >= PAGE) continue;
      if (isWhole && changed === 0) this.#rightIn = version;
      return changed;
    }
  }

  /** Corrects the times of events, unless they have changed since. A move may have taken its own time from one. */
  #correct(events: readonly Wrong[]): number {
    const { db, newVersion } = this.#parts;
    const sql = `update event set own_due_at = ?, other_due_at = null, version = ?, record = ?
      where seq = ? and version = ?`;
    return events.reduce((number, { row, record, after }) => {
      const written = after ? [newVersion(), JSON.stringify(after)] : [row.version, row.record];
      return number + db.run(sql, (after ?? record).dueAt, ...written, row.seq, row.version);
    }, 0);
  }

  /** Checks the events. */
  async *check({ foundAgain }: CheckOptions): AsyncGenerator<CheckedPage> {
    const { db } = this.#parts;
    const slices = new Slices();
    for (let seq = 0;; await slices.next()) {
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
    const { db, now, newVersion, write } = this.#parts;
    return await write(() => {
      const { version, due_at } = findRow(db, row.id, now()) ?? {};
      if (version !== row.version || due_at !== null) return false;
      if (row.group_key !== null) this.#makeDue(row, record);
      else {
        const after = foundAgain(record, now());
        db.run(
          "update event set state = ?, own_due_at = ?, version = ?, record = ? where seq = ?",
          ...[after.state, after.dueAt, newVersion(), JSON.stringify(after), row.seq],
        );
      }
      return true;
    });
  }
}

/** Checks for the time of a move that is behind the time of the record: waking makes an event due earlier. */
function isOtherTooLate({ other_due_at }: EventRow, { dueAt }: EventRecord): boolean {
  return other_due_at !== null && dueAt !== null && other_due_at > dueAt;
}
