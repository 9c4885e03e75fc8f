import { Buffer } from "node:buffer";
import { sleep } from "../../../core/timeouts.ts";
import { ClosedError } from "../engine.ts";
import { type Lent, type PgClient, type PgSettings, Pool } from "./_pool.ts";

/** A value of a statement. Bytes may be an array, see `_arrays.ts`. */
export type PgValue = string | number | boolean | null | Uint8Array;

/** A row, as a query returns it. */
export type PgRow = Record<string, unknown>;

/** The number of connections for the store itself: one for each lane of its commits, and one for reading. */
const STORE_CONNECTIONS = 6;

/** Longest wait of a reader or of a transaction of the user's for a connection, in milliseconds. */
export const FREE_MS = 10_000;

/** Longest time in which the outcome of a lost transaction is asked for, and the pause between two questions, in milliseconds. */
const [ASK_MS, ASK_PAUSE_MS] = [4_000, 100] as const;

/** Object identifiers of types, from Postgres' catalog `pg_type.dat`. */
const [BOOL, BYTEA, INT8, INT4, FLOAT8] = [16, 17, 20, 23, 701] as const;

const PARSERS: Readonly<Record<number, (text: string) => unknown>> = {
  [BOOL]: (text) => text === "t",
  [BYTEA]: bytesOf,
  ...{ [INT8]: Number, [INT4]: Number, [FLOAT8]: Number },
};

/** Characters that stand for others if a server, a database or a user has `bytea_output = escape`. */
const ESCAPED = /\\(\\|[0-7]{3})/g;

function bytesOf(text: string): Uint8Array {
  if (text.startsWith("\\x")) return Uint8Array.fromHex(text.slice(2));
  const character = (_: string, code: string) =>
    code === "\\" ? code : String.fromCharCode(parseInt(code, 8));
  return new Uint8Array(Buffer.from(text.replace(ESCAPED, character), "latin1"));
}

const TYPES = { getTypeParser: (type: number) => PARSERS[type] ?? ((text: string) => text) };

/** Thrown if a statement was not answered, so that it is not known whether its transaction was committed. */
export class UnknownOutcomeError extends Error {
  override readonly name = "UnknownOutcomeError";

  constructor(cause: unknown) {
    super("The connection was lost before the database has answered", { cause });
  }
}

/** Thrown if the connection was lost in the middle of a transaction: nothing of it was committed, nor will be. */
export class LostTransactionError extends Error {
  override readonly name = "LostTransactionError";

  constructor(cause: unknown) {
    super("The connection was lost in the middle of a transaction", { cause });
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
  /** Its number on the server. */
  readonly xid: string;
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
    }, FREE_MS);
  }

  /**
   * Does work in a transaction. If its commit is not answered, the server is asked by the transaction's number what has
   * become of it.
   *
   * @param work The work.
   * @param options Whether it is a handler's, which may take long and has connections of its own, a function that is
   * called once a connection is there, and may throw if that has come too late, and the longest wait for it.
   * @returns Its result, once that is committed.
   * @throws {UnknownOutcomeError} If the commit was not answered, and nor was the question.
   * @throws {unknown} If anything else fails: nothing is committed then.
   */
  async transaction<T>(
    work: (tx: Transaction) => Promise<T>,
    { isHandlers = false, checkTurn, freeMs }: {
      readonly isHandlers?: boolean;
      readonly checkTurn?: () => void;
      readonly freeMs?: number | undefined;
    } = {},
  ): Promise<T> {
    const { result, xid, lost } = await this.#with(
      isHandlers ? this.#handlers : this.#store,
      (session) => {
        checkTurn?.();
        return session.transaction(work);
      },
      freeMs,
    );
    if (lost === undefined) return result;
    if (await this.#asked(() => this.#isCommitted(xid), lost)) return result;
    throw new LostTransactionError(lost);
  }

  /**
   * Runs a statement that may be run twice, since it finds out whether it was made before: if it is not answered, it is
   * run again.
   *
   * @param first Runs it for the first time.
   * @param again Runs it again. The first one may still be on its way.
   * @returns The result.
   * @throws {UnknownOutcomeError} If it was not answered again.
   */
  async repeatable<T>(
    first: () => Promise<T>,
    again: (lost: UnknownOutcomeError) => Promise<T>,
  ): Promise<T> {
    try {
      return await first();
    } catch (error) {
      if (!(error instanceof UnknownOutcomeError)) throw error;
      return await this.#asked(() => again(error), error);
    }
  }

  /** Asks until there is an answer, for a while: a server that was restarted is there again soon. */
  async #asked<T>(ask: () => Promise<T | undefined>, lost: unknown): Promise<T> {
    const start = performance.now();
    while (performance.now() - start < ASK_MS) {
      try {
        const answer = await ask();
        if (answer !== undefined) return answer;
      } catch (error) {
        // Any other error passes, as while the server starts.
        if (error instanceof ClosedError) break;
      }
      await sleep(ASK_PAUSE_MS);
    }
    throw lost instanceof UnknownOutcomeError ? lost : new UnknownOutcomeError(lost);
  }

  /** Checks whether a transaction was committed; undefined while it still runs. */
  async #isCommitted(xid: string): Promise<boolean | undefined> {
    try {
      const [row] = await this.all<{ status: string }>(
        "select pg_xact_status($1::xid8) as status",
        xid,
      );
      return { committed: true, aborted: false }[row!.status];
    } catch (error) {
      // A standby that has taken over knows nothing of it: it was too late for what the server has sent there.
      if (sqlStateOf(error) === INVALID_VALUE) return false;
      throw error;
    }
  }

  /** Closes them, once nobody uses them any more. */
  async close(): Promise<void> {
    await Promise.all([this.#store.close(), this.#handlers.close()]);
  }

  /**
   * Runs a statement that is a transaction by itself, at the level of isolation that the database has by default. If that
   * one refuses it, because somebody else was faster, it is run at one that waits for others instead.
   */
  async #alone<T>(use: (session: Session) => Promise<T>): Promise<T> {
    return await this.#with(this.#store, async (session) => {
      try {
        return await use(session).catch((error) => {
          if (sqlStateOf(error) !== NOT_SERIALIZABLE) throw error;
          return session.waiting(use);
        });
      } catch (error) {
        throw isRefusal(error) ? error : new UnknownOutcomeError(error);
      }
    });
  }

  async #with<T>(
    pool: Pool,
    use: (session: OpenSession) => Promise<T>,
    freeMs?: number,
  ): Promise<T> {
    const lent = await pool.take(freeMs);
    try {
      return await use(new OpenSession(lent, (sql) => this.statement(sql)));
    } finally {
      pool.giveBack(lent);
    }
  }

  /** Puts the schema into a statement. */
  statement(sql: string): string {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = sql.replaceAll("@", `${this.#schema}.`);
      this.#statements.set(sql, statement);
    }
    return statement;
  }
}

class OpenSession implements Transaction {
  xid = "";
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

  /**
   * Does work in a transaction.
   *
   * @returns The result, the number of the transaction, and the error if its commit was not answered.
   */
  async transaction<T>(
    work: (tx: Transaction) => Promise<T>,
  ): Promise<{ readonly result: T; readonly xid: string; readonly lost?: unknown }> {
    let result: T;
    try {
      await this.#begin();
      result = await work(this);
    } catch (error) {
      await this.rollback();
      if (!this.#lent.isLost || sqlStateOf(error) === READ_ONLY) throw error;
      throw new LostTransactionError(this.#lent.lostBy ?? error);
    }
    const { xid } = this;
    try {
      await this.script("commit");
      return { result, xid };
    } catch (error) {
      if (isRefusal(error)) throw error;
      return { result, xid, lost: error };
    }
  }

  /** Does work in a transaction that waits for others. */
  async waiting<T>(work: (session: Session) => Promise<T>): Promise<T> {
    await this.script("begin isolation level read committed");
    let result: T;
    try {
      result = await work(this);
    } catch (error) {
      await this.rollback();
      throw error;
    }
    await this.script("commit");
    return result;
  }

  async #begin(): Promise<void> {
    const text = "begin isolation level read committed; " +
      "select pg_current_xact_id()::text as xid, current_setting('transaction_read_only') as limited";
    const results = await this.#query(text, []) as unknown;
    type Begun = { readonly rows: { readonly xid: string; readonly limited: string }[] };
    const { xid, limited } = (results as Begun[])[1]!.rows[0]!;
    this.xid = xid;
    if (limited !== "on") return;
    this.#lent.isLost = true;
    throw Object.assign(new Error("The transaction can only read"), {
      ...{ code: READ_ONLY, severity: "ERROR" },
    });
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
      // A connection that may only read stays so, also once the database can be written.
      if (!isRefusal(error) || sqlStateOf(error) === READ_ONLY) this.#lent.isLost = true;
      throw error;
    }
  }
}

/** Codes of errors after which the server has closed the connection. */
const CLOSING = /^(?:08|57P|25P0[34])/;

/** Code of Postgres for rows that another transaction has changed meanwhile. */
const NOT_SERIALIZABLE = "40001";

/** Code of Postgres for a statement that writes where only reading is allowed. */
export const READ_ONLY = "25006";

/** Code of Postgres for a number of a transaction that there has not been. */
const INVALID_VALUE = "22023";

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

/**
 * Checks for a failure that another try may not meet: a deadlock, rows that another transaction has changed, or a
 * connection that was lost, as one is that nobody has used for long.
 */
export function isPassing(error: unknown): boolean {
  return error instanceof LostTransactionError && !isTooLong(error) ||
    [NOT_SERIALIZABLE, "40P01"].includes(sqlStateOf(error) ?? "");
}

/** Checks for a transaction whose connection the server has closed since it took too long. */
export function isTooLong({ cause }: LostTransactionError): boolean {
  return /^25P0[34]$/.test(sqlStateOf(cause) ?? "");
}
