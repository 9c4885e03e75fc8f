import { resolve } from "node:path";
import { checkFunction, checkOptions } from "../../../core/check_options.ts";
import { onDeploy, VariableError, type Variables } from "../../../core/env.ts";
import { type LogSink, reasonOf } from "../../../core/mod.ts";
import { checkDatabasePath, fileReason } from "../database_file.ts";
import {
  type DefinedStore,
  type ExistingDatabases,
  NoDatabaseError,
  type StoreDefinition,
} from "../store_definition.ts";
import { isBusy, isFull } from "./_connection.ts";
import { openSqliteFile } from "./_file.ts";
import { SqliteDatabase } from "./sqlite_database.ts";
import type { NotPromise } from "../event_store.ts";
import type { SqliteReader, SqliteTx } from "./_guard.ts";

/**
 * Options of {@linkcode sqlite}.
 *
 * @category Event store and worker
 */
export interface SqliteOptions {
  /**
   * Makes tables of your own, with their indexes, views and triggers. It is called at each start, in a transaction
   * that processes which start at the same time run one after the other. It must be synchronous, and can run `create`,
   * `alter` and `drop` beside the statements of {@linkcode SqliteTx}. If it throws, the app does not start.
   *
   * The tables of the store stay as they are. Yours have other names, which do not begin with `edge_`, and no foreign
   * keys to them: the store deletes what it has to remember no longer.
   *
   * @default {undefined} The file has the tables of the store alone.
   */
  readonly setup?: ((db: SqliteTx) => NotPromise) | undefined;
}

/** Variable with the path of the file. */
const FILE = "SQLITE_FILE";

/** A file that is to be opened. */
interface FilePlace {
  readonly path: string;
  /** Folder that is made if it is not there: that of the file that no variable names. */
  readonly folder?: string | undefined;
  readonly setup: SqliteOptions["setup"];
}

/**
 * Makes the store of an app in a SQLite file, for an app on one machine. It takes no flag and no other program.
 *
 * The variable `SQLITE_FILE` has the path of the file, or `:memory:`; by default it is `./data/<name>.db`, with the name
 * of the app or its `namespace`, and the folder is made. A file has the events of one app. Several processes of the app
 * may share it, on a disk of their machine.
 *
 * `settleWith` gives its functions the transaction that settles the event, a {@linkcode SqliteTx}. What
 * they change is committed with the event, or not at all: if a function throws, only its own attempt fails. Several
 * events share a transaction. If it fails, because a statement has ended it (`insert or rollback`) or a deferred foreign
 * key does not hold, each event has one of its own then. So a function may be called twice, and should change nothing
 * but the database. Handlers, routes and resources read with `db`, a {@linkcode SqliteReader}. To write elsewhere, use
 * `store.transact`.
 *
 * @param options Tables of your own.
 * @returns The store.
 * @throws {TypeError} If an option is something else.
 *
 * @example
 * ```ts
 * import { defineApp, github, openApp, sqlite } from "@org/edge-base";
 * import { assertEquals } from "@std/assert";
 *
 * const setup = "create table if not exists push (repository text, at text)";
 * const store = sqlite({ setup: (db) => db.exec(setup) });
 * const bot = defineApp({ name: "my-bot", platform: github(), store });
 * bot.on("push", (event, { settleWith }) => {
 *   const values = [event.repository!.fullName, new Date().toISOString()] as const;
 *   settleWith((db) => db.prepare("insert into push values (?, ?)").run(...values));
 * });
 *
 * const env = { GITHUB_WEBHOOK_SECRET: "It's a Secret to Everybody", SQLITE_FILE: ":memory:" };
 * await using app = await openApp(bot, { env, log: () => {} });
 * assertEquals(app.db.prepare("select * from push").all(), []);
 * ```
 *
 * @category Event store and worker
 */
export function sqlite(options: SqliteOptions = {}): StoreDefinition<SqliteTx, SqliteReader> {
  checkOptions("define the store", options, { setup: checkFunction });
  const { setup } = options;
  return storeIn((variables, name) => ({ ...readPlace(variables, name), setup }), setup);
}

function storeIn(
  placeIn: (variables: Variables, name: string) => FilePlace,
  setup: SqliteOptions["setup"],
): DefinedStore<SqliteTx, SqliteReader> {
  return Object.freeze({
    ...{ name: "sqlite", variables: [FILE] },
    prepare: (variables: Variables, name: string) => {
      const place = placeIn(variables, name);
      return { open: (log: LogSink) => openPlace(place, log) };
    },
    forTests: () =>
      storeIn(
        (variables, name) =>
          isNamed(variables) ? placeIn(variables, name) : { path: ":memory:", setup },
        setup,
      ),
    elsewhere: (variables: Variables) =>
      isNamed(variables) ? undefined : `Name its file: { env: { ${FILE}: path } }`,
  });
}

/** Checks whether a variable names the file. */
function isNamed(variables: Variables): boolean {
  return !!variables.get(FILE)?.trim();
}

/** Reads the path of the file of an app. */
function readPlace(variables: Variables, name: string): Omit<FilePlace, "setup"> {
  const path = variables.get(FILE)?.trim();
  if (path !== ":memory:" && onDeploy(variables)) {
    throw new VariableError(
      "sqlite() cannot be used on Deno Deploy, which has no disk that lasts: take kv() there",
    );
  }
  if (!path) {
    const folder = "./data";
    return { folder, path: `${folder}/${name.replaceAll(/[^\p{L}\p{N}._ -]/gu, "-")}.db` };
  }
  const [scheme] = schemeOf(path);
  if (scheme === undefined) return { path };
  throw new VariableError(`${FILE} must be a path or :memory:, and begins with ${scheme}`);
}

/** Finds the scheme of what is no path, but a URL: SQLite would take it for one. */
function schemeOf(path: string): readonly [scheme?: string] {
  return /^(?:sqlite:|kv:|file:|\w+:(?=\/\/))/i.exec(path) as [string] | null ?? [];
}

async function openPlace(
  { path, folder, setup }: FilePlace,
  log: LogSink,
): Promise<SqliteDatabase> {
  const begun = performance.now();
  const explain = async (error: unknown) => {
    const reason = await reasonFor(path, error, begun);
    return new Error(`the SQLite file ${path} cannot be used: ${reason}`, { cause: error });
  };
  try {
    if (folder !== undefined) await Deno.mkdir(folder, { recursive: true });
    const file = await openSqliteFile(await placeOf(path), { log, isApp: true });
    return new SqliteDatabase(file, { setup, explain });
  } catch (error) {
    throw await explain(error);
  }
}

/** Finds the place of a file, wherever the process goes later. Of a link it is the target: the log lies beside that. */
async function placeOf(path: string): Promise<string> {
  if (path === ":memory:") return path;
  return await Deno.realPath(path).catch(() => resolve(path));
}

/** Finds the reason for which a file cannot be opened, which was begun at a time of the monotonic clock. */
async function reasonFor(path: string, error: unknown, begun: number): Promise<string> {
  if (isFull(error)) return "there is no room on its disk for it and the log beside it: make some";
  if (isBusy(error)) {
    const seconds = ((performance.now() - begun) / 1_000).toFixed(1);
    return `another program has locked it, and was waited for ${seconds} s: ` +
      "end that program, or the transaction that it has begun";
  }
  return await fileReason(path, error) ?? reasonOf(error);
}

/** SQLite files that are there already, by their paths. */
export const existingSqliteFiles: ExistingDatabases = {
  variable: FILE,
  async open(path, create) {
    if (path === undefined) throw new NoDatabaseError("Give the path of the SQLite file");
    const [scheme] = schemeOf(path);
    if (scheme !== undefined) {
      throw new NoDatabaseError(`The SQLite file must be a path, and begins with ${scheme}`);
    }
    await checkDatabasePath("SQLite", path, create);
    const begun = performance.now();
    const explain = async (error: unknown) => {
      const reason = await reasonFor(path, error, begun);
      return new NoDatabaseError(`Cannot open the SQLite file: ${reason}`, { cause: error });
    };
    try {
      return new SqliteDatabase(await openSqliteFile(await placeOf(path), { mayBeEmpty: create }), {
        explain,
      });
    } catch (error) {
      throw await explain(error);
    }
  },
};
