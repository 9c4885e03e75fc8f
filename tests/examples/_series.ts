import { FORGE_SECRET } from "../_deliveries.ts";
import { ON_DENO_2_5 } from "../_deno_version.ts";
import { spawnApp, spawnOwnApp } from "../apps/_app.ts";
import {
  type Collector,
  type Metric,
  metricsOf,
  startCollector,
  telemetryOf,
  totalOf,
} from "../apps/_collector.ts";
import { deliver } from "../apps/_deliver.ts";

/** Units as Prometheus spells them. */
const UNITS: Readonly<Record<string, string>> = { s: "_seconds", By: "_bytes" };

/** Labels that Prometheus adds: of the process, and of a histogram's buckets. */
const ADDED = ["job", "instance", "le"];

/** Labels that Deno 2.5 does not know, which the queries are not for. */
const NOT_YET = ON_DENO_2_5 ? ["http_route"] : [];

/** Spells a name as Prometheus does. */
export const underscored = (name: string) => name.replaceAll(/\W/g, "_");

/** Makes of a metric what Prometheus does when it takes it in by OTLP. */
function seriesOf(name: string, { kind, unit }: Metric): string[] {
  const base = underscored(name) + (UNITS[unit] ?? "");
  if (kind === "counter") return [`${base}_total`];
  return kind === "gauge" ? [base] : ["_bucket", "_sum", "_count"].map((part) => base + part);
}

/** Metrics of apps that accept, reject, handle and give up. */
async function collect(): Promise<Collector["bodies"]> {
  await using collector = startCollector();
  const env = { KV_URL: ":memory:", ...telemetryOf(collector.url) };
  await using app = spawnApp("forge", { FORGE_WEBHOOK_SECRET: FORGE_SECRET, ...env });
  await deliver(app, "d-1");
  const refused = await fetch(`${await app.url}/webhook`, { method: "POST" });
  await refused.body?.cancel();
  await collector.until(() => totalOf(collector, "edge_base.event.duration") === 1);
  await using failing = spawnOwnApp({ fails: true, retry: { maxAttempts: 1 } }, env);
  await deliver(failing, "d-2");
  const dead = { "edge_base.event.outcome": "dead" };
  await collector.until(() => totalOf(collector, "messaging.client.consumed.messages", dead) === 1);
  await countSteps(collector);
  return collector.bodies;
}

/** Has a process count steps of each kind. */
async function countSteps(collector: Collector): Promise<void> {
  const script = new URL("../telemetry/_counting.ts", import.meta.url).href;
  const process = new Deno.Command(Deno.execPath(), {
    args: ["run", "--cached-only", "--quiet", "--no-prompt", script],
    env: telemetryOf(collector.url),
    stdout: "null",
  }).spawn();
  try {
    await collector.until(() => totalOf(collector, "edge_base.catch_up.deliveries") > 0);
  } finally {
    process.kill("SIGKILL");
    await process.status;
  }
}

/** The series that apps export, as Prometheus names them, each with its labels. */
async function exportedSeries(): Promise<Map<string, Set<string>>> {
  const exported = new Map<string, Set<string>>();
  for (const body of (await collect()).metrics) {
    for (const [name, metric] of metricsOf(JSON.parse(body))) {
      const labels = metric.points.flatMap((point) => Object.keys(point.labels)).map(underscored);
      for (const series of seriesOf(name, metric)) {
        exported.set(
          series,
          new Set([...ADDED, ...NOT_YET, ...exported.get(series) ?? [], ...labels]),
        );
      }
    }
  }
  return exported;
}

/** Input of a query: series, each with the labels that it is chosen and summed by. */
export function usesOf(expression: string): [series: string, labels: string[]][] {
  const grouped = [...expression.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, by]) =>
    by!.split(",").map((label) => label.trim())
  );
  const ungrouped = expression.replaceAll(/\bby \([^)]*\)/g, "");
  const named = ungrouped.matchAll(/\b([a-z]\w*_\w+)\b(?!\()(?:\{([^}]*)\})?/g);
  return [...named].map(([, series, chosen = ""]) => [
    series!,
    [...chosen.matchAll(/(\w+)(?:=~|!~|!=|=)"/g)].map(([, label]) => label!).concat(grouped),
  ]);
}

/** The series and labels that queries ask for and no app exports. */
export async function missingFrom(expressions: readonly string[]): Promise<string[]> {
  const exported = await exportedSeries();
  return expressions.flatMap(usesOf).flatMap(([series, labels]) => {
    const known = exported.get(series);
    if (!known) return [series];
    return labels.filter((label) => !known.has(label)).map((label) => `${series}{${label}}`);
  });
}
