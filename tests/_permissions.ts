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

/** Reason for skipping a test that only Linux can run. */
export const UNLESS_LINUX = Deno.build.os === "linux" ? undefined : "needs Linux";

/** Tells whether all needs are met. */
export function isGranted(needs: readonly Need[]): boolean {
  return needs.every((need) => Deno.permissions.querySync(DESCRIPTORS[need]).state === "granted");
}

/**
 * Registers a test that needs permissions. Without them, as in a plain `deno test`, it is reported as
 * ignored, and its name says what was missing.
 *
 * @param needs The permissions.
 * @param name The test's name.
 * @param fn The test.
 * @param missing Another reason to skip it here, such as a program that is not installed.
 */
export function testWith(
  needs: readonly Need[],
  name: string,
  fn: () => void | Promise<void>,
  missing?: string,
): void {
  const flags = needs.filter((need) => !isGranted([need])).map((need) => `--allow-${need}`);
  const reason = flags.length > 0 ? `needs ${flags.join(" ")}` : missing;
  Deno.test({
    name: reason === undefined ? name : `${name} (skipped: ${reason})`,
    ignore: reason !== undefined,
    fn,
  });
}

/** Finds a program in the folders of `PATH` and in others; undefined without it, or if nobody may look. */
export function findProgram(name: string, ...others: readonly string[]): string | undefined {
  if (!isGranted(["run", "env", "read"])) return undefined;
  const folders = (Deno.env.get("PATH") ?? "").split(Deno.build.os === "windows" ? ";" : ":");
  return [...folders, ...others].map((folder) => `${folder}/${name}`).find((path) => {
    try {
      return Deno.statSync(path).isFile;
    } catch {
      return false;
    }
  });
}

/** Reason for skipping a test that needs a program of Linux. */
export function unlessInstalled(name: string): string | undefined {
  return UNLESS_LINUX ?? (findProgram(name) === undefined ? `needs ${name}` : undefined);
}
