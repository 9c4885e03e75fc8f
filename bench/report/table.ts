import type { Measure, Scenario } from "../scenario.ts";
import { distinct, type Sample, spreadOf } from "./samples.ts";

/**
 * Formats what was measured in a scenario as a table in Markdown that a terminal shows well: a row for
 * each figure, a column for each thing compared, the baseline first. A cell is the median of the rounds, the
 * least and the most where they differ, and how many times the baseline it is.
 */
export function formatScenario(scenario: Scenario, samples: readonly Sample[]): string {
  const own = samples.filter((sample) => sample.scenario === scenario);
  const columns = distinct([scenario.baseline, ...own.map(({ column }) => column)]);
  const rows = distinct(own.map((sample) => sample.row)).flatMap((name) => {
    const inRow = own.filter((sample) => sample.row === name);
    return scenario.measures
      .filter(({ key }) => spreadOf(inRow, key))
      .map((measure, i) => [
        i === 0 ? name : "",
        measure.title,
        ...columns.map((column) => cell(scenario, measure, column, inRow)),
      ]);
  });
  const table = formatRows(["", "", ...columns], rows);
  return `## ${scenario.title}\n\n${scenario.what}\n\n${table}\n`;
}

function cell(
  { baseline }: Scenario,
  { key, digits, ratio }: Measure,
  column: string,
  samples: readonly Sample[],
): string {
  const spread = spreadOf(samples.filter((sample) => sample.column === column), key);
  if (!spread) return "";
  const number = (value: number) =>
    value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const { median, min, max } = spread;
  const base = spreadOf(samples.filter((sample) => sample.column === baseline), key)?.median;
  const times = ratio && base && column !== baseline ? ` ×${(median / base).toFixed(2)}` : "";
  const range = min === max ? "" : ` (${number(min)}..${number(max)})`;
  return `${number(median)}${range}${times}`;
}

function formatRows(head: readonly string[], rows: readonly string[][]): string {
  const widths = head.map((_, i) => Math.max(3, ...[head, ...rows].map((row) => row[i]!.length)));
  const line = (row: readonly string[]) =>
    `| ${row.map((text, i) => text.padEnd(widths[i]!)).join(" | ")} |`;
  const rule = `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`;
  return [line(head), rule, ...rows.map(line)].join("\n");
}
