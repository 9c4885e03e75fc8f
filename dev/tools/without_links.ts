/**
 * Takes the stand-ins for JSR's packages out of a checkout: `without_links.ts FOLDER`. From then on Deno
 * loads the packages themselves, from JSR. Continuous integration does so before it runs all once more,
 * and before it publishes: with `links` in use, `deno publish` refuses.
 *
 * @module
 */

/** The part of a configuration, or of a lock file, that has links. */
interface WithLinks {
  links?: unknown;
  readonly workspace?: { links?: unknown };
}

/** Takes the links out of the configurations and lock files of a folder. */
export async function removeLinks(folder: URL): Promise<void> {
  for (const name of ["deno.json", "deno.lock", "dev/bench/deno.json", "dev/bench/deno.lock"]) {
    const file = new URL(name, folder);
    const text = await Deno.readTextFile(file).catch((error) => {
      if (error instanceof Deno.errors.NotFound) return undefined;
      throw error;
    });
    if (text === undefined) continue;
    const json: WithLinks = JSON.parse(text);
    delete json.links;
    delete json.workspace?.links;
    await Deno.writeTextFile(file, `${JSON.stringify(json, null, 2)}\n`);
  }
}

if (import.meta.main) {
  const [folder] = Deno.args;
  if (folder === undefined) throw new TypeError("Usage: without_links.ts FOLDER");
  await removeLinks(new URL(`${folder}/`, `file://${Deno.cwd().replaceAll("\\", "/")}/`));
}
