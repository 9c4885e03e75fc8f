/** Opens the store in a file, with a `setup` that makes tables and a migration of one's own, as an app does. */
import type { SqliteTx } from "../../../../events/mod.ts";
import { openSqliteFile } from "../../../../events/store/sqlite/_file.ts";
import { SqliteDatabase } from "../../../../events/store/sqlite/sqlite_database.ts";

/** Makes a table, and a column that a later version of the app has added. It notes each time that it does. */
function setup(db: SqliteTx): void {
  db.exec(`
    create table if not exists person (name text primary key);
    create table if not exists made (what text);
  `);
  const columns = db.prepare("select name from pragma_table_info('person')").all();
  if (columns.some(({ name }) => name === "mail")) return;
  db.exec("alter table person add column mail text; create index person_mail on person (mail)");
  db.prepare("insert into made values (?)").run("mail");
}

const database = new SqliteDatabase(await openSqliteFile(Deno.args[0]!), { setup });
await database.openStore({ log: () => {} });
await database.close();
