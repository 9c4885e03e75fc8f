import { RefusedError } from "../sql/change_making.ts";
import { sqlStateOf, type Transaction } from "./_connections.ts";
import type { PgClient } from "./_pool.ts";

/**
 * Transaction of a Postgres database, for rows of one's own: `query` of `npm:pg`. The store begins and ends the
 * transaction. It refuses statements that would, and settings that would last longer: `set local` ends with it.
 *
 * @category Handlers
 */
export interface PostgresTx {
  /**
   * Runs a statement.
   *
   * @param text The statement, with `$1`, `$2`, ... for values.
   * @param values The values.
   * @returns The rows, and the number of those that it has returned or changed.
   */
  query<TRow = Record<string, unknown>>(
    text: string,
    values?: readonly unknown[],
  ): Promise<{ readonly rows: TRow[]; readonly rowCount: number | null }>;
}

/**
 * Postgres database of an app, for reading: `query` of `npm:pg`. Each statement runs in a transaction that can only read.
 *
 * @category Handlers
 */
export type PostgresReader = PostgresTx;

/** Parts of a text in which a semicolon ends no statement: comments, strings, names, and bodies of functions. */
const QUOTED =
  /--[^\n\r]*|\/\*[^]*?\*\/|\be'(?:[^'\\]|\\[^])*'|'[^']*'|"[^"]*"|\$([a-z_]\w*)?\$[^]*?\$\1\$|\bbegin\s+atomic\b[^]*/gi;

/** Statements that begin or end a transaction. `rollback to` only ends a savepoint. */
const ENDING =
  /(?:^|;)\s*(?:begin|start|commit|end|abort|prepare\s+transaction|rollback(?!\s+(?:work\s+|transaction\s+)?to\b))\b/i;

/** Statements that set something for the transactions of others, which have the connection next. */
const SETTING = /(?:^|;)\s*set\s+(?!(?:local|transaction|constraints)\b)/i;

/** Code of Postgres for a statement after one that has failed. */
const IN_FAILED_TRANSACTION = "25P02";

/** A transaction that a function writes in. */
export class HandlersTransaction implements PostgresTx {
  readonly #client: PgClient;
  #hasEnded = false;
  /** Statements that have not been answered. */
  readonly #running = new Set<Promise<unknown>>();
  /** The error of the first statement that failed: it fails the transaction, unless a savepoint is there. */
  #failure: { readonly error: unknown } | undefined;

  private constructor(client: PgClient) {
    this.#client = client;
  }

  /**
   * Calls a function that writes in a transaction.
   *
   * @param tx The transaction.
   * @param work The function.
   * @returns Its result.
   * @throws {RefusedError} If it throws, or has ended the transaction.
   */
  static async call<T>(tx: Transaction, work: (tx: PostgresTx) => T | Promise<T>): Promise<T> {
    const handlers = new HandlersTransaction(tx.client);
    try {
      const result = await work(handlers);
      await Promise.allSettled(handlers.#running);
      const [found] = await tx.all<{ xid: string | null }>(
        "select pg_current_xact_id_if_assigned()::text as xid",
      );
      if (found?.xid === tx.xid) return result;
      throw new TypeError("A statement has ended the transaction, which the store begins and ends");
    } catch (thrown) {
      // Of a statement that nobody has awaited the next one tells only that it is too late.
      const isLate = sqlStateOf(thrown) === IN_FAILED_TRANSACTION;
      const error = isLate && handlers.#failure ? handlers.#failure.error : thrown;
      throw new RefusedError({ ok: false, why: "effects", error });
    } finally {
      handlers.#hasEnded = true;
    }
  }

  query<TRow>(
    text: string,
    values: readonly unknown[] = [],
  ): Promise<{ readonly rows: TRow[]; readonly rowCount: number | null }> {
    const running = this.#query<TRow>(text, values);
    this.#running.add(running);
    running.then(
      () => this.#running.delete(running),
      (error) => {
        this.#failure ??= { error };
        this.#running.delete(running);
      },
    );
    return running;
  }

  async #query<TRow>(
    text: string,
    values: readonly unknown[],
  ): Promise<{ readonly rows: TRow[]; readonly rowCount: number | null }> {
    if (this.#hasEnded) throw new TypeError("Cannot run the statement: the transaction has ended");
    checkStatements(text);
    const called = new Error();
    try {
      const { rows, rowCount } = await this.#client.query({ text, values });
      return { rows: rows as TRow[], rowCount };
    } catch (error) {
      if (error instanceof Error) {
        // The client names its errors "error", and the records of events have the name.
        if (error.name === "error") error.name = "Error";
        // Its stack does not have the statement of the handler.
        error.stack = called.stack!.replace("Error", () => `${error}`);
      }
      throw error;
    }
  }
}

/**
 * Checks statements of a user.
 *
 * @param text The statements.
 * @throws {TypeError} If one of them begins or ends a transaction, or sets something that would outlast it.
 */
export function checkStatements(text: string): void {
  const statements = text.replace(QUOTED, " ");
  if (ENDING.test(statements)) {
    throw new TypeError("Cannot run the statement: the store begins and ends the transaction");
  }
  if (SETTING.test(statements)) {
    throw new TypeError(
      "Cannot run the statement: other handlers would have the setting as well. Use 'set local'",
    );
  }
}
