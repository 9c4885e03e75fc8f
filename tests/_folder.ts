/** Runs a test with a folder of its own. */
export async function withFolder(fn: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await fn(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
