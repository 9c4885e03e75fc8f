import { numberFrom, oneOf } from "../../core/check_options.ts";

/**
 * Rule by which an event of an ordering group is handled together with others.
 *
 * @category Flows
 */
export interface BatchOptions {
  /**
   * Time without a new event of the group, in milliseconds, after which one call of the handler gets all that
   * wait: the latest one, with all of them as {@linkcode WebhookEvent.batch}. From 0 to 86,400,000, a day. With 0
   * nothing waits for others, but events that came meanwhile are handled together.
   *
   * Events of another type or action begin the next call. A call gets up to 100 events, and up to 8 MB of payloads.
   *
   * @default {undefined} Each event is handled by itself.
   */
  readonly quietMs?: number | undefined;
  /**
   * Longest time for which the first event waits, in milliseconds: from `quietMs` to 604,800,000, a week.
   *
   * @default {10 * quietMs}
   */
  readonly maxWaitMs?: number | undefined;
  /**
   * Events that it is handled together with. `all` are those of any type and action that have this, too, and that the
   * same handlers take: one `on(["pull_request.opened", "pull_request.synchronize"], ...)`, for instance. An event that
   * a further handler takes, or none, begins the next call.
   *
   * @default {undefined} Only events of one type and action are.
   */
  readonly together?: "all" | undefined;
}

/** Longest time to wait until it is quiet: a day. */
const MAX_QUIET_MS = 86_400_000;

/** Longest time to wait for that: a week, for which done events are remembered. */
const MAX_WAIT_MS = 604_800_000;

/**
 * Checks the rule of a batch, as a caller has given it.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param rule The rule. Its values may be of any type.
 * @returns True if there is one.
 * @throws {TypeError} If `together` is something else.
 * @throws {RangeError} If a time is out of range, or one is missing.
 */
export function checkBatchOptions(
  doing: string,
  { quietMs, maxWaitMs, together }: { readonly [name in keyof BatchOptions]: unknown },
): boolean {
  if (quietMs === undefined && maxWaitMs === undefined && together === undefined) return false;
  numberFrom(0, MAX_QUIET_MS)(doing, "quietMs", quietMs);
  if (maxWaitMs !== undefined) {
    numberFrom(quietMs as number, MAX_WAIT_MS)(doing, "maxWaitMs", maxWaitMs);
  }
  if (together !== undefined) oneOf("all")(doing, "together", together);
  return true;
}
