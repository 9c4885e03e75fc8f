/**
 * Tells that this is Deno 2.5, which Deno Deploy runs: some of Deno's own behaviour differs there.
 */
export const ON_DENO_2_5: boolean = Deno.version.deno.startsWith("2.5.");
