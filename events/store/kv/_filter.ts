import { checkFunctions, checkKeys, checkObject, met } from "../../../core/check_options.ts";
import type { BulkOptions, EventFilter } from "../event_operations.ts";
import { STORED_STATES } from "../event_record.ts";
import { OUTCOMES } from "../record_shape.ts";

const KEYS = [
  ...["ids", "state", "outcome", "type", "source", "repository", "chat", "orderingKey"],
  ...["receivedAfter", "receivedBefore", "settledBefore"],
];

/**
 * Checks a choice of events. By one with a name that is misspelled, all events would be meant, and by one
 * with a wrong value none.
 */
export function checkFilter(
  doing: string,
  filter: EventFilter,
  furtherKeys: readonly string[] = [],
): void {
  checkObject(doing, filter, "the filter");
  checkKeys(doing, filter, [...KEYS, ...furtherKeys]);
  const { ids, state, outcome, chat, receivedAfter = 0, receivedBefore = 0, settledBefore = 0 } =
    filter;
  if (ids !== undefined && !(Array.isArray(ids) && ids.every((id) => typeof id === "string"))) {
    throw new TypeError(`Cannot ${doing}: 'ids' must be an array of texts, got ${met(ids)}`);
  }
  if (state !== undefined && !STORED_STATES.includes(state)) {
    const known = STORED_STATES.join(", ");
    throw new TypeError(`Cannot ${doing}: 'state' must be one of ${known}, got ${met(state)}`);
  }
  if (outcome !== undefined && !OUTCOMES.includes(outcome)) {
    const known = OUTCOMES.join(", ");
    throw new TypeError(`Cannot ${doing}: 'outcome' must be one of ${known}, got ${met(outcome)}`);
  }
  for (const name of ["type", "source", "repository", "orderingKey"] as const) {
    const { [name]: value } = filter;
    if (value === undefined || typeof value === "string") continue;
    throw new TypeError(`Cannot ${doing}: '${name}' must be a text, got ${met(value)}`);
  }
  if (chat !== undefined && !Number.isSafeInteger(chat)) {
    throw new TypeError(`Cannot ${doing}: 'chat' must be a whole number, got ${met(chat)}`);
  }
  for (const [name, time] of Object.entries({ receivedAfter, receivedBefore, settledBefore })) {
    if (typeof time === "number" && !Number.isNaN(time)) continue;
    throw new TypeError(
      `Cannot ${doing}: '${name}' must be a time in milliseconds since the epoch, got ${met(time)}`,
    );
  }
}

/** Checks a choice of events, and the options of an operation on them. */
export function checkChoice(doing: string, filter: EventFilter, options: BulkOptions): void {
  checkFilter(doing, filter);
  checkObject(doing, options);
  checkKeys(doing, options, ["onProgress", "signal", "dryRun"]);
  const { onProgress, signal, dryRun = false } = options;
  checkFunctions(doing, { onProgress });
  if (typeof dryRun !== "boolean") {
    throw new TypeError(`Cannot ${doing}: 'dryRun' must be true or false, got ${met(dryRun)}`);
  }
  if (signal === undefined || signal instanceof AbortSignal) return;
  throw new TypeError(`Cannot ${doing}: 'signal' must be an AbortSignal, got ${met(signal)}`);
}
