import { dirname } from "node:path";
import { consoleSink, type LogSink } from "../../../core/mod.ts";
import { type DatabaseFile, watchFile } from "../database_file.ts";
import { Connection } from "./_connection.ts";
import { Disk } from "./_disk.ts";
import { GroupCommit } from "./_group_commit.ts";
import { Guard } from "./_guard.ts";
import { Maintenance } from "./_maintenance.ts";
import { bringToLayout, layoutOf, WRITE_HEADER } from "./_schema.ts";

/** Longest wait of a statement for a lock, in milliseconds: it holds the event loop meanwhile. */
const BUSY_TIMEOUT_MS = 5;

/** Pause between looks for what other processes have written, in milliseconds. */
const LOOK_MS = 250;

/** A file that is open. */
export interface SqliteFile {
  readonly db: Connection;
  /** The views of it for others than the store. */
  readonly guard: Guard;
  /** The same object for each opening of the file in this process. */
  readonly place: Place;
  /** All that writes to it through this connection. */
  readonly commits: GroupCommit;
  /**
   * Checks that it can be written, and is where it was.
   *
   * @throws {Error} If the last try has failed, or somebody has deleted or replaced it.
   */
  check(): void;
  /** Calls back within 250 ms when another connection has written. Resolves when the file is closed. */
  listen(wake: () => void): Promise<void>;
  /** Closes it. Unless a Worker is at it, it is closed before this returns. */
  close(): Promise<void>;
}

/** A file, for all who have opened it in this process. */
interface Place {
  /** The number of those. */
  openings: number;
}

/** The files that are open in this process, by their paths. */
const places = new Map<string, Place>();

/** Options of {@linkcode openSqliteFile}. */
interface SqliteFileOptions {
  /**
   * Log for what cannot be reported to a caller.
   *
   * @default {consoleSink}
   */
  readonly log?: LogSink | undefined;
  /**
   * False if it must be an event store already.
   *
   * @default {true}
   */
  readonly mayBeEmpty?: boolean | undefined;
  /**
   * Set for an app, to start the Worker of the maintenance before there is load: that holds the event loop.
   *
   * @default {false} It is started when it is needed.
   */
  readonly isApp?: boolean | undefined;
}

/**
 * Opens a file, and brings it to the latest layout.
 *
 * @param path The path, or `:memory:`.
 * @param options The log for what cannot be reported to a caller, whether the file may be empty, and whether it is an
 * app's.
 * @returns The file.
 * @throws {Error} If it cannot be opened, is no event store, or this program may not use its layout.
 */
export async function openSqliteFile(
  path: string,
  { log = consoleSink, mayBeEmpty = true, isApp = false }: SqliteFileOptions = {},
): Promise<SqliteFile> {
  const { DatabaseSync } = await import("node:sqlite");
  const handle = new DatabaseSync(path);
  const db = new Connection(handle);
  try {
    db.one(`pragma busy_timeout = ${BUSY_TIMEOUT_MS}`);
    // Another program's file is left as it is.
    const layout = await db.whenFree(() => layoutOf(db));
    if (layout === 0 && !mayBeEmpty) throw new Error("there is no event store in it");
    await db.whenFree(() => db.one("pragma auto_vacuum = incremental"));
    await db.whenFree(() => db.one("pragma journal_mode = wal"));
    db.one("pragma synchronous = normal");
    await bringToLayout(db);
    // Synced beside the event loop, which a sync by SQLite would hold.
    const wal = path === ":memory:"
      ? undefined
      : await Deno.open(`${path}-wal`, { read: true, write: true });
    if (wal) db.one("pragma wal_autocheckpoint = 0");
    const watched = wal && await watchFile(path, log);
    const file = new OpenFile(db, new Guard(handle), { wal, watched, path, log });
    if (isApp) await file.begin();
    return file;
  } catch (error) {
    handle.close();
    throw error;
  }
}

/** Parts of {@linkcode OpenFile}. */
interface FileParts {
  readonly path: string;
  /** The log of the file, beside it; undefined in memory. */
  readonly wal: Deno.FsFile | undefined;
  readonly watched: DatabaseFile | undefined;
  readonly log: LogSink;
}

class OpenFile implements SqliteFile {
  readonly db: Connection;
  readonly guard: Guard;
  readonly place: Place;
  readonly commits: GroupCommit;
  readonly #path: string;
  readonly #watched: DatabaseFile | undefined;
  readonly #disk: Disk | undefined;
  readonly #maintenance: Maintenance | undefined;
  readonly #closing = Promise.withResolvers<void>();

  constructor(db: Connection, guard: Guard, { path, wal, watched, log }: FileParts) {
    this.db = db;
    this.guard = guard;
    this.#path = path;
    this.#watched = watched;
    this.place = wal && places.get(path) || { openings: 0 };
    this.place.openings++;
    if (wal) {
      places.set(path, this.place);
      this.#maintenance = new Maintenance({
        ...{ path, db, wal, log },
        files: { [path]: Deno.statSync(path), [`${path}-wal`]: wal.statSync() },
        pause: (work) => this.commits.pause(work),
      });
      this.#disk = new Disk({
        ...{ folder: dirname(path), db, wal, log },
        tryToWrite: () =>
          this.commits.run({ isIntake: false, run: () => void db.run(WRITE_HEADER) }),
        written: () => this.#maintenance!.written(),
      });
    }
    this.commits = new GroupCommit(db, this.#disk);
  }

  /** Starts the Worker of the maintenance. */
  async begin(): Promise<void> {
    await this.#maintenance?.begin();
  }

  check(): void {
    this.#watched?.check();
    this.#disk?.check();
  }

  async listen(wake: () => void): Promise<void> {
    let seen = this.#foreignVersion();
    const timer = setInterval(() => {
      const version = this.#foreignVersion();
      if (version !== seen) wake();
      seen = version;
    }, LOOK_MS);
    // It ends with whatever else keeps the process alive.
    Deno.unrefTimer(timer);
    await this.#closing.promise;
    clearInterval(timer);
  }

  /** Returns the version of what others have written; undefined while the file cannot be read. */
  #foreignVersion(): number | undefined {
    try {
      return this.db.foreignVersion;
    } catch {
      return undefined;
    }
  }

  async close(): Promise<void> {
    this.#closing.resolve();
    if (--this.place.openings === 0) places.delete(this.#path);
    const looked = this.#watched?.close();
    const ended = this.#maintenance?.close();
    if (ended) await ended;
    this.#disk?.close();
    this.db.close();
    await looked;
  }
}
