/** Holds the write lock of a database file, its first argument, for the milliseconds of its second. */
import { openSqlite } from "../_sqlite.ts";

const [path, ms] = Deno.args;
using file = openSqlite(path!, { timeout: 5_000 });
file.database.exec("BEGIN IMMEDIATE");
console.log(JSON.stringify({ message: "held" }));
await new Promise((resolve) => setTimeout(resolve, Number(ms)));
file.database.exec("ROLLBACK");
