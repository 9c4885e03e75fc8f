export type { SqliteReader, SqliteTx } from "./_guard.ts";
export { sqlite, type SqliteOptions } from "./sqlite_store.ts";
