import { assert } from "@std/assert";
import { type AppOptions, startApp } from "../../dev/harness/start_app.ts";

/** The address of an example. */
export const exampleOf = (name: string): URL => new URL(`../../examples/${name}`, import.meta.url);

/** Reads the flags of the command in an example's header, as in docs/recipes.md, with the tests' hosts. */
async function flagsOf(script: URL): Promise<string[]> {
  const [command = ""] = /deno run [^]*?\.ts\n/.exec(await Deno.readTextFile(script)) ?? [];
  const flags = command.match(/--[\w-]+(?:=\S+)?/g) ?? [];
  const recipes = await Deno.readTextFile(new URL("../../docs/recipes.md", import.meta.url));
  assert(
    flags.length > 0 && recipes.includes(`deno run ${flags.join(" ")} `),
    `docs/recipes.md shows another command: ${command}`,
  );
  return flags.map((flag) => flag.replace(/^(--allow-net)=.*/, "$1=127.0.0.1"));
}

/** Makes the options of an example's process: it gets the permissions that its header names, no others. */
export async function optionsOf(name: string, env: Record<string, string>): Promise<AppOptions> {
  const script = exampleOf(name);
  return { script, flags: await flagsOf(script), env: { SQLITE_FILE: ":memory:", ...env } };
}

/** Starts an example in a process of its own. */
export async function startExample(name: string, env: Record<string, string>) {
  return startApp(await optionsOf(name, env));
}
