import {
  checkFilled,
  checkOptions,
  checkPart,
  checkWellFormed,
  oneOf,
  type OptionCheck,
} from "../../../core/check_options.ts";
import { withDeadline } from "../../../core/timeouts.ts";
import type { DatabaseFile } from "../database_file.ts";
import type { EventStore } from "../event_store.ts";
import { createEventStore, STORE_OPTIONS } from "../open_store.ts";
import type { EventStoreOptions } from "../store_core.ts";
import type { Database } from "../store_definition.ts";
import type { KvCommit } from "./_kv_guard.ts";
import { storeKeys } from "./_layout.ts";
import type { KvStoreOptions } from "./_parts.ts";
import { leap, readFirst } from "./_reads.ts";
import { openKvEngine } from "./kv_engine.ts";
import { listenersEnded } from "./notifier.ts";

/** Longest wait for a KV to open: Deno tries a remote KV that does not answer forever. */
export const KV_TIMEOUT_MS = 10_000;

/** Number of first key parts that are looked at in a start: the keys of a user may begin with ids. */
const MAX_LOOKED_AT = 50;

const DOING = "open the event store";

const OPTIONS: Record<keyof KvStoreOptions, OptionCheck | undefined> = {
  namespace: checkNamespace,
  notifier: oneOf("auto", "enqueue", "watch"),
  ...STORE_OPTIONS,
};

/**
 * Opens the event store in a KV.
 *
 * @param kv The KV. The store does not close it.
 * @param options The namespace, notifier and retention.
 * @returns The store.
 * @throws {TypeError} If the KV or an option is something else, or the KV does not have the wanted notifier.
 * @throws {RangeError} If the retention, or a limit of the payloads that are kept, is out of range.
 *
 * @example
 * ```ts
 * import { openEventStore } from "@org/edge-base";
 * import { assertEquals } from "@std/assert";
 *
 * using kv = await Deno.openKv(":memory:");
 * const store = await openEventStore(kv);
 * assertEquals(store.notifier, "enqueue");
 * ```
 *
 * @category Event store and worker
 */
export async function openEventStore(
  kv: Deno.Kv,
  options: KvStoreOptions = {},
): Promise<EventStore<KvCommit, Deno.Kv>> {
  checkOptions(DOING, options, OPTIONS);
  checkPart(DOING, kv, "atomic", "the KV must be what Deno.openKv() resolves with");
  const { namespace: _namespace, notifier: _notifier, ...own } = options;
  return createEventStore(await openKvEngine(kv, options), own);
}

function checkNamespace(doing: string, name: string, value: unknown): void {
  checkFilled(doing, name, value);
  checkWellFormed(doing, name, value);
}

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
    if (isOwn && this.#answers) {
      this.#kv.close();
      await listenersEnded(this.#kv);
    }
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

/**
 * Lists the namespaces of the event stores in a KV, for a tool that is not told which one is meant.
 *
 * @param kv The KV.
 * @returns The namespaces under which there are events, sorted.
 *
 * @example
 * ```ts
 * import { listNamespaces } from "@org/edge-base/events";
 * import { assertEquals } from "@std/assert";
 *
 * using kv = await Deno.openKv(":memory:");
 * assertEquals(await listNamespaces(kv), []);
 * ```
 *
 * @category Event store and worker
 */
export async function listNamespaces(kv: Deno.Kv): Promise<string[]> {
  const found: string[] = [];
  for await (const namespace of firstParts(kv)) {
    if (await hasEvents(kv, namespace)) found.push(namespace);
  }
  return found;
}

/**
 * Finds the namespaces whose events an app may have left behind when it got another name. Each of the first 50
 * first parts of keys takes up to four reads.
 *
 * @param kv The KV.
 * @param own The app's namespace.
 * @returns The other namespaces with events that are not done, sorted, and whether the app's namespace holds any
 * event.
 */
export async function findLeftNamespaces(
  kv: Deno.Kv,
  own: string,
): Promise<{ readonly others: readonly string[]; readonly hasOwn: boolean }> {
  const others: string[] = [];
  const hasOwn = await hasEvents(kv, own);
  let lookedAt = 0;
  for await (const namespace of firstParts(kv)) {
    const isOther = namespace !== own;
    if (isOther && await hasEvents(kv, namespace) && await hasOpenEvents(kv, namespace)) {
      others.push(namespace);
    }
    if (++lookedAt === MAX_LOOKED_AT) break;
  }
  return { others, hasOwn };
}

/** Lists the texts that keys begin with, each once and with one read. */
async function* firstParts(kv: Deno.Kv): AsyncGenerator<string> {
  // Texts sort before numbers, so the range ends after the last text.
  const all = { start: [""], end: [-Infinity] };
  for await (const [part] of leap(kv, all, ([part]) => [`${String(part)}\0`])) yield String(part);
}

function hasEvents(kv: Deno.Kv, namespace: string): Promise<boolean> {
  return hasAny(kv, storeKeys(namespace).eventsBetween(0, Infinity));
}

/** Checks for events that wait or run, so that there is a schedule entry, and for dead ones. */
async function hasOpenEvents(kv: Deno.Kv, namespace: string): Promise<boolean> {
  const { schedule, deadIndex } = storeKeys(namespace);
  return await hasAny(kv, schedule) || await hasAny(kv, deadIndex);
}

async function hasAny(kv: Deno.Kv, selector: Deno.KvListSelector): Promise<boolean> {
  return await readFirst(kv, selector) !== undefined;
}
