/**
 * Runs something with a folder for all temporary files, its own and those of the processes it starts:
 * stores of hundreds of megabytes must not be left behind when it is interrupted.
 */
export async function withTempFolder(fn: () => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "edge-base-bench-" });
  Deno.env.set("TMPDIR", folder);
  const interrupted = () => {
    Deno.removeSync(folder, { recursive: true });
    Deno.exit(130);
  };
  Deno.addSignalListener("SIGINT", interrupted);
  try {
    await fn();
  } finally {
    Deno.removeSignalListener("SIGINT", interrupted);
    await Deno.remove(folder, { recursive: true });
  }
}
