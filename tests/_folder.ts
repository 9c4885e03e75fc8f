/** Runs a test with a folder of its own, and returns what it returns. */
export async function withFolder<T>(fn: (folder: string) => Promise<T>): Promise<T> {
  const folder = await Deno.makeTempDir();
  try {
    return await fn(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
