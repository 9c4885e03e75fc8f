/** A value of an attribute, as OTLP has it in JSON. */
type AnyValue = Readonly<Record<string, unknown>>;

interface KeyValue {
  readonly key: string;
  readonly value: AnyValue;
}

/** A span, as it was exported. */
export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly name: string;
  readonly kind: number;
  readonly status: { readonly code: number; readonly message: string };
  readonly events: readonly unknown[];
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  /** The attributes, the last of each name. */
  readonly attributes: Readonly<Record<string, string>>;
}

/** A log record, as it was exported: what a process writes to its console. */
export interface LogRecord {
  readonly traceId: string;
  readonly spanId: string;
  readonly body: { readonly stringValue: string };
}

/** A point of a metric: a series has one in each export. */
export interface Point {
  readonly labels: Readonly<Record<string, string>>;
  /** The sum of a counter, the value of a gauge, the count of a histogram. */
  readonly value: number;
  /** The sum of a histogram. */
  readonly sum: number;
}

/** A metric, as it was exported last. */
export interface Metric {
  readonly kind: "counter" | "gauge" | "histogram";
  readonly unit: string;
  readonly points: readonly Point[];
}

/** A collector of traces and metrics: a real OTLP endpoint on loopback, for JSON. */
export interface Collector extends AsyncDisposable {
  readonly url: string;
  /** All bodies so far, by the last part of the path. */
  readonly bodies: Readonly<Record<"traces" | "metrics" | "logs", readonly string[]>>;
  /** All spans so far. */
  readonly spans: readonly Span[];
  /** All log records so far. */
  readonly logs: readonly LogRecord[];
  /** The metrics as they were exported last, by name. */
  readonly metrics: ReadonlyMap<string, Metric>;
  /** Waits until something holds, and fails if it does not within 20 s. */
  until(holds: () => boolean): Promise<void>;
}

/** Telemetry that is not exported by then will never be. */
const TIMEOUT_MS = 20_000;

/** Variables that have Deno trace and measure for a collector, and often. */
export const telemetryOf = (endpoint: string): Record<string, string> => ({
  OTEL_DENO: "true",
  OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
  OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
  OTEL_BSP_SCHEDULE_DELAY: "50",
  OTEL_METRIC_EXPORT_INTERVAL: "200",
});

/** Starts a collector. */
export function startCollector(): Collector {
  const bodies = { traces: [] as string[], metrics: [] as string[], logs: [] as string[] };
  const spans: Span[] = [];
  const logs: LogRecord[] = [];
  const metrics = new Map<string, Metric>();
  const waiting = new Set<() => void>();
  const quiet = { hostname: "127.0.0.1", port: 0, onListen: () => {} };
  const server = Deno.serve(quiet, async (request) => {
    const kind = new URL(request.url).pathname.split("/").at(-1) as keyof typeof bodies;
    const body = await request.text();
    bodies[kind].push(body);
    const json = JSON.parse(body);
    if (kind === "traces") spans.push(...spansOf(json));
    if (kind === "logs") logs.push(...logsOf(json));
    if (kind === "metrics") { for (const each of metricsOf(json)) metrics.set(...each); }
    for (const check of waiting) check();
    return Response.json({});
  });
  const until = (holds: () => boolean) =>
    new Promise<void>((resolve, reject) => {
      const seen = () => JSON.stringify([spans.map(({ name }) => name), [...metrics]]);
      const timer = setTimeout(() => reject(new Error(`Not exported: ${seen()}`)), TIMEOUT_MS);
      const check = () => {
        if (!holds()) return;
        clearTimeout(timer);
        waiting.delete(check);
        resolve();
      };
      waiting.add(check);
      check();
    });
  const url = `http://127.0.0.1:${server.addr.port}`;
  const end = () => server.shutdown();
  return { url, bodies, spans, logs, metrics, until, [Symbol.asyncDispose]: end };
}

/** Sums the points of a metric that have all of some labels. */
export function totalOf(
  { metrics }: Pick<Collector, "metrics">,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number {
  const points = metrics.get(name)?.points ?? [];
  return points
    .filter((point) => Object.entries(labels).every(([key, value]) => point.labels[key] === value))
    .reduce((sum, { value }) => sum + value, 0);
}

// deno-lint-ignore no-explicit-any -- the JSON of OTLP, read as it comes
type Json = any;

function spansOf({ resourceSpans }: Json): Span[] {
  const all: Json[] = resourceSpans.flatMap((each: Json) => each.scopeSpans)
    .flatMap((each: Json) => each.spans);
  return all.map((span) => ({ ...span, attributes: labelsOf(span.attributes) }));
}

function logsOf({ resourceLogs }: Json): LogRecord[] {
  return resourceLogs.flatMap((each: Json) => each.scopeLogs)
    .flatMap((each: Json) => each.logRecords);
}

/** The metrics of one export. */
export function metricsOf({ resourceMetrics }: Json): [string, Metric][] {
  const all: Json[] = resourceMetrics.flatMap((each: Json) => each.scopeMetrics)
    .flatMap((each: Json) => each.metrics);
  return all.map(({ name, unit, sum, gauge, histogram }) => {
    const kind = histogram ? "histogram" : sum?.isMonotonic ? "counter" : "gauge";
    const points: Point[] = (sum ?? gauge ?? histogram).dataPoints.map((point: Json) => ({
      labels: labelsOf(point.attributes),
      value: Number(point.count ?? point.asDouble ?? point.asInt),
      sum: Number(point.sum),
    }));
    return [name, { kind, unit, points }];
  });
}

function labelsOf(attributes: readonly KeyValue[]): Record<string, string> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => [key, String(Object.values(value)[0])]),
  );
}
