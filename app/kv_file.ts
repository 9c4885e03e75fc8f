import { type LogSink, writeLog } from "../core/mod.ts";
import { REMOTE_KV } from "./app_variables.ts";

/** Time between two looks at the file, in milliseconds. */
const LOOK_MS = 1_000;

/** Remedy, for the log. */
const REMEDY =
  "stop the app, put the file back, and start the app: what is stored meanwhile is lost";

/** File of a KV: which one it is. On Windows it may be unknown, but nobody can delete it there while it is open. */
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
 * The file that an app's KV is in, and the write-ahead log beside it, which holds what was stored last. If one is
 * deleted or replaced while the app runs, SQLite goes on with the file that nobody sees any more, and what it stores
 * is lost at the next start.
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
  readonly check = (): void => {
    if (this.#isGone) throw new Error("The file of the KV has been deleted or replaced");
  };

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
      writeLog(this.#log, "error", "file of the KV deleted or replaced", { what, remedy: REMEDY });
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
  if (kvUrl === undefined || kvUrl === ":memory:" || REMOTE_KV.test(kvUrl)) return undefined;
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
