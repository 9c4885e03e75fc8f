/**
 * The event store in a Postgres database, which apps on several machines can share. It is apart from the other entry
 * points, so that no app without it loads the client.
 *
 * @example
 * ```ts
 * import { defineApp, github } from "@org/edge-base";
 * import { postgres } from "@org/edge-base/postgres";
 *
 * // DATABASE_URL=postgres://my_bot:PASSWORD@db.example.com/my_db
 * const bot = defineApp({ name: "my-bot", platform: github(), store: postgres() });
 * bot.on("push", (event, { settleWith }) => {
 *   settleWith(async (tx) => {
 *     const { rows } = await tx.query<{ id: number }>("select id from project where active");
 *     for (const { id } of rows) await tx.query("insert into build (project) values ($1)", [id]);
 *   });
 * });
 * ```
 *
 * @module
 */
export type { PostgresReader, PostgresTx } from "./_tx.ts";
export { postgres, type PostgresOptions } from "./postgres_store.ts";

// Types from other folders that appear in the exports above.
export type { StoreDefinition } from "../store_definition.ts";
