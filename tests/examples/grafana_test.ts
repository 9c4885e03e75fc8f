import { assert, assertEquals } from "@std/assert";
import dashboard from "../../examples/grafana/edge_base.json" with { type: "json" };
import { testWith } from "../_permissions.ts";
import { APP_NEEDS } from "../apps/_app.ts";
import { missingFrom, underscored, usesOf } from "./_series.ts";

const expressions = dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));

testWith(APP_NEEDS, "the dashboard asks for series and labels that apps export", async () => {
  assertEquals(await missingFrom(expressions), []);
});

Deno.test("the dashboard has a query of at least one series in each panel", () => {
  for (const { title, targets } of dashboard.panels) {
    assert(targets.length > 0, title);
    for (const { expr } of targets) assert(usesOf(expr).length > 0, `${title}: ${expr}`);
  }
});

testWith(["read"], "the dashboard shows all of the module's own metrics", async () => {
  const source = await Deno.readTextFile(
    new URL("../../telemetry/_otel_telemetry.ts", import.meta.url),
  );
  const instruments = source.slice(source.indexOf("function createInstruments"));
  const names = [
    ...instruments.slice(0, instruments.indexOf("\n}\n")).matchAll(
      /"((?:edge_base|messaging)\.[a-z_.]+)"/g,
    ),
  ].map(([, name]) => name!);
  assertEquals(names.length, 15);
  const unused = names.filter((name) => !expressions.join("\n").includes(underscored(name)));
  assertEquals(unused, []);
});
