import { VariableError, type Variables } from "../../../core/env.ts";
import { isInnerHost, isOwnHost } from "../../../core/hosts.ts";
import type { PgSettings } from "./_pool.ts";

/** Variable with the URL of the database. */
export const URL_VARIABLE = "DATABASE_URL";

/** Variables that are read instead, as `psql` reads them, with the settings that they have. */
const PARTS = {
  ...{ PGHOST: "host", PGPORT: "port", PGUSER: "user", PGPASSWORD: "password" },
  PGDATABASE: "database",
} as const;

/** Variables that the client reads itself: an app that may not read them cannot make one. */
const CLIENTS = ["PGBINARY", "PGOPTIONS", "PGCLIENT_ENCODING", "PGREPLICATION"] as const;

/** The schema of the tables by default. */
export const SCHEMA = "edge_base";

/** Parameter of URLs that names the schema. Other programs have their own in `schema`. */
const SCHEMA_PARAMETER = "store_schema";

/** The port of a server by default. */
const PORT = 5432;

/** Names of schemas: they need no quotes. Postgres cuts a name off after 63 bytes. */
export const SCHEMA_NAME = /^[a-z_][a-z0-9_]{0,62}$/;

/** The rule of {@linkcode SCHEMA_NAME}, in words. */
export const SCHEMA_RULE = "must be a name of up to 63 lower-case letters, digits and _";

/** Encryption by the mode that a URL or a variable names. The names are those of `libpq`. */
const TLS: Readonly<Record<string, PgSettings["ssl"]>> = {
  ...{ disable: false, allow: false, prefer: false },
  // As the client of Node has it: nobody in between can read what is sent.
  ...{ require: true, "verify-ca": true, "verify-full": true },
  "no-verify": { rejectUnauthorized: false },
};

const TLS_RULE = `must be one of ${Object.keys(TLS).join(", ")}`;

/** Variable with the mode of encryption of a URL that names none. */
const TLS_VARIABLE = "PGSSLMODE";

/** The form of a URL, in words. With one after them, `postgres://` would be taken for a URL that may not be shown. */
const FORM =
  "must begin with postgres:// and go on with USER:PASSWORD@HOST/DATABASE. In the user and the password, " +
  "write %2F for /, and so on for all but letters and digits";

/** Parameters of URLs that name another place, user or certificate. Ignoring them would lead elsewhere. */
const UNREAD = /^(?:host|hostaddr|port|user|password|dbname|service|ssl(?!mode$|negotiation$).*)$/;

/** A database, and the schema in it. */
export interface PostgresAddress {
  readonly settings: PgSettings;
  readonly schema: string;
}

/**
 * Reads where a database is from the variables of an app.
 *
 * @param variables The variables.
 * @returns The address.
 * @throws {VariableError} If no variable has it, or one is wrong. The message has no value.
 */
export function addressFrom(variables: Variables): PostgresAddress {
  const url = variables.get(URL_VARIABLE)?.trim();
  const mode = modeIn(variables);
  for (const name of CLIENTS) variables.get(name);
  if (url) {
    try {
      return addressIn(url, mode);
    } catch (error) {
      throw new VariableError(`${URL_VARIABLE} ${(error as Error).message}`);
    }
  }
  const read = (name: keyof typeof PARTS) => variables.get(name)?.trim() || undefined;
  const [port, user] = [read("PGPORT"), read("PGUSER")];
  if (!read("PGHOST") && !read("PGDATABASE")) {
    throw new VariableError(
      `${URL_VARIABLE} is missing: give the URL of the database, postgres://USER:PASSWORD@HOST/DATABASE, or PGHOST, ` +
        "PGUSER, PGPASSWORD and PGDATABASE",
    );
  }
  if (!user) throw new VariableError("PGUSER is not set");
  const host = read("PGHOST") ?? "127.0.0.1";
  if (port !== undefined && !isPort(port)) {
    throw new VariableError("PGPORT must be a number from 1 to 65535");
  }
  return {
    settings: {
      ...{ host, port: Number(port ?? PORT) },
      ...{ user, password: read("PGPASSWORD"), database: read("PGDATABASE") ?? user },
      ssl: TLS[mode ?? modeFor(host)],
    },
    schema: SCHEMA,
  };
}

/**
 * Reads where a database is from a URL. `?store_schema=` names the schema in it.
 *
 * @param text The URL.
 * @param mode The mode of encryption if the URL names none, see {@linkcode modeIn}.
 * @returns The address.
 * @throws {Error} If it is no URL of a database. The message, which follows a name, has no value.
 */
export function addressIn(text: string, mode?: string): PostgresAddress {
  const url = URL.parse(text);
  if (!url || !/^postgres(?:ql)?:$/.test(url.protocol)) throw new Error(FORM);
  const unread = [...url.searchParams.keys()].find((name) => UNREAD.test(name));
  if (unread !== undefined) {
    const instead = unread.startsWith("ssl") ? ": give sslmode" : "";
    throw new Error(`must not have '${unread}' behind its ?, which is not read there${instead}`);
  }
  if (!url.hostname || !url.username) throw new Error(FORM);
  const schema = url.searchParams.get(SCHEMA_PARAMETER) ?? SCHEMA;
  if (!SCHEMA_NAME.test(schema)) {
    throw new Error(`names no schema: '${SCHEMA_PARAMETER}' ${SCHEMA_RULE}`);
  }
  const [user, password, path] = [url.username, url.password, url.pathname.slice(1)].map(decoded);
  // An IPv6 address is in brackets.
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const tls = url.searchParams.get("sslmode") || mode || modeFor(url.hostname);
  if (!Object.hasOwn(TLS, tls)) throw new Error(`names no encryption: 'sslmode' ${TLS_RULE}`);
  return {
    settings: {
      ...{ host, port: Number(url.port || PORT), user: user!, password },
      ...{ database: path || user!, ssl: TLS[tls] },
    },
    schema,
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new Error("has a % that begins no character: write %25 for %");
  }
}

/** Returns the mode of encryption for a host, as a URL has it: what leaves the private network is encrypted. */
function modeFor(host: string): string {
  const isNear = host.startsWith("/") || isOwnHost(host) || isInnerHost(host);
  return isNear ? "disable" : "require";
}

/**
 * Reads the mode of encryption that a variable has.
 *
 * @throws {VariableError} If there is none of that name.
 */
export function modeIn(variables: Pick<Variables, "get">): string | undefined {
  const mode = variables.get(TLS_VARIABLE)?.trim() || undefined;
  if (mode === undefined || Object.hasOwn(TLS, mode)) return mode;
  throw new VariableError(`${TLS_VARIABLE} ${TLS_RULE}`);
}

function isPort(text: string): boolean {
  const port = Number(text);
  return Number.isInteger(port) && port >= 1 && port <= 65_535;
}
