/**
 * True if tests run at full length, with more kills, longer floods and backlogs, as in `deno task test:long`.
 * `deno task test`, which is run after each change, has the same tests in short.
 */
export const FULL_LENGTH = isGranted() && Deno.env.get("TEST_LENGTH") === "full";

function isGranted(): boolean {
  return Deno.permissions.querySync({ name: "env", variable: "TEST_LENGTH" }).state === "granted";
}

/** Chooses a number by the length of the tests. */
export function byLength(full: number, short: number): number {
  return FULL_LENGTH ? full : short;
}
