import type { Scenario, Values } from "../scenario.ts";

/** Place of a figure in the table of its scenario. */
export interface Place {
  readonly row: string;
  readonly column: string;
}

/** Figures of one run. */
export interface Sample extends Place {
  readonly scenario: Scenario;
  readonly values: Values;
}

/** A figure over the rounds. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** The spread of a figure over the rounds; undefined where it was not measured. */
export function spreadOf(
  samples: readonly Sample[],
  { row, column }: Place,
  key: string,
): Spread | undefined {
  const values = samples
    .filter((sample) => sample.row === row && sample.column === column)
    .flatMap((sample) => sample.values[key] ?? [])
    .toSorted((a, b) => a - b);
  const middle = values.length >> 1;
  const [low, high] = [values[values.length % 2 === 1 ? middle : middle - 1], values[middle]];
  if (low === undefined || high === undefined) return undefined;
  return { median: (low + high) / 2, min: values[0]!, max: values.at(-1)! };
}

/** Removes repetitions from a list, in the order of first appearance. */
export function distinct(values: readonly string[]): string[] {
  return [...new Set(values)];
}
