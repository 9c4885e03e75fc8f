/** A need of a test beyond computing: a permission to ask for by name. */
export type Need = "net" | "read" | "write" | "run" | "env";

/** Tests go no further than this machine, so no more is asked for. */
const DESCRIPTORS: Record<Need, Deno.PermissionDescriptor> = {
  net: { name: "net", host: "127.0.0.1" },
  read: { name: "read" },
  write: { name: "write" },
  run: { name: "run" },
  env: { name: "env" },
};

/** Tells whether all needs are met. */
export function isGranted(needs: readonly Need[]): boolean {
  return needs.every((need) => Deno.permissions.querySync(DESCRIPTORS[need]).state === "granted");
}

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
    Deno.permissions.querySync(DESCRIPTORS[need]).state !== "granted"
  );
  const flags = missing.map((need) => `--allow-${need}`).join(" ");
  Deno.test({
    name: missing.length === 0 ? name : `${name} (skipped: needs ${flags})`,
    ignore: missing.length > 0,
    fn,
  });
}
