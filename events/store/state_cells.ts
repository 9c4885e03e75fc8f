import type { CellChange, CellKey, Version } from "./engine.ts";
import type { ReadEntry, StateChange } from "./stored_state.ts";

/** Kind of the cells of states. */
const STATE = "state";

/** Makes the key of the cell of a state; the intake is empty for none. */
export function stateKey(intake: string, key: string): CellKey {
  return [STATE, intake, key];
}

/** Makes the key that the cells of states begin with: of those of an intake, or of all. */
export function statesOf(intake: string | undefined): CellKey {
  return intake === undefined ? [STATE] : [STATE, intake];
}

/**
 * Makes the change of a state's cell.
 *
 * @param key The key of the cell.
 * @param version The version that it must have still.
 * @param change The change.
 * @param now The time at which the new entry's time begins.
 * @returns The change of the cell.
 */
export function stateChange(
  key: CellKey,
  version: Version | null,
  change: StateChange,
  now: number,
): CellChange {
  if (!change) return { key, version, after: null };
  const { value, forMs } = change;
  // An engine may forget what has expired only after a while.
  const until = forMs === undefined ? null : now + forMs;
  return { key, version, after: { until, value } satisfies ReadEntry, forMs };
}
