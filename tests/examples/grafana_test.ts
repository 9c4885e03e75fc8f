import { assert, assertEquals } from "@std/assert";
import dashboard from "../../examples/grafana/edge_base.json" with { type: "json" };
import { FORGE_SECRET } from "../_deliveries.ts";
import { testWith } from "../_permissions.ts";
import { APP_NEEDS, spawnApp, spawnOwnApp } from "../apps/_app.ts";
import {
  type Collector,
  type Metric,
  metricsOf,
  startCollector,
  telemetryOf,
  totalOf,
} from "../apps/_collector.ts";
import { deliver } from "../apps/_deliver.ts";

/** How Prometheus spells units. */
const UNITS: Readonly<Record<string, string>> = { s: "_seconds", By: "_bytes" };

/** Labels that Prometheus adds: of the process, and of a histogram's buckets. */
const ADDED = ["job", "instance", "le"];

const underscored = (name: string) => name.replaceAll(/\W/g, "_");

/** What Prometheus makes of a metric when it takes it in by OTLP. */
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
  return collector.bodies;
}

const expressions = dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));

/** What a query takes: series, each with the labels that it is chosen and summed by. */
function usesOf(expression: string): [series: string, labels: string[]][] {
  const grouped = [...expression.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, by]) =>
    by!.split(",").map((label) => label.trim())
  );
  return [...expression.matchAll(/([a-z]\w+)\{([^}]*)\}/g)].map(([, series, chosen]) => [
    series!,
    [...chosen!.matchAll(/(\w+)(?:=~|!~|!=|=)"/g)].map(([, label]) => label!).concat(grouped),
  ]);
}

testWith(APP_NEEDS, "the dashboard asks for series and labels that apps export", async () => {
  const exported = new Map<string, Set<string>>();
  for (const body of (await collect()).metrics) {
    for (const [name, metric] of metricsOf(JSON.parse(body))) {
      const labels = metric.points.flatMap((point) => Object.keys(point.labels)).map(underscored);
      for (const series of seriesOf(name, metric)) {
        exported.set(series, new Set([...ADDED, ...exported.get(series) ?? [], ...labels]));
      }
    }
  }
  const missing = expressions.flatMap(usesOf).flatMap(([series, labels]) => {
    const known = exported.get(series);
    if (!known) return [series];
    return labels.filter((label) => !known.has(label)).map((label) => `${series}{${label}}`);
  });
  assertEquals(missing, []);
});

Deno.test("the dashboard has a query of at least one series in each panel", () => {
  for (const { title, targets } of dashboard.panels) {
    assert(targets.length > 0, title);
    for (const { expr } of targets) assert(usesOf(expr).length > 0, `${title}: ${expr}`);
  }
});

testWith(["read"], "the dashboard shows all of the module's own metrics", async () => {
  const source = await Deno.readTextFile(
    new URL("../../telemetry/_instruments.ts", import.meta.url),
  );
  const names = [...source.matchAll(/"((?:edge_base|messaging)\.[a-z_.]+)"/g)].map(([, name]) =>
    name!
  );
  assertEquals(names.length, 6);
  const unused = names.filter((name) => !expressions.join("\n").includes(underscored(name)));
  assertEquals(unused, []);
});
