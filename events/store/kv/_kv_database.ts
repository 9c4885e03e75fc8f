import { withDeadline } from "../../../core/timeouts.ts";
import type { DatabaseFile } from "../database_file.ts";
import type { EventStore } from "../event_store.ts";
import type { EventStoreOptions } from "../store_core.ts";
import type { Database } from "../store_definition.ts";
import type { KvCommit } from "./_own_keys.ts";
import type { KvStoreOptions } from "./_parts.ts";
import { findLeftNamespaces, listNamespaces } from "./namespaces.ts";
import { openEventStore } from "./open_event_store.ts";

/** Longest wait for a KV to open: Deno tries a remote KV that does not answer forever. */
export const KV_TIMEOUT_MS = 10_000;

/** Checks whether the place of a KV is the URL of a remote one. */
export function isRemoteKv(place: string): boolean {
  return /^https?:\/\//i.test(place);
}

/** Finds the scheme of what cannot be the place of a KV: of another URL, or `kv:`, which only `--store` takes. */
export function otherScheme(place: string): string | undefined {
  return isRemoteKv(place) ? undefined : /^(?:kv:|\w+:(?=\/\/))/.exec(place)?.[0];
}

/** Error of a KV that does not answer. Closing that KV would block the process. */
export class NoAnswerError extends Error {}

/**
 * Waits for a KV's answer, but not forever.
 *
 * @param answer The answer.
 * @param withinMs The longest wait, in milliseconds.
 * @returns The answer.
 * @throws {Error} If it does not come in time.
 */
export async function answered<T>(answer: Promise<T>, withinMs = KV_TIMEOUT_MS): Promise<T> {
  let isThere = false;
  const watched = answer.finally(() => isThere = true);
  try {
    return await withDeadline(watched, withinMs);
  } catch (error) {
    if (isThere) throw error;
    throw new NoAnswerError(
      `The KV has not answered within ${
        KV_TIMEOUT_MS / 1_000
      } s: it is locked, or cannot be reached`,
    );
  }
}

/** Options of {@linkcode KvDatabase}. */
interface KvDatabaseOptions {
  /** False if somebody else closes the KV. */
  readonly isOwn: boolean;
  /**
   * Notifier that wakes workers.
   *
   * @default {"auto"}
   */
  readonly notifier?: KvStoreOptions["notifier"];
  /** File that the KV is in; undefined if it is in none that can be watched. */
  readonly file?: DatabaseFile | undefined;
  /**
   * Opens a store.
   *
   * @default {openEventStore}
   */
  readonly openStore?: typeof openEventStore | undefined;
  /**
   * Time by the monotonic clock at which it must be open.
   *
   * @default {undefined} Each answer has 10 s.
   */
  readonly openBy?: number | undefined;
  /**
   * Explains an error.
   *
   * @default {undefined} It is thrown as it is.
   */
  readonly explain?: ((error: unknown) => Promise<Error>) | undefined;
}

/** A KV that is open, with the stores in it. */
export class KvDatabase implements Database<KvCommit, Deno.Kv> {
  readonly #kv: Deno.Kv;
  readonly #options: KvDatabaseOptions;
  #answers = true;

  constructor(kv: Deno.Kv, options: KvDatabaseOptions) {
    this.#kv = kv;
    this.#options = options;
  }

  async openStore(options: EventStoreOptions): Promise<EventStore<KvCommit, Deno.Kv>> {
    const { notifier, openStore = openEventStore } = this.#options;
    return await this.#asked(openStore(this.#kv, { ...options, notifier }));
  }

  async namespaces(): Promise<string[]> {
    return await this.#asked(listNamespaces(this.#kv));
  }

  leftBy(namespace: string): ReturnType<typeof findLeftNamespaces> {
    return findLeftNamespaces(this.#kv, namespace);
  }

  check(): void {
    this.#options.file?.check();
  }

  async close(): Promise<void> {
    const { isOwn, file } = this.#options;
    const looked = file?.close();
    if (isOwn && this.#answers) this.#kv.close();
    await looked;
  }

  async #asked<T>(answer: Promise<T>): Promise<T> {
    const { openBy, explain } = this.#options;
    try {
      return await answered(answer, openBy && openBy - performance.now());
    } catch (error) {
      if (error instanceof NoAnswerError) this.#answers = false;
      throw await explain?.(error) ?? error;
    }
  }
}
