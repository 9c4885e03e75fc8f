import { type LogSink, reasonOf, writeLog } from "../../../core/mod.ts";
import { codeOf, type Connection } from "./_connection.ts";
import { Slices } from "./_slices.ts";

/** Pause between two tries to write while nothing can be written, in milliseconds. */
const TRY_MS = 1_000;

/** Number of bytes of the log that are written again at once: that takes some 0.5 ms. */
const REWRITTEN_BYTES = 1_048_576;

/** Remedy for a file that is damaged, for the log. */
const RESTORE = "stop the app, restore a backup, and start the app";

/** Parts of {@linkcode Disk}. */
interface DiskParts {
  /** The folder of the file. */
  readonly folder: string;
  readonly db: Connection;
  /** The log of the file, beside it. */
  readonly wal: Deno.FsFile;
  readonly log: LogSink;
  /** Writes something small. */
  readonly tryToWrite: () => Promise<void>;
  /** Called when something is written. */
  readonly written: () => void;
}

/**
 * The disk of a file: what is committed is written to it, and noticed if that fails.
 *
 * SQLite writes a commit to the log, without a sync. The log is synced here, beside the event loop, before anybody
 * hears of the commit. Only its beginning SQLite syncs itself, before the first frame, so that no frame of an older log
 * passes for one of the new.
 *
 * After a sync that has failed, the kernel takes for written what it could not write, and the next sync succeeds
 * without it. What rests on such a sync has failed, and so does all that comes later, until the log is written again:
 * its bytes are still in the memory of the kernel. Nobody else writes meanwhile.
 */
export class Disk {
  readonly #parts: DiskParts;
  #isNamed = false;
  #mustRewrite = false;
  #failure: unknown;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isClosed = false;

  constructor(parts: DiskParts) {
    this.#parts = parts;
  }

  /**
   * Checks that the last that was to be written has been.
   *
   * @throws {Error} If it has not.
   */
  check(): void {
    if (this.#failure === undefined) return;
    throw new Error(`The database cannot be written: ${reasonOf(this.#failure)}`, {
      cause: this.#failure,
    });
  }

  /** Writes to the disk what is committed. */
  async sync(): Promise<void> {
    this.#parts.written();
    try {
      if (this.#mustRewrite) await this.#rewrite();
      if (!this.#isNamed) await this.#syncFolder();
      await this.#parts.wal.syncData();
    } catch (error) {
      this.#mustRewrite = true;
      throw error;
    }
  }

  /** Tells that something was written. In a file that is damaged, that says little of all else. */
  works(): void {
    if (this.#failure === undefined || isDamage(this.#failure)) return;
    this.#failure = undefined;
    writeLog(this.#parts.log, "info", "database can be written again");
  }

  /** Tells that something could not be written. It is tried again, so that the end of the failure is noticed. */
  fails(error: unknown): void {
    if (this.#isClosed || isDamage(this.#failure)) return;
    const { log } = this.#parts;
    const isFirst = this.#failure === undefined;
    this.#failure = error;
    if (isDamage(error)) {
      return writeLog(log, "error", "file of the database damaged", { error, remedy: RESTORE });
    }
    if (isFirst) writeLog(log, "error", "database cannot be written: trying again", { error });
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      // A failure comes back here.
      this.#parts.tryToWrite().catch(() => {});
    }, TRY_MS);
    Deno.unrefTimer(this.#timer);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#parts.wal.close();
  }

  /** Writes the log again as it is. */
  async #rewrite(): Promise<void> {
    const { db, wal } = this.#parts;
    const bytes = new Uint8Array(REWRITTEN_BYTES);
    const slices = new Slices();
    await db.begin();
    try {
      for (let at = 0;; at += bytes.length) {
        wal.seekSync(at, Deno.SeekMode.Start);
        const read = wal.readSync(bytes);
        if (read === null) break;
        wal.seekSync(at, Deno.SeekMode.Start);
        if (wal.writeSync(bytes.subarray(0, read)) < read) throw new Error("the disk is full");
        await slices.next();
      }
      await wal.syncData();
      this.#mustRewrite = false;
    } finally {
      db.rollback();
    }
  }

  /** Writes the names of the files to the disk: SQLite does that only for a log that it has made and written first. */
  async #syncFolder(): Promise<void> {
    const { folder: path } = this.#parts;
    const { state } = await Deno.permissions.query({ name: "read", path });
    // A folder cannot be opened on Windows, whose file systems do not ask for it.
    if (state === "granted" && Deno.build.os !== "windows") {
      const folder = await Deno.open(path);
      try {
        await folder.sync();
      } finally {
        folder.close();
      }
    }
    this.#isNamed = true;
  }
}

/** Result codes of a file that is damaged, and of a virtual table that is: https://sqlite.org/rescode.html. */
const [CORRUPT, CORRUPT_VTAB, NO_DATABASE] = [11, 267, 26] as const;

/** Checks for the error of a file that is damaged: no other try will succeed. */
export function isDamage(error: unknown): boolean {
  const code = codeOf(error);
  const primary = code & 0xff;
  return (primary === CORRUPT && code !== CORRUPT_VTAB) || primary === NO_DATABASE;
}
