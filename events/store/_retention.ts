import type { StoreCore } from "./store_core.ts";
import type { EventRecord } from "./event_record.ts";

/**
 * Calculates the time for which an event is remembered once it is done, see `Put.forMs`.
 *
 * @param core The store.
 * @param record Its record after the change.
 * @returns The time, in milliseconds.
 */
export function rememberedMs(
  { engine, retentionMs }: StoreCore,
  { state, settledAt }: EventRecord,
): number {
  if (state !== "done") return retentionMs;
  // By a clock that was ahead, it would have been done in the future.
  return Math.max(1, Math.min(retentionMs, settledAt! + retentionMs - engine.now()));
}
