import { type LogSink, reasonOf, writeLog } from "../../../core/mod.ts";

/** Checks whether the place of a KV is the URL of a remote one. */
export function isRemoteKv(place: string): boolean {
  return /^https?:\/\//i.test(place);
}

/** Finds the scheme of what cannot be the place of a KV: of another URL, or `kv:`, which only `--store` takes. */
export function otherScheme(place: string): string | undefined {
  return isRemoteKv(place) ? undefined : /^(?:kv:|\w+:(?=\/\/))/.exec(place)?.[0];
}

/**
 * Explains why a file cannot be used as a KV.
 *
 * @param path The place of the KV.
 * @param error The error of Deno.
 * @returns The reason; undefined if Deno's message is better.
 */
export async function fileReason(path: string, error: unknown): Promise<string | undefined> {
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
