import { type LogSink, writeLog } from "../../../core/mod.ts";
import { type Connection, isBusy } from "./_connection.ts";
import { WRITE_HEADER } from "./_schema.ts";
import { type AnsweredRow, type FileId, SqlWorker } from "./_sql_worker.ts";

/** Time from a commit to the look that follows, in milliseconds. */
const LOOK_MS = 250;

/**
 * Number of frames in the log from which on they are copied into the file. A frame has a page, so this is 32 MB. With
 * 4,096 of them the pauses were as long and twice as many, and with 16,384 no more was saved.
 */
const MANY_FRAMES = 8_192;

/** Number of commits after which free pages are looked for, and the time after which they are for fewer, in milliseconds. */
const [LOOK_AFTER, FEW_LOOK_MS] = [16, 600_000] as const;

/** Size from which on the log is cut, and not only begun anew, and it is reported if that fails. In bytes. */
const LARGE_LOG_BYTES = 256 * 1024 * 1024;

/** Remedy for a log that cannot be begun anew, for the log of the app. */
const END_READER = "end the program that has been reading the file for so long: its transaction " +
  "needs the log, which grows until the disk is full";

/** Number of pages without content from which on they are given back, if they are a quarter of the file: 8 MB. */
const MANY_FREE_PAGES = 2_048;

/** Number of pages given back by a transaction: that takes some 2 ms. */
const FREED_AT_ONCE = 256;

/** Pause between two transactions that give pages back, in milliseconds. */
const FREED_EVERY_MS = 20;

/** Parts of {@linkcode Maintenance}. */
interface MaintenanceParts {
  readonly path: string;
  /** The file and its log, by their paths. */
  readonly files: Readonly<Record<string, FileId>>;
  /** The connection of the app. It does the work if there is no Worker. */
  readonly db: Connection;
  /** The log of the file, beside it. */
  readonly wal: Deno.FsFile;
  readonly log: LogSink;
  /** Does work while the app's connection has no transaction. */
  readonly pause: <T>(work: () => Promise<T>) => Promise<T>;
}

/** Statements that begin the maintenance, in a connection of its own, which may wait for its first look at the file. */
const SETUP =
  `pragma busy_timeout = 1000; select count(*) from sqlite_schema; pragma busy_timeout = 0;
  pragma wal_autocheckpoint = 0; pragma synchronous = normal`;

const PASSIVE = "pragma wal_checkpoint(passive)";

/**
 * The maintenance of a file: what is in its log is copied into the file, so that the log is begun anew, and space
 * comes back that events have left.
 *
 * Both wait for the disk, so a Worker with a connection of its own does them. An app starts it before there is load, and
 * everything else when it is first needed.
 * Copying (a passive checkpoint) goes on beside the app's transactions. The log can only be begun anew while nobody
 * writes: the app's transactions pause for the few frames that have come meanwhile. Then the Worker writes the first
 * frame, since SQLite syncs the disk with it. If other processes read or write, that is left for the next time. SQLite
 * lets one connection copy at a time, so of several processes the others find it done.
 */
export class Maintenance {
  readonly #parts: MaintenanceParts;
  #worker: Promise<SqlWorker | undefined> | undefined;
  /** Number of commits since free pages were looked for, and the time of that by the monotonic clock. */
  #commits = 0;
  #lookedAt = -Infinity;
  #isGivingBack = false;
  /** Set once it was reported that the log cannot be begun anew. */
  #isHeld = false;
  #hasFailed = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #looking: Promise<void> | undefined;
  #isClosed = false;

  constructor(parts: MaintenanceParts) {
    this.#parts = parts;
  }

  /** Starts the Worker, if it is not yet, and resolves with it; with undefined if there can be none. */
  begin(): Promise<SqlWorker | undefined> {
    return this.#worker ??= this.#start();
  }

  /** Tells that something was written: a look at the file follows. */
  written(): void {
    this.#commits++;
    if (this.#timer === undefined && !this.#looking) this.#lookIn(LOOK_MS);
  }

  /** Ends the work under way, and the Worker. Returns undefined if there is nothing to wait for. */
  close(): Promise<void> | undefined {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    return this.#looking || this.#worker ? this.#end() : undefined;
  }

  async #end(): Promise<void> {
    await this.#looking;
    const worker = await this.#worker;
    // Else closing the app's connection does it, and holds the event loop.
    await worker?.run(PASSIVE).catch(() => {});
    await worker?.close();
  }

  #lookIn(ms: number): void {
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#looking = this.#look();
    }, ms);
    Deno.unrefTimer(this.#timer);
  }

  async #look(): Promise<void> {
    let again: number | undefined;
    try {
      const isLong = hasFrames(this.#parts.wal, MANY_FRAMES);
      if (isLong || this.#isHeld) this.#noteLog(!isLong || await this.#emptyLog());
      if (await this.#giveBack()) again = FREED_EVERY_MS;
      this.#hasFailed = false;
    } catch (error) {
      // Another process is at it.
      if (!isBusy(error)) this.#report(error);
      again = LOOK_MS;
    }
    this.#looking = undefined;
    if (again !== undefined) this.#lookIn(again);
  }

  /** Copies the log into the file. If that was all of it, the log is begun anew. Returns true if it was. */
  async #emptyLog(): Promise<boolean> {
    const { wal, pause } = this.#parts;
    if (!await this.#checkpoint("passive")) return false;
    const mode = wal.statSync().size > LARGE_LOG_BYTES ? "truncate" : "restart";
    return await pause(async () => {
      const isBegun = await this.#checkpoint(mode);
      if (isBegun) await this.#run(WRITE_HEADER);
      return isBegun;
    });
  }

  /** Reports once that the log is large and cannot be begun anew, and once that it was. */
  #noteLog(isBegun: boolean): void {
    const { wal, log } = this.#parts;
    const { size: bytes } = wal.statSync();
    if (isBegun !== this.#isHeld || (!isBegun && bytes <= LARGE_LOG_BYTES)) return;
    this.#isHeld = !isBegun;
    if (isBegun) return writeLog(log, "info", "write-ahead log begun anew");
    writeLog(log, "warn", "write-ahead log grows: a program reads the file", {
      bytes,
      remedy: END_READER,
    });
  }

  /** Copies the log. Returns true if all of it was copied that was there. */
  async #checkpoint(mode: string): Promise<boolean> {
    const row = await this.#run(`pragma wal_checkpoint(${mode})`);
    return row?.busy === 0 && row.log === row.checkpointed;
  }

  /** Gives some pages back, if there are many. The file gets smaller once the log is copied. Returns true if it is to go on. */
  async #giveBack(): Promise<boolean> {
    const { db, pause } = this.#parts;
    const isSoon = performance.now() - this.#lookedAt < FEW_LOOK_MS;
    if (!this.#isGivingBack && isSoon && this.#commits < LOOK_AFTER) return false;
    [this.#commits, this.#lookedAt] = [0, performance.now()];
    const { free, pages } = db.one<{ free: number; pages: number }>(
      "select freelist_count as free, page_count as pages from pragma_freelist_count, pragma_page_count",
    )!;
    if (!this.#isGivingBack && (free < MANY_FREE_PAGES || free < pages / 4)) return false;
    this.#isGivingBack = free > FREED_AT_ONCE;
    if (this.#isGivingBack) {
      await pause(() => this.#run(`pragma incremental_vacuum(${FREED_AT_ONCE})`));
    } else await this.#emptyLog();
    return this.#isGivingBack;
  }

  /** Runs a statement in the Worker, or here if there can be none. */
  async #run(sql: string): Promise<AnsweredRow | undefined> {
    const worker = await this.begin();
    return worker ? await worker.run(sql) : this.#parts.db.all(sql).at(0);
  }

  async #start(): Promise<SqlWorker | undefined> {
    const { path, files, log } = this.#parts;
    let worker: SqlWorker | undefined;
    try {
      worker = new SqlWorker();
      await worker.open({ path, files, setup: SETUP });
      return worker;
    } catch (error) {
      await worker?.close().catch(() => {});
      writeLog(log, "warn", "no Worker for the database file: its maintenance holds up the app", {
        error,
      });
      return undefined;
    }
  }

  #report(error: unknown): void {
    if (this.#hasFailed || this.#isClosed) return;
    this.#hasFailed = true;
    writeLog(this.#parts.log, "error", "database file not maintained: trying again", { error });
  }
}

/**
 * Checks whether a log has a number of frames since it was begun anew: then that frame has the salt of the header
 * (https://sqlite.org/fileformat2.html#walformat). Its size does not tell, since it is not cut.
 */
function hasFrames(wal: Deno.FsFile, number: number): boolean {
  const header = bytesAt(wal, 0, 32);
  const pageBytes = new DataView(header.buffer).getUint32(8);
  const frame = bytesAt(wal, 32 + (number - 1) * (24 + pageBytes), 24);
  return frame.slice(8, 16).every((byte, i) => byte === header[16 + i]);
}

/** Reads bytes of a file; zeros behind its end. */
function bytesAt(file: Deno.FsFile, at: number, length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  file.seekSync(at, Deno.SeekMode.Start);
  file.readSync(bytes);
  return bytes;
}
