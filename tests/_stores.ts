/** The stores that an app of a test can have. */
import { postgres } from "../events/store/postgres/mod.ts";
import { kv, sqlite, type StoreDefinition } from "../mod.ts";

/** Stores that need no server, by the names of their engines. */
// deno-lint-ignore no-explicit-any -- what handlers write with depends on the engine
export const LOCAL_STORES: Readonly<Record<string, () => StoreDefinition<any, any>>> = {
  kv,
  sqlite,
};

/** Stores by the names of their engines. */
export const STORES: typeof LOCAL_STORES = { ...LOCAL_STORES, postgres };

/** Makes the variables that name a database, of whichever engine. */
export function envOf(path: string): Readonly<Record<string, string>> {
  return { KV_URL: path, SQLITE_FILE: path, DATABASE_URL: path };
}
