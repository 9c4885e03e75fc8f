import type { BenchDelivery } from "../delivery.ts";

/** What a load generator is to do. */
export interface LoadOptions {
  readonly url: string;
  readonly delivery: BenchDelivery;
  readonly connections: number;
  readonly seconds: number;
  /** Which part of the requests repeats an id that was sent before, from 0 to 1. */
  readonly redeliveries?: number;
}

/** What came of it. */
export interface LoadResult {
  readonly requests: number;
  /** Answers of status 400 and above. */
  readonly failed: number;
  /** Requests without an answer. */
  readonly broken: number;
  readonly seconds: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

/** Loads a server with `wrk`: each connection sends its next request once it has its answer. */
export async function runWrk(options: LoadOptions): Promise<LoadResult> {
  const { url, delivery, connections, seconds, redeliveries = 0 } = options;
  const folder = await Deno.makeTempDir({ prefix: "edge-base-load-" });
  try {
    const headers = Object.entries(delivery.headers).map(([name, value]) =>
      `${name}: ${value}\r\n`
    );
    await Deno.writeTextFile(`${folder}/headers`, headers.join(""));
    await Deno.writeFile(`${folder}/body`, delivery.body);
    const script = new URL("./wrk.lua", import.meta.url).pathname;
    const { success, stdout, stderr } = await new Deno.Command("wrk", {
      args: [
        ...["--threads", "1", "--connections", String(connections), "--duration", `${seconds}s`],
        ...["--timeout", "30s", "--script", script, url],
      ],
      env: {
        BENCH_BODY: `${folder}/body`,
        BENCH_HEADERS: `${folder}/headers`,
        BENCH_RUN: crypto.randomUUID().slice(0, 8),
        BENCH_REDELIVERIES: String(redeliveries),
      },
    }).output();
    const text = new TextDecoder().decode(stdout);
    const result = /^RESULT (.*)$/m.exec(text)?.[1];
    if (!success || !result) throw new Error(`wrk failed: ${new TextDecoder().decode(stderr)}`);
    return JSON.parse(result);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
