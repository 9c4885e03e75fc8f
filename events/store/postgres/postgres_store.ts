import {
  checkFunction,
  checkOptions,
  met,
  numberFrom,
  type OptionCheck,
} from "../../../core/check_options.ts";
import type { Variables } from "../../../core/env.ts";
import { type LogSink, reasonOf, writeLog } from "../../../core/mod.ts";
import { sleep } from "../../../core/timeouts.ts";
import {
  type DefinedStore,
  type ExistingDatabases,
  NoDatabaseError,
  type StoreDefinition,
} from "../store_definition.ts";
import { READ_ONLY } from "./_connections.ts";
import { OpenDatabase, type OpenDatabaseOptions } from "./_open_database.ts";
import type { PgSettings } from "./_pool.ts";
import { migrationOf } from "./_schema.ts";
import {
  addressFrom,
  addressIn,
  modeIn,
  type PostgresAddress,
  SCHEMA,
  SCHEMA_NAME,
  SCHEMA_RULE,
  URL_VARIABLE,
} from "./_settings.ts";
import type { PostgresReader, PostgresTx } from "./_tx.ts";
import { ownSchemaOf, PostgresDatabase, SetupError } from "./postgres_database.ts";

/**
 * Options of {@linkcode postgres}.
 *
 * @category Event store and worker
 */
export interface PostgresOptions {
  /**
   * Name of the schema with the tables of the store. It is made if it is not there. Each app has one.
   *
   * @default {"edge_base"} Or the one that the URL names with `?store_schema=`.
   */
  readonly schema?: string | undefined;
  /**
   * Number of connections for the transactions of handlers and for `db`, beside six for the store itself: the
   * server must have room for those of all processes of the app.
   *
   * @default {5}
   */
  readonly connections?: number | undefined;
  /**
   * Certificate of the authority that the server's certificate is checked by, as PEM: for one that the system does not
   * trust. The connections are encrypted then.
   *
   * @default {undefined} They are encrypted if the URL or `PGSSLMODE` says so, or the host is not in the private network.
   */
  readonly ca?: string | undefined;
  /**
   * URL of the database for the connection that listens for wake-ups from other processes, and for that one alone. It has to
   * lead to the server itself: behind a pooler in transaction mode nothing is heard, and the app polls once a second.
   *
   * @default {undefined} Workers of other processes are not woken: each looks for new events once a second.
   */
  readonly listenUrl?: string | undefined;
  /**
   * Makes tables of your own. It is called at each start, in a transaction that processes which start at the same
   * time run one after the other. If it throws, the app does not start. Your tables belong into another schema than
   * that of the store.
   *
   * @default {undefined} None are made.
   */
  readonly setup?: ((tx: PostgresTx) => Promise<unknown>) | undefined;
}

const DOING = "define the store";

const checkSchema: OptionCheck = (doing, name, value) => {
  if (typeof value === "string" && SCHEMA_NAME.test(value)) return;
  throw new TypeError(
    `Cannot ${doing}: '${name}' ${SCHEMA_RULE}, got ${met(value)}`,
  );
};

const checkCertificate: OptionCheck = (doing, name, value) => {
  if (typeof value === "string") return;
  throw new TypeError(`Cannot ${doing}: '${name}' must be a string, got ${met(value)}`);
};

const checkListenUrl: OptionCheck = (doing, name, value) => {
  if (typeof value !== "string") {
    throw new TypeError(`Cannot ${doing}: '${name}' must be a URL, got a value of another type`);
  }
  listeningAt(doing, value);
};

/** Reads the settings of the connection that listens. No message has the URL, which has a password. */
function listeningAt(doing: string, url: string): PgSettings {
  try {
    return addressIn(url).settings;
  } catch (error) {
    throw new TypeError(`Cannot ${doing}: 'listenUrl' ${(error as Error).message}`);
  }
}

const OPTIONS: Record<keyof PostgresOptions, OptionCheck> = {
  schema: checkSchema,
  connections: numberFrom(1, 1_000),
  ca: checkCertificate,
  listenUrl: checkListenUrl,
  setup: checkFunction,
};

/** The number of connections for handlers by default. */
const CONNECTIONS = 5;

/** The version of Deno on which the client stalls. */
const STALLING_DENO = "2.8.0";

/**
 * Time in which a server may come up, and the pause between two tries, in milliseconds. Kubernetes restarts an app that
 * does not answer for 30 s.
 */
const [OPEN_MS, PAUSE_MS] = [30_000, 250] as const;

/** Codes of errors that pass: the server starts, or has no connection left or a table locked, or another one takes over. */
const PASSING =
  /^(?:08...|53...|55P03|57P..|25006|ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EAI_AGAIN|ENOTFOUND)$/;

/** Messages of `npm:pg` without a code: nobody answers, or the connection has ended. */
const NO_ANSWER = /^(?:timeout expired|Connection terminated unexpectedly)$/;

/**
 * Makes the store of an app in a Postgres database, which apps on several machines can share.
 *
 * The variable `DATABASE_URL` has the URL of the database, or `PGHOST`, `PGPORT`, `PGUSER`, `PGPASSWORD`, `PGDATABASE` and
 * `PGSSLMODE` say where it is. The app needs the permissions `--allow-net` for its host, and `--allow-env` for these and
 * what else the client `npm:pg` reads: `--allow-env=DATABASE_URL,PG*,USER`. A connection pooler such as PgBouncer may be in between, also in its
 * transaction mode.
 *
 * `settleWith` and `step` give their functions the transaction that settles the event, a {@linkcode PostgresTx}. They may be
 * asynchronous. What they change is committed with the event, or not at all: if a function throws, or a statement fails,
 * only its own attempt fails. A function may be called twice, and should change nothing but the database. Handlers,
 * routes and resources read with `db`, a {@linkcode PostgresReader}. To write elsewhere, use `store.transact`.
 *
 * @param options The schema, connections, encryption, and tables of your own.
 * @returns The store.
 * @throws {TypeError} If an option is something else.
 * @throws {RangeError} If the number of connections is out of range.
 *
 * @example
 * ```ts
 * import { defineApp, github } from "@org/edge-base";
 * import { postgres } from "@org/edge-base/postgres";
 * import { assertEquals } from "@std/assert";
 *
 * const table = "create table if not exists push (repository text, at timestamptz default now())";
 * const store = postgres({ setup: (tx) => tx.query(table) });
 * const bot = defineApp({ name: "my-bot", platform: github(), store });
 * bot.on("push", (event, { settleWith }) => {
 *   const { fullName } = event.repository!;
 *   settleWith((tx) => tx.query("insert into push (repository) values ($1)", [fullName]));
 * });
 * assertEquals(store.name, "postgres");
 * ```
 *
 * @category Event store and worker
 */
export function postgres(
  options: PostgresOptions = {},
): StoreDefinition<PostgresTx, PostgresReader> {
  checkOptions(DOING, options, OPTIONS);
  return storeIn({ ...options }, false);
}

function storeIn(
  options: PostgresOptions,
  isForTests: boolean,
): DefinedStore<PostgresTx, PostgresReader> {
  return Object.freeze({
    // An app may read those of the database itself, for a client of its own.
    ...{ name: "postgres", variables: [] },
    prepare: (variables: Variables) => {
      const { settings, schema } = addressFrom(variables);
      const { ca, schema: own = schema } = options;
      // Names without a schema are those of tables that the test makes, and that go with it.
      const path = isForTests ? { options: `-c search_path=${ownSchemaOf(own)},public` } : {};
      const address = { settings: { ...withAuthority(settings, ca), ...path }, schema: own };
      return { open: (log: LogSink) => openFor(address, options, isForTests, log) };
    },
    forTests: () => storeIn(optionsForTests(options), true),
    elsewhere: (variables: Variables) =>
      (options.schema ?? addressFrom(variables).schema) === SCHEMA
        ? "Give it a schema of its own: postgres({ schema })"
        : undefined,
  });
}

/** Makes the options of a test: with schemas of its own, one of the store and one of the tables that `setup` makes. */
function optionsForTests({ setup, ...options }: PostgresOptions): PostgresOptions {
  const schema = `edge_base_test_${crypto.randomUUID().replaceAll("-", "")}`;
  return {
    ...{ ...options, schema },
    async setup(tx) {
      await tx.query(`create schema if not exists ${ownSchemaOf(schema)}`);
      await setup?.(tx);
    },
  };
}

/** Has the server's certificate checked by an authority, if there is one. */
function withAuthority(settings: PgSettings, ca: string | undefined): PgSettings {
  return ca === undefined ? settings : { ...settings, ssl: { ca } };
}

async function openFor(
  address: PostgresAddress,
  { connections: handlers = CONNECTIONS, setup, listenUrl, ca }: PostgresOptions,
  isForTests: boolean,
  log: LogSink,
): Promise<PostgresDatabase> {
  const { host, database } = address.settings;
  const explain = (error: unknown) =>
    new Error(`the database ${database} at ${host} cannot be used: ${reasonFor(error)}`, {
      cause: error,
    });
  const listening = listenUrl === undefined
    ? undefined
    : withAuthority(listeningAt(DOING, listenUrl), ca);
  try {
    const options = { handlers, listening, buildsIndexes: true, log };
    const open = async () => await writable(await openAt(address, options));
    const opened = await whenThere(open, log);
    return new PostgresDatabase(opened, { setup, explain, isForTests });
  } catch (error) {
    throw explain(error);
  }
}

/** Opens a database. One that starts, say, is tried again for a while. */
async function whenThere(open: () => Promise<OpenDatabase>, log: LogSink): Promise<OpenDatabase> {
  const start = performance.now();
  for (let isLogged = false;; isLogged = true) {
    try {
      return await open();
    } catch (error) {
      if (!isPassing(error) || performance.now() - start > OPEN_MS) throw error;
      const reason = reasonFor(error);
      if (!isLogged) writeLog(log, "warn", "database not there yet: trying again", { reason });
      await sleep(PAUSE_MS);
    }
  }
}

/** Checks that a database can be written. */
async function writable(database: OpenDatabase): Promise<OpenDatabase> {
  const sql = "select current_setting('transaction_read_only') as value";
  const [row] = await database.db.all<{ value: string }>(sql);
  if (row!.value === "off") return database;
  await database.close();
  throw Object.assign(new Error("read-only"), { code: READ_ONLY });
}

async function openAt(
  { settings, schema }: PostgresAddress,
  options: Omit<OpenDatabaseOptions, "schema">,
): Promise<OpenDatabase> {
  if (globalThis.Deno?.version.deno === STALLING_DENO) {
    throw new Error(
      `its client stalls on Deno ${STALLING_DENO}: take another version, an earlier or a later one`,
    );
  }
  try {
    return await OpenDatabase.open(settings, { schema, ...options });
  } catch (error) {
    // Some versions of Deno say that the connection was refused.
    if (mayConnect(settings)) throw error;
    throw Object.assign(new Error(NOT_ALLOWED, { cause: error }), { code: NO_PERMISSION });
  }
}

/** Checks the permission to connect, which whoever is asked has given or refused by now. */
function mayConnect({ host, port }: PgSettings): boolean {
  if (!globalThis.Deno || !host || host.startsWith("/")) return true;
  const name = host.includes(":") ? `[${host}]` : host;
  return Deno.permissions.querySync({ name: "net", host: `${name}:${port}` }).state === "granted";
}

/** Code of Node for what a program may not do. */
const NO_PERMISSION = "EPERM";

const NOT_ALLOWED = "this program may not connect there: allow it, with --allow-net=HOST:PORT";

/**
 * Reasons by the codes of Postgres (https://www.postgresql.org/docs/current/errcodes-appendix.html) and of Node. What the
 * database says follows the ones that end in a colon.
 */
const REASONS: Readonly<Record<string, string>> = {
  "28P01": "its user or password is wrong",
  "28000": "its user may not connect:",
  "3D000": "there is no database of that name",
  "53300":
    "it has no connection left: see 'connections' of postgres(), and max_connections of the server",
  "55P03":
    "its tables are locked, and have to be changed: a transaction, such as one of pg_dump, takes long",
  "57P03": "it is starting up, or shutting down",
  "25006":
    "it can only be read: it is a standby, or default_transaction_read_only is set. Give the address of the primary",
  "42501":
    "its user may not do what is needed. If it may not make tables, have somebody else run what " +
    "`events migrate --print` prints:",
  ECONNREFUSED: "nothing listens there",
  ENOTFOUND: "there is no host of that name",
  [NO_PERMISSION]: NOT_ALLOWED,
};

/** Words of several versions of Deno about a certificate that nobody has vouched for. */
const UNTRUSTED = /self-signed|unable to (?:verify|get)|UnknownIssuer|CaUsedAsEndEntity/;

/** Finds the reason for which a database cannot be used. */
function reasonFor(error: unknown): string {
  const reason = reasonOf(error);
  if (error instanceof SetupError) return reason;
  if (UNTRUSTED.test(reason)) {
    return `its certificate is not trusted: give that of its authority as 'ca' of postgres(), or the file in DENO_CERT (${reason})`;
  }
  if (/not support SSL/i.test(reason)) {
    return "it takes no encrypted connection: say sslmode=disable in the URL, or in PGSSLMODE, if nobody listens in between";
  }
  const { code, severity } = originOf(error);
  // Later it is an error, which does not end the connection.
  const mayNotConnect = code === "42501" && severity === "FATAL";
  const found = REASONS[mayNotConnect ? "28000" : code];
  if (!found) return reason;
  return found.endsWith(":") ? `${found} ${reason}` : found;
}

function isPassing(error: unknown): boolean {
  const { code, message } = originOf(error);
  return code === "" ? NO_ANSWER.test(message) : PASSING.test(code);
}

/** Finds the error of the client: a lost connection is the cause of another one. */
function originOf(error: unknown): { code: string; severity?: string; message: string } {
  const { code, severity, message, cause } = (error ?? {}) as Record<string, unknown>;
  if (cause !== undefined && code === undefined) return originOf(cause);
  return { code: String(code ?? ""), severity: String(severity), message: String(message) };
}

/** Postgres databases that are there already, by their URLs. */
export const existingPostgres: ExistingDatabases = {
  variable: URL_VARIABLE,
  async open(place, create) {
    if (place === undefined) throw new NoDatabaseError("Give the URL of the database");
    const explain = (error: unknown) =>
      new NoDatabaseError(`Cannot open the database: ${reasonFor(error)}`, { cause: error });
    const address = addressAt(place);
    // Nobody listens in this process, but the workers of others are woken.
    const options = { handlers: 1, mayBeEmpty: create, listening: address.settings };
    try {
      return new PostgresDatabase(await openAt(address, options), { explain });
    } catch (error) {
      throw explain(error);
    }
  },
  migrations(place) {
    const { schema, settings } = addressAt(place);
    return migrationOf(schema, settings.user!);
  },
};

function addressAt(place: string): PostgresAddress {
  try {
    // The tool takes the scheme of a URL off.
    return addressIn(place.startsWith("//") ? `postgres:${place}` : place, modeIn(Deno.env));
  } catch (error) {
    throw new NoDatabaseError(`The place of the database ${(error as Error).message}`);
  }
}
