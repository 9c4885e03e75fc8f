import { resolve } from "node:path";
import { reasonOf } from "../../../core/mod.ts";
import type { EventStore, NotPromise } from "../event_store.ts";
import { createEventStore } from "../open_store.ts";
import type { EventStoreOptions } from "../store_core.ts";
import type { Database } from "../store_definition.ts";
import { isDamage } from "./_disk.ts";
import type { SqliteFile } from "./_file.ts";
import { setUp, type SqliteReader, type SqliteTx } from "./_guard.ts";
import { note, noted } from "./_schema.ts";
import { SqlWorker } from "./_sql_worker.ts";
import { openSqliteEngine } from "./sqlite_engine.ts";

/** Name of the note of whose events a file has. */
const NAMESPACE = "namespace";

/** Namespace of events that no app has stored. */
const NO_APP = "events";

/** Options of {@linkcode SqliteDatabase}. */
interface SqliteDatabaseOptions {
  /** Makes the tables of the app that are not there yet. */
  readonly setup?: ((db: SqliteTx) => NotPromise) | undefined;
  /** Explains an error. By default it is thrown as it is. */
  readonly explain?: ((error: unknown) => Promise<Error>) | undefined;
}

/** A SQLite file that is open, with one store in it. */
export class SqliteDatabase implements Database<SqliteTx, SqliteReader> {
  readonly #file: SqliteFile;
  readonly #options: SqliteDatabaseOptions;

  constructor(file: SqliteFile, options: SqliteDatabaseOptions = {}) {
    this.#file = file;
    this.#options = options;
  }

  async openStore(
    { namespace = NO_APP, ...options }: EventStoreOptions,
  ): Promise<EventStore<SqliteTx, SqliteReader>> {
    const { explain } = this.#options;
    try {
      await this.#begin(namespace);
    } catch (error) {
      throw await explain?.(error) ?? error;
    }
    return createEventStore(openSqliteEngine(this.#file), options);
  }

  /** Notes whose events the file has, and makes the tables of its app. */
  async #begin(namespace: string): Promise<void> {
    const { db, guard } = this.#file;
    const { setup } = this.#options;
    if (noted(db, NAMESPACE) === namespace && !setup) return;
    await db.begin();
    try {
      const found = noted(db, NAMESPACE);
      if (found === undefined) note(db, NAMESPACE, namespace);
      else if (found !== namespace) throw new Error(otherEvents(found, namespace));
      if (setup) setUp(db, guard, setup);
      else db.commit();
    } catch (error) {
      db.rollback();
      throw error;
    }
  }

  namespaces(): Promise<string[]> {
    const { db } = this.#file;
    const found = noted(db, NAMESPACE) ?? (db.one("select 1 from event limit 1") && NO_APP);
    return Promise.resolve(found === undefined ? [] : [found]);
  }

  /** No other app's events are in the file. */
  leftBy(): ReturnType<Database["leftBy"]> {
    return Promise.resolve({ others: [], hasOwn: true });
  }

  check(): void {
    this.#file.check();
  }

  /** Reading a snapshot, it holds up no other process, but the event loop of this one. A Worker checks the copy. */
  async backup(path: string): Promise<string | undefined> {
    // SQLite takes what begins with `file:` for a URL.
    await this.#file.db.copyTo(resolve(path));
    const copy = await Deno.open(path, { write: true });
    try {
      await copy.sync();
    } finally {
      copy.close();
    }
    return await damageOf(path);
  }

  close(): Promise<void> {
    return this.#file.close();
  }
}

/** Checks a file that nobody has open, whole: its pages, rows and indexes. Returns the first damage. */
async function damageOf(path: string): Promise<string | undefined> {
  const worker = new SqlWorker();
  try {
    const files = { [path]: await Deno.stat(path) };
    await worker.open({ path: resolve(path), files, setup: "" });
    const found = (await worker.run("pragma integrity_check(1)"))?.integrity_check;
    // The first line only names the database.
    return found === "ok" ? undefined : String(found).split("\n").at(-1);
  } catch (error) {
    if (!isDamage(error)) throw error;
    return reasonOf(error);
  } finally {
    await worker.close();
  }
}

function otherEvents(found: string, wanted: string): string {
  return `it has the events of '${found}', and not of '${wanted}': give each app a file of its own; if this one had ` +
    "another name, give defineApp the option 'namespace' with that name";
}
