export type { SqliteReader, SqliteTx } from "./sqlite_engine.ts";
export { sqlite, type SqliteOptions } from "./sqlite_store.ts";
