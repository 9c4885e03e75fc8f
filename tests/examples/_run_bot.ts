import { assert } from "@std/assert";
import { type AppOptions, startApp } from "../../dev/harness/start_app.ts";

/** The address of an example. */
export const exampleOf = (name: string): URL => new URL(`../../examples/${name}`, import.meta.url);

/** Reads the flags of the command in an example's header, as in docs/recipes.md, with the tests' hosts. */
async function flagsOf(script: URL): Promise<string[]> {
  const [command = ""] = /deno run [^]*?\.ts\n/.exec(await Deno.readTextFile(script)) ?? [];
  const [flagged = ""] = /--allow[^]* examples\/\w+\.ts(?=\n$)/.exec(command) ?? [];
  const [allowed] = flagged.split(" --unstable-kv "); // which is in the reader's deno.json
  const recipes = await Deno.readTextFile(new URL("../../docs/recipes.md", import.meta.url));
  assert(
    flagged !== "" && recipes.includes(`deno run ${allowed} `),
    `docs/recipes.md shows another command: ${flagged}`,
  );
  const flags = flagged.match(/--[\w-]+(?:=\S+)?/g) ?? [];
  return flags.map((flag) => flag.replace(/^(--allow-net)=.*/, "$1=127.0.0.1"));
}

/** Makes the options of an example's process: it gets the permissions that its header names, no others. */
export async function optionsOf(name: string, env: Record<string, string>): Promise<AppOptions> {
  const script = exampleOf(name);
  return { script, flags: await flagsOf(script), env: { KV_URL: ":memory:", ...env } };
}

/** Starts an example in a process of its own. */
export async function startExample(name: string, env: Record<string, string>) {
  return startApp(await optionsOf(name, env));
}
