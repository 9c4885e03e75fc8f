import type { BenchSettings, Run, Sample, Scenario } from "./scenario.ts";

/**
 * Measures everything once a round, and writes its progress to the standard error.
 *
 * @param scenarios What to measure.
 * @param settings How much.
 * @param afterRound Called with all samples so far: what is interrupted later keeps its whole rounds.
 */
export async function measureAll(
  scenarios: readonly Scenario[],
  settings: BenchSettings,
  afterRound: (samples: readonly Sample[], round: number) => Promise<void>,
): Promise<void> {
  const { rounds, subjects } = settings;
  const runs = scenarios
    .filter((scenario) => scenario.missing?.() === undefined)
    .flatMap((scenario) => scenario.runs(settings).map((run) => ({ scenario, run })))
    .filter(({ run }) => subjects?.includes(run.subject.name) ?? true);
  const samples: Sample[] = [];
  for (let round = 1; round <= rounds; round++) {
    // What comes first in one round comes last in the next: a drift of the machine favours neither.
    const inTurn = round % 2 === 1 ? runs : runs.toReversed();
    for (const [i, { scenario, run }] of inTurn.entries()) {
      console.error(`round ${round}, ${i + 1} of ${runs.length}: ${nameOf(scenario, run)}`);
      samples.push(...await measure(scenario, run, round));
    }
    await afterRound(samples, round);
  }
}

/** A scenario that cannot be measured leaves its place in the table empty. */
async function measure(scenario: Scenario, run: Run, round: number): Promise<Sample[]> {
  const { row, column = run.subject.name } = run;
  try {
    return [{ scenario, row, column, round, values: await run.measure() }];
  } catch (error) {
    console.error(`  not measured: ${error}`);
    return [];
  }
}

function nameOf({ name }: Scenario, { row, column, subject }: Run): string {
  return `${name}, ${row}, ${column ?? subject.name}`;
}
