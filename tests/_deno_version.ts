/**
 * Whether this is Deno 2.5, which Deno Deploy runs: what is expected of Deno itself is partly another
 * thing there.
 */
export const ON_DENO_2_5: boolean = Deno.version.deno.startsWith("2.5.");
