import { runDeno } from "../../dev/harness/run.ts";

/** Finds Deno's runtime for executables in its cache; undefined if `deno compile` would download it. */
export async function findRuntime(): Promise<string | undefined> {
  const { denoDir } = JSON.parse((await runDeno(["info", "--json"])).stdout);
  const path = `${denoDir}/dl/release/v${Deno.version.deno}/denort-${Deno.build.target}.zip`;
  return await Deno.stat(path).then(() => path, () => undefined);
}
