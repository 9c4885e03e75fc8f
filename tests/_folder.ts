/** Runs a function with a temporary folder, and returns its result. */
export async function withFolder<T>(fn: (folder: string) => Promise<T>): Promise<T> {
  const folder = await Deno.makeTempDir();
  try {
    return await fn(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
