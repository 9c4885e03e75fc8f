import { reasonOf } from "../../../core/mod.ts";
import type { EventStore } from "../event_store.ts";
import { createEventStore } from "../open_store.ts";
import type { EventStoreOptions } from "../store_core.ts";
import type { Database } from "../store_definition.ts";
import type { Transaction } from "./_connections.ts";
import type { OpenDatabase } from "./_open_database.ts";
import { note, noted } from "./_schema.ts";
import { HandlersTransaction, type PostgresReader, type PostgresTx } from "./_tx.ts";
import { openPostgresEngine } from "./postgres_engine.ts";

/** Name of the note of whose events a schema has. */
const NAMESPACE = "namespace";

/** Namespace of whoever names none, such as the tool before the app has started: it is not noted. */
const NO_APP = "events";

/** Options of {@linkcode PostgresDatabase}. */
interface PostgresDatabaseOptions {
  /** Makes the tables of the app that are not there yet. */
  readonly setup?: ((tx: PostgresTx) => unknown) | undefined;
  /** Explains an error. By default it is thrown as it is. */
  readonly explain?: ((error: unknown) => Error) | undefined;
  /** Set if the schema goes when it is closed, with {@linkcode ownSchemaOf} it: those of a test. */
  readonly isForTests?: boolean | undefined;
}

/** Thrown if the `setup` of an app fails. */
export class SetupError extends Error {}

/** A Postgres database that is open, with one store in one of its schemas. */
export class PostgresDatabase implements Database<PostgresTx, PostgresReader> {
  readonly #database: OpenDatabase;
  readonly #options: PostgresDatabaseOptions;

  constructor(database: OpenDatabase, options: PostgresDatabaseOptions = {}) {
    this.#database = database;
    this.#options = options;
  }

  async openStore(
    { namespace = NO_APP, ...options }: EventStoreOptions,
  ): Promise<EventStore<PostgresTx, PostgresReader>> {
    const { explain } = this.#options;
    try {
      await this.#begin(namespace);
    } catch (error) {
      throw explain?.(error) ?? error;
    }
    return createEventStore(openPostgresEngine(this.#database), options);
  }

  /** Notes whose events the schema has, and makes the tables of its app: one process after the other. */
  async #begin(namespace: string): Promise<void> {
    const { db, lock } = this.#database;
    const { setup } = this.#options;
    if (!setup && await noted(db, NAMESPACE) === namespace) return;
    await db.transaction(async (tx) => {
      await lock(tx);
      const found = await noted(tx, NAMESPACE);
      if (found === undefined && namespace !== NO_APP) await note(tx, NAMESPACE, namespace);
      if (found !== undefined && found !== namespace) {
        throw new Error(otherEvents(found, namespace));
      }
      if (setup) await setUp(tx, setup);
    }, { isHandlers: true });
  }

  async namespaces(): Promise<string[]> {
    const found = await noted(this.#database.db, NAMESPACE);
    return found === undefined ? [] : [found];
  }

  /** No other app's events are in the schema. */
  leftBy(): ReturnType<Database["leftBy"]> {
    return Promise.resolve({ others: [], hasOwn: true });
  }

  /** A server that is gone is noticed by each change. */
  check(): void {}

  async close(): Promise<void> {
    const { db } = this.#database;
    if (this.#options.isForTests) {
      const own = ownSchemaOf(db.schema.replaceAll('"', ""));
      await db.run(`drop schema if exists ${db.schema}, ${own} cascade`);
    }
    await this.#database.close();
  }
}

/** Names the schema that a test's own tables are in, beside that of its store. */
export function ownSchemaOf(schema: string): string {
  return `${schema}_own`;
}

async function setUp(tx: Transaction, setup: (tx: PostgresTx) => unknown): Promise<void> {
  try {
    await HandlersTransaction.call(tx, setup);
  } catch (error) {
    const cause = (error as { refused?: { error?: unknown } }).refused?.error ?? error;
    throw new SetupError(`its 'setup' has failed: ${reasonOf(cause)}`, { cause });
  }
}

function otherEvents(found: string, wanted: string): string {
  return `its schema has the events of '${found}', and not of '${wanted}': give each app a schema of its own, by the ` +
    "option 'schema' of postgres(); if this one had another name, give defineApp the option 'namespace' with that name";
}
