/**
 * The event store in a Postgres database, which apps on several machines can share. It is apart from the other entry
 * points, so that no app without it loads the client.
 *
 * @module
 */
export type { PostgresReader, PostgresTx } from "./_tx.ts";
export { postgres, type PostgresOptions } from "./postgres_store.ts";

// Types from other folders that appear in the exports above.
export type { StoreDefinition } from "../store_definition.ts";
