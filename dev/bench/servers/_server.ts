/** Report of a server on the events it has handled. */
export interface Handled {
  /** Number of events since the start. */
  readonly count: number;
  /** Number of events in each second since the first. */
  readonly perSecond: readonly number[];
  /** Time of the report, in milliseconds since the process started. */
  readonly atMs: number;
  /** Times from receipt to the handler, in milliseconds, of the events since the last reset. */
  readonly lagMs: { readonly p50: number; readonly p99: number; readonly max: number };
  /** Longest delay of a timer since the last reset, in milliseconds: for so long nothing else ran. */
  readonly stallMs: number;
}

/** Settings of a server of the benchmark, from its environment. */
export interface ServerSettings {
  readonly port: number;
  readonly hostname: string;
  readonly kvUrl: string;
  readonly secret: string;
  /** Makes it handle events, and not only take them in. */
  readonly worker: boolean;
  /** Over how many ordering keys the deliveries are spread; 0 for none. */
  readonly orderingKeys: number;
  /** Called by the handler with when the event was received. */
  readonly handled: (receivedAt: number) => void;
}

/** Reads a server's settings, serves its counts, and ends it when the benchmark has ended. */
export function startServer(): ServerSettings {
  endWithBenchmark();
  return {
    handled: countHandled(),
    port: Number(variable("PORT")),
    hostname: variable("HOST"),
    kvUrl: variable("KV_URL"),
    secret: variable("FORGE_WEBHOOK_SECRET"),
    worker: Deno.env.get("BENCH_WORKER") !== "off",
    orderingKeys: Number(Deno.env.get("BENCH_ORDERING_KEYS") ?? 0),
  };
}

function variable(name: string): string {
  const value = Deno.env.get(name);
  if (value === undefined) throw new Error(`Cannot run the server: ${name} is not set`);
  return value;
}

/** Ends the server when the benchmark has ended, however that came: it holds the other end of stdin. */
async function endWithBenchmark(): Promise<void> {
  const buffer = new Uint8Array(1);
  while (await Deno.stdin.read(buffer) !== null);
  Deno.exit(0);
}

/** A lag beyond this counts as this. */
const MAX_LAG_MS = 120_000;

/**
 * Handles an event as every server does: counts it, and notes how long it has waited. The counts
 * are served on another port, so that no middleware takes part.
 */
function countHandled(): (receivedAt: number) => void {
  let count = 0;
  let firstMs: number | undefined;
  const perSecond: number[] = [];
  let lags: number[] = [];
  const stall = watchStalls();
  const report = (): Handled => ({
    count,
    perSecond: Array.from(perSecond, (each) => each ?? 0),
    atMs: performance.now(),
    lagMs: { p50: quantile(lags, 0.5), p99: quantile(lags, 0.99), max: quantile(lags, 1) },
    stallMs: stall.longestMs,
  });
  const port = Number(Deno.env.get("BENCH_HANDLED_PORT"));
  Deno.serve({ port, hostname: "127.0.0.1", onListen: () => {} }, (request) => {
    if (request.method === "DELETE") [lags, stall.longestMs] = [[], 0];
    return Response.json(report());
  });
  return (receivedAt) => {
    count++;
    const nowMs = performance.now();
    const second = Math.floor((nowMs - (firstMs ??= nowMs)) / 1_000);
    perSecond[second] = (perSecond[second] ?? 0) + 1;
    const lag = Math.min(Math.max(0, Date.now() - receivedAt), MAX_LAG_MS);
    lags[lag] = (lags[lag] ?? 0) + 1;
  };
}

/** Time between two looks for a stall, in milliseconds. */
const STALL_LOOK_MS = 10;

/** Watches for stalls of the event loop. */
function watchStalls(): { longestMs: number } {
  const stall = { longestMs: 0 };
  let last = performance.now();
  setInterval(() => {
    const now = performance.now();
    stall.longestMs = Math.max(stall.longestMs, now - last - STALL_LOOK_MS);
    last = now;
  }, STALL_LOOK_MS);
  return stall;
}

function quantile(counts: readonly number[], share: number): number {
  const wanted = counts.reduce((sum, each) => sum + each, 0) * share;
  let seen = 0;
  return Math.max(0, counts.findIndex((each) => (seen += each ?? 0) >= wanted && seen > 0));
}
