/**
 * The share of their full length at which tests run that kill, flood or play histories: 0 in `deno task test`, which is
 * run after each change, and a fifth in `deno task test:long`, or what `TEST_LENGTH` says there: 1 is all of it.
 */
const LENGTH = read("LONG_TESTS") === undefined ? 0 : Number(read("TEST_LENGTH") ?? 0.2);

/** True in the long tests, where also what takes long runs that cannot be made shorter. */
export const IS_LONG = LENGTH > 0;

function read(variable: string): string | undefined {
  const { state } = Deno.permissions.querySync({ name: "env", variable });
  return state === "granted" ? Deno.env.get(variable) : undefined;
}

/** Chooses a number by the length of the tests: a share of the full one, and the short one at least. */
export function byLength(full: number, short: number): number {
  return Math.max(short, Math.ceil(full * LENGTH));
}
