import { sleep } from "../../../core/timeouts.ts";
import { Connection } from "./_connection.ts";
import { Guard } from "./_guard.ts";
import { bringToLayout, layoutOf } from "./_schema.ts";

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
  /** Writes to the disk what is committed; undefined if there is nothing to wait for. */
  sync(): Promise<void> | undefined;
  /** Calls back when another connection has written. Resolves when the file is closed. */
  listen(wake: () => void): Promise<void>;
  close(): void;
}

/** A file, for all who have opened it in this process. */
interface Place {
  /** The number of those. */
  openings: number;
}

/** The files that are open in this process, by their paths. */
const places = new Map<string, Place>();

/**
 * Opens a file, and brings it to the latest layout.
 *
 * @param path The path, or `:memory:`.
 * @param mayBeEmpty False if it must be an event store already.
 * @returns The file.
 * @throws {Error} If it cannot be opened, is no event store, or this program may not use its layout.
 */
export async function openSqliteFile(path: string, mayBeEmpty = true): Promise<SqliteFile> {
  const { DatabaseSync } = await import("node:sqlite");
  const handle = new DatabaseSync(path);
  const db = new Connection(handle);
  try {
    db.one(`pragma busy_timeout = ${BUSY_TIMEOUT_MS}`);
    // Another program's file is left as it is.
    const layout = await db.whenFree(() => layoutOf(db));
    if (layout === 0 && !mayBeEmpty) throw new Error("there is no event store in it");
    db.one("pragma auto_vacuum = incremental");
    await db.whenFree(() => db.one("pragma journal_mode = wal"));
    db.one("pragma synchronous = normal");
    await bringToLayout(db);
    // Synced beside the event loop, which a sync by SQLite would hold.
    const log = path === ":memory:" ? undefined : await Deno.open(`${path}-wal`, { write: true });
    return new OpenFile(db, new Guard(handle), log, path);
  } catch (error) {
    handle.close();
    throw error;
  }
}

class OpenFile implements SqliteFile {
  readonly db: Connection;
  readonly guard: Guard;
  readonly place: Place;
  readonly #log: Deno.FsFile | undefined;
  readonly #path: string;
  readonly #closing = new AbortController();

  constructor(db: Connection, guard: Guard, log: Deno.FsFile | undefined, path: string) {
    this.db = db;
    this.guard = guard;
    this.#log = log;
    this.#path = path;
    this.place = log && places.get(path) || { openings: 0 };
    this.place.openings++;
    if (log) places.set(path, this.place);
  }

  sync(): Promise<void> | undefined {
    return this.#log?.syncData();
  }

  async listen(wake: () => void): Promise<void> {
    const { signal } = this.#closing;
    let seen = this.#dataVersion;
    while (!signal.aborted) {
      await sleep(LOOK_MS, signal).catch(() => {});
      if (signal.aborted) return;
      const version = this.#dataVersion;
      if (version !== seen) wake();
      seen = version;
    }
  }

  /** Changes when another connection has written: https://sqlite.org/pragma.html#pragma_data_version. */
  get #dataVersion(): number {
    return this.db.one<{ data_version: number }>("pragma data_version")!.data_version;
  }

  close(): void {
    this.#closing.abort();
    if (--this.place.openings === 0) places.delete(this.#path);
    this.#log?.close();
    this.db.close();
  }
}
