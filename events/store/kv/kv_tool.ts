import { withoutCredentials } from "../../../core/hosts.ts";
import { reasonOf } from "../../../core/mod.ts";
import { checkDatabaseFile } from "../database_file.ts";
import { type ExistingDatabases, NoDatabaseError } from "../store_definition.ts";
import { answered, isRemoteKv, KvDatabase, otherScheme } from "./_kv_database.ts";

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
  const scheme = otherScheme(path);
  if (scheme !== undefined) {
    throw new NoDatabaseError(
      `The KV must be a path, or a URL with http or https, and begins with ${scheme}`,
    );
  }
  await checkDatabaseFile("KV", path, create);
}
