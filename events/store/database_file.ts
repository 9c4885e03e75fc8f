/**
 * The file that an engine keeps its events in, if it is an SQLite file, as that of a Deno KV on this machine is: what is
 * wrong with it, and what becomes of it while an app runs.
 *
 * @module
 */
import { mayHoldSecrets } from "../../core/hosts.ts";
import { type LogSink, reasonOf, writeLog } from "../../core/mod.ts";
import { NoDatabaseError } from "./store_definition.ts";

/** Beginning of every SQLite file. */
const SQLITE_HEADER = "SQLite format 3\0";

/**
 * Checks that there is something at a path, without opening it. SQLite itself would create a missing file.
 *
 * @param what The kind of database, for the message: `KV`.
 * @param path The path.
 * @param create Set if one that is missing will be created.
 * @throws {NoDatabaseError} If there is nothing, or it cannot be looked at.
 */
export async function checkDatabasePath(
  what: string,
  path: string,
  create: boolean,
): Promise<void> {
  if (path === ":memory:") {
    throw new NoDatabaseError("A database in memory can be read only by its own process");
  }
  try {
    await Deno.stat(path);
  } catch (error) {
    const isMissing = error instanceof Deno.errors.NotFound;
    if (isMissing && create) return;
    // A path that does not exist may be a URL with a typing error.
    const shown = mayHoldSecrets(path) ? "of that name" : path;
    throw new NoDatabaseError(
      isMissing
        ? `There is no ${what} file ${shown}`
        : `The ${what} file cannot be read: ${(error as Error).name}`,
    );
  }
}

/**
 * Checks that there is an SQLite file at a path. Closing it drops the locks that the process has on it.
 *
 * @param what The kind of database, for the message: `KV`.
 * @param path The path.
 * @param create Set if one that is missing will be created.
 * @throws {NoDatabaseError} If there is none, or it cannot be read.
 */
export async function checkDatabaseFile(
  what: string,
  path: string,
  create: boolean,
): Promise<void> {
  await checkDatabasePath(what, path, create);
  const header = await readHeader(path).catch((error) => {
    if (create && error instanceof Deno.errors.NotFound) return SQLITE_HEADER;
    throw new NoDatabaseError(`The ${what} file cannot be read: ${error.name}`);
  });
  if (header === SQLITE_HEADER) return;
  const shown = mayHoldSecrets(path) ? "of that name" : path;
  throw new NoDatabaseError(`There is no ${what} in the file ${shown}`);
}

/** The kind of files that are a SQLite store: "edge" in ASCII, as the header of a SQLite file has it. */
export const APPLICATION_ID = 0x65646765;

/** Longest wait for another program that has locked the file, in milliseconds. */
const LOCKED_MS = 1_000;

/**
 * Checks whether the file at a path is that of a SQLite store. SQLite itself looks, since closing the file in any other
 * way drops the locks that the process has on it for a KV.
 *
 * @param path The path.
 * @returns True if it is; false for any other file, for none, and for one that cannot be read.
 */
export async function isSqliteStore(path: string): Promise<boolean> {
  try {
    if ((await Deno.stat(path)).size === 0) return false;
    const hasLog = await Deno.stat(`${path}-wal`).then(() => true, () => false);
    const { DatabaseSync } = await import("node:sqlite");
    // One that may write empties a log when it closes the file, and one that only reads leaves a log.
    const db = new DatabaseSync(path, { readOnly: hasLog });
    try {
      db.exec(`pragma busy_timeout = ${LOCKED_MS}`);
      return db.prepare("pragma application_id").get()?.application_id === APPLICATION_ID;
    } finally {
      db.close();
    }
  } catch {
    return false;
  }
}

async function readHeader(path: string): Promise<string> {
  if (!(await Deno.stat(path)).isFile) return "";
  // Node 20, which has no `using`, loads this file.
  const file = await Deno.open(path);
  try {
    const bytes = new Uint8Array(SQLITE_HEADER.length);
    const count = await file.read(bytes);
    return new TextDecoder().decode(bytes.subarray(0, count ?? 0));
  } finally {
    file.close();
  }
}

/**
 * Explains why a database cannot be opened at a path.
 *
 * @param path The path.
 * @param error The error of opening it.
 * @returns The reason; undefined if the message of the error is better.
 */
export async function fileReason(path: string, error: unknown): Promise<string | undefined> {
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
 * The file of an app's database, the write-ahead log beside it with the latest changes, and the index of that, which has
 * the locks of all processes. If one is deleted or replaced while the app runs, SQLite goes on with the old file: what
 * it stores is lost at the next start, and without common locks two processes destroy the file.
 */
export class DatabaseFile {
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
    if (this.#isGone) throw new Error("The file of the database has been deleted or replaced");
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
      writeLog(this.#log, "error", "file of the database deleted or replaced", {
        what,
        remedy: PUT_BACK,
      });
    } else writeLog(this.#log, "warn", "file of the database is back", {});
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
 * Watches the file of a database that is open.
 *
 * @param path The path of the file.
 * @param log The log.
 * @returns The file; undefined if there is none, or it may not be read.
 */
export async function watchFile(path: string, log: LogSink): Promise<DatabaseFile | undefined> {
  const first = await idIfReadable(path);
  if (!first) return undefined;
  const files: Watched[] = [{ path, first }];
  for (const beside of [`${path}-wal`, `${path}-shm`]) {
    const found = await idIfReadable(beside);
    if (found !== undefined) files.push({ path: beside, first: found ?? undefined });
  }
  return new DatabaseFile(files, log);
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
