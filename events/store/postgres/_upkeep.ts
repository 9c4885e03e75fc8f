import type { CheckedPage, Engine, StoreFinding, Tidying, Version } from "../engine.ts";
import { type EventRecord, isOpen } from "../event_record.ts";
import { COLUMNS } from "../sql/rows.ts";
import type { Connections, Session } from "./_connections.ts";
import { eventOf, type EventRow, refOf, selectDue } from "./_rows.ts";

/** The number of rows that a step of upkeep reads, or deletes. */
const PAGE = 200;

/** Time between two looks for what is forgotten, in milliseconds: nobody finds it any more, and it only takes space. */
const FORGET_MS = 600_000;

/** A text that comes after each id. */
const BEHIND_ALL_IDS = "\u{10ffff}";

type CheckOptions = Parameters<Engine["check"]>[0];

type Corrected = NonNullable<Tidying["times"]>["corrected"];

/** Parts of {@linkcode Upkeep}. */
interface UpkeepParts {
  readonly db: Connections;
  readonly now: () => number;
  readonly newVersion: () => Version;
}

/** The upkeep of a schema: what is forgotten is deleted, and what is wrong is found. */
export class Upkeep {
  readonly #parts: UpkeepParts;

  /** The time in the schedule up to which the last look with a limit has come. */
  #looked = -Infinity;
  /** Time of the next look for what is forgotten, by the monotonic clock. */
  #forgetAt = -Infinity;

  constructor(parts: UpkeepParts) {
    this.#parts = parts;
  }

  async tidy({ uploadsOlderThanMs, times, groups = false }: Tidying): ReturnType<Engine["tidy"]> {
    const { now } = this.#parts;
    if (performance.now() >= this.#forgetAt) {
      this.#forgetAt = performance.now() + FORGET_MS;
      await this.#deleteAll("event", "seq", "forget_at <= $1::float8", now());
      await this.#deleteAll("cell", "key", "forget_at <= $1::float8", now());
    }
    return {
      times: times ? await this.#correctTimes(times) : 0,
      groups: groups ? await this.#repairGroups() : 0,
      uploads: uploadsOlderThanMs === undefined
        ? 0
        : await this.#deleteUploads(now() - uploadsOlderThanMs),
    };
  }

  /** Deletes uploads, one in each transaction. Returns their number. */
  async #deleteUploads(before: number): Promise<number> {
    const sql = `delete from @payload where id =
      (select id from @payload where uploaded_at < $1::float8 order by uploaded_at limit 1 for update skip locked)`;
    for (let deleted = 0;; deleted++) {
      if (await this.#parts.db.run(sql, before) === 0) return deleted;
    }
  }

  /** Deletes rows, some in each transaction: those that another process is deleting are its own. */
  async #deleteAll(
    table: string,
    key: string,
    condition: string,
    before: number,
  ): Promise<void> {
    const sql = `delete from @${table} where ${key} in
      (select ${key} from @${table} where ${condition} limit ${PAGE} for update skip locked)`;
    while (await this.#parts.db.run(sql, before) >= PAGE);
  }

  /**
   * Deletes groups without events, and makes the first event of any other one due that is not: somebody may have deleted
   * or changed rows by hand.
   */
  async #repairGroups(): Promise<number> {
    const { db } = this.#parts;
    for (let [repaired, after] = [0, ""];;) {
      const page = await db.all<{ key: string }>(
        `select key from @ordering_group where key > $1 order by key limit ${PAGE}`,
        after,
      );
      const last = page.at(-1)?.key;
      if (last === undefined) return repaired;
      const from = after;
      repaired += await db.transaction((tx) => this.#repairPage(tx, from, last));
      after = last;
    }
  }

  async #repairPage(tx: Session, after: string, last: string): Promise<number> {
    // Locked first, as by all that changes who is in a group.
    const groups = "select key from @ordering_group where key > $1 and key <= $2 order by key";
    await tx.all(`${groups} for update`, after, last);
    const firsts = await tx.all<EventRow>(
      `select first.* from (${groups}) as page cross join lateral (
        select ${COLUMNS} from @event where group_key = page.key order by position limit 1 for update
      ) as first where first.due_at is null`,
      ...[after, last],
    );
    for (const row of firsts) await this.#makeDue(tx, row, eventOf(row).record);
    return firsts.length + await tx.run(
      `delete from @ordering_group where key > $1 and key <= $2
        and not exists (select 1 from @event where group_key = key)`,
      ...[after, last],
    );
  }

  /** Makes an event due by the time of its record, or now if it has none: whoever claims it changes its record. */
  async #makeDue(
    tx: Session,
    { seq }: EventRow,
    record: EventRecord | undefined,
  ): Promise<void> {
    const own = record?.dueAt ?? null;
    const other = own === null ? this.#parts.now() : null;
    const sql =
      "update @event set own_due_at = $1::float8, other_due_at = $2::float8 where seq = $3";
    await tx.run(sql, own, other, seq);
  }

  /**
   * Looks at events that are due later, and corrects the times that a wrong clock has made. With a limit, more of which
   * may have the time of the last one, it goes on where the last look has ended, and to the end if it finds one: a clock
   * is seldom wrong once.
   */
  async #correctTimes({ reads, corrected }: NonNullable<Tidying["times"]>): Promise<number> {
    const { db, now } = this.#parts;
    const isWhole = reads === Infinity || this.#looked < now();
    let at = isWhole ? now() : this.#looked;
    let [id, changed, read] = [BEHIND_ALL_IDS, 0, 0];
    this.#looked = -Infinity;
    while (true) {
      const rows = await db.all<EventRow>(selectDue(COLUMNS), Infinity, at, id, PAGE);
      for (const row of rows) {
        if (read++ >= reads && row.due_at !== at && changed === 0) {
          this.#looked = at;
          return 0;
        }
        [at, id] = [row.due_at!, row.id];
        if (this.#isTooLate(row, corrected)) changed += await this.#correct(row, corrected);
      }
      if (rows.length < PAGE) return changed;
    }
  }

  #isTooLate(row: EventRow, corrected: Corrected): boolean {
    const { record } = eventOf(row);
    if (!record) return false;
    return corrected(record, this.#parts.now()) !== null || isOtherTooLate(row, record);
  }

  /** Corrects the time of an event, unless it has changed since. */
  async #correct(row: EventRow, corrected: Corrected): Promise<number> {
    const { db, now, newVersion } = this.#parts;
    const record = eventOf(row).record!;
    const after = corrected(record, now());
    // If the record is right, a move may have taken its time from it.
    return await db.run(
      `update @event set own_due_at = $1::float8, other_due_at = null, version = $2, record = $3
      where seq = $4 and version = $5`,
      (after ?? record).dueAt,
      after ? newVersion() : row.version,
      after ? recordBytes(after) : row.record,
      ...[row.seq, row.version],
    );
  }

  /** Checks the events. */
  async *check({ foundAgain }: CheckOptions): AsyncGenerator<CheckedPage> {
    const { db } = this.#parts;
    for (let seq = 0;;) {
      const rows = await db.all<EventRow & { readonly is_first: boolean }>(
        `select ${COLUMNS}, not exists (select 1 from @event as other
          where other.group_key = known.group_key and other.position < known.position) as is_first
        from @event as known where seq > $1 order by seq limit ${PAGE}`,
        seq,
      );
      if (rows.length === 0) return;
      seq = rows.at(-1)!.seq;
      const findings: StoreFinding[] = [];
      for (const row of rows) {
        const { record } = eventOf(row);
        const { id } = refOf(row);
        const isLost = record && isOpen(record) && row.due_at === null && row.is_first;
        if (!record) findings.push({ is: "unreadable", kind: "event", name: id, at: id });
        else if (isLost && await this.#putBack(row, record, foundAgain)) {
          findings.push({ is: "put_back", eventId: id });
        }
      }
      yield { read: rows.length, findings };
    }
  }

  async #putBack(
    { seq, version, group_key }: EventRow,
    record: EventRecord,
    foundAgain: CheckOptions["foundAgain"],
  ): Promise<boolean> {
    const { db, now, newVersion } = this.#parts;
    const isLost = "seq = $1 and version = $2 and due_at is null";
    if (group_key !== null) {
      const own = record.dueAt;
      const other = own === null ? now() : null;
      return await db.run(
        `update @event set own_due_at = $3::float8, other_due_at = $4::float8 where ${isLost}`,
        ...[seq, version, own, other],
      ) > 0;
    }
    const after = foundAgain(record, now());
    return await db.run(
      `update @event set state = $3, own_due_at = $4::float8, version = $5, record = $6 where ${isLost}`,
      ...[seq, version, after.state, after.dueAt, newVersion(), recordBytes(after)],
    ) > 0;
  }
}

const encoder = new TextEncoder();

function recordBytes(record: EventRecord): Uint8Array {
  return encoder.encode(JSON.stringify(record));
}

/** Checks for the time of a move that is behind the time of the record: waking makes an event due earlier. */
function isOtherTooLate({ other_due_at }: EventRow, { dueAt }: EventRecord): boolean {
  return other_due_at !== null && dueAt !== null && other_due_at > dueAt;
}
