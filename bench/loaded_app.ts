import { type AppProcess, startApp } from "./app_process.ts";
import { type LoadOptions, type LoadResult, runWrk } from "./load/wrk.ts";
import type { Subject } from "./subjects.ts";

/** Runs something with a server on a KV file of its own. */
export async function withApp<T>(
  { script, delivery }: Subject,
  fn: (app: AppProcess) => Promise<T>,
  env: Readonly<Record<string, string>> = {},
): Promise<T> {
  const folder = await Deno.makeTempDir({ prefix: "edge-base-bench-" });
  try {
    await using app = await startApp({ script, kvUrl: `${folder}/kv.db`, delivery, env });
    return await fn(app);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** What comes before each load: real services meet bursts, and one leaves the plain version behind. */
export function warmUp(app: AppProcess, { delivery }: Subject): Promise<LoadResult> {
  return runWrk({ url: app.url, delivery, connections: 32, seconds: 1 });
}

/** What a load has cost the server. */
export interface Cost extends LoadResult {
  readonly cpuMsPerRequest: number;
}

/** Loads a server and measures what it costs. */
export async function load(app: AppProcess, options: Omit<LoadOptions, "url">): Promise<Cost> {
  const before = app.cpuMs();
  const result = await runWrk({ url: app.url, ...options });
  return { ...result, cpuMsPerRequest: (app.cpuMs() - before) / result.requests };
}

/** Waits until a number of events is handled, or for a time. Tells how long it took. */
export async function untilHandled(
  app: AppProcess,
  count: number,
  withinMs: number,
): Promise<{ readonly count: number; readonly ms: number }> {
  const start = performance.now();
  for (;;) {
    const handled = await app.handled();
    const ms = performance.now() - start;
    if (handled.count >= count || ms > withinMs) return { count: handled.count, ms };
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
