import type { Measure, Sample, Scenario } from "../scenario.ts";
import { bars, colorOf, lines, type Panel, PANEL_HEIGHT, PANEL_WIDTH, text } from "./panel.ts";
import { distinct, spreadOf } from "./samples.ts";

const PANELS_PER_ROW = 2;

const MARGIN = 20;

const LEGEND_HEIGHT = 40;

/** Draws the figures that are marked for the chart, as SVG. */
export function drawChart(scenarios: readonly Scenario[], samples: readonly Sample[]): string {
  const panels = scenarios.flatMap((scenario) =>
    scenario.measures
      .filter(({ chart }) => chart)
      .map((measure) => panelOf(scenario, measure, samples))
      .filter(({ rows }) => rows.length > 0)
  );
  const columns = distinct(panels.flatMap((panel) => panel.columns));
  const height = LEGEND_HEIGHT + Math.ceil(panels.length / PANELS_PER_ROW) * PANEL_HEIGHT;
  const width = PANELS_PER_ROW * PANEL_WIDTH;
  const drawn = panels.map((panel, i) => {
    const x = (i % PANELS_PER_ROW) * PANEL_WIDTH;
    const y = LEGEND_HEIGHT + Math.floor(i / PANELS_PER_ROW) * PANEL_HEIGHT;
    const marks = panel.kind === "bars" ? bars(panel, columns) : lines(panel, columns);
    return `<g transform="translate(${x} ${y})">${marks}</g>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" ` +
    `font-family="sans-serif" font-size="11" fill="#1f2937">` +
    `<rect width="${width}" height="${height}" fill="#ffffff"/>` +
    `${legend(columns)}${drawn.join("\n")}</svg>\n`;
}

function legend(columns: readonly string[]): string {
  const entries = columns.map((column, i) => {
    const x = MARGIN + i * 170;
    return `<rect x="${x}" y="14" width="12" height="12" fill="${colorOf(columns, column)}"/>` +
      text(x + 18, 24, column);
  });
  return entries.join("");
}

function panelOf(scenario: Scenario, measure: Measure, samples: readonly Sample[]): Panel {
  const own = samples.filter((sample) => sample.scenario === scenario);
  const measured = own.filter(({ values }) => values[measure.key] !== undefined);
  return {
    title: `${scenario.title}: ${measure.title}`,
    kind: measure.chart!,
    rows: distinct(measured.map(({ row }) => row)),
    columns: distinct(measured.map(({ column }) => column)),
    spread: (row, column) => spreadOf(own, { row, column }, measure.key),
  };
}
