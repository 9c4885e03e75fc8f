/** Tells whether fsync can be slowed down here. */
export function hasCompiler(): boolean {
  try {
    return new Deno.Command("cc", { args: ["--version"] }).outputSync().success;
  } catch {
    return false;
  }
}

/**
 * Makes a slow disk: compiles the library that slows fsync down.
 *
 * @returns The variables for the processes on that disk.
 * @throws {Error} If the library cannot be compiled.
 */
export async function slowDisk(): Promise<{ env: Record<string, string> } & AsyncDisposable> {
  const source = new URL("./slow_fsync.c", import.meta.url).pathname;
  const folder = await Deno.makeTempDir({ prefix: "edge-base-disk-" });
  const library = `${folder}/slow_fsync.so`;
  const args = ["-O2", "-shared", "-fPIC", "-o", library, source, "-ldl"];
  const { success, stderr } = await new Deno.Command("cc", { args }).output();
  if (!success) throw new Error(`fsync cannot be slowed down: ${new TextDecoder().decode(stderr)}`);
  return {
    env: { LD_PRELOAD: library },
    [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }),
  };
}
