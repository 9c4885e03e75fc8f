import { type AppProcess, startApp } from "./app_process.ts";
import { pause } from "../harness/until.ts";
import { MEDIAN_BODY } from "./delivery.ts";
import { runLoad } from "./load/load.ts";
import type { LoadOptions, LoadResult } from "./load/load.ts";
import type { Handled } from "./servers/_server.ts";
import type { Subject } from "./subjects.ts";

/** Name of the file with the events of a server. */
export const DATABASE = "store.db";

/** Options of a server that is loaded. */
export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** A folder with the file to start on; it is copied. Without it the store is empty. */
  readonly from?: string | undefined;
}

/** Runs something with a server on a file of its own. */
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
    await using app = await startApp(subject, { kvUrl: `${folder}/${DATABASE}`, env });
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

/** Pause between two looks at the number of events that are handled. */
const POLL_MS = 100;

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
    await pause(POLL_MS);
  }
}

/** Events that are not handled by then never will be. */
const HANDLED_WITHIN_MS = 30_000;

/**
 * Waits until no event is left, also of the requests whose answers the load did not wait for.
 *
 * @param app The server.
 * @param least Number of events that were accepted since its start, at least.
 * @returns The number of events it has handled since its start.
 * @throws {Error} If it has not handled them within 30 s.
 */
export async function allHandled(app: AppProcess, least: number): Promise<number> {
  let { count } = await untilHandled(app, least, HANDLED_WITHIN_MS);
  if (count < least) throw new Error(`${least - count} events were not handled`);
  for (;;) {
    await pause(POLL_MS);
    const later = (await app.handled()).count;
    if (later === count) return count;
    count = later;
  }
}
