import { type AppProcess, startApp } from "./app_process.ts";
import { MEDIAN_BODY } from "./delivery.ts";
import { runLoad } from "./load/load.ts";
import type { LoadOptions, LoadResult } from "./load/load_options.ts";
import type { Handled } from "./servers/_handled.ts";
import type { Subject } from "./subjects.ts";

/** Options of a server that is loaded. */
export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** A folder with the KV file to start on; it is copied. Without it the store is empty. */
  readonly from?: string | undefined;
}

/** Runs something with a server on a KV file of its own. */
export async function withApp<T>(
  subject: Subject,
  fn: (app: AppProcess) => Promise<T>,
  { env, from }: RunOptions = {},
): Promise<T> {
  const folder = await Deno.makeTempDir({ prefix: "edge-base-bench-" });
  try {
    for (const { name } of from ? Deno.readDirSync(from) : []) {
      await copy(`${from}/${name}`, `${folder}/${name}`);
    }
    await using app = await startApp(subject, { kvUrl: `${folder}/kv.db`, env });
    return await fn(app);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Copies a file down to the disk: else the server's first commit would wait for that. */
async function copy(from: string, to: string): Promise<void> {
  await Deno.copyFile(from, to);
  using file = await Deno.open(to, { write: true });
  await file.sync();
}

/** Sends the burst that comes before each load: real services meet bursts, and the baseline falls behind in one. */
export function warmUp(app: AppProcess, { sign }: Subject): Promise<LoadResult> {
  return runLoad({ url: app.url, delivery: sign(MEDIAN_BODY), connections: 32, seconds: 1 });
}

/** Cost of a load to the server. */
export interface Cost extends LoadResult {
  readonly cpuMsPerRequest: number;
}

/** Loads a server and measures what it costs. */
export async function load(app: AppProcess, options: Omit<LoadOptions, "url">): Promise<Cost> {
  const before = app.cpuMs();
  const result = await runLoad({ url: app.url, ...options });
  return { ...result, cpuMsPerRequest: (app.cpuMs() - before) / result.requests };
}

/** Waits until a number of events is handled, or for a time. */
export async function untilHandled<T extends Pick<Handled, "count">>(
  app: { handled(): Promise<T> },
  count: number,
  withinMs: number,
): Promise<T> {
  const end = performance.now() + withinMs;
  for (;;) {
    const handled = await app.handled();
    if (handled.count >= count || performance.now() > end) return handled;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
