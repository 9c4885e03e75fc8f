import type { Measure, Place, Sample, Scenario } from "../scenario.ts";
import { distinct, ratioOf, type Spread, spreadOf } from "./samples.ts";

/**
 * Formats what was measured in a scenario as a table in Markdown that a terminal shows well: a row for
 * each figure, a column for each thing compared. A cell is the median of the rounds, the least and the
 * most where they differ, and the ratio to the figure it is compared with.
 */
export function formatScenario(scenario: Scenario, samples: readonly Sample[]): string {
  const { title, what, measures } = scenario;
  const missing = scenario.missing?.();
  if (missing) return `## ${title}\n\nNot measured: ${missing}.\n`;
  const own = samples.filter((sample) => sample.scenario === scenario);
  const columns = distinct(own.map(({ column }) => column));
  const rows = distinct(own.map(({ row }) => row)).flatMap((row) => {
    const measured = measures.filter(({ key }) =>
      own.some((sample) => sample.row === row && sample.values[key] !== undefined)
    );
    return measured.map((measure, i) => [
      i === 0 ? row : "",
      measure.title,
      ...columns.map((column) => cell(scenario, measure, own, { row, column })),
    ]);
  });
  const conclusion = scenario.conclude ? `\n${scenario.conclude(own)}\n` : "";
  return `## ${title}\n\n${what}\n\n${formatRows(["", "", ...columns], rows)}\n${conclusion}`;
}

function cell(
  { compare }: Scenario,
  { key, digits, ratio }: Measure,
  samples: readonly Sample[],
  place: Place,
): string {
  const own = spreadOf(samples, place, key);
  if (!own) return "";
  const first = samples.find((each) =>
    compare === "columns" ? each.row === place.row : each.column === place.column
  )!;
  const isFirst = first.row === place.row && first.column === place.column;
  const times = ratio && !isFirst ? ratioOf(samples, place, first, key) : undefined;
  return formatSpread(own, digits) + (times ? ` ×${formatSpread(times, 2)}` : "");
}

function formatSpread({ median, min, max }: Spread, digits: number): string {
  const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  const [middle, least, most] = [median, min, max].map((value) =>
    value.toLocaleString("en", options)
  );
  return least === most ? middle! : `${middle} (${least}..${most})`;
}

function formatRows(head: readonly string[], rows: readonly string[][]): string {
  const widths = head.map((_, i) => Math.max(3, ...[head, ...rows].map((row) => row[i]!.length)));
  const line = (row: readonly string[]) =>
    `| ${row.map((text, i) => text.padEnd(widths[i]!)).join(" | ")} |`;
  const rule = `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`;
  return [line(head), rule, ...rows.map(line)].join("\n");
}
