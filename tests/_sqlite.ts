import { DatabaseSync, type DatabaseSyncOptions } from "node:sqlite";

/** Opens the file of a KV beside Deno. `using` closes it: databases of Deno 2.5 cannot do that alone. */
export function openSqlite(
  path: string,
  options: DatabaseSyncOptions = {},
): Disposable & { readonly database: DatabaseSync } {
  const database = new DatabaseSync(path, options);
  return { database, [Symbol.dispose]: () => database.close() };
}
