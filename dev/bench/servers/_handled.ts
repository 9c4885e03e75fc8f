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
}

/** A lag beyond this counts as this. */
const MAX_LAG_MS = 120_000;

/**
 * Handles an event as every server does: counts it, and notes how long it has waited. The counts
 * are served on a port of their own, so that nobody's middleware takes part.
 *
 * @returns To be called by the handler, with when the event was received.
 */
export function countHandled(): (receivedAt: number) => void {
  let count = 0;
  let firstMs: number | undefined;
  const perSecond: number[] = [];
  let lags: number[] = [];
  const report = (): Handled => ({
    count,
    perSecond: Array.from(perSecond, (each) => each ?? 0),
    atMs: performance.now(),
    lagMs: { p50: quantile(lags, 0.5), p99: quantile(lags, 0.99), max: quantile(lags, 1) },
  });
  const port = Number(Deno.env.get("BENCH_HANDLED_PORT"));
  Deno.serve({ port, hostname: "127.0.0.1", onListen: () => {} }, (request) => {
    if (request.method === "DELETE") lags = [];
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

function quantile(counts: readonly number[], share: number): number {
  const wanted = counts.reduce((sum, each) => sum + each, 0) * share;
  let seen = 0;
  return Math.max(0, counts.findIndex((each) => (seen += each ?? 0) >= wanted && seen > 0));
}
