import { checkPart } from "../../core/check_options.ts";
import type { Variables } from "../../core/env.ts";
import type { LogSink } from "../../core/mod.ts";
import type { EventStore } from "./event_store.ts";
import type { EventStoreOptions } from "./store_core.ts";

/**
 * Store of an app, as a value: which engine keeps its events, and so what its handlers read and write with. The
 * function of an engine makes it, such as `sqlite()`, and says what that is. Nothing is opened before the app is.
 *
 * @typeParam TTx What `settleWith` gives the functions of handlers.
 * @typeParam TReader What handlers, routes and resources get as `db`.
 * @category Event store and worker
 */
export interface StoreDefinition<TTx = unknown, TReader = unknown> {
  /** Name of the engine: `kv`, `sqlite` or `postgres`. */
  readonly name: string;
  /** Names of the variables that are the store's, and that no other part of the app may read. */
  readonly variables: readonly string[];
  /** The commit or transaction for effects, for the compiler only. */
  readonly tx?: TTx | undefined;
  /** The reader, for the compiler only. */
  readonly db?: TReader | undefined;
}

/** Store as the functions that make one return it. */
export interface DefinedStore<TTx, TReader> extends StoreDefinition<TTx, TReader> {
  /**
   * Reads its variables.
   *
   * @param variables The variables.
   * @param namespace The namespace of the app.
   * @returns The store, ready to be opened.
   * @throws {VariableError} If variables are missing or wrong: the message has all of them.
   */
  readonly prepare: (variables: Variables, namespace: string) => ReadyStore<TTx, TReader>;
  /**
   * Makes a store of the same engine for a test: in the place that the variables name, which may be in memory, and
   * otherwise an empty one, in memory if it can be.
   */
  readonly forTests: () => DefinedStore<TTx, TReader>;
  /**
   * Checks whether the place is one that an app has by default, so that a test on it would touch the app's own events.
   *
   * @param variables The variables.
   * @returns How a test names another place, in words; undefined if it has named one.
   */
  readonly elsewhere: (variables: Variables) => string | undefined;
}

/** Store whose variables have been read. */
export interface ReadyStore<TTx = unknown, TReader = unknown> {
  /**
   * Opens the database.
   *
   * @param log The log of the app.
   * @returns The database.
   * @throws {Error} If it cannot be opened within 10 s. The message has no password.
   */
  readonly open: (log: LogSink) => Promise<Database<TTx, TReader>>;
}

/** Database that is open. The stores of several apps can lie in it, each in its namespace. */
export interface Database<TTx = unknown, TReader = unknown> {
  /**
   * Opens a store in it.
   *
   * @param options The namespace and the other options.
   * @returns The store.
   * @throws {Error} If the database cannot be used. The message has no password.
   */
  openStore(options: EventStoreOptions): Promise<EventStore<TTx, TReader>>;
  /** Lists the namespaces under which there are events, sorted. */
  namespaces(): Promise<string[]>;
  /**
   * Finds the namespaces whose events an app may have left behind when it got another name. It reads little.
   *
   * @param namespace The app's namespace.
   * @returns The other namespaces with events that are not done, sorted, and whether the app's holds any event.
   */
  leftBy(
    namespace: string,
  ): Promise<{ readonly others: readonly string[]; readonly hasOwn: boolean }>;
  /**
   * Checks that what is stored now will be found again. It reads nothing.
   *
   * @throws {Error} If it will not: somebody has deleted the database, say.
   */
  check(): void;
  /**
   * Writes a copy into a new file, while others use it: all that was committed before is in it. The copy is checked.
   * Undefined if the engine cannot.
   *
   * @param path The path of the copy. Nothing is there yet.
   * @returns The damage that the check has found; undefined if there is none.
   */
  readonly backup?: ((path: string) => Promise<string | undefined>) | undefined;
  /** Closes it, if it was opened here. */
  close(): void | Promise<void>;
}

/** Databases of an engine, as the tool opens them: they are there already. */
export interface ExistingDatabases {
  /** Name of the variable with the place of a database. */
  readonly variable: string;
  /** The database that is opened without a place, in words; undefined if each needs one. */
  readonly byDefault?: string;
  /**
   * Opens a database.
   *
   * @param place Its place, such as a path or a URL; undefined for the default one.
   * @param create Set if one that is missing is made.
   * @returns The database.
   * @throws {NoDatabaseError} If there is none, or the place is none that it can be at.
   * @throws {Error} If it cannot be opened within 10 s. The message has no password.
   */
  open(place: string | undefined, create: boolean): Promise<Database>;
  /**
   * Makes the statements that make the tables of an app, for people whose app may not: they also give the user of the
   * database's place the rights that the app needs. It opens nothing. Undefined if there are no such rights.
   *
   * @param place The place of the database, with the user of the app.
   * @returns The statements, as a text that the database's own tool can run.
   * @throws {NoDatabaseError} If the place is none that a database can be at.
   */
  readonly migrations?: ((place: string) => string) | undefined;
}

/** Thrown if there is no database at a place. */
export class NoDatabaseError extends Error {}

/**
 * Checks that something is a store of an app.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param name The name of the option.
 * @param store The value.
 * @throws {TypeError} If it is something else.
 */
export function checkStoreDefinition(doing: string, name: string, store: unknown): void {
  checkPart(doing, store, "prepare", `'${name}' must be a store, such as kv() makes`);
}

/**
 * Reads the variables of a store.
 *
 * @param store The store.
 * @param variables The variables.
 * @param namespace The namespace of the app.
 * @returns The store, ready to be opened.
 * @throws {VariableError} If variables are missing or wrong: the message has all of them.
 */
export function prepareStore<TTx, TReader>(
  store: StoreDefinition<TTx, TReader>,
  variables: Variables,
  namespace: string,
): ReadyStore<TTx, TReader> {
  return (store as DefinedStore<TTx, TReader>).prepare(variables, namespace);
}

/**
 * Makes the store of a test, which never lies where the app has its own.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param app The store of the app.
 * @param given The store that the test gives; undefined for an empty one of the app's engine, in memory if it can be.
 * @param variables The variables of the test.
 * @returns The store.
 * @throws {TypeError} If the one that is given lies where an app has its own.
 */
export function storeForTests<TTx, TReader>(
  doing: string,
  app: StoreDefinition<TTx, TReader>,
  given: StoreDefinition<TTx, TReader> | undefined,
  variables: Variables,
): StoreDefinition<TTx, TReader> {
  if (!given) return (app as DefinedStore<TTx, TReader>).forTests();
  const remedy = (given as DefinedStore<TTx, TReader>).elsewhere(variables);
  if (remedy === undefined) return given;
  throw new TypeError(
    `Cannot ${doing}: 'store' would open the database that apps have by default, with the events of your own. ` +
      `${remedy}, or leave 'store' out for an empty one`,
  );
}
