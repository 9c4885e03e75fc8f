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

/**
 * The file that an app's KV is in. If it is deleted or replaced while the app runs, SQLite goes on with the file that
 * nobody sees any more, and all that it stores is lost at the next start.
 */
export class KvFile {
  readonly #path: string;
  readonly #log: LogSink;
  readonly #opened: FileId;
  #isGone = false;
  #looking: Promise<void> = Promise.resolve();
  readonly #timer: ReturnType<typeof setInterval>;

  constructor(path: string, opened: FileId, log: LogSink) {
    this.#path = path;
    this.#opened = opened;
    this.#log = log;
    this.#timer = setInterval(() => this.#looking = this.#look(), LOOK_MS);
    Deno.unrefTimer(this.#timer);
  }

  /**
   * Checks that the file is there.
   *
   * @throws {Error} If it has been deleted or replaced.
   */
  readonly check = (): void => {
    if (this.#isGone) throw new Error("The file of the KV has been deleted or replaced");
  };

  /** Stops looking at the file. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#looking;
  }

  async #look(): Promise<void> {
    const found = await idOf(this.#path);
    if (found === undefined) return;
    const isGone = found === null || found.ino !== this.#opened.ino ||
      found.dev !== this.#opened.dev;
    if (isGone === this.#isGone) return;
    this.#isGone = isGone;
    if (isGone) {
      const what = found ? "replaced" : "deleted";
      writeLog(this.#log, "error", "file of the KV deleted or replaced", { what, remedy: REMEDY });
    } else writeLog(this.#log, "warn", "file of the KV is back", {});
  }
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
  // Without the permission, looking would ask for it at the terminal.
  const { state } = await Deno.permissions.query({ name: "read", path: kvUrl });
  const opened = state === "granted" ? await idOf(kvUrl) : undefined;
  return opened ? new KvFile(kvUrl, opened, log) : undefined;
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
