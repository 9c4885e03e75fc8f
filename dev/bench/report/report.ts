import type { BenchSettings, Sample, Scenario } from "../scenario.ts";
import { describeMachine } from "./machine.ts";
import { formatScenario } from "./table.ts";

/** Formats all that was measured, in Markdown. */
export async function formatReport(
  scenarios: readonly Scenario[],
  samples: readonly Sample[],
  { seconds }: BenchSettings,
  rounds: number,
): Promise<string> {
  const tables = scenarios.map((scenario) => formatScenario(scenario, samples));
  return `# Benchmarks

${await describeMachine()}
- ${rounds} interleaved rounds; loads of ${seconds} s

A cell is the median of the rounds, (the least..the most), and × the ratio to the figure it is compared
with, in the same round.

${tables.join("\n")}`;
}
