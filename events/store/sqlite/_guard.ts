import type { DatabaseSync, StatementSync } from "node:sqlite";
import { isPromise, met } from "../../../core/check_options.ts";
import { reasonOf } from "../../../core/mod.ts";
import { codeOf, type Connection, isOfDisk, LostTransactionError } from "./_connection.ts";
import { isStoreTable, STORE_TABLES } from "./_schema.ts";

/**
 * The guard of a store's file. Handlers write by the connection that the store writes by, since their rows belong into
 * its transaction, and they read by it too. Each of their statements is looked at before: its first word, and the
 * tables that it changes. On Deno 2.9 SQLite itself asks about these (its authorizer). Deno 2.5 has no authorizer: there
 * the words of the statement tell, and a trigger may deceive them.
 *
 * No statement is left open, so `iterate` reads all rows at once. A statement that is open holds the connection at the
 * rows of an earlier time: `db` would not find what was committed since, and the store could not commit any more.
 */

/**
 * Transaction of a SQLite file, for rows of one's own: `prepare` and `exec` of `node:sqlite`. Statements can be kept
 * from one call to the next, and run only during a call. `select`, `values`, `with`, `explain`, `insert`, `replace`,
 * `update` and `delete` can be run, on the tables that `setup` of {@linkcode sqlite} has made. The store begins and ends
 * the transaction, and its own tables can be read only. `iterate` reads all rows at once.
 *
 * @category Handlers
 */
export type SqliteTx = Pick<DatabaseSync, "prepare" | "exec">;

/**
 * SQLite file of an app, for reading: `prepare` of `node:sqlite`, for `select`, `values`, `with` and `explain`. A
 * statement sees all that is committed, and holds the event loop while it runs. `iterate` reads all rows at once.
 *
 * @category Handlers
 */
export type SqliteReader = Pick<DatabaseSync, "prepare">;

/** The right of statements to read, to change rows, or to make tables as well. */
type Use = "read" | "write" | "setup";

const READS = ["select", "values", "with", "explain"] as const;

const WRITES = [...READS, "insert", "replace", "update", "delete"] as const;

/** The first words of statements. */
const WORDS: Readonly<Record<Use, readonly string[]>> = {
  ...{ read: READS, write: WRITES },
  setup: [...WRITES, "create", "drop", "alter"],
};

const ADVICE: Readonly<Record<Use, string>> = {
  read: "Write with settleWith() or store.transact()",
  write: "The store begins and ends the transaction, and 'setup' of sqlite() makes tables",
  setup: "The store begins and ends the transaction",
};

const NOT_SYNCHRONOUS =
  "The function must be synchronous, since it runs in a transaction, and has returned a promise";

/** Blanks, comments and empty statements: SQLite skips them before a statement. */
const BLANK = String.raw`(?:[\s;]|--[^\n]*|/\*[^]*?(?:\*/|$))*`;

const STATEMENT = new RegExp(
  `^${BLANK}((?:explain${BLANK}(?:query${BLANK}plan${BLANK})?)?([a-z]*)[^]*)`,
  "i",
);

/** Tables that a statement changes, for a Deno without an authorizer. */
const CHANGE =
  /\b(?:into|update(?:\s+or\s+\w+)?|delete\s+from|(?:table|view)(?:\s+if(?:\s+not)?\s+exists)?)\s+(?:\w+\s*\.\s*)?["`[]?(\w+)/gi;

/** Result code of a statement that the authorizer has refused: https://sqlite.org/rescode.html#auth. */
const NOT_AUTHORIZED = 23;

/** Answers of the authorizer, and actions that it is asked about: https://sqlite.org/c3ref/c_alter_table.html. */
const [OK, DENY, PRAGMA, READ, SELECT, UPDATE, FUNCTION, RECURSIVE] = [
  ...[0, 1, 19, 20, 21, 23, 31, 33],
] as const;

/** Actions that change nothing. SQLite's own modules ask for pragmas, and no statement that may be run can. */
const READING: ReadonlySet<number> = new Set([PRAGMA, READ, SELECT, FUNCTION, RECURSIVE]);

/** The tables with foreign keys to tables of a store. */
const REFERENCES = `select m.name from sqlite_schema m join pragma_foreign_key_list(m.name) f
  where m.type = 'table' and lower(f."table") in (select value from json_each(?))`;

type Authorizer = (action: number, first: string | null, second: string | null) => number;

/** A database of a Deno that may have an authorizer. */
interface Authorizing {
  setAuthorizer?(authorizer: Authorizer): void;
}

/** The views of a file that leave the store. */
export class Guard {
  /** The view for reading. */
  readonly reader: SqliteReader;
  readonly #views: Readonly<Record<"write" | "setup", View>>;

  /** @param db The connection of the store. It is not closed here. */
  constructor(db: DatabaseSync) {
    const judge = new Judge(db);
    this.reader = new View(db, "read", judge);
    this.#views = { write: new View(db, "write", judge), setup: new View(db, "setup", judge) };
  }

  /**
   * Calls a function that writes in the transaction that is open.
   *
   * @param work The function.
   * @param use Set to `setup` if it may make tables.
   * @returns Its result.
   * @throws {LostTransactionError} If the transaction cannot go on: nothing of it can be committed.
   * @throws {unknown} If the function throws. What it wrote is still in the transaction.
   */
  call<T>(work: (tx: SqliteTx) => T, use: "write" | "setup" = "write"): T {
    return this.#views[use].during(work);
  }
}

/** A view of a connection. */
class View implements SqliteTx {
  readonly #db: DatabaseSync;
  readonly #use: Use;
  readonly #judge: Judge;
  #isOpen: boolean;
  /** The error that has ended the transaction. */
  #loss: { readonly error: unknown } | undefined;

  constructor(db: DatabaseSync, use: Use, judge: Judge) {
    this.#db = db;
    this.#use = use;
    this.#judge = judge;
    this.#isOpen = use === "read";
  }

  during<T>(work: (tx: SqliteTx) => T): T {
    this.#loss = undefined;
    this.#isOpen = true;
    try {
      const result = work(this);
      if (isPromise(result)) throw new TypeError(NOT_SYNCHRONOUS);
      this.#checkLoss();
      return result;
    } catch (error) {
      this.#checkLoss();
      throw error;
    } finally {
      this.#isOpen = false;
    }
  }

  prepare(sql: string, ...options: readonly unknown[]): StatementSync {
    const [, statement, word = ""] = STATEMENT.exec(sql)!;
    if (!WORDS[this.#use].includes(word.toLowerCase())) throw refused(this.#use, word);
    return this.#guarded(() => {
      this.#judge.look(statement!, this.#use);
      const prepare = this.#db.prepare as (...args: readonly unknown[]) => StatementSync;
      try {
        return this.#guardedStatement(prepare.call(this.#db, sql, ...options));
      } catch (error) {
        // `prepare` of Deno 2.5 does not say what is wrong with a statement.
        if (!this.#judge.isAsked) this.#db.exec(sql);
        throw error;
      }
    });
  }

  exec(sql: string): void {
    for (let rest = sql; STATEMENT.exec(rest)![1] !== "";) {
      const statement = this.prepare(rest);
      statement.run();
      rest = rest.slice(statement.sourceSQL.length);
    }
  }

  #checkLoss(): void {
    if (this.#loss) throw new LostTransactionError("", { cause: this.#loss.error });
  }

  #guardedStatement(statement: StatementSync): StatementSync {
    const { run, get, all } = statement;
    // deno-lint-ignore no-explicit-any
    const guarded = <T>(method: (...values: any[]) => T) => (...values: any[]): T =>
      this.#guarded(() => method.apply(statement, values));
    const whole = guarded(all);
    return Object.assign(statement, {
      ...{ run: guarded(run), get: guarded(get), all: whole },
      iterate: (...values: Parameters<typeof all>) => whole(...values).values(),
    });
  }

  #guarded<T>(work: () => T): T {
    if (!this.#isOpen) {
      throw new TypeError("Cannot use the transaction: it has ended, or has been rolled back");
    }
    try {
      return this.#judge.during(this.#use, work);
    } catch (error) {
      if (this.#use !== "read" && (isOfDisk(error) || !isInTransaction(this.#db))) {
        this.#loss ??= { error };
        this.#isOpen = false;
      }
      throw error;
    }
  }
}

/** Judges what statements change. */
class Judge {
  /** True if SQLite asks about each statement. */
  readonly isAsked: boolean;
  /** The use of the statement that is prepared or run; undefined for one of the store, which may do all. */
  #use: Use | undefined;
  /** The table, or another thing, that a statement was not to change. */
  #refused: string | undefined;

  constructor(db: DatabaseSync & Authorizing) {
    this.isAsked = db.setAuthorizer !== undefined;
    // Once: each time SQLite would prepare all statements anew.
    db.setAuthorizer?.((...asked) => this.#isRefused(...asked) ? DENY : OK);
  }

  /** Calls a function that prepares or runs a statement. */
  during<T>(use: Use, work: () => T): T {
    const around = this.#use;
    this.#use = use;
    this.#refused = undefined;
    try {
      return work();
    } catch (error) {
      if (this.#refused === undefined || codeOf(error) !== NOT_AUTHORIZED) throw error;
      throw refusedChange(use, this.#refused);
    } finally {
      this.#use = around;
    }
  }

  #isRefused(action: number, first: string | null, second: string | null): boolean {
    if (!this.#use || READING.has(action)) return false;
    // The second name is that of the table of an index or a trigger, or that of a column.
    const names = action === UPDATE ? [first] : [first, second];
    const own = names.find((name) => name !== null && isStoreTable(name));
    if (this.#use !== "read" && own === undefined) return false;
    this.#refused = own ?? first ?? "";
    return true;
  }

  /** Looks at the words of a statement, unless SQLite asks about it. */
  look(statement: string, use: Use): void {
    if (this.isAsked) return;
    const isReadOnly = use === "read" && /^with/i.test(statement);
    for (const [, table] of statement.matchAll(CHANGE)) {
      if (isReadOnly || isStoreTable(table!)) throw refusedChange(use, table!.toLowerCase());
    }
  }
}

/** Checks whether the transaction that was open still is: some errors end it. Deno 2.5 has no `isTransaction`. */
function isInTransaction(db: DatabaseSync): boolean {
  try {
    db.exec("begin");
  } catch {
    return true;
  }
  db.exec("rollback");
  return false;
}

/**
 * Calls the `setup` of an app, in the transaction that is open, and commits that.
 *
 * @param db The connection.
 * @param guard The views of the file.
 * @param setup Makes the tables of the app.
 * @throws {Error} If it throws, has changed what is the store's, or has made what would keep the store from deleting
 * events. Nothing is committed then.
 */
export function setUp(db: Connection, guard: Guard, setup: (tx: SqliteTx) => unknown): void {
  const before = schemaOfStore(db);
  try {
    guard.call(setup, "setup");
    checkSetup(db, before);
    db.commit();
  } catch (error) {
    const cause = error instanceof LostTransactionError ? error.cause : error;
    if (isOfDisk(cause)) throw cause;
    throw new Error(`its 'setup' has failed: ${reasonOf(cause)}`, { cause });
  }
}

/** Checks what `setup` has made. The authorizer is not asked for the new name of a table, and Deno 2.5 has none. */
function checkSetup(db: Connection, before: readonly string[]): void {
  const after = schemaOfStore(db);
  const isChanged = after.length !== before.length || after.some((each) => !before.includes(each));
  if (isChanged) throw new Error("it has changed what belongs to the event store");
  const table = db.one<{ name: string }>(REFERENCES, STORE_TABLES)?.name;
  if (table === undefined) return;
  throw new Error(
    `it has made a foreign key in ${
      met(table)
    } to a table of the event store, which deletes events`,
  );
}

/** Lists what is the store's: its tables and views, and the indexes and triggers of these. */
function schemaOfStore(db: Connection): string[] {
  const all = db.all<{ name: string; of: string; sql: string | null }>(
    "select name, tbl_name as of, sql from sqlite_schema",
  );
  return all.filter(({ name, of }) => isStoreTable(name) || isStoreTable(of))
    .map(({ name, of, sql }) => [name, of, sql].join("\n"));
}

function refused(use: Use, word: string): TypeError {
  const list = `${WORDS[use].slice(0, -1).join(", ")} and ${WORDS[use].at(-1)}`;
  return new TypeError(
    `Cannot run the statement: it begins with ${met(word)}, and only ${list} can be run here. ${
      ADVICE[use]
    }`,
  );
}

function refusedChange(use: Use, table: string): TypeError {
  const reason = use === "read"
    ? `'db' only reads. ${ADVICE[use]}`
    : "it belongs to the event store. Give tables of your own other names";
  return new TypeError(`Cannot change ${met(table)}: ${reason}`);
}
