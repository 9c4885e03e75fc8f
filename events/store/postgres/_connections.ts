import { type Lent, type PgClient, type PgSettings, Pool } from "./_pool.ts";

/** A value of a statement. Bytes may be an array, see `_arrays.ts`. */
export type PgValue = string | number | boolean | null | Uint8Array;

/** A row, as a query returns it. */
export type PgRow = Record<string, unknown>;

/** The number of connections for the store itself: intake, work, reading, and one that may be slow. */
const STORE_CONNECTIONS = 5;

/** Object identifiers of types, from Postgres' catalog `pg_type.dat`. */
const [BOOL, BYTEA, INT8, INT4, FLOAT8] = [16, 17, 20, 23, 701] as const;

const PARSERS: Readonly<Record<number, (text: string) => unknown>> = {
  [BOOL]: (text) => text === "t",
  [BYTEA]: (text) => Uint8Array.fromHex(text.slice(2)),
  ...{ [INT8]: Number, [INT4]: Number, [FLOAT8]: Number },
};

const TYPES = { getTypeParser: (type: number) => PARSERS[type] ?? ((text: string) => text) };

/** Thrown if a statement was not answered, so that it is not known whether its transaction was committed. */
export class UnknownOutcomeError extends Error {
  override readonly name = "UnknownOutcomeError";

  constructor(cause: unknown) {
    super("The connection was lost before the database has answered", { cause });
  }
}

/** Runs statements, in a transaction or each by itself. In them `@` stands for the schema. */
export interface Session {
  /** Runs a statement. Returns its rows. */
  all<T = PgRow>(sql: string, ...values: readonly PgValue[]): Promise<T[]>;
  /** Runs a statement. Returns the number of rows that it has changed. */
  run(sql: string, ...values: readonly PgValue[]): Promise<number>;
}

/** A transaction that is open. */
export interface Transaction extends Session {
  /** Its connection. */
  readonly client: PgClient;
}

/** The connections of a process to a database. */
export class Connections implements Session {
  readonly #store: Pool;
  readonly #handlers: Pool;
  readonly #schema: string;
  readonly #statements = new Map<string, string>();

  private constructor(store: Pool, handlers: Pool, schema: string) {
    this.#store = store;
    this.#handlers = handlers;
    this.#schema = schema;
  }

  /**
   * Makes the connections. None is opened before it is used.
   *
   * @param settings The settings of the client.
   * @param options The schema of the store's tables, and the largest number of connections for handlers' transactions.
   */
  static async to(
    settings: PgSettings,
    { schema, handlers }: { readonly schema: string; readonly handlers: number },
  ): Promise<Connections> {
    const pools = await Pool.ofEach(settings, [STORE_CONNECTIONS, handlers]);
    return new Connections(pools[0]!, pools[1]!, schema);
  }

  /** The schema, as an identifier in a statement. */
  get schema(): string {
    return this.#schema;
  }

  async all<T>(sql: string, ...values: readonly PgValue[]): Promise<T[]> {
    return await this.#alone((session) => session.all<T>(sql, ...values));
  }

  async run(sql: string, ...values: readonly PgValue[]): Promise<number> {
    return await this.#alone((session) => session.run(sql, ...values));
  }

  /** Runs a statement of somebody else, which can only read. Returns its rows. */
  async read<T>(text: string, values: readonly PgValue[]): Promise<T[]> {
    return await this.#with(this.#handlers, async (session) => {
      await session.script("begin isolation level read committed, read only");
      try {
        return (await session.client.query({ text, values })).rows as T[];
      } finally {
        await session.rollback();
      }
    });
  }

  /**
   * Does work in a transaction.
   *
   * @param work The work.
   * @param options Whether it is a handler's, which may take long and has connections of its own.
   * @returns Its result, once that is committed.
   * @throws {UnknownOutcomeError} If the commit was not answered.
   * @throws {unknown} If anything else fails: nothing is committed then.
   */
  async transaction<T>(
    work: (tx: Transaction) => Promise<T>,
    { isHandlers = false }: { readonly isHandlers?: boolean } = {},
  ): Promise<T> {
    return await this.#with(isHandlers ? this.#handlers : this.#store, async (session) => {
      await session.script("begin isolation level read committed");
      try {
        const result = await work(session);
        await session.commit();
        return result;
      } catch (error) {
        await session.rollback();
        throw error;
      }
    });
  }

  /** Closes them, once nobody uses them any more. */
  async close(): Promise<void> {
    await Promise.all([this.#store.close(), this.#handlers.close()]);
  }

  /** Runs a statement that is a transaction by itself. */
  async #alone<T>(use: (session: Session) => Promise<T>): Promise<T> {
    return await this.#with(this.#store, async (session) => {
      try {
        return await use(session);
      } catch (error) {
        throw isRefusal(error) ? error : new UnknownOutcomeError(error);
      }
    });
  }

  async #with<T>(pool: Pool, use: (session: OpenSession) => Promise<T>): Promise<T> {
    const lent = await pool.take();
    try {
      return await use(new OpenSession(lent, (sql) => this.#statement(sql)));
    } finally {
      pool.giveBack(lent);
    }
  }

  #statement(sql: string): string {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = sql.replaceAll("@", `${this.#schema}.`);
      this.#statements.set(sql, statement);
    }
    return statement;
  }
}

class OpenSession implements Transaction {
  readonly #lent: Lent;
  readonly #statement: (sql: string) => string;

  constructor(lent: Lent, statement: (sql: string) => string) {
    this.#lent = lent;
    this.#statement = statement;
  }

  get client(): PgClient {
    return this.#lent.client;
  }

  async all<T>(sql: string, ...values: readonly PgValue[]): Promise<T[]> {
    return (await this.#query(sql, values)).rows as T[];
  }

  async run(sql: string, ...values: readonly PgValue[]): Promise<number> {
    return (await this.#query(sql, values)).rowCount ?? 0;
  }

  async script(sql: string): Promise<void> {
    await this.#query(sql, []);
  }

  async commit(): Promise<void> {
    try {
      await this.script("commit");
    } catch (error) {
      throw isRefusal(error) ? error : new UnknownOutcomeError(error);
    }
  }

  async rollback(): Promise<void> {
    if (this.#lent.isLost) return;
    try {
      await this.script("rollback");
    } catch {
      this.#lent.isLost = true;
    }
  }

  async #query(sql: string, values: readonly PgValue[]): ReturnType<PgClient["query"]> {
    try {
      return await this.client.query({ text: this.#statement(sql), values, types: TYPES });
    } catch (error) {
      if (!isRefusal(error)) this.#lent.isLost = true;
      throw error;
    }
  }
}

/** Codes of errors after which the server has closed the connection. */
const CLOSING = /^(?:08|57P|25P0[34])/;

/** Returns the code of an error that the database has answered with; undefined for any other error. */
export function sqlStateOf(error: unknown): string | undefined {
  const { code, severity } = (error ?? {}) as { code?: unknown; severity?: unknown };
  return typeof code === "string" && typeof severity === "string" ? code : undefined;
}

/** Checks for an answer that a statement has failed. After any other error the connection is of no use. */
function isRefusal(error: unknown): boolean {
  const code = sqlStateOf(error);
  return code !== undefined && !CLOSING.test(code);
}

/** Checks for a failure that another try may not meet: a deadlock, or rows that another transaction has changed. */
export function isPassing(error: unknown): boolean {
  return ["40001", "40P01"].includes(sqlStateOf(error) ?? "");
}
