import { checkPart } from "../../../core/check_options.ts";
import { choiceOf, onDeploy, readEnv, VariableError, type Variables } from "../../../core/env.ts";
import { mayHoldSecrets, withoutCredentials } from "../../../core/hosts.ts";
import { type LogSink, reasonOf } from "../../../core/mod.ts";
import { checkDatabaseFile, fileReason, isSqliteStore, watchFile } from "../database_file.ts";
import type { EventStore } from "../event_store.ts";
import {
  type DefinedStore,
  type ExistingDatabases,
  NoDatabaseError,
  type StoreDefinition,
} from "../store_definition.ts";
import type { KvCommit } from "./_kv_guard.ts";
import type { KvStoreOptions } from "./_parts.ts";
import {
  answered,
  isRemoteKv,
  KV_TIMEOUT_MS,
  KvDatabase,
  NoAnswerError,
  openEventStore,
  otherScheme,
} from "./kv_database.ts";

/** Place of a KV that the variables do not name. */
interface GivenKv {
  /** KV that is open already; undefined to open one. */
  readonly opened?: Deno.Kv | undefined;
  /** Path or URL of the KV, or `:memory:`; undefined for Deno's default database. */
  readonly url?: string | undefined;
}

/** A KV that is to be opened, or is open already, as the variables say. */
interface KvPlace extends GivenKv {
  /** Notifier that wakes workers. */
  readonly notifier: NonNullable<KvStoreOptions["notifier"]>;
  /** True if the app runs on Deno Deploy. */
  readonly onDeploy: boolean;
}

/** Variable with the place of the KV. */
const PLACE = "KV_URL";

/** Variables of every store in a KV. */
const SHARED = { NOTIFIER: choiceOf(["auto", "enqueue", "watch"]) };

/** Variables of one whose KV is not given. */
const OPENING = { ...SHARED, KV_URL: { read: readKvUrl } };

/**
 * Makes the store of an app in a Deno KV. It is the default: an app without a `store` has it.
 *
 * The variable `KV_URL` has the place of the KV: a path, `:memory:` or the URL of a remote KV; by default it is Deno's
 * database. `NOTIFIER` chooses how workers are woken (`auto`, `enqueue`, `watch`).
 *
 * Handlers read with the KV, `db`. It cannot be closed, and changes no key that begins with the store's namespace, in
 * an app its name: the store keeps its records there. Below the namespace, `own` is for data of the app's:
 * `["my-bot", "own", "pushes"]`. The store never uses it. Where the notifier is `enqueue`, the queue of the KV is the
 * store's: `enqueue` and `listenQueue` throw a `TypeError`. If you need a queue, open another KV, at another path.
 *
 * `settleWith` gives its functions a {@linkcode KvCommit}, with the limits of a KV. If one of its
 * checks does not hold, the attempt fails. A commit holds 1,000 mutations. Settling takes up to 8, one for each 65,000
 * bytes of the payload, and four for each further event of a batch. Where payloads are kept, it takes up to 10, and
 * none for the payload. An event that is emitted takes three, and a name that is woken two.
 *
 * @param opened A KV that is open already, such as one of a test or of the program that the app is a part of: the app
 * does not close it, and `KV_URL` is not read.
 * @returns The store.
 * @throws {TypeError} If the argument is something else.
 *
 * @example
 * ```ts
 * import { defineApp, github, kv, openApp } from "@org/edge-base";
 * import { assertEquals } from "@std/assert";
 *
 * const bot = defineApp({ name: "my-bot", platform: github(), store: kv() });
 * bot.on("push", (_event, { settleWith }) => settleWith((commit) => commit.sum(["pushes"], 1n)));
 *
 * using opened = await Deno.openKv(":memory:");
 * const env = { GITHUB_WEBHOOK_SECRET: "It's a Secret to Everybody" };
 * await using app = await openApp(bot, { env, store: kv(opened), log: () => {} });
 * assertEquals((await app.db.get(["pushes"])).value, null);
 * ```
 *
 * @category Event store and worker
 */
export function kv(opened?: Deno.Kv): StoreDefinition<KvCommit, Deno.Kv> {
  if (opened === undefined) return storeIn(Object.keys(OPENING), () => undefined);
  checkPart(
    "define the store",
    opened,
    "atomic",
    "the KV must be what Deno.openKv() resolves with (the place of one that kv() opens is in KV_URL)",
  );
  return storeIn(Object.keys(SHARED), () => ({ opened }));
}

function storeIn(
  variables: readonly string[],
  givenIn: (values: Variables) => GivenKv | undefined,
): DefinedStore<KvCommit, Deno.Kv> {
  const isNamed = (values: Variables) => variables.includes(PLACE) && !!values.get(PLACE)?.trim();
  return Object.freeze({
    ...{ name: "kv", variables },
    prepare: (values: Variables) => {
      const place = readKvPlace(values, givenIn(values));
      return { open: (log: LogSink) => openPlace(place, log) };
    },
    forTests: () =>
      storeIn(variables, (values) => isNamed(values) ? undefined : { url: ":memory:" }),
    elsewhere: (values: Variables) =>
      givenIn(values) || isNamed(values)
        ? undefined
        : `Name its place, { env: { ${PLACE}: path } }, or give one that is open, kv(opened)`,
  });
}

/**
 * Reads the variables of a store in a KV.
 *
 * @param variables The variables.
 * @param given The place of the KV; undefined if `KV_URL` names it.
 * @returns The place, with how the store in it wakes workers.
 * @throws {VariableError} If one is wrong: the message has all of them.
 */
export function readKvPlace(variables: Variables, given?: GivenKv): KvPlace {
  const { NOTIFIER: wanted, KV_URL: url } = given
    ? { ...readEnv(SHARED, variables), KV_URL: given.url }
    : readEnv(OPENING, variables);
  const isOnDeploy = onDeploy(variables);
  // Deno Deploy has no KV queues.
  const notifier = wanted === "auto" && isOnDeploy ? "watch" : wanted;
  return { opened: given?.opened, url, notifier, onDeploy: isOnDeploy };
}

function readKvUrl(name: string, variables: Variables): string | undefined {
  const place = variables.get(name)?.trim();
  if (!place) return undefined;
  const scheme = otherScheme(place);
  if (scheme === undefined) return place;
  throw new VariableError(
    `${name} must be a path, :memory: or a URL with http or https, and begins with ${scheme}`,
  );
}

const NO_KV = 'Deno.openKv is missing: put "unstable": ["kv"] into deno.json, or run Deno with ' +
  "--unstable-kv";

const NO_STORE_NAMED = "Name the database with --store, such as sqlite:data/my-bot.db: without a " +
  "name it is Deno's default KV";

/** Deno would make its tables among those of the other store. */
const NOT_A_KV = "it is the file of a SQLite store: define the app with 'store: sqlite()', whose " +
  "file is in SQLITE_FILE, or give KV_URL another path";

const NOT_ASSIGNED =
  "no database is assigned to this app on Deno Deploy, and a KV of its own is lost with the instance: " +
  "assign one with `deno deploy database assign`";

/** Opens the KV of an app. The message of an error does not quote the URL. */
async function openPlace(place: KvPlace, log: LogSink): Promise<KvDatabase> {
  const { opened, url, notifier, onDeploy } = place;
  const openBy = performance.now() + KV_TIMEOUT_MS;
  const explain = (error: unknown) => unusable(place, error);
  if (opened) return new KvDatabase(opened, { notifier, openBy, explain, isOwn: false });
  let kv: Deno.Kv;
  try {
    if (typeof Deno.openKv !== "function") throw new Error(onDeploy ? NOT_ASSIGNED : NO_KV);
    if (isInFile(url) && await isSqliteStore(url)) throw new Error(NOT_A_KV);
    kv = await answered(Deno.openKv(url));
  } catch (error) {
    throw await explain(error);
  }
  const file = isInFile(url) ? await watchFile(url, log) : undefined;
  const openStore = onDeploy && url !== ":memory:" ? openShared : openEventStore;
  return new KvDatabase(kv, { notifier, openBy, explain, file, openStore, isOwn: true });
}

/**
 * Opens the store, and refuses a KV that belongs to one instance only: it is in memory, and no other
 * instance sees its events. Deno Deploy gives such a KV to an app without a database, without a warning
 * unless `DENO_KV_REQUIRES_DISTRIBUTED_DATABASE` is set. Such a KV has a queue, and a remote one has none.
 */
async function openShared(
  kv: Deno.Kv,
  options: KvStoreOptions = {},
): Promise<EventStore<KvCommit, Deno.Kv>> {
  // Asking for the queue means that the app accepts such a KV.
  if (options.notifier === "enqueue") return await openEventStore(kv, options);
  const store = await openEventStore(kv, { ...options, notifier: "auto" });
  if (store.notifier !== "enqueue") return store;
  throw new Error(NOT_ASSIGNED);
}

/** Explains why a KV cannot be used. */
async function unusable({ opened, url }: KvPlace, error: unknown): Promise<Error> {
  if (opened) {
    const why = error instanceof Deno.errors.BadResource ? "it is closed" : reasonOf(error);
    return new Error(`the KV that kv() was given cannot be used: ${why}`, { cause: error });
  }
  const where = url === undefined ? "the default database" : "the KV that KV_URL names";
  const reason = url === undefined
    ? reasonOf(error)
    : (isInFile(url) ? await fileReason(url, error) : undefined) ??
      withoutUrl(reasonOf(error), url);
  return new Error(`${where} cannot be used: ${reason}`, { cause: error });
}

/** Checks whether the place of a KV is the path of a file. */
function isInFile(url: string | undefined): url is string {
  return url !== undefined && url !== ":memory:" && !isRemoteKv(url);
}

/** Removes the URL from a reason: it may hold a password. */
function withoutUrl(reason: string, url: string): string {
  return reason.replaceAll(url, "KV_URL").replaceAll(/\/\/\S*@/g, "//");
}

/** KVs that are there already, by their paths or URLs. */
export const existingKvs: ExistingDatabases = {
  variable: "KV_URL",
  byDefault: "Deno's default one for this script and configuration file",
  async open(place, create) {
    return new KvDatabase(await openKv(place, create), { isOwn: true });
  },
};

/** Opens an existing KV. Deno itself would create a missing file, and change a file of another kind. */
async function openKv(place: string | undefined, create: boolean): Promise<Deno.Kv> {
  if (typeof Deno.openKv !== "function") {
    throw new NoDatabaseError(place === undefined ? `${NO_STORE_NAMED} (${NO_KV})` : NO_KV);
  }
  if (place !== undefined && !isRemoteKv(place)) await checkFile(place, create);
  try {
    return await answered(Deno.openKv(place));
  } catch (error) {
    if (error instanceof NoAnswerError) throw error;
    const given = place === undefined ? [] : [place];
    const reason = withoutCredentials(reasonOf(error), given, "the given KV");
    throw new Error(`Cannot open the database: ${reason}`, { cause: error });
  }
}

async function checkFile(path: string, create: boolean): Promise<void> {
  const scheme = otherScheme(path);
  if (scheme !== undefined) {
    throw new NoDatabaseError(
      `The KV must be a path, or a URL with http or https, and begins with ${scheme}`,
    );
  }
  await checkDatabaseFile("KV", path, create);
  if (!await isSqliteStore(path)) return;
  const shown = mayHoldSecrets(path) ? "of that name" : path;
  throw new NoDatabaseError(
    `The file ${shown} is that of a SQLite store: give --store sqlite:PATH`,
  );
}
