import { isGranted, type Need, testWith } from "./_permissions.ts";

/** Reason for skipping a test that needs another version of Deno. */
const MISSING = "needs the path of another Deno in OTHER_DENO";

/** Finds another version of Deno, which continuous integration names. */
function otherDeno(): string | undefined {
  return isGranted(["env", "run"]) ? Deno.env.get("OTHER_DENO") || undefined : undefined;
}

/** Registers a test of two versions of Deno. Without another one its name says why it was skipped. */
export function testTwoDenos(
  needs: readonly Need[],
  name: string,
  fn: (other: string) => Promise<void>,
): void {
  const other = otherDeno();
  testWith(needs, name, () => fn(other!), other ? undefined : MISSING);
}
