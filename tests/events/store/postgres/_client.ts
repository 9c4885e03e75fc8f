/** Loads the client of Postgres. */
import "pg";
