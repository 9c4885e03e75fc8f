import { VariableError, type Variables } from "../../../core/env.ts";
import type { PgSettings } from "./_pool.ts";

/** Variable with the URL of the database. */
export const URL_VARIABLE = "DATABASE_URL";

/** Variables that are read instead, as `psql` reads them, with the settings that they have. */
const PARTS = {
  ...{ PGHOST: "host", PGPORT: "port", PGUSER: "user", PGPASSWORD: "password" },
  PGDATABASE: "database",
} as const;

/** The variables of {@linkcode settingsFrom}. */
export const VARIABLES: readonly string[] = [URL_VARIABLE, ...Object.keys(PARTS), "PGSSLMODE"];

/** The schema of the tables by default. */
export const SCHEMA = "edge_base";

/** The port of a server by default. */
const PORT = 5432;

/** Names of schemas: they need no quotes. Postgres cuts a name off after 63 bytes. */
export const SCHEMA_NAME = /^[a-z_][a-z0-9_]{0,62}$/;

/** Encryption by the mode that a URL or a variable names. The names are those of `libpq`. */
const TLS: Readonly<Record<string, PgSettings["ssl"]>> = {
  ...{ disable: false, allow: false, prefer: false },
  // As the client of Node has it: nobody in between can read what is sent.
  ...{ require: true, "verify-ca": true, "verify-full": true },
  "no-verify": { rejectUnauthorized: false },
};

/** A database, and the schema in it. */
export interface PostgresAddress {
  readonly settings: PgSettings;
  readonly schema: string;
}

/**
 * Reads where a database is from the variables of an app.
 *
 * @param variables The variables.
 * @param options The schema, and what the encryption trusts.
 * @returns The address.
 * @throws {VariableError} If no variable has it, or one is wrong. The message has no value.
 */
export function addressFrom(variables: Variables): PostgresAddress {
  const url = variables.get(URL_VARIABLE)?.trim();
  if (url) {
    try {
      return addressIn(url);
    } catch (error) {
      throw new VariableError(`${URL_VARIABLE} ${(error as Error).message}`);
    }
  }
  if (!variables.get("PGHOST") && !variables.get("PGDATABASE")) {
    throw new VariableError(
      `${URL_VARIABLE} is missing: give the URL of the database, postgres://USER:PASSWORD@HOST/DATABASE, or PGHOST, ` +
        "PGUSER, PGPASSWORD and PGDATABASE",
    );
  }
  const read = (name: keyof typeof PARTS) => variables.get(name)?.trim() || undefined;
  const port = read("PGPORT");
  if (port !== undefined && !isPort(port)) {
    throw new VariableError("PGPORT must be a number from 1 to 65535");
  }
  const user = read("PGUSER");
  return {
    settings: {
      ...{ host: read("PGHOST") ?? "127.0.0.1", port: Number(port ?? PORT) },
      ...{ user, password: read("PGPASSWORD"), database: read("PGDATABASE") ?? user },
      ssl: tlsOf(variables.get("PGSSLMODE")?.trim(), "PGSSLMODE"),
    },
    schema: SCHEMA,
  };
}

/**
 * Reads where a database is from a URL. `?schema=` names the schema in it.
 *
 * @param text The URL.
 * @returns The address.
 * @throws {Error} If it is no URL of a database. The message, which follows a name, has no value.
 */
export function addressIn(text: string): PostgresAddress {
  const url = URL.parse(text);
  if (!url || !/^postgres(?:ql)?:$/.test(url.protocol) || !url.hostname) {
    throw new Error("must be a URL such as postgres://USER:PASSWORD@HOST/DATABASE");
  }
  const schema = url.searchParams.get("schema") ?? SCHEMA;
  if (!SCHEMA_NAME.test(schema)) throw new Error("names no schema: 'schema' is wrong");
  const [user, password, path] = [url.username, url.password, url.pathname.slice(1)]
    .map(decodeURIComponent);
  return {
    settings: {
      // An IPv6 address is in brackets.
      host: url.hostname.replace(/^\[(.*)\]$/, "$1"),
      ...{ port: Number(url.port || PORT), user: user!, password, database: path || user! },
      ssl: tlsOf(url.searchParams.get("sslmode") ?? undefined, "'sslmode'"),
    },
    schema,
  };
}

function tlsOf(mode: string | undefined, name: string): PgSettings["ssl"] {
  if (mode === undefined || mode === "") return false;
  if (Object.hasOwn(TLS, mode)) return TLS[mode];
  throw new VariableError(`${name} must be one of ${Object.keys(TLS).join(", ")}`);
}

function isPort(text: string): boolean {
  const port = Number(text);
  return Number.isInteger(port) && port >= 1 && port <= 65_535;
}
