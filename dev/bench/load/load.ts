import type { BenchDelivery } from "../delivery.ts";

/** Options of a load generator. */
export interface LoadOptions {
  readonly url: string;
  readonly delivery: BenchDelivery;
  readonly connections: number;
  readonly seconds: number;
  /** Share of the requests that repeats an id that was sent before, from 0 to 1. */
  readonly redeliveries?: number;
}

/** Result of a load. */
export interface LoadResult {
  /** Number of requests that were answered. */
  readonly requests: number;
  /** Number of those with a status of 400 and above. */
  readonly failed: number;
  /** Number of ids that were sent. */
  readonly ids: number;
  readonly seconds: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** The load generator of this machine: `wrk`, or autocannon where that is missing. */
export const GENERATOR: string = findWrk() ?? "autocannon";

/** Loads a server: each connection sends its next request once it has its answer. */
export function runLoad(options: LoadOptions): Promise<LoadResult> {
  return GENERATOR === "autocannon" ? runAutocannon(options) : runWrk(options);
}

/** Loads a server with `wrk`. */
async function runWrk(options: LoadOptions): Promise<LoadResult> {
  const { url, delivery, connections, seconds, redeliveries = 0 } = options;
  const folder = await Deno.makeTempDir({ prefix: "edge-base-load-" });
  try {
    const headers = Object.entries(delivery.headers).map(([name, value]) =>
      `${name}: ${value}\r\n`
    );
    await Deno.writeTextFile(`${folder}/headers`, headers.join(""));
    await Deno.writeFile(`${folder}/body`, delivery.body);
    const script = new URL("./wrk.lua", import.meta.url).pathname;
    const { stdout, stderr } = await new Deno.Command("wrk", {
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
    const result = /^RESULT (.*)$/m.exec(new TextDecoder().decode(stdout))?.[1];
    if (!result) throw new Error(`wrk failed: ${new TextDecoder().decode(stderr)}`);
    return JSON.parse(result);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

function findWrk(): string | undefined {
  try {
    // It ends with exit code 1 when it is asked for its version.
    const { stdout } = new Deno.Command("wrk", { args: ["--version"] }).outputSync();
    return /^wrk \S+/.exec(new TextDecoder().decode(stdout))?.[0];
  } catch {
    return undefined;
  }
}

/** The part of autocannon's result that is used. */
interface AutocannonResult {
  readonly duration: number;
  readonly errors: number;
  readonly non2xx: number;
  readonly requests: { readonly total: number };
  readonly latency: { readonly p50: number; readonly p99: number };
}

interface Request {
  headers: Record<string, string>;
}

/** As many of the last ids may be sent again. */
const RECENT = 1_000;

/** Loads a server with autocannon. It needs more CPU than `wrk`, and measures whole milliseconds. */
async function runAutocannon(options: LoadOptions): Promise<LoadResult> {
  const { url, delivery, connections, seconds, redeliveries = 0 } = options;
  const { default: autocannon } = await import("autocannon");
  const run = crypto.randomUUID().slice(0, 8);
  let ids = 0;
  const setupRequest = (request: Request) => {
    const again = ids > RECENT && Math.random() < redeliveries;
    const id = again ? ids - Math.floor(Math.random() * RECENT) : ++ids;
    return { ...request, headers: { ...request.headers, "X-GitHub-Delivery": `${run}-${id}` } };
  };
  const result: AutocannonResult = await autocannon({
    url,
    connections,
    duration: seconds,
    method: "POST",
    headers: delivery.headers,
    body: new TextDecoder().decode(delivery.body),
    requests: [{ setupRequest }],
  });
  return {
    requests: result.requests.total,
    failed: result.non2xx,
    ids,
    seconds: result.duration,
    p50Ms: result.latency.p50,
    p99Ms: result.latency.p99,
  };
}
