/**
 * Links a clone of `denoland/std` instead of the stand-ins for it, in a copy of this repository:
 * `with_std.ts FOLDER STD`. So the tests can run on the originals where JSR cannot be reached.
 *
 * @module
 */
import { relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/** Links the configurations of a folder to a clone. */
export async function linkStd(folder: URL, std: URL): Promise<void> {
  for (const name of ["deno.json", "dev/bench/deno.json"]) {
    const file = new URL(name, folder);
    const json = JSON.parse(await Deno.readTextFile(file));
    const others = json.links.filter((link: string) => !/\/std-\w+$/.test(link));
    const path = relative(fileURLToPath(new URL(".", file)), fileURLToPath(std));
    json.links = [...others, path.replaceAll("\\", "/")];
    await Deno.writeTextFile(file, `${JSON.stringify(json, null, 2)}\n`);
  }
}

if (import.meta.main) {
  const [folder, std] = Deno.args;
  if (folder === undefined || std === undefined) {
    throw new TypeError("Usage: with_std.ts FOLDER STD");
  }
  const here = pathToFileURL(`${Deno.cwd()}/`);
  await linkStd(new URL(`${folder}/`, here), new URL(`${std}/`, here));
}
