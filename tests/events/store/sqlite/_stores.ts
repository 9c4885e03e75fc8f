import { DatabaseSync } from "node:sqlite";
import type { EventStore, SqliteReader, SqliteTx } from "../../../../events/mod.ts";
import type { Connection } from "../../../../events/store/sqlite/_connection.ts";
import { openSqliteFile, type SqliteFile } from "../../../../events/store/sqlite/_file.ts";
import { SqliteDatabase } from "../../../../events/store/sqlite/sqlite_database.ts";
import { testWith } from "../../../_permissions.ts";

/** A store whose effects are typed. */
export type SqliteStore = EventStore<SqliteTx, SqliteReader>;

/** A store in a file, or in memory, with the tables `mine` and `part` of its app. */
export interface SqliteUnderTest extends AsyncDisposable {
  readonly store: SqliteStore;
  readonly path: string;
  /** The connection of the store. */
  readonly db: Connection;
  /** Reads rows as another program does; in memory by the store. */
  rows(sql: string): unknown[];
  /** Opens a store in the same file once more. */
  again(setup?: (db: SqliteTx) => unknown): Promise<SqliteStore>;
}

/** Tables of an app. A row of `part` may come before its `mine`, in the same transaction. */
export const TABLES = `
  create table if not exists mine (name text primary key, value integer);
  create table if not exists part (mine text not null references mine deferrable initially deferred);
`;

/** Registers a test on a file, and on a store in memory. */
export function testSqlite(name: string, fn: (sut: SqliteUnderTest) => Promise<void>): void {
  testWith(["read", "write"], `${name} [file]`, () => testIn(true, fn));
  Deno.test(`${name} [memory]`, () => testIn(false, fn));
}

/** Registers a test on a file. */
export function testFile(name: string, fn: (sut: SqliteUnderTest) => Promise<void>): void {
  testWith(["read", "write"], name, () => testIn(true, fn));
}

async function testIn(
  isFile: boolean,
  fn: (sut: SqliteUnderTest) => Promise<void>,
): Promise<void> {
  await using sut = await openStore(isFile);
  await fn(sut);
}

async function openStore(isFile: boolean): Promise<SqliteUnderTest> {
  const folder = isFile ? await Deno.makeTempDir() : undefined;
  const path = folder ? `${folder}/store.db` : ":memory:";
  const opened: SqliteDatabase[] = [];
  const files: SqliteFile[] = [];
  async function again(setup: (db: SqliteTx) => unknown = (db) => db.exec(TABLES)) {
    const file = await openSqliteFile(path);
    files.push(file);
    const database = new SqliteDatabase(file, { setup });
    opened.push(database);
    return await database.openStore({ log: () => {} });
  }
  const store = await again();
  return {
    ...{ store, path, again, db: files[0]!.db },
    rows: (sql) => isFile ? rowsIn(path, sql) : valuesOf(store.db.prepare(sql).all()),
    async [Symbol.asyncDispose]() {
      for (const database of opened) await database.close();
      if (folder) await Deno.remove(folder, { recursive: true });
    },
  };
}

function rowsIn(path: string, sql: string): unknown[] {
  const db = new DatabaseSync(path, { readOnly: true });
  try {
    return valuesOf(db.prepare(sql).all());
  } finally {
    db.close();
  }
}

function valuesOf(rows: readonly Record<string, unknown>[]): unknown[] {
  return rows.map((row) => Object.values(row)).map((values) =>
    values.length > 1 ? values : values[0]
  );
}
