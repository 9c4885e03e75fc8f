import type { Scenario, Values } from "../scenario.ts";

/** What one run has brought. */
export interface Sample {
  readonly scenario: Scenario;
  readonly row: string;
  readonly column: string;
  readonly values: Values;
}

/** The samples of one figure. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** The spread of a figure over the rounds; undefined where it was not measured. */
export function spreadOf(samples: readonly Sample[], key: string): Spread | undefined {
  const values = samples.flatMap((sample) => sample.values[key] ?? []).toSorted((a, b) => a - b);
  if (values.length === 0) return undefined;
  const middle = values.length >> 1;
  const median = values.length % 2 === 1
    ? values[middle]!
    : (values[middle - 1]! + values[middle]!) / 2;
  return { median, min: values[0]!, max: values.at(-1)! };
}

/** What a list has, each once, in the order of their first appearance. */
export function distinct(values: readonly string[]): string[] {
  return [...new Set(values)];
}
