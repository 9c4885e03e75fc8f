import type { Place, Sample } from "../scenario.ts";

/** A figure over the rounds. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** The spread of a figure over the rounds; undefined where it was not measured. */
export function spreadOf(
  samples: readonly Sample[],
  place: Place,
  key: string,
): Spread | undefined {
  return spread([...byRound(samples, place, key).values()]);
}

/** The spread of the ratios of two figures that were measured in the same round. */
export function ratioOf(
  samples: readonly Sample[],
  place: Place,
  base: Place,
  key: string,
): Spread | undefined {
  const bases = byRound(samples, base, key);
  return spread(
    [...byRound(samples, place, key)].flatMap(([round, value]) => {
      const divisor = bases.get(round);
      return divisor ? value / divisor : [];
    }),
  );
}

function byRound(samples: readonly Sample[], { row, column }: Place, key: string) {
  const measured = samples
    .filter((sample) => sample.row === row && sample.column === column)
    .filter(({ values }) => values[key] !== undefined);
  return new Map(measured.map(({ round, values }) => [round, values[key]!]));
}

function spread(values: readonly number[]): Spread | undefined {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const [low, high] = [sorted[sorted.length % 2 === 1 ? middle : middle - 1], sorted[middle]];
  if (low === undefined || high === undefined) return undefined;
  return { median: (low + high) / 2, min: sorted[0]!, max: sorted.at(-1)! };
}

/** Removes repetitions from a list, in the order of first appearance. */
export function distinct(values: readonly string[]): string[] {
  return [...new Set(values)];
}
