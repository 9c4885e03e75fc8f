import type { BenchSettings, Scenario } from "../scenario.ts";
import { describeMachine } from "./machine.ts";
import type { Sample } from "./samples.ts";
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

A cell is the median of the rounds, (the least..the most), and ×how many times the figure it is compared
with.

${tables.join("\n")}`;
}
