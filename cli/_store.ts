import { met } from "../core/check_options.ts";
import { mayHoldSecrets } from "../core/hosts.ts";
import { existingKvs } from "../events/store/kv/kv_store.ts";
import { existingPostgres } from "../events/store/postgres/postgres_store.ts";
import { existingSqliteFiles } from "../events/store/sqlite/sqlite_store.ts";
import type { Database, ExistingDatabases } from "../events/store/store_definition.ts";
import type { EventValues } from "./_commands.ts";
import { type CliWorld, UsageError } from "./_world.ts";

/** Engines by the schemes of their databases. Without an option, the first one is meant. */
const ENGINES: Readonly<Record<string, ExistingDatabases>> = {
  kv: existingKvs,
  sqlite: existingSqliteFiles,
  ...{ postgres: existingPostgres, postgresql: existingPostgres },
};

/** Places in databases that are no path, for messages. */
const PLACES: Readonly<Record<string, string>> = { postgres: "//...", postgresql: "//..." };

const DOING = "Cannot open the database";

/** Database that a command line refers to. */
interface MeantDatabase {
  readonly engine: ExistingDatabases;
  /** Its place; undefined for the default one of its engine. */
  readonly place: string | undefined;
}

/** Store that a command line refers to. */
interface MeantStore {
  readonly namespace: string;
  /** Note for the user; undefined if all is as expected. */
  readonly note?: string;
}

/**
 * Finds the database that a command line refers to: by `--store`, by `--kv`, or by the variable of an engine.
 *
 * @throws {UsageError} If two of them name one, or there is no such engine.
 */
export function findDatabase(
  { store, kv: path }: Pick<EventValues, "store" | "kv">,
  { env }: Pick<CliWorld, "env">,
): MeantDatabase {
  if (store !== undefined && path !== undefined) {
    throw new UsageError(`${DOING}: give --store or --kv, not both`);
  }
  const url = store ?? (path === undefined ? undefined : `kv:${path}`);
  if (url !== undefined) return databaseOf(url);
  const engines = [...new Set(Object.values(ENGINES))];
  const named = engines.flatMap((engine) => {
    const place = env(engine.variable)?.trim();
    return place ? [{ engine, place }] : [];
  });
  if (named.length > 1) {
    const variables = named.map(({ engine }) => engine.variable).join(" and ");
    throw new UsageError(`${DOING}: ${variables} each name one. Give --store`);
  }
  return named[0] ?? { engine: engines[0]!, place: undefined };
}

function databaseOf(url: string): MeantDatabase {
  const [scheme = ""] = /^\w+(?=:)/.exec(url) ?? [];
  if (!Object.hasOwn(ENGINES, scheme)) throw unknownEngine(url, scheme);
  const place = url.slice(scheme.length + 1).trim();
  if (place !== "") return { engine: ENGINES[scheme]!, place };
  // A variable that is not set, such as in kv:$KV, must not lead to another database.
  throw new UsageError(
    `${DOING}: --store names no database, got ${met(url)}: give ${scheme}:${
      PLACES[scheme] ?? "PATH"
    }`,
  );
}

function unknownEngine(url: string, scheme: string): UsageError {
  const got = mayHoldSecrets(url) ? `a URL with ${scheme}:` : met(url);
  const hint = scheme === "" && !mayHoldSecrets(url)
    ? `: give --store kv:${url} for a KV, or sqlite:${url} for a SQLite file`
    : "";
  return new UsageError(
    `${DOING}: --store must begin with kv:, sqlite: or postgres:, got ${got}${hint}`,
  );
}

/**
 * Finds the store: the named one, or the only one in the database.
 *
 * @throws {UsageError} If there are several stores. The message names them.
 */
export async function findStore(
  database: Database,
  wanted: string | undefined,
): Promise<MeantStore> {
  const found = await database.namespaces();
  const [first = "events"] = found;
  const others = found.length === 0 ? "" : `, only of ${found.join(", ")}`;
  if (wanted === undefined && found.length > 1) {
    throw new UsageError(
      `The database holds several stores, choose one with --namespace: ${found.join(", ")}`,
    );
  }
  if (found.includes(wanted ?? first)) return { namespace: wanted ?? first };
  const whose = wanted === undefined ? "" : ` of ${wanted}`;
  return {
    namespace: wanted ?? first,
    note: `There are no events${whose} in this database${others}`,
  };
}
