/** What a test needs beyond computing: permissions to ask for by name. */
export type Need = "net" | "read" | "write" | "run" | "env";

/**
 * Registers a test that needs permissions. Without them, as in a plain `deno test`, it is reported as
 * ignored, and its name says what was missing.
 */
export function testWith(
  needs: readonly Need[],
  name: string,
  fn: () => void | Promise<void>,
): void {
  const missing = needs.filter((need) =>
    Deno.permissions.querySync({ name: need }).state !== "granted"
  );
  const flags = missing.map((need) => `--allow-${need}`).join(" ");
  Deno.test({
    name: missing.length === 0 ? name : `${name} (skipped: needs ${flags})`,
    ignore: missing.length > 0,
    fn,
  });
}
