/**
 * The health check of the containers: `health.ts URL [STATUS]` exits with 0 if the answer to a GET has
 * that status, 200 by default. Otherwise it exits with 1 and writes a line that says why.
 *
 * @module
 */

/** Shorter than the timeout of the health check itself, so that the reason is written. */
const TIMEOUT_MS = 4_000;

const [url = "", expected = "200"] = Deno.args;
try {
  const response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS) });
  await response.body?.cancel();
  if (String(response.status) !== expected) throw new Error(`it answers ${response.status}`);
} catch (error) {
  console.error(`${url} is not healthy: ${error instanceof Error ? error.message : error}`);
  Deno.exit(1);
}
