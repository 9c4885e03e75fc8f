import type { DatabaseSync, StatementSync } from "node:sqlite";
import { sleep } from "../../../core/timeouts.ts";
import { ClosedError } from "../engine.ts";
import { keyText, textOfKey } from "../sql/key_texts.ts";

/** A value of a row. */
export type SqlValue = string | number | null | Uint8Array;

/** A row, as a query returns it. */
export type Row = Record<string, SqlValue>;

/** Result codes of SQLite: https://sqlite.org/rescode.html. */
const [BUSY, LOCKED, NO_MEMORY, READ_ONLY, IO_ERROR] = [5, 6, 7, 8, 10] as const;
const [CORRUPT, FULL, CANNOT_OPEN, NO_DATABASE] = [11, 13, 14, 26] as const;

/** Result code of an index of the log that cannot be made larger: https://sqlite.org/rescode.html#ioerr_shmsize. */
const NO_INDEX = 4_874;

/** Errors that are the fault of no statement. */
const OF_DISK: ReadonlySet<number> = new Set([
  ...[BUSY, LOCKED, NO_MEMORY, READ_ONLY, IO_ERROR, CORRUPT, FULL, CANNOT_OPEN, NO_DATABASE],
]);

/** Pause before another try while another connection has locked the file, in milliseconds. */
const LOCKED_PAUSE_MS = 2;

/** Longest time that other connections are waited for, in milliseconds. */
export const MAX_LOCKED_MS = 4_500;

/** More pages than a file can have. In more than one step a copy would begin anew each time that another process writes. */
const ALL_PAGES = 2 ** 31 - 1;

/** The low byte of a result code is the primary one. */
const PRIMARY = 0xff;

/**
 * A connection to the file: its statements are prepared once.
 *
 * A transaction begins and ends within one turn of the event loop, so no two of a connection overlap, and what is read
 * outside of one is committed.
 */
export class Connection {
  readonly #db: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();
  #isClosed = false;
  #commits = 0;

  constructor(db: DatabaseSync) {
    this.#db = db;
  }

  /** Returns all rows of a query. */
  all<T = Row>(sql: string, ...values: readonly SqlValue[]): T[] {
    const rows = this.#prepared(sql).all(...encoded(values));
    for (const row of rows) decode(row);
    return rows as T[];
  }

  /** Returns the first row of a query; undefined if there is none. */
  one<T = Row>(sql: string, ...values: readonly SqlValue[]): T | undefined {
    const row = this.#prepared(sql).get(...encoded(values));
    if (row) decode(row);
    return row as T | undefined;
  }

  /** Runs a statement. Returns the number of rows that it has changed. */
  run(sql: string, ...values: readonly SqlValue[]): number {
    return this.#prepared(sql).run(...encoded(values)).changes as number;
  }

  /** Runs statements that return nothing, once. */
  script(sql: string): void {
    this.#db.exec(sql);
  }

  /** Begins a transaction that may write, see {@linkcode Connection.whenFree}. */
  async begin(since?: number): Promise<void> {
    await this.whenFree(() => this.run("begin immediate"), since);
  }

  /** Tries again while another connection has locked the file, for {@linkcode MAX_LOCKED_MS} since a time. */
  async whenFree<T>(work: () => T, since = performance.now()): Promise<T> {
    for (;; await sleep(LOCKED_PAUSE_MS)) {
      try {
        return work();
      } catch (error) {
        if (!isBusy(error) || performance.now() - since > MAX_LOCKED_MS) throw error;
      }
    }
  }

  commit(): void {
    this.run("commit");
    this.#commits++;
  }

  /**
   * Returns a number that changes when another connection has written, in this process or another one:
   * https://sqlite.org/pragma.html#pragma_data_version.
   */
  get foreignVersion(): number {
    return this.one<{ data_version: number }>("pragma data_version")!.data_version;
  }

  /** Returns a text that changes when any connection has written. No table is read for it. */
  get contentVersion(): string {
    return `${this.foreignVersion}-${this.#commits}`;
  }

  /** Ends a transaction without a change, if there is one still: some errors end it by themselves. */
  rollback(): void {
    try {
      this.run("rollback");
    } catch {
      // It has ended.
    }
  }

  /** Runs statements in a transaction that may be part of another one. Nothing of them is left if they throw. */
  within<T>(work: () => T): T {
    this.run("savepoint part");
    try {
      const result = work();
      this.run("release part");
      return result;
    } catch (error) {
      if (error instanceof LostTransactionError) throw error;
      this.run("rollback to part");
      this.run("release part");
      throw error;
    }
  }

  /** Copies the database into a file, as it is at one moment. */
  async copyTo(path: string): Promise<void> {
    // Not `vacuum into`: that attaches the file, for which Deno wants all permissions.
    const { backup } = await import("node:sqlite");
    await backup(this.#db, path, { rate: ALL_PAGES });
  }

  /** Closes it: from now on everything throws a {@linkcode ClosedError}. */
  close(): void {
    this.#isClosed = true;
    this.#db.close();
  }

  #prepared(sql: string): StatementSync {
    if (this.#isClosed) throw new ClosedError();
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = prepare(this.#db, sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }
}

/** Prepares a statement. Deno 2.5 tells no code and no reason of a failure, so that is found by another way. */
function prepare(db: DatabaseSync, sql: string): StatementSync {
  try {
    return db.prepare(sql);
  } catch (error) {
    if (codeOf(error) !== 0) throw error;
    try {
      db.exec(`explain ${sql}`);
    } catch (reason) {
      if (!/is locked$/.test((reason as Error).message)) throw reason;
    }
    // If it can be prepared now, the file was locked before.
    throw Object.assign(error as Error, { errcode: BUSY });
  }
}

/** Length that no id and no key has. Longer texts are JSON, which escapes what is encoded. */
const LONG = 700;

/** Columns with ids and keys. */
const KEYS = ["id", "key", "group_key", "payload"] as const;

/** Encodes the ids and keys among the values of a statement. */
function encoded(values: readonly SqlValue[]): SqlValue[] {
  return values.map((value) =>
    typeof value === "string" && value.length < LONG ? keyText(value) : value
  );
}

/** Decodes the ids and keys of a row. */
function decode(row: Record<string, unknown>): void {
  for (const name of KEYS) {
    const { [name]: value } = row;
    if (typeof value === "string") row[name] = textOfKey(value);
  }
}

/** Thrown if a transaction cannot go on: a statement has ended it (`insert or rollback`), or the disk has failed. */
export class LostTransactionError extends Error {}

/** Checks for the error of a file that another connection has locked. */
export function isBusy(error: unknown): boolean {
  const code = codeOf(error) & PRIMARY;
  return code === BUSY || code === LOCKED;
}

/** Checks for the error of a disk without room, also for the index of the log: SQLite calls that an I/O error. */
export function isFull(error: unknown): boolean {
  const code = codeOf(error);
  return code === FULL || code === NO_INDEX;
}

/** Checks for an error of the file or its disk, whatever was to be done. */
export function isOfDisk(error: unknown): boolean {
  return OF_DISK.has(codeOf(error) & PRIMARY);
}

/** Returns the result code of an error of SQLite; 0 if it is another error. */
export function codeOf(error: unknown): number {
  return (error as { errcode?: number } | null)?.errcode ?? 0;
}
