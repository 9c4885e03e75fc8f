import { DatabaseSync, type DatabaseSyncOptions } from "node:sqlite";

/** Opens the file of a KV with SQLite. `using` closes it, which a database of Deno 2.5 does not support. */
export function openSqlite(
  path: string,
  options: DatabaseSyncOptions = {},
): Disposable & { readonly database: DatabaseSync } {
  const database = new DatabaseSync(path, options);
  return { database, [Symbol.dispose]: () => database.close() };
}
