import { consoleSink, type LogSink } from "../../../core/mod.ts";
import { ClosedError } from "../engine.ts";
import { Connections, type PgValue, type Session } from "./_connections.ts";
import { buildIndexes } from "./_index_builds.ts";
import type { PgSettings } from "./_pool.ts";
import { bringToLayout, layoutOf, lockSchema } from "./_schema.ts";
import { checkStatements, type PostgresReader } from "./_tx.ts";
import { WakeUps } from "./_wake_ups.ts";

/** A place of events, for all who have opened it in this process. */
interface Place {
  /** The number of those. */
  openings: number;
}

/** The places that are open in this process, by their servers and schemas. */
const places = new Map<string, Place>();

/** A clock of the server that is not asked for more than so long ago is still right, in milliseconds. */
const ASK_CLOCK_MS = 600_000;

/** Options of {@linkcode OpenDatabase.open}. */
export interface OpenDatabaseOptions {
  /** Name of the schema. */
  readonly schema: string;
  /** The largest number of connections for handlers' transactions. */
  readonly handlers: number;
  /**
   * False if the tables of a store must be there already.
   *
   * @default {true}
   */
  readonly mayBeEmpty?: boolean | undefined;
  /**
   * Settings of a connection that listens for wake-ups, without a pooler in between.
   *
   * @default {undefined} Nothing listens, and nobody is woken.
   */
  readonly listening?: PgSettings | undefined;
  /**
   * Set if it builds the indexes that are missing, beside all else: for an app, which stays.
   *
   * @default {false}
   */
  readonly buildsIndexes?: boolean | undefined;
  /** The log. */
  readonly log?: LogSink | undefined;
}

/** A Postgres database that is open, with the tables of a store in one of its schemas. */
export class OpenDatabase {
  readonly db: Connections;
  /** The same object for each opening of the schema in this process. */
  readonly place: Place;
  readonly reader: PostgresReader;
  /** Resolves when it is closed. */
  readonly whenClosed: Promise<void>;
  /** Wake-ups between processes; undefined if nothing listens. */
  readonly wakeUps: WakeUps | undefined;
  readonly #key: string;
  readonly #closed = Promise.withResolvers<void>();
  readonly #closing = new AbortController();
  #building: Promise<void> | undefined;
  #isClosed = false;
  #aheadMs = 0;
  #askAt = 0;

  private constructor(db: Connections, key: string, wakeUps: WakeUps | undefined) {
    this.db = db;
    this.wakeUps = wakeUps;
    this.#key = key;
    this.place = places.get(key) ?? { openings: 0 };
    this.place.openings++;
    places.set(key, this.place);
    this.whenClosed = this.#closed.promise;
    this.reader = {
      query: async <T>(text: string, values: readonly unknown[] = []) => {
        if (this.#isClosed) throw new ClosedError();
        checkStatements(text);
        const rows = await this.db.read<T>(text, values as PgValue[]);
        return { rows, rowCount: rows.length };
      },
    };
  }

  /**
   * Opens a database, and brings its schema to the latest layout.
   *
   * @param settings The settings of the client.
   * @param options The schema and the number of connections.
   * @returns The database.
   * @throws {Error} If it cannot be reached, or this program may not use its layout.
   */
  static async open(
    settings: PgSettings,
    { schema, handlers, mayBeEmpty = true, listening, buildsIndexes, log = consoleSink }:
      OpenDatabaseOptions,
  ): Promise<OpenDatabase> {
    const db = await Connections.to(settings, { schema: `"${schema}"`, handlers });
    try {
      await checkEncoding(db);
      if (!mayBeEmpty && await layoutOf(db) === 0) {
        throw new Error(
          `its schema ${schema} has no event store. The URL may name another by ?store_schema=`,
        );
      }
      await bringToLayout(db);
      const key = JSON.stringify([settings.host, settings.port, settings.database, schema]);
      const wakeUps = listening &&
        await WakeUps.open({ settings: listening, db, channel: schema, log });
      const database = new OpenDatabase(db, key, wakeUps);
      await database.#askClock();
      const { signal } = database.#closing;
      if (buildsIndexes) database.#building = buildIndexes({ settings, db, log, signal });
      return database;
    } catch (error) {
      await db.close();
      throw error;
    }
  }

  /** Lets one process after the other change what is in the schema beside events, until its transaction ends. */
  readonly lock = (tx: Session): Promise<void> => lockSchema(tx, this.db.schema);

  /** Returns the time by the server's clock, milliseconds since the epoch. */
  now(): number {
    if (performance.now() > this.#askAt) this.#askClock().catch(() => {});
    return Date.now() + this.#aheadMs;
  }

  /** Asks for the server's clock. It is the same as this process's if it is between the question and the answer. */
  async #askClock(): Promise<void> {
    this.#askAt = performance.now() + ASK_CLOCK_MS;
    const asked = Date.now();
    const [row] = await this.db.all<{ now: number }>(
      "select (extract(epoch from clock_timestamp()) * 1000)::float8 as now",
    );
    const answered = Date.now();
    const now = row!.now;
    // By 1 ms, to which this process's clock is rounded.
    const isSame = now >= asked - 1 && now <= answered + 1;
    this.#aheadMs = isSame ? 0 : Math.round(now - (asked + answered) / 2);
  }

  /** Calls back when another process may have made events due. Resolves when it is closed. */
  async listen(wake: () => void): Promise<void> {
    this.wakeUps?.listen(wake);
    await this.whenClosed;
  }

  /** Closes it. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (--this.place.openings === 0) places.delete(this.#key);
    this.#closed.resolve();
    this.#closing.abort();
    await this.#building;
    await this.wakeUps?.close();
    await this.db.close();
  }
}

/** Encodings of databases that can hold every text: the second one takes all bytes as they are. */
const ENCODINGS: readonly string[] = ["UTF8", "SQL_ASCII"];

/** Checks that a database can hold what senders write: one event that it refuses would fail those beside it. */
async function checkEncoding(db: Session): Promise<void> {
  const [row] = await db.all<{ encoding: string }>(
    "select current_setting('server_encoding') as encoding",
  );
  const { encoding } = row!;
  if (ENCODINGS.includes(encoding)) return;
  throw new Error(`it has the encoding ${encoding}, which lacks characters: make one with UTF8`);
}
