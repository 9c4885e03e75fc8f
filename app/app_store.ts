import { type LogSink, reasonOf, writeLog } from "../core/mod.ts";
import { withDeadline } from "../core/timeouts.ts";
import { type EventStore, type EventStoreOptions, openEventStore } from "../events/mod.ts";
import { REMOTE_KV } from "./app_variables.ts";
import { findLeftNamespaces } from "../events/store/kv/namespaces.ts";

/** Longest wait for the KV: Deno tries a remote KV that does not answer forever. */
const KV_TIMEOUT_MS = 10_000;

/** Options of {@linkcode openAppStore}, which include those of the event store. */
export interface AppStoreOptions extends EventStoreOptions {
  /** KV that is open already; undefined to open one. */
  readonly kv?: Deno.Kv | undefined;
  /** Path or URL of the KV; undefined for Deno's default database. */
  readonly kvUrl: string | undefined;
  /** True if the app runs on Deno Deploy. */
  readonly onDeploy: boolean;
  /** Namespace of the app's events. */
  readonly namespace: string;
}

/**
 * Opens the KV of an app, and the event store in it.
 *
 * @param options The place of the KV, and the options of the store.
 * @returns The KV and the store.
 * @throws {Error} If they cannot be opened within 10 s. The message does not quote the URL.
 */
export async function openAppStore(
  { kv: given, kvUrl, onDeploy, ...options }: AppStoreOptions,
): Promise<{ kv: Deno.Kv; store: EventStore }> {
  const opening = (async () => {
    if (given) return { kv: given, store: await openEventStore(given, options) };
    if (typeof Deno.openKv !== "function") throw new Error(onDeploy ? NOT_ASSIGNED : NO_KV);
    const kv = await Deno.openKv(kvUrl);
    const open = onDeploy && kvUrl !== ":memory:" ? openShared : openEventStore;
    try {
      return { kv, store: await open(kv, options) };
    } catch (error) {
      kv.close();
      throw error;
    }
  })();
  try {
    return await withDeadline(opening, KV_TIMEOUT_MS);
  } catch (error) {
    if (given) throw new Error(`the KV cannot be used: ${reasonOf(error)}`, { cause: error });
    const where = kvUrl === undefined ? "the default database" : "the KV that KV_URL names";
    const reason = kvUrl === undefined ? reasonOf(error) : await fileReason(kvUrl, error) ??
      withoutUrl(reasonOf(error), kvUrl);
    throw new Error(`${where} cannot be used: ${reason}`, { cause: error });
  }
}

/** Remedy for events that an app has left behind, for the log. */
const TAKE_OVER =
  "if this app had another name, give defineApp the option 'namespace' with that name";

/**
 * Says if an app's KV holds open events of other namespaces: the app may have been renamed, and nobody would
 * ever handle those. It warns if the app has none of its own: otherwise they are more likely another app's. It
 * reads little, and writes its own failure to the log.
 *
 * @param kv The KV.
 * @param app The app.
 * @param app.name Its name.
 * @param app.namespace Its namespace.
 * @param app.log Its log.
 * @param app.stopping A promise that resolves when it stops. Nothing is logged after that.
 * @returns A promise that resolves when the KV has been looked at, and never rejects.
 */
export async function warnOfLeftEvents(
  kv: Deno.Kv,
  { name, namespace, log, stopping }: {
    readonly name: string;
    readonly namespace: string;
    readonly log: LogSink;
    readonly stopping: Promise<unknown>;
  },
): Promise<void> {
  try {
    const none = stopping.then(() => undefined);
    const found = await Promise.race([findLeftNamespaces(kv, namespace), none]);
    if (!found || found.others.length === 0) return;
    const { others, hasOwn } = found;
    const fields = { name, namespace, others, remedy: TAKE_OVER };
    const level = hasOwn ? "info" : "warn";
    writeLog(log, level, "other events in the KV", fields);
  } catch (error) {
    writeLog(log, "warn", "other events not looked for", { name, error });
  }
}

const NO_KV = "Deno.openKv is missing: run Deno with --unstable-kv, or put " +
  `"unstable": ["kv"] into deno.json`;

const NOT_ASSIGNED =
  "no database is assigned to this app on Deno Deploy, and a KV of its own is lost with the instance: " +
  "assign one with `deno deploy database assign`";

/**
 * Opens the store, and refuses a KV that belongs to one instance only: it is in memory, and no other
 * instance sees its events. Deno Deploy gives such a KV to an app without a database, without a warning
 * unless `DENO_KV_REQUIRES_DISTRIBUTED_DATABASE` is set. Such a KV has a queue, and a remote one has none.
 */
async function openShared(kv: Deno.Kv, options: EventStoreOptions): Promise<EventStore> {
  // Asking for the queue means that the app accepts such a KV.
  if (options.notifier === "enqueue") return await openEventStore(kv, options);
  const store = await openEventStore(kv, { ...options, notifier: "auto" });
  if (store.notifier !== "enqueue") return store;
  throw new Error(NOT_ASSIGNED);
}

/** Explains why a file cannot be used as a KV; undefined if Deno's own message is better. */
async function fileReason(path: string, error: unknown): Promise<string | undefined> {
  if (REMOTE_KV.test(path)) return undefined;
  if (error instanceof Deno.errors.NotCapable) {
    return "its folder may not be read and written: allow that, with --allow-read and --allow-write of it";
  }
  if (!/database/.test(reasonOf(error))) return undefined;
  const isFolder = (path: string) =>
    Deno.stat(path).then(({ isDirectory }) => isDirectory, () => undefined);
  const folder = /^(.*)[/\\]/.exec(path);
  if (folder && await isFolder(folder[1] || "/") === undefined) {
    return "the folder of its file does not exist, or cannot be read: create it first";
  }
  return await isFolder(path) ? "it is a folder, and must be a file" : undefined;
}

/** Removes the URL from a reason: it may hold a password. */
function withoutUrl(reason: string, kvUrl: string): string {
  return reason.replaceAll(kvUrl, "KV_URL").replaceAll(/\/\/\S*@/g, "//");
}
