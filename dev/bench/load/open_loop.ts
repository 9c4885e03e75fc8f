import type { BenchDelivery } from "../delivery.ts";

/** Deliveries that arrive at a fixed rate, whether or not those before are answered. */
export interface ArrivalOptions {
  readonly url: string;
  readonly delivery: BenchDelivery;
  readonly perSecond: number;
  readonly seconds: number;
}

/**
 * Result of a load at a fixed rate. Times are from when a delivery was scheduled to when it was
 * answered.
 */
export interface ArrivalResult {
  readonly requests: number;
  /** Number of deliveries that were not answered 200. */
  readonly failed: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  /** Delay of the generator itself, p99. */
  readonly lateMs: number;
  /** Share of one core that the generator used, in percent. */
  readonly cpuPercent: number;
}

/** Options that the generator's process is given. */
export interface ArrivalTask {
  readonly port: number;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly bodyFile: string;
  readonly perSecond: number;
  readonly seconds: number;
}

/** Sends deliveries at a fixed rate, from a process of its own. */
export async function runArrivals(options: ArrivalOptions): Promise<ArrivalResult> {
  const { url, delivery: { headers, body }, perSecond, seconds } = options;
  const { port, pathname: path } = new URL(url);
  const bodyFile = await Deno.makeTempFile({ prefix: "edge-base-load-" });
  try {
    await Deno.writeFile(bodyFile, body);
    const task: ArrivalTask = { port: Number(port), path, headers, bodyFile, perSecond, seconds };
    const script = new URL("./_open_loop_process.ts", import.meta.url).href;
    const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "--cached-only", "--quiet", "-A", script, JSON.stringify(task)],
    }).output();
    const text = new TextDecoder().decode(stdout);
    if (text === "") throw new Error(`No load: ${new TextDecoder().decode(stderr)}`);
    return JSON.parse(text);
  } finally {
    await Deno.remove(bodyFile);
  }
}
