/**
 * Measures the package side by side with what one would write by hand, and with peers: real processes
 * on real KV files, loaded over HTTP. All is measured once a round, so that a slow minute of the machine
 * falls on all alike. Nothing here fails on a slow day.
 *
 * @module
 */
import { readOptions, USAGE } from "./options.ts";
import { describeMachine } from "./report/machine.ts";
import type { Sample } from "./report/samples.ts";
import { formatScenario } from "./report/table.ts";
import type { BenchSettings, Run, Scenario } from "./scenario.ts";
import { SCENARIOS } from "./scenarios/mod.ts";

const options = readOptions(Deno.args);
if (options.help) {
  console.log(`${USAGE}\n\nScenarios: ${SCENARIOS.map(({ name }) => name).join(", ")}`);
  Deno.exit(0);
}
const wanted = SCENARIOS.filter(({ name }) => options.only?.includes(name) ?? true);
const samples: Sample[] = [];
for (let round = 1; round <= options.rounds; round++) {
  for (const scenario of wanted) {
    for (const run of runsOf(scenario, options)) {
      console.error(`round ${round}: ${scenario.name}, ${run.row}, ${columnOf(run)}`);
      await measure(scenario, run);
    }
  }
}
const tables = wanted.map((scenario) => formatScenario(scenario, samples));
console.log([await describeMachine(), ...tables].join("\n\n"));

function runsOf(scenario: Scenario, settings: BenchSettings): readonly Run[] {
  const { subjects } = settings;
  const runs = scenario.runs(settings);
  if (typeof runs === "string") return [];
  return runs.filter(({ subject }) => subjects?.includes(subject.name) ?? true);
}

function columnOf({ column, subject }: Run): string {
  return column ?? subject.name;
}

async function measure(scenario: Scenario, run: Run): Promise<void> {
  try {
    samples.push({ scenario, row: run.row, column: columnOf(run), values: await run.measure() });
  } catch (error) {
    console.error(`  not measured: ${error}`);
  }
}
