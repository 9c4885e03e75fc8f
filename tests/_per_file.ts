/**
 * Starts something before the first test of a file, and ends it after the last. It must be called while
 * tests are registered.
 *
 * @returns What was started, for a test that runs.
 */
export function perFile<T extends AsyncDisposable>(start: () => T | Promise<T>): () => T {
  let started: T | undefined;
  Deno.test.beforeAll(async () => {
    started = await start();
  });
  Deno.test.afterAll(async () => await started?.[Symbol.asyncDispose]());
  return () => started!;
}
