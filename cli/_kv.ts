import { isOtherUrl, isRemoteKv } from "../core/hosts.ts";
import { KV_TIMEOUT_MS, withDeadline } from "../core/timeouts.ts";
import { listNamespaces } from "../events/mod.ts";
import { messageOf, UsageError } from "./_world.ts";

/** Beginning of every SQLite file. */
const SQLITE_HEADER = "SQLite format 3\0";

/** Store that a command line refers to. */
interface MeantStore {
  readonly namespace: string;
  /** Note for the user; undefined if all is as expected. */
  readonly note?: string;
}

/** Error of a KV that does not answer. Closing that KV would block the process. */
export class NoAnswerError extends Error {}

/** Waits for a KV's answer, but not forever. */
export async function answered<T>(answer: Promise<T>): Promise<T> {
  let isThere = false;
  const watched = answer.finally(() => isThere = true);
  try {
    return await withDeadline(watched, KV_TIMEOUT_MS);
  } catch (error) {
    if (isThere) throw error;
    throw new NoAnswerError(
      `The KV has not answered within ${
        KV_TIMEOUT_MS / 1_000
      } s: it is locked, or cannot be reached`,
    );
  }
}

/**
 * Opens an existing KV. Deno itself would create a missing file, and change a file of another kind.
 *
 * @param kv A path or URL; undefined for Deno's default database.
 * @param create Set if a file that is missing is made.
 * @throws {UsageError} If there is no KV at the path or URL.
 */
export async function openKv(kv: string | undefined, create = false): Promise<Deno.Kv> {
  if (typeof Deno.openKv !== "function") {
    throw new UsageError("Deno.openKv is missing: run the tool with deno run --unstable-kv");
  }
  if (kv !== undefined && !isRemoteKv(kv)) await checkFile(kv, create);
  try {
    return await answered(Deno.openKv(kv));
  } catch (error) {
    const message = withoutCredentials(messageOf(error), kv === undefined ? [] : [kv]);
    throw new Error(message, { cause: error });
  }
}

/**
 * Removes credentials from a text. Of a URL only the host is shown, and arguments that may hold credentials
 * are not shown at all.
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

async function checkFile(path: string, create: boolean): Promise<void> {
  if (path === ":memory:") {
    throw new UsageError("A KV in memory can be read only by its own process");
  }
  if (isOtherUrl(path)) {
    throw new UsageError("The KV must be a path, or a URL with http or https");
  }
  // A path that does not exist may be a URL with a typing error.
  const shown = mayHoldSecrets(path) ? "of that name" : path;
  const header = await readHeader(path).catch((error) => {
    if (create && error instanceof Deno.errors.NotFound) return SQLITE_HEADER;
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
 * Finds the store: the named one, or the only one in the KV.
 *
 * @throws {UsageError} If there are several stores. The message names them.
 */
export async function findStore(kv: Deno.Kv, wanted: string | undefined): Promise<MeantStore> {
  const found = await listNamespaces(kv);
  const [first = "events"] = found;
  const others = found.length === 0 ? "" : `, only of ${found.join(", ")}`;
  if (wanted === undefined && found.length > 1) {
    throw new UsageError(
      `The KV holds several stores, choose one with --namespace: ${found.join(", ")}`,
    );
  }
  if (found.includes(wanted ?? first)) return { namespace: wanted ?? first };
  const whose = wanted === undefined ? "" : ` of ${wanted}`;
  return { namespace: wanted ?? first, note: `There are no events${whose} in this KV${others}` };
}
