import { withDeadline } from "../core/deadline.ts";
import { UsageError } from "./_world.ts";

/** A remote KV that does not answer is tried for ever. */
const KV_TIMEOUT_MS = 10_000;

/** What every SQLite file begins with. */
const SQLITE_HEADER = "SQLite format 3\0";

/** The store that is meant. */
export interface MeantStore {
  readonly namespace: string;
  /** What the one who asks should know; undefined if all is as expected. */
  readonly note?: string;
}

/** What a KV that does not answer makes of a call. Closing one would block the process meanwhile. */
export class NoAnswerError extends Error {}

/** Waits for a KV's answer, and not for ever. */
export async function answered<T>(answer: Promise<T>): Promise<T> {
  let isThere = false;
  const watched = answer.finally(() => isThere = true);
  try {
    return await withDeadline(watched, KV_TIMEOUT_MS);
  } catch (error) {
    if (isThere) throw error;
    throw new NoAnswerError(
      `The KV has not answered within ${KV_TIMEOUT_MS / 1_000} s: it is locked, or not reached`,
    );
  }
}

/**
 * Opens a KV that is there: a file that is not would be made, and a file that is something else changed.
 *
 * @param kv A path or URL; undefined for Deno's default database.
 * @throws {UsageError} If there can be no KV.
 */
export async function openKv(kv: string | undefined): Promise<Deno.Kv> {
  if (typeof Deno.openKv !== "function") {
    throw new UsageError("Deno.openKv is missing: run the tool with deno run --unstable-kv");
  }
  if (kv !== undefined && !isHttp(kv)) await checkFile(kv);
  try {
    return await answered(Deno.openKv(kv));
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw new Error(withoutCredentials(message, kv === undefined ? [] : [kv]), { cause: error });
  }
}

/**
 * Takes credentials out of a text: a URL shows no more than its host, and nothing that was given is shown
 * which may be one.
 */
export function withoutCredentials(
  text: string,
  given: readonly string[],
  what = "the given KV",
): string {
  let safe = text;
  for (const each of given.filter(mayHoldSecrets)) safe = safe.replaceAll(each, what);
  return safe.replaceAll(/\w+:\/\/\S+/g, hostOf);
}

async function checkFile(path: string): Promise<void> {
  if (path === ":memory:") throw new UsageError("A KV in memory is seen by its own process only");
  if (/^\w+:\/\//.test(path)) {
    throw new UsageError("The KV must be a path, or a URL with http or https");
  }
  // Not every path that is none is meant as one: it may be a URL with a typing error.
  const shown = mayHoldSecrets(path) ? "of that name" : path;
  const header = await readHeader(path).catch((error) => {
    if (error instanceof Deno.errors.NotFound) throw new UsageError(`There is no KV file ${shown}`);
    throw new UsageError(`The KV file cannot be read: ${error.name}`);
  });
  if (header !== SQLITE_HEADER) throw new UsageError(`There is no KV in the file ${shown}`);
}

async function readHeader(path: string): Promise<string> {
  if (!(await Deno.stat(path)).isFile) return "";
  using file = await Deno.open(path);
  const bytes = new Uint8Array(SQLITE_HEADER.length);
  const count = await file.read(bytes);
  return new TextDecoder().decode(bytes.subarray(0, count ?? 0));
}

function isHttp(kv: string): boolean {
  return /^https?:\/\//.test(kv);
}

function mayHoldSecrets(kv: string): boolean {
  return kv.includes("@") || kv.includes("//");
}

function hostOf(url: string): string {
  try {
    const { protocol, host } = new URL(url);
    return `${protocol}//${host}`;
  } catch {
    return "the URL";
  }
}

/**
 * Finds the store that is meant: the named one, or the only one there is.
 *
 * @throws {UsageError} If there are several to choose from. The message names them.
 */
export async function findStore(kv: Deno.Kv, wanted: string | undefined): Promise<MeantStore> {
  const found = await findNamespaces(kv);
  const [first = "events"] = found;
  const others = found.length === 0 ? "" : `, only of ${found.join(", ")}`;
  if (wanted === undefined && found.length > 1) {
    throw new UsageError(
      `The KV holds several stores, choose one by --namespace: ${found.join(", ")}`,
    );
  }
  if (found.includes(wanted ?? first)) return { namespace: wanted ?? first };
  const whose = wanted === undefined ? "" : ` of ${wanted}`;
  return { namespace: wanted ?? first, note: `There are no events${whose} in this KV${others}` };
}

async function findNamespaces(kv: Deno.Kv): Promise<string[]> {
  const found: string[] = [];
  let start: Deno.KvKey = [""];
  for (;;) {
    // Strings sort before numbers, so this ends behind the last of them.
    const [entry] = await Array.fromAsync(kv.list({ start, end: [-Infinity] }, { limit: 1 }));
    if (!entry) return found;
    const namespace = String(entry.key[0]);
    if (await hasEvents(kv, namespace)) found.push(namespace);
    start = [`${namespace}\0`];
  }
}

async function hasEvents(kv: Deno.Kv, namespace: string): Promise<boolean> {
  const events = kv.list({ prefix: [namespace, "event"] }, { limit: 1 });
  return (await Array.fromAsync(events)).length > 0;
}
