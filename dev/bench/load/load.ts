import { runAutocannon } from "./autocannon.ts";
import type { LoadOptions, LoadResult } from "./load_options.ts";
import { runWrk } from "./wrk.ts";

/** The load generator of this machine: `wrk`, or autocannon where that is missing. */
export const GENERATOR: string = findWrk() ?? "autocannon";

/** Loads a server: each connection sends its next request once it has its answer. */
export function runLoad(options: LoadOptions): Promise<LoadResult> {
  return GENERATOR === "autocannon" ? runAutocannon(options) : runWrk(options);
}

function findWrk(): string | undefined {
  try {
    // It ends with exit code 1 when it is asked for its version.
    const { stdout } = new Deno.Command("wrk", { args: ["--version"] }).outputSync();
    return /^wrk \S+/.exec(new TextDecoder().decode(stdout))?.[0];
  } catch {
    return undefined;
  }
}
