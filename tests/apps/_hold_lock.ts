/** Holds the write lock of a database file, its first argument, for the milliseconds of its second. */
import { DatabaseSync } from "node:sqlite";

const [path, ms] = Deno.args;
using database = new DatabaseSync(path!, { timeout: 5_000 });
database.exec("BEGIN IMMEDIATE");
console.log(JSON.stringify({ message: "held" }));
await new Promise((resolve) => setTimeout(resolve, Number(ms)));
database.exec("ROLLBACK");
