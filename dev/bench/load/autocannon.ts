import type { LoadOptions, LoadResult } from "./load_options.ts";

/** The part of autocannon's result that is used. */
interface Result {
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
export async function runAutocannon(options: LoadOptions): Promise<LoadResult> {
  const { url, delivery, connections, seconds, redeliveries = 0 } = options;
  const { default: autocannon } = await import("autocannon");
  const run = crypto.randomUUID().slice(0, 8);
  let ids = 0;
  const setupRequest = (request: Request) => {
    const again = ids > RECENT && Math.random() < redeliveries;
    const id = again ? ids - Math.floor(Math.random() * RECENT) : ++ids;
    return { ...request, headers: { ...request.headers, "X-GitHub-Delivery": `${run}-${id}` } };
  };
  const result: Result = await autocannon({
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
