import { isRemoteKv } from "../core/hosts.ts";
import { type LogSink, reasonOf, writeLog } from "../core/mod.ts";
import { KV_TIMEOUT_MS, withDeadline } from "../core/timeouts.ts";
import { type EventStore, type EventStoreOptions, openEventStore } from "../events/mod.ts";
import { findLeftNamespaces } from "../events/store/kv/namespaces.ts";
import type { IntakeStore } from "../webhook/intake.ts";

/** Options of {@linkcode openAppStore}, with the ones of the event store. */
interface AppStoreOptions extends EventStoreOptions {
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
 * Logs that an app's KV holds open events of other namespaces: if the app was renamed, they are never handled.
 * It warns if the app itself has none: otherwise they more likely belong to another app. It reads little, and
 * logs its failure.
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

/** Explains why a file cannot be used as a KV; undefined if Deno's message is better. */
async function fileReason(path: string, error: unknown): Promise<string | undefined> {
  if (isRemoteKv(path)) return undefined;
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

/** Time between two looks at the file, in milliseconds. */
const LOOK_MS = 1_000;

/** Remedy for a file that is gone, for the log. */
const PUT_BACK =
  "stop the app, put the file back, and start the app: what is stored meanwhile is lost";

/** Identity of a file. On Windows it may be unknown, but a file that is open cannot be deleted there. */
interface FileId {
  readonly dev: number;
  readonly ino: number | null;
}

/** A file that is looked at. */
interface Watched {
  readonly path: string;
  /** Identity of the file when it was first seen; undefined before that. */
  first: FileId | undefined;
}

/**
 * The file that an app's KV is in, and the write-ahead log beside it with the latest changes. If one is deleted
 * or replaced while the app runs, SQLite goes on with the old file, and what it stores is lost at the next start.
 */
export class KvFile {
  readonly #files: readonly Watched[];
  readonly #log: LogSink;
  #isGone = false;
  #looking: Promise<void> = Promise.resolve();
  readonly #timer: ReturnType<typeof setInterval>;

  constructor(files: readonly Watched[], log: LogSink) {
    this.#files = files;
    this.#log = log;
    this.#timer = setInterval(() => this.#looking = this.#look(), LOOK_MS);
    Deno.unrefTimer(this.#timer);
  }

  /**
   * Checks that the files are there.
   *
   * @throws {Error} If one has been deleted or replaced.
   */
  check(): void {
    if (this.#isGone) throw new Error("The file of the KV has been deleted or replaced");
  }

  /** Makes a store that accepts nothing while the file is gone. */
  guard(store: IntakeStore): IntakeStore {
    const accept: IntakeStore["accept"] = (delivery, options) => {
      this.check();
      return store.accept(delivery, options);
    };
    const { maxPayloadBytes, retentionMs } = store;
    return { maxPayloadBytes, retentionMs, accept };
  }

  /** Stops looking at the files. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#looking;
  }

  async #look(): Promise<void> {
    const whats = await Promise.all(this.#files.map(whatBecameOf));
    if (whats.includes("unknown")) return;
    const what = whats.find((each) => each !== "there");
    const isGone = what !== undefined;
    if (isGone === this.#isGone) return;
    this.#isGone = isGone;
    if (isGone) {
      writeLog(this.#log, "error", "file of the KV deleted or replaced", {
        what,
        remedy: PUT_BACK,
      });
    } else writeLog(this.#log, "warn", "file of the KV is back", {});
  }
}

async function whatBecameOf(file: Watched): Promise<"there" | "deleted" | "replaced" | "unknown"> {
  const found = await idOf(file.path);
  if (found === undefined) return "unknown";
  // The log is made by the first write.
  if (!file.first) {
    if (found) file.first = found;
    return "there";
  }
  if (!found) return "deleted";
  return found.ino === file.first.ino && found.dev === file.first.dev ? "there" : "replaced";
}

/**
 * Watches the file of a KV that is open.
 *
 * @param kvUrl The value of `KV_URL`.
 * @param log The log.
 * @returns The file; undefined if the KV is in none, or its file may not be read.
 */
export async function watchKvFile(
  kvUrl: string | undefined,
  log: LogSink,
): Promise<KvFile | undefined> {
  if (kvUrl === undefined || kvUrl === ":memory:" || isRemoteKv(kvUrl)) return undefined;
  const first = await idIfReadable(kvUrl);
  if (!first) return undefined;
  const files: Watched[] = [{ path: kvUrl, first }];
  const path = `${kvUrl}-wal`;
  const firstLog = await idIfReadable(path);
  if (firstLog !== undefined) files.push({ path, first: firstLog ?? undefined });
  return new KvFile(files, log);
}

/** As {@linkcode idOf}. Without the permission, looking would ask for it at the terminal. */
async function idIfReadable(path: string): Promise<FileId | null | undefined> {
  const { state } = await Deno.permissions.query({ name: "read", path });
  return state === "granted" ? await idOf(path) : undefined;
}

/** Finds out which file a path leads to; null for none, and undefined if that cannot be known. */
async function idOf(path: string): Promise<FileId | null | undefined> {
  try {
    const { dev, ino } = await Deno.stat(path);
    return { dev, ino };
  } catch (error) {
    return error instanceof Deno.errors.NotFound ? null : undefined;
  }
}
