import { mayHoldSecrets, withoutCredentials } from "../../../core/hosts.ts";
import { reasonOf } from "../../../core/mod.ts";
import { type ExistingDatabases, NoDatabaseError } from "../store_definition.ts";
import { answered, KvDatabase } from "./_kv_database.ts";
import { isRemoteKv, otherScheme } from "./_kv_file.ts";

/** Beginning of every SQLite file. */
const SQLITE_HEADER = "SQLite format 3\0";

/** KVs that are there already, by their paths or URLs. */
export const existingKvs: ExistingDatabases = {
  variable: "KV_URL",
  byDefault: "Deno's default one for this script and configuration file",
  async open(place, create) {
    return new KvDatabase(await openKv(place, create), { isOwn: true });
  },
};

/** Opens an existing KV. Deno itself would create a missing file, and change a file of another kind. */
async function openKv(place: string | undefined, create: boolean): Promise<Deno.Kv> {
  if (typeof Deno.openKv !== "function") {
    throw new NoDatabaseError("Deno.openKv is missing: run the tool with deno run --unstable-kv");
  }
  if (place !== undefined && !isRemoteKv(place)) await checkFile(place, create);
  try {
    return await answered(Deno.openKv(place));
  } catch (error) {
    const given = place === undefined ? [] : [place];
    const reason = withoutCredentials(reasonOf(error), given, "the given KV");
    throw new Error(`Cannot open the database: ${reason}`, { cause: error });
  }
}

async function checkFile(path: string, create: boolean): Promise<void> {
  if (path === ":memory:") {
    throw new NoDatabaseError("A KV in memory can be read only by its own process");
  }
  const scheme = otherScheme(path);
  if (scheme !== undefined) {
    throw new NoDatabaseError(
      `The KV must be a path, or a URL with http or https, and begins with ${scheme}`,
    );
  }
  // A path that does not exist may be a URL with a typing error.
  const shown = mayHoldSecrets(path) ? "of that name" : path;
  const header = await readHeader(path).catch((error) => {
    if (create && error instanceof Deno.errors.NotFound) return SQLITE_HEADER;
    if (error instanceof Deno.errors.NotFound) {
      throw new NoDatabaseError(`There is no KV file ${shown}`);
    }
    throw new NoDatabaseError(`The KV file cannot be read: ${error.name}`);
  });
  if (header !== SQLITE_HEADER) throw new NoDatabaseError(`There is no KV in the file ${shown}`);
}

async function readHeader(path: string): Promise<string> {
  if (!(await Deno.stat(path)).isFile) return "";
  using file = await Deno.open(path);
  const bytes = new Uint8Array(SQLITE_HEADER.length);
  const count = await file.read(bytes);
  return new TextDecoder().decode(bytes.subarray(0, count ?? 0));
}
